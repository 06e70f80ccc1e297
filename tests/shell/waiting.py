"""Waiting for a condition, with a deadline: what tests of sockets and processes do for sleep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from select import select
from typing import Final, TypeVar

DEADLINE_SECONDS: Final = 180.0
"""Only for what hangs: a machine may be busy with other things."""
STEP_SECONDS: Final = 0.01

T = TypeVar("T")


def wait_until(
    condition: Callable[[], object],
    what: str,
    seconds: float = DEADLINE_SECONDS,
    *,
    step: float = STEP_SECONDS,
) -> None:
    """Return once the condition holds; fail when it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        select([], [], [], step)


async def eventually(ask: Callable[[], Awaitable[T]], fits: Callable[[T], object], what: str) -> T:
    """The first answer that fits; what is asked for may take a while to be so."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    while not fits(found := await ask()):
        assert loop.time() < deadline, f"not within {DEADLINE_SECONDS} s: {what}; last {found!r}"
    return found


async def until(condition: Callable[[], object], what: str) -> None:
    """The same inside an event loop, which goes on meanwhile."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    while not condition():
        assert loop.time() < deadline, f"not within {DEADLINE_SECONDS} s: {what}"
        turn: asyncio.Future[None] = loop.create_future()
        loop.call_later(STEP_SECONDS, turn.set_result, None)
        await turn
