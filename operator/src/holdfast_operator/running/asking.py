"""What is asked of a grid and takes its time: each in a task of its own, at most one of a key.

A plan says what is to be asked, every time. What is being asked already goes on; what was refused
is remembered with its reason, for the status, until it succeeds or nobody asks for it any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from holdfast.client.http import HttpClient
from holdfast.errors import HoldfastError, ProblemReported
from holdfast.wire.api.words import ClusterState
from holdfast_operator.actions import Ask, BackUp, ChangeState, ConfirmDead, Demote, Forget, Promote
from holdfast_operator.observed import Refusal

LOG: Final = logging.getLogger("holdfast.operator.asking")
STATE_WAIT_SECONDS: Final = 15.0
"""For running migrations; then it is asked again."""
PROMOTE_SECONDS: Final = 30.0
CONFIRM_SECONDS: Final = 5.0


class Asking:
    """Of one cluster."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended = ended
        self.refusals: dict[str, Refusal] = {}

    @property
    def asked(self) -> frozenset[str]:
        """What is being asked now."""
        return frozenset(self._tasks)

    def want(self, asks: Mapping[str, Ask], client: HttpClient | None) -> None:
        """Ask what is not being asked; forget refusals of what nobody wants."""
        for key in self.refusals.keys() - asks.keys():
            del self.refusals[key]
        if client is None:
            return
        for key, ask in asks.items():
            if key not in self._tasks:
                task = asyncio.get_running_loop().create_task(self._run(key, ask, client))
                self._tasks[key] = task
                task.add_done_callback(partial(self._forget, key))  # also if it never began

    def stop(self, key: str) -> None:
        """It is not wanted any more."""
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Of a cluster that is gone, or led by somebody else."""
        for task in self._tasks.values():
            task.cancel()

    async def _run(self, key: str, ask: Ask, client: HttpClient) -> None:
        try:
            await ASKS[type(ask)](client, ask)
        except ProblemReported as error:
            self.refusals[key] = Refusal(_word(error.kind), error.message)
        except (HoldfastError, TimeoutError) as error:
            self.refusals[key] = Refusal("NoAnswer", str(error) or "no answer in time")
        else:
            self.refusals.pop(key, None)
            LOG.info("%s: done", ask)
        if key in self.refusals:
            LOG.info("%s: %s", ask, self.refusals[key])

    def _forget(self, key: str, _: asyncio.Task[None]) -> None:
        del self._tasks[key]
        self._ended()


def _word(kind: str) -> str:
    """`illegal-state` as a reason of a condition."""
    return "".join(part.capitalize() for part in kind.split("-")) or "Refused"


async def _state(client: HttpClient, ask: Ask) -> None:
    assert isinstance(ask, ChangeState)
    wait = STATE_WAIT_SECONDS
    async with asyncio.timeout(wait + 10):
        await client.set_state(ClusterState(ask.state.value), wait_seconds=wait)


async def _promote(client: HttpClient, ask: Ask) -> None:
    assert isinstance(ask, Promote)
    async with asyncio.timeout(PROMOTE_SECONDS):
        await client.promote(ask.member)


async def _demote(client: HttpClient, ask: Ask) -> None:
    """As long as it takes: all its partitions move."""
    assert isinstance(ask, Demote)
    await client.demote(ask.member)


async def _confirm(client: HttpClient, ask: Ask) -> None:
    assert isinstance(ask, ConfirmDead)
    async with asyncio.timeout(CONFIRM_SECONDS):
        await client.confirm_dead(ask.member, ask.incarnation)


async def _back_up(client: HttpClient, ask: Ask) -> None:
    """As long as it takes: files are linked or copied."""
    assert isinstance(ask, BackUp)
    await client.back_up(ask.name)


async def _forget(client: HttpClient, ask: Ask) -> None:
    assert isinstance(ask, Forget)
    await client.forget_backup(ask.name)


ASKS: Final[dict[type, Callable[[HttpClient, Ask], Awaitable[None]]]] = {
    ChangeState: _state,
    Promote: _promote,
    Demote: _demote,
    ConfirmDead: _confirm,
    BackUp: _back_up,
    Forget: _forget,
}
