"""A member that says what a test wants: for what a real one says only in bad moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import hiredis

Answer = Callable[[list[bytes]], bytes | None]
"""The reply to a command; None ends the connection."""


def slots(*ranges: tuple[int, int, str]) -> bytes:
    """The reply to CLUSTER SLOTS."""
    lines = []
    for first, last, address in ranges:
        host, _, port = address.rpartition(":")
        owner = f"*3\r\n${len(host)}\r\n{host}\r\n:{port}\r\n$2\r\nid\r\n"
        lines.append(f"*3\r\n:{first}\r\n:{last}\r\n{owner}")
    return f"*{len(ranges)}\r\n{''.join(lines)}".encode()


@dataclass
class FakeMember:
    """One listening address, and what came to it."""

    address: str = ""
    answer: Answer = lambda _: b"+OK\r\n"
    heard: list[list[bytes]] = field(default_factory=list)

    def everything(self) -> bytes:
        """It owns all slots, it says."""
        return slots((0, 16_383, self.address))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        commands = hiredis.Reader()
        try:
            while data := await reader.read(1 << 16):
                commands.feed(data)
                while (command := commands.gets()) is not False:
                    self.heard.append(command)
                    reply = self._reply(command)
                    if reply is None:
                        return
                    writer.write(reply)
                    await writer.drain()
        finally:
            writer.close()

    def _reply(self, command: list[bytes]) -> bytes | None:
        if command[0] == b"CLUSTER":
            return self.everything()
        return self.answer(command)

    def count(self, name: bytes) -> int:
        """How often a command came."""
        return sum(command[0] == name for command in self.heard)


@asynccontextmanager
async def fake_member(answer: Answer) -> AsyncIterator[FakeMember]:
    """One that answers so."""
    member = FakeMember(answer=answer)
    server = await asyncio.start_server(member.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    member.address = f"{host}:{port}"
    try:
        yield member
    finally:
        server.close()
