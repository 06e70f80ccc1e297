"""Large bodies over HTTP/1.1, with as little as possible between the socket and who wants them.

Rules
-----
* It asks members, and understands what members answer: a length, or chunks, and nothing else of
  HTTP. What is not that is `Broken`; whoever asks asks again.
* A connection is kept for the next question if the answer was read to its end and did not say
  otherwise; one that turns out to be closed when it is used again is not the member's fault, so
  the question is asked once more on a new one. Everything that is asked here may be asked twice.
* A chunk is given out as it came. Members send a block of rows in a chunk, so that most blocks are
  never put together from pieces.

States
------
Of a connection: idle ──ask──► asked ──head──► answering ──end──► idle, or closed.

What can go wrong
-----------------
*The member dies, or says nothing for `seconds`.* The connection is closed, and that is `Broken`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from holdfast.errors import ClientError

HEAD_BYTES_MAX: Final = 64 << 10
CHUNK_BYTES_MAX: Final = 128 << 20
READ_BYTES: Final = 1 << 20
PARTS_BYTES: Final = 1 << 20
IDLE_MAX: Final = 8


class Broken(ClientError):
    """There is no answer, or it ends too early, or it is none."""


@dataclass(frozen=True, slots=True)
class Head:
    """How an answer begins."""

    status: int
    headers: Mapping[str, str]

    @property
    def is_success(self) -> bool:
        """Whether what was asked for follows."""
        return 200 <= self.status < 300


@dataclass(slots=True)
class Connection:
    """One to a member."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    keeps: bool = False
    """The last answer was read to its end, and another may follow."""

    async def ask(self, request: bytes, body: bytes) -> Head:
        """Send, and read how the answer begins."""
        self.keeps = False
        self.writer.write(request)
        if body:
            self.writer.write(body)
        await self.writer.drain()
        return _head(await self.reader.readuntil(b"\r\n\r\n"))

    async def parts(self, head: Head) -> AsyncIterator[bytes]:
        """The body, to its end."""
        if head.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := await self._chunk_size():
                data = await self.reader.readexactly(size + 2)
                yield data[:size]
            await self.reader.readuntil(b"\r\n")
        else:
            left = _number(head.headers.get("content-length", ""), 10)
            while left:
                data = await self.reader.read(min(left, PARTS_BYTES))
                if not data:
                    raise Broken(f"the answer ends {left} bytes too early")
                left -= len(data)
                yield data
        self.keeps = head.headers.get("connection", "").lower() != "close"

    async def _chunk_size(self) -> int:
        line = await self.reader.readuntil(b"\r\n")
        return _number(line.split(b";")[0].decode("latin-1").strip(), 16)


def _number(text: str, base: int) -> int:
    try:
        found = int(text, base)
    except ValueError:
        raise Broken(f"{text!r} is no length of an answer") from None
    if not 0 <= found <= CHUNK_BYTES_MAX:
        raise Broken(f"an answer of {found} bytes is too long")
    return found


def _head(data: bytes) -> Head:
    first, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not status.isdecimal():
        raise Broken("the answer is not HTTP")
    pairs = (line.partition(":") for line in lines if line)
    return Head(int(status), {name.strip().lower(): value.strip() for name, _, value in pairs})


@dataclass(slots=True)
class Exchange:
    """Connections to members, kept between questions."""

    headers: Mapping[str, bytes] = field(default_factory=dict)
    connect_seconds: float = 5.0
    _idle: dict[str, list[Connection]] = field(default_factory=dict)

    async def ask(
        self,
        method: str,
        address: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float,
    ) -> tuple[Head, bytes]:
        """Ask, and read the whole answer."""
        async with (
            asyncio.timeout(seconds),
            self.asking(method, address, path, body, headers, seconds=None) as (head, parts),
        ):
            return head, b"".join([part async for part in parts])

    @asynccontextmanager
    async def asking(
        self,
        method: str,
        address: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float | None,
    ) -> AsyncIterator[tuple[Head, AsyncIterator[bytes]]]:
        """Ask, and read the answer as it comes, each part of it within `seconds`."""
        request = self._request(method, address, path, len(body), headers or {})
        connection = self._kept(address)
        try:
            head = None
            if connection is not None:
                head = await self._again(connection, request, body, seconds)
            if connection is None or head is None:
                connection = await self._connect(address)
                async with asyncio.timeout(seconds):
                    head = await connection.ask(request, body)
            yield head, _in_time(connection.parts(head), seconds)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Broken(f"{address}: {error} ({type(error).__name__})") from error
        finally:
            if connection is not None:
                self._put_back(address, connection)

    @staticmethod
    async def _again(
        connection: Connection, request: bytes, body: bytes, seconds: float | None
    ) -> Head | None:
        """Ask on a connection that was kept; None if it turns out to be closed."""
        try:
            async with asyncio.timeout(seconds):
                return await connection.ask(request, body)
        except TimeoutError:
            raise
        except (OSError, asyncio.IncompleteReadError):
            connection.writer.close()
            return None

    def _request(
        self, method: str, address: str, path: str, length: int, headers: Mapping[str, str]
    ) -> bytes:
        lines = [f"{method} {path} HTTP/1.1".encode(), b"host: " + address.encode()]
        lines += [name.encode() + b": " + value for name, value in self.headers.items()]
        lines += [f"{name}: {value}".encode() for name, value in headers.items()]
        if length or method != "GET":
            lines.append(b"content-length: %d" % length)
        return b"\r\n".join((*lines, b"", b""))

    async def _connect(self, address: str) -> Connection:
        host, _, port = address.rpartition(":")
        if not port.isdecimal():
            raise Broken(f"{address!r} is no address")
        async with asyncio.timeout(self.connect_seconds):
            opened = await asyncio.open_connection(host.strip("[]"), int(port), limit=READ_BYTES)
        return Connection(*opened)

    def _kept(self, address: str) -> Connection | None:
        idle = self._idle.get(address)
        return idle.pop() if idle else None

    def _put_back(self, address: str, connection: Connection) -> None:
        idle = self._idle.setdefault(address, [])
        if connection.keeps and len(idle) < IDLE_MAX and not connection.reader.at_eof():
            idle.append(connection)
        else:
            connection.writer.close()

    async def close(self) -> None:
        """Keep no connection."""
        idle, self._idle = self._idle, {}
        for connection in (each for some in idle.values() for each in some):
            connection.writer.close()


async def _in_time(parts: AsyncIterator[bytes], seconds: float | None) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(seconds):
            part = await anext(parts, None)
        if part is None:
            return
        yield part
