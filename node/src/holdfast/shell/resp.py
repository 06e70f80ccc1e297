"""Applications' connections: the Redis protocol on two ports.

Rules (`design/2` "The life of a SET", `design/4`)
--------------------------------------------------
* Every connection is a *session* with a number of its own. Its commands go to the node in the order
  in which they came; what the node replies goes out in the order in which it comes.
* A piece of the stream is read into all the commands that it completes, and they go to the node in
  one batch. The loop sends what was written in a turn at its end, joined.
* Who asks for much at a time gets it in parts: nobody knows how long a reply is before it is made,
  so the next batch is as long as the replies before allow.
* Everything has a limit. A session that has too much under way, or that does not read its replies,
  is not read from until it has caught up; beyond `connections_max` a connection gets Redis' error.
* No object is made for a command here.

States
------
    open ◄──► paused (too much under way, or replies not taken) ──► closed

What can go wrong
-----------------
*A client is gone while its commands run.* The node is told; its replies find nobody.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol, cast

from holdfast.core import events
from holdfast.wire.requests import Arguments, RequestError, RequestLimits, RequestReader

LOG: Final = logging.getLogger("holdfast.clients")
OUTPUT_HIGH: Final = 1 << 20
"""Replies that a client has not taken: above this it is not read from."""
OUTPUT_LOW: Final = 256 << 10
UNDERWAY_MAX: Final = 10_000
"""Commands of a session that the node has, and has not answered."""
UNDERWAY_BYTES_MAX: Final = 64 << 20
BATCH_MAX: Final = 1_000
"""Commands of a session that the node gets in one turn."""
BATCH_FIRST: Final = 64
"""The same of a session of whose replies nothing is known yet."""
REPLIES_BYTES_MAX: Final = 4 << 20
"""What is made for a session in one turn, if its replies are as long as those before."""
TURN_BYTES_MAX: Final = 64 << 20
"""Commands of all sessions in one turn. What they change goes to a backup in one frame, which must
be less than the wire's limit, even with one more request of the longest kind."""
LISTENING_SECONDS: Final = 1.0
"""How long a client that says no more is given its replies."""
TOO_MANY: Final = b"-ERR max number of clients reached\r\n"


class Sink(Protocol):
    """Where commands go: the driver."""

    def command(self, session: int, commands: list[Arguments]) -> None:
        """Commands of a session, in order."""

    def give(self, event: events.Event) -> None:
        """An event for the node."""

    def disconnected(self, session: int) -> None:
        """A session is over."""


class Nowhere:
    """Before anybody serves, there are no connections, and so no commands."""

    def command(self, session: int, commands: list[Arguments]) -> None:
        """There is none."""

    def give(self, event: events.Event) -> None:
        """There is none."""

    def disconnected(self, session: int) -> None:
        """There is none."""


@dataclass(slots=True)
class RespStats:
    """What the applications' connections did, for the metrics."""

    connections_total: int = 0
    refused_connections: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    protocol_errors: int = 0


class Session(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_backlog",
        "_batch",
        "_command",
        "_ending",
        "_feed",
        "_last_words",
        "_reader",
        "_reading",
        "_special",
        "_stats",
        "_underway",
        "_underway_bytes",
        "_unread_bytes",
        "_writable",
        "forwards",
        "number",
        "peer",
        "server",
        "transport",
    )

    def __init__(self, server: RespServer, *, forwards: bool) -> None:
        self.server = server
        self.forwards = forwards
        """Whether it came by the port that answers for keys of other members, too."""
        self.number = 0
        self.peer = ""
        self.transport: asyncio.Transport | None = None
        """None before the connection is made, and as soon as it is to end."""
        self._stats = server.stats
        self._command = server.sink.command
        self._reader = RequestReader(server.limits)
        self._feed = self._reader.feed
        self._backlog: deque[Arguments] = deque()
        """Read, and not given to the node yet."""
        self._batch = BATCH_FIRST
        """How many commands the node gets of it in one turn."""
        self._underway = 0
        """Commands given since the node has replied last."""
        self._underway_bytes = 0
        self._unread_bytes = 0
        """Received since commands were given last."""
        self._reading = True
        self._writable = True
        self._ending = False
        """Nothing more is read; what is under way is answered, then it ends."""
        self._special = False
        """Whether a reply may change any of this: something waits for it."""
        self._last_words = b""

    # The transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a number."""
        transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        self.transport = transport
        transport.set_write_buffer_limits(high=OUTPUT_HIGH, low=OUTPUT_LOW)
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if name else ""
        if not self.server.opened(self):
            self._ending = True
            self._last_words = TOO_MANY
            self._close()

    def data_received(self, data: bytes) -> None:
        """Whole commands go to the node, in one batch."""
        self._stats.received_bytes += len(data)
        if self._ending:
            return
        self._unread_bytes += len(data)
        requests = self._feed(data)
        if requests:
            if self._special or len(requests) > self._batch or self.server.full:
                self._backlog.extend(requests)
                self.pump()
            else:
                self._give(requests)
        if self._reader.error is not None:
            self._break(self._reader.error)

    def command_received(self, command: Arguments) -> None:
        """One command of somebody in this process, who needs no bytes to say it."""
        size = sum(map(len, command))
        self._stats.received_bytes += size
        if self._ending:
            return
        self._unread_bytes += size
        try:
            self._reader.check(command)
        except RequestError as error:
            self._break(error)
            return
        if self._special or self.server.full:
            self._backlog.append(command)
            self.pump()
        else:
            self._give([command])

    def _give(self, requests: list[Arguments]) -> None:
        size, self._unread_bytes = self._unread_bytes, 0
        self._underway_bytes += size
        self._underway += len(requests)
        self._command(self.number, requests)
        self.server.take(size)
        if self._underway > UNDERWAY_MAX or self._underway_bytes > UNDERWAY_BYTES_MAX:
            self._look()

    def pump(self) -> None:
        """Give the node what has waited for its turn."""
        if self.server.full:
            self.server.deferred.append(self)
        elif self._backlog and self._writable and not self._underway:
            size = min(self._batch, len(self._backlog))
            self._give([self._backlog.popleft() for _ in range(size)])
        self._look()

    def _look(self) -> None:
        """Read on, or not, or end, as things are now."""
        much = self._underway > UNDERWAY_MAX or self._underway_bytes > UNDERWAY_BYTES_MAX
        busy = bool(self._backlog) or not self._writable or much
        self._special = busy or self._ending
        if self._ending:
            if not self._backlog and not self._underway:
                self._close()
            return
        if self._reading is busy and self.transport is not None:
            self._reading = not busy
            if busy:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def pause_writing(self) -> None:
        """The client does not take its replies."""
        self._writable = False
        self._look()

    def resume_writing(self) -> None:
        """It does again."""
        self._writable = True
        self.pump()

    def eof_received(self) -> bool:
        """It says no more, and may still listen for a while."""
        if self.transport is None or not (self._underway or self._backlog):
            return False
        self._ending = self._special = True
        asyncio.get_running_loop().call_later(LISTENING_SECONDS, self._close)
        return self.transport.get_extra_info("ssl_object") is None

    def connection_lost(self, _: Exception | None) -> None:
        """Over, whoever ended it."""
        self.transport = None
        self._backlog.clear()
        self.server.closed(self)

    # Replies ------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Replies of this turn; the loop sends at its end what was written in it, joined."""
        if self._batch < BATCH_MAX or len(data) > REPLIES_BYTES_MAX:
            self._batch = batch_after(self._batch, self._underway, len(data))
        self._underway = self._underway_bytes = 0
        if self.transport is None:
            return
        self._stats.sent_bytes += len(data)
        self.transport.write(data)
        if self._special:
            self.pump()

    def hang_up(self) -> None:
        """Nothing more is read or answered; what was answered still goes out."""
        self._ending = self._special = True
        self._backlog.clear()
        self._close()

    def _break(self, error: RequestError) -> None:
        """Nothing behind this can be understood."""
        self._stats.protocol_errors += 1
        LOG.info("%s: %s", self.peer, error.message)
        self._last_words = b"-%b\r\n" % error.message.encode(errors="replace")
        self._ending = True
        self._look()

    def _close(self) -> None:
        transport, self.transport = self.transport, None
        if transport is not None and not transport.is_closing():
            if self._last_words:
                transport.write(self._last_words)
            transport.close()

    def end(self) -> None:
        """The member ends; what is written already still goes out."""
        self._ending = True
        self._close()


def batch_after(batch: int, commands: int, size: int) -> int:
    """How many commands may be done in one turn, after so many that had so long replies."""
    if size <= REPLIES_BYTES_MAX:
        return min(2 * batch, BATCH_MAX)
    return max(1, min(commands, batch) * REPLIES_BYTES_MAX // size)


class RespServer:
    """All connections of applications: where the driver brings replies."""

    def __init__(self, limits: RequestLimits, *, connections_max: int) -> None:
        self.limits = limits
        self.connections_max = connections_max
        self.stats = RespStats()
        self.sessions: dict[int, Session] = {}
        self.sink: Sink = Nowhere()
        self.full = False
        """Whether more commands in this turn could be too many for a message to a backup."""
        self._turn_bytes = 0
        """Of commands that the node gets in this turn."""
        self.deferred: list[Session] = []
        """Who has commands for the next turn, because this one has enough."""
        self._numbers = count(1)
        self._servers: list[asyncio.Server] = []

    async def serve(
        self,
        listener: socket.socket,
        sink: Sink,
        *,
        forwards: bool,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Answer on one more port."""
        self.sink = sink
        server = await asyncio.get_running_loop().create_server(
            lambda: Session(self, forwards=forwards), sock=listener, ssl=tls
        )
        self._servers.append(server)

    # For the driver -----------------------------------------------------------------------------

    def reply(self, session: int, data: bytes) -> None:
        """Replies of a session, in order."""
        found = self.sessions.get(session)
        if found is not None:
            found.write(data)

    def turned(self) -> None:
        """A turn is over: another one has room again."""
        self._turn_bytes = 0
        self.full = False
        if self.deferred:
            deferred, self.deferred = self.deferred, []
            for session in deferred:
                session.pump()

    def take(self, size: int) -> None:
        """The node gets commands of so many bytes."""
        self._turn_bytes += size
        if self._turn_bytes >= TURN_BYTES_MAX:
            self.full = True

    def hang_up(self, session: int) -> None:
        """Close, once everything up to here is written."""
        found = self.sessions.get(session)
        if found is not None:
            found.hang_up()

    # For sessions -------------------------------------------------------------------------------

    def opened(self, session: Session) -> bool:
        """A connection was made; whether it may stay."""
        if len(self.sessions) >= self.connections_max:
            self.stats.refused_connections += 1
            return False
        session.number = next(self._numbers)
        self.sessions[session.number] = session
        self.sink.give(events.Opened(session.number, session.forwards, session.peer))
        self.stats.connections_total += 1
        return True

    def closed(self, session: Session) -> None:
        """A connection is over."""
        if self.sessions.pop(session.number, None) is not None:
            self.sink.disconnected(session.number)

    def close(self) -> None:
        """Listen no more, and end every connection once what is buffered is out."""
        for server in self._servers:
            server.close()
        for session in tuple(self.sessions.values()):
            session.end()
