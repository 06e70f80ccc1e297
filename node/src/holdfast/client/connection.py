"""One connection to one member: requests go out at once, replies come in their order.

Rules
-----
* Whoever asks gets exactly one result: replies, or `Lost`. A connection that a reply is late on is
  ended, since nobody could tell any more whose reply is whose.
* `Lost` says whether the request may have been heard.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import hiredis

from holdfast.errors import ClientError

CONNECT_SECONDS: Final = 3.0
Command = Sequence[bytes]


class Lost(ClientError):
    """The connection is over; `heard` is whether the request may have reached the member."""

    def __init__(self, message: str, *, heard: bool) -> None:
        super().__init__(message)
        self.heard = heard


@dataclass(slots=True)
class Batch:
    """Requests that were sent together."""

    count: int
    replies: asyncio.Future[list[Any]]
    here: list[Any] = field(default_factory=list)


class Connection(asyncio.Protocol):
    """Redis' protocol, version 2, to one member."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.open = False
        self._reader = hiredis.Reader()
        self._waiting: deque[Batch] = deque()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def to(cls, address: str) -> Connection:
        """Connect."""
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: cls(address), host.strip("[]"), int(port)
                )
        except (OSError, TimeoutError, ValueError) as error:
            why = str(error) or "no answer in time"
            raise Lost(f"{address} can't be reached: {why}", heard=False) from error
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)
        self.open = True

    def data_received(self, data: bytes) -> None:
        """Replies, to whoever waits for them."""
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._take(reply)
        except (hiredis.ProtocolError, IndexError):
            self._end(f"{self.address} does not speak Redis' protocol")

    def _take(self, reply: Any) -> None:
        batch = self._waiting[0]
        batch.here.append(reply)
        if len(batch.here) == batch.count:
            self._waiting.popleft()
            if not batch.replies.done():
                batch.replies.set_result(batch.here)

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever waits learns it."""
        self._end(f"the connection to {self.address} is lost: {error or 'it was closed'}")

    def _end(self, why: str) -> None:
        self.open = False
        waiting, self._waiting = self._waiting, deque()
        for batch in waiting:
            if not batch.replies.done():
                batch.replies.set_exception(Lost(why, heard=True))
        self.close()

    def close(self) -> None:
        """No more requests; what is under way is lost."""
        self.open = False
        if self._transport is not None:
            self._transport.close()

    async def ask(self, commands: Sequence[Command], seconds: float) -> list[Any]:
        """Replies in the order of the commands; errors among them are values."""
        if not self.open or self._transport is None:
            raise Lost(f"the connection to {self.address} is closed", heard=False)
        batch = Batch(len(commands), asyncio.get_running_loop().create_future())
        self._waiting.append(batch)
        self._transport.write(b"".join(map(packed, commands)))
        try:
            async with asyncio.timeout(seconds):
                return await batch.replies
        except TimeoutError:
            why = f"{self.address} has not answered for {seconds:.1f} s"
            self._end(why)
            raise Lost(why, heard=True) from None


def packed(command: Command) -> bytes:
    """One command as it is sent."""
    data: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # of any length
    return data
