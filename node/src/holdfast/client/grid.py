"""Keys and values of a cluster: each command goes straight to the member that owns its key.

Rules
-----
* The owner of a key is known from the cluster's slots. Who is asked and is not the owner says who
  is (`MOVED`): the slot is noted, and the whole table learned anew.
* What was not done is tried again, after a pause that grows, until `patience_seconds` are over:
  then `TryAgain`. What was refused for good is a `CommandError` with the member's words.
* A write whose reply is lost, or whose member can't say whether its backups have it, is an
  `UnknownOutcome` and never tried again: only the caller knows whether doing it twice is harmless.
  A read is.
* Commands of a pipeline go out together, one round trip for each owner. Those of one key are done
  in their order: each waits for the one before.

What can go wrong
-----------------
*A slow member.* Nothing is sent to it that is not bounded: `PIPELINE_MAX` commands in one go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import hiredis

from holdfast.client.connection import Command, Connection, Lost
from holdfast.core.data.gates import SLOTS
from holdfast.core.data.plane import slot_of
from holdfast.core.stores.catalogue import look_up
from holdfast.core.stores.command import Trait
from holdfast.errors import (
    CommandError,
    HoldfastError,
    RemoteProtocolError,
    TryAgain,
    UnknownOutcome,
    Unreachable,
)

PATIENCE_SECONDS: Final = 15.0
ANSWER_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.5
PIPELINE_MAX: Final = 10_000
AGAIN: Final = ("TRYAGAIN", "CLUSTERDOWN", "LOADING")


@dataclass(slots=True)
class Wish:
    """One command, and what came of it."""

    place: int
    command: Command
    keys: tuple[bytes, ...]
    slot: int
    reads: bool
    result: Any = None
    open: bool = True
    """Whether it is to be tried, or tried again."""
    reason: str = ""
    """Why it was not done the last time."""

    def end(self, result: Any) -> None:
        """It has its result."""
        self.result, self.open = result, False


class Grid:
    """A cluster's data. Start with `await Grid.connect(["host:7379"])`."""

    def __init__(
        self,
        addresses: Iterable[str],
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._seeds = tuple(addresses)
        self._patience = patience_seconds
        self._answer = answer_seconds
        self._owners: list[str] = [""] * SLOTS
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._learning: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, addresses: Iterable[str], **settings: float) -> Self:
        """Learn the cluster's slots from one of these members."""
        grid = cls(addresses, **settings)
        try:
            await grid.learn()
        except HoldfastError:
            await grid.close()
            raise
        return grid

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End every connection."""
        for task in (self._learning, *self._connecting.values()):
            if task is not None:
                task.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Commands -------------------------------------------------------------------------------------

    async def get(self, key: bytes) -> bytes | None:
        """A string; None where nothing is."""
        value: bytes | None = await self.execute(b"GET", key)
        return value

    async def set(
        self,
        key: bytes,
        value: bytes,
        *,
        ttl_ms: int | None = None,
        only_if_absent: bool = False,
        only_if_present: bool = False,
    ) -> bool:
        """Write a string; whether it was written, if it was to be only then."""
        words = [] if ttl_ms is None else [b"PX", b"%d" % ttl_ms]
        words += [b"NX"] if only_if_absent else []
        words += [b"XX"] if only_if_present else []
        return await self.execute(b"SET", key, value, *words) is not None

    async def delete(self, *keys: bytes) -> int:
        """Remove keys, each by itself; how many were there."""
        return sum(await self._all([(b"DEL", key) for key in keys]))

    async def mget(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """Strings in the order of their keys, each read by itself."""
        return await self._all([(b"GET", key) for key in keys])

    async def execute(self, *command: bytes) -> Any:
        """Any command that names keys, which are of one slot."""
        return (await self._all([command]))[0]

    async def _all(self, commands: Sequence[Command]) -> list[Any]:
        results = await self.pipeline(commands)
        for result in results:
            if isinstance(result, HoldfastError):
                raise result
        return results

    async def pipeline(self, commands: Iterable[Command]) -> list[Any]:
        """Results in the order of the commands. One that was not done has its error as result."""
        wishes = [_wish(place, command) for place, command in enumerate(commands)]
        for start in range(0, len(wishes), PIPELINE_MAX):
            for wave in _waves(wishes[start : start + PIPELINE_MAX]):
                await self._fulfil(wave)
        return [wish.result for wish in wishes]

    # Trying ---------------------------------------------------------------------------------------

    async def _fulfil(self, wishes: list[Wish]) -> None:
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._patience, 0.0
        while wishes:
            by_owner: dict[str, list[Wish]] = {}
            for wish in wishes:
                by_owner.setdefault(self._owners[wish.slot], []).append(wish)
            await asyncio.gather(*(self._try(owner, each) for owner, each in by_owner.items()))
            wishes = [wish for wish in wishes if wish.open]
            if wishes and loop.time() + pause >= deadline:
                for wish in wishes:
                    wish.end(TryAgain(f"not done in {self._patience:.0f} s: {wish.reason}"))
                return
            if wishes:
                await asyncio.sleep(pause)
                pause = min(pause * 2 or PAUSE_SECONDS, PAUSE_SECONDS_MAX)
                await self._learn_again(wishes)

    async def _try(self, owner: str, wishes: list[Wish]) -> None:
        if not owner:
            for wish in wishes:
                wish.reason = "nobody is known to own the key"
            return
        try:
            connection = await self._connection(owner)
            replies = await connection.ask([wish.command for wish in wishes], self._answer)
        except Lost as lost:
            for wish in wishes:
                if lost.heard and not wish.reads:
                    wish.end(UnknownOutcome(f"{lost.message}; read the key to know"))
                else:
                    wish.reason = lost.message
            return
        for wish, reply in zip(wishes, replies, strict=True):
            self._note(wish, reply)

    def _note(self, wish: Wish, reply: Any) -> None:
        if not isinstance(reply, hiredis.ReplyError):
            wish.end(reply)
            return
        text = str(reply)
        code, _, rest = text.partition(" ")
        wish.reason = text
        if code == "MOVED":
            self._owners[wish.slot] = rest.partition(" ")[2]
        elif code == "UNKNOWNOUTCOME":
            wish.end(UnknownOutcome(rest))
        elif code not in AGAIN:
            wish.end(CommandError(text))

    # Who owns what --------------------------------------------------------------------------------

    async def _learn_again(self, wishes: Sequence[Wish]) -> None:
        """After a first miss: where only a slot has moved, its new owner is known already."""
        try:
            await self.learn()
        except Unreachable as error:
            for wish in wishes:
                wish.reason = error.message

    async def learn(self) -> None:
        """The owners of all slots, from whoever tells them first; asked once at a time."""
        if self._learning is None:
            self._learning = asyncio.get_running_loop().create_task(self._learn())
            self._learning.add_done_callback(self._learned)
        await asyncio.shield(self._learning)

    def _learned(self, task: asyncio.Task[None]) -> None:
        self._learning = None
        if not task.cancelled():
            task.exception()  # whoever waits for it has it

    async def _learn(self) -> None:
        reasons = []
        for address in dict.fromkeys((*self._connections, *self._seeds)):
            try:
                connection = await self._connection(address)
                reply = (await connection.ask([(b"CLUSTER", b"SLOTS")], self._answer))[0]
                self._owners = _owners_of(reply)
            except (Lost, RemoteProtocolError) as error:
                reasons.append(error.message)
            else:
                return
        raise Unreachable("; ".join(reasons) or "no address to ask was given")

    async def _connection(self, address: str) -> Connection:
        """The one to this member; made once at a time."""
        known = self._connections.get(address)
        if known is not None and known.open:
            return known
        self._connections.pop(address, None)
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(Connection.to(address))
            self._connecting[address] = task
        try:
            connection = await asyncio.shield(task)
        finally:
            if task.done():
                self._connecting.pop(address, None)
        self._connections[address] = connection
        return connection


def _wish(place: int, command: Command) -> Wish:
    """Where a command goes. One that the members don't know is refused here."""
    args = list(command)
    if not args:
        raise CommandError("ERR a command has a name")
    known = look_up(args)
    keys = tuple(known.keys_in(args))
    if not keys:
        raise CommandError(f"ERR '{known.name}' names no key: ask a member for it")
    slot = slot_of(keys[0])
    if any(slot_of(key) != slot for key in keys):
        raise CommandError(f"CROSSSLOT the keys of '{known.name}' are not of one slot")
    return Wish(place, command, keys, slot, reads=Trait.READ in known.traits)


def _waves(wishes: Sequence[Wish]) -> Iterator[list[Wish]]:
    """Commands that may go out together: none of them waits for another one."""
    waves: list[list[Wish]] = []
    after: dict[bytes, int] = {}
    """By key: the first wave that a command of it may be in."""
    for wish in wishes:
        number = max(after.get(key, 0) for key in wish.keys)
        after.update(dict.fromkeys(wish.keys, number + 1))
        if number == len(waves):
            waves.append([])
        waves[number].append(wish)
    yield from waves


def _owners_of(reply: Any) -> list[str]:
    """By slot, from the reply to CLUSTER SLOTS."""
    if isinstance(reply, hiredis.ReplyError):
        raise RemoteProtocolError(f"CLUSTER SLOTS: {reply}")
    owners = [""] * SLOTS
    try:
        for first, last, owner, *_ in reply:
            host, port = owner[0], owner[1]
            owners[first : last + 1] = [f"{host.decode()}:{port}"] * (last + 1 - first)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise RemoteProtocolError(f"CLUSTER SLOTS: no table of slots: {error}") from error
    return owners
