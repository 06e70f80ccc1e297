"""One member of this process, as the HTTP port needs it.

A command over HTTP is that of a connection to the plain port, without a socket: it has a session of
its own, which ends with its reply. So everything that holds for such connections holds for it:
limits, the order of things, answers for keys of other members.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import hiredis

from holdfast.core.effects import Notice
from holdfast.core.events import ConfirmedDead
from holdfast.core.messages import Request
from holdfast.core.node import Node
from holdfast.ids import MemberId, Millis
from holdfast.shell.driver import Outcome
from holdfast.shell.http.ports import Figure
from holdfast.shell.http.refusals import Kind, Refused
from holdfast.shell.keeper import Keeper
from holdfast.shell.member import Member
from holdfast.shell.memory import memory_bytes, memory_bytes_max
from holdfast.shell.resp import RespServer, Session
from holdfast.storage import catalogue
from holdfast.storage.backup import Index, Part

ENDS: Final = "this member ends; ask another one"


class LocalConnection(asyncio.Transport):
    """The far end of a session that no socket carries: it waits for one reply at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._reader = hiredis.Reader()
        self._unheard = 0

    def ignore(self) -> None:
        """Nobody wants the next reply."""
        self._unheard += 1

    def expect(self) -> asyncio.Future[Any]:
        """The next reply; who waited for the last one has it."""
        if self.reply.done():
            self.reply = asyncio.get_running_loop().create_future()
        return self.reply

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """What the member says."""
        self._reader.feed(bytes(data))
        while (reply := self._reader.gets()) is not False:
            if self._unheard:
                self._unheard -= 1
            elif not self.reply.done():
                self.reply.set_result(reply)

    def close(self) -> None:
        """The member ends the session."""
        if not self.reply.done():
            self.reply.set_exception(Refused(Kind.UNAVAILABLE, ENDS))

    def abort(self) -> None:
        """The same at once."""
        self.close()

    def is_closing(self) -> bool:
        """Whether nothing is waited for any more."""
        return self.reply.done()

    def get_write_buffer_size(self) -> int:
        """Nothing is ever in between."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever in between."""

    def pause_reading(self) -> None:
        """One command is all that comes."""

    def resume_reading(self) -> None:
        """One command is all that comes."""


class LocalSession:
    """A session without a socket, one command at a time."""

    def __init__(
        self, server: RespServer, on_command: Callable[[], None], *, forwards: bool
    ) -> None:
        self._on_command = on_command
        self._far = LocalConnection()
        self._session = Session(server, forwards=forwards)
        self._session.connection_made(self._far)
        if not self._session.number:
            raise Refused(Kind.UNAVAILABLE, "too many connections; try again, or another member")

    @property
    def number(self) -> int:
        """By which the node knows it."""
        return self._session.number

    @property
    def open(self) -> bool:
        """Whether the member would answer."""
        return self._session.transport is not None

    async def execute(self, command: Sequence[bytes]) -> Any:
        """The reply to the next command."""
        if not self.open:
            raise Refused(Kind.UNAVAILABLE, ENDS)
        reply = self._far.expect()
        self._send(command)
        return await reply

    def tell(self, command: Sequence[bytes]) -> None:
        """A command whose reply nobody waits for."""
        if self.open:
            self._far.ignore()
            self._send(command)

    def _send(self, command: Sequence[bytes]) -> None:
        self._on_command()
        self._session.command_received(list(command))

    def close(self) -> None:
        """It is over; who waits for a reply gets none."""
        self._far.close()
        reply = self._far.reply
        if reply.done() and not reply.cancelled():
            reply.exception()  # it was told, or nobody is there to be told
        self._session.connection_lost(None)


class LocalMember:
    """What HTTP needs of it (`ports.MemberPort`)."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._own = 0

    @property
    def node(self) -> Node:
        """To look at."""
        return self._member.node

    @property
    def started_at(self) -> float:
        """When this process began."""
        return self._member.started_at

    @property
    def secret(self) -> bytes:
        """The cluster's."""
        return self._member.settings.secret

    def now(self) -> Millis:
        """The node's clock."""
        return self._member.driver.clock.read()

    async def ask(self, request: Request) -> Outcome:
        """Ask something of the cluster."""
        return await self._member.driver.ask(request)

    def confirm_dead(self, member: MemberId, incarnation: int, ago: Millis) -> None:
        """An arbiter knows that this process is gone."""
        self._member.driver.give(ConfirmedDead(member, incarnation, ago))

    async def execute(self, command: Sequence[bytes]) -> Any:
        """One command of a session of its own."""
        session = LocalSession(self._member.clients, self._note_own, forwards=True)
        try:
            return await session.execute(command)
        finally:
            session.close()

    def session(self) -> LocalSession:
        """A session of several commands."""
        return LocalSession(self._member.clients, self._note_own, forwards=False)

    def _note_own(self) -> None:
        self._own += 1

    @property
    def commands(self) -> int:
        """How many commands applications have sent."""
        return self._member.driver.stats.commands - self._own

    async def seal(self) -> None:
        """Have all that was acknowledged in files that don't change any more."""
        await asyncio.to_thread(self._keeper().engine.seal)

    async def back_up(self, part: Part) -> Index:
        """Keep this member's part of a backup."""
        return await asyncio.to_thread(catalogue.keep, self._directory(), part)

    async def backups(self) -> dict[str, Index]:
        """The parts that it keeps."""
        if self._member.keeper is None:
            return {}
        return await asyncio.to_thread(catalogue.kept, self._directory())

    async def forget_backup(self, name: str) -> None:
        """Keep this member's part no more."""
        await asyncio.to_thread(catalogue.forget, self._directory(), name)

    def backup_place(self, name: str) -> str:
        """Where such a part is."""
        return str(self._directory() / catalogue.FOLDER / name)

    def _keeper(self) -> Keeper:
        if self._member.keeper is None:
            raise Refused(Kind.ILLEGAL_STATE, "this member has no files")
        return self._member.keeper

    def _directory(self) -> Path:
        self._keeper()
        return Path(self._member.settings.options.data_dir).absolute()

    def listen(self, listener: Callable[[Notice], None]) -> None:
        """Tell every notice."""
        self._member.driver.listen(listener)

    def figures(self) -> Iterator[Figure]:
        """What is counted outside the core."""
        turns, clients = self._member.driver.stats, self._member.clients
        stats = clients.stats
        yield Figure("uptime_seconds", "Since this process began.", self._uptime())
        yield _count("turns", "Turns of the loop in which the core ran.", turns.turns)
        yield _count("turn_seconds", "What they took.", turns.total_ns / 1e9)
        longest = turns.longest_ns / 1e9
        yield Figure("loop_stall_seconds_max", "The longest of them.", longest)
        yield _count("commands", "Commands of applications.", turns.commands)
        yield _count("messages", "Messages of other members.", turns.messages)
        yield _count("messages_refused", "Those that made no sense.", turns.refused_messages)
        yield Figure("connections", "Connections of applications.", len(clients.sessions))
        yield _count("connections_made", "Connections that were made.", stats.connections_total)
        yield _count("connections_refused", "Those beyond the limit.", stats.refused_connections)
        yield _count("received_bytes", "Bytes of applications.", stats.received_bytes)
        yield _count("sent_bytes", "Bytes for applications.", stats.sent_bytes)
        yield _count("protocol_errors", "Requests that can't be read.", stats.protocol_errors)
        yield from self._of_files()
        yield Figure("memory_bytes", "Memory that this process takes.", memory_bytes())
        yield Figure("memory_bytes_max", "The most that it took.", memory_bytes_max())

    def _of_files(self) -> Iterator[Figure]:
        keeper = self._member.keeper
        if keeper is None:
            return
        found = keeper.engine.figures()
        yield Figure("load_ratio", "How much of its files a starting member has read.", 1.0)
        yield Figure("load_seconds", "How long it read them.", keeper.load_seconds)
        yield Figure("load_records", "Records that it has read.", keeper.loaded_records)
        yield _count("persisted_bytes", "Keys and records to be kept.", found.user_bytes)
        yield _count("log_bytes", "Bytes written into the log for them.", found.log_bytes)
        yield _count("base_bytes", "Bytes written into bases.", found.base_bytes)
        yield _count("log_syncs", "Times that the log was synced.", found.syncs)
        yield _count("bases", "Bases that were written.", found.bases)
        seconds = keeper.held_ns / 1e9
        yield _count("files_seconds", "What the loop has given to files.", seconds)

    def _uptime(self) -> float:
        return max(time.time() - self._member.started_at, 0.0)


def _count(name: str, text: str, value: float) -> Figure:
    return Figure(f"{name}_total", text, value, counter=True)
