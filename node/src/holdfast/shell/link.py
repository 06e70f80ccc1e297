"""The links to the other members: framed, pipelined connections for each pair of addresses.

Rules (`design/2` "Choices already made", `design/4`)
-----------------------------------------------------
* A connection is dialled when there is something to send to an address and none is open; one that
  the other side has dialled is used in both directions. So a pair has one for each lane, or for a
  while two when both dial at once; each side then sends on the first that was open to it.
* There are two lanes (`handshake.Lane`): a value of many megabytes takes its time, and no heartbeat
  waits behind it. Among messages of one lane the order is kept.
* Before anything else both sides show that they know the secret (`handshake`). A refusal is what
  one of them says. Silence is none: whoever takes too long is left, and dialled again like one who
  does not answer, for its machine may just be busy.
* What a turn has to say to a member goes out as one write.
* A message may be lost, and is when there is too much: the core endures it.
* An address that does not answer is dialled again when there is something to say, with growing
  pauses.

States
------
Of a lane to an address: *idle*, *dialling*, *open*. Of a connection: *shaking*, *open*, *closed*.

What can go wrong
-----------------
*The network swallows everything without a word.* The operating system gives the connection up when
sent bytes are not acknowledged for `SILENT_MS`, and the next message dials anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from holdfast.core.data_messages import (
    BackupAck,
    BackupFrame,
    Forward,
    Forwarded,
    SyncAsk,
    SyncEnd,
    SyncPage,
    SyncPlan,
    SyncPull,
)
from holdfast.core.front.facts import LinkFacts
from holdfast.core.messages import Message, Origin
from holdfast.errors import RemoteProtocolError
from holdfast.ids import Address
from holdfast.shell.handshake import NONCE_BYTES, Handshake, Lane, Myself, Refused, Role, State
from holdfast.shell.tls import Tls
from holdfast.wire.codec import encode
from holdfast.wire.frames import FrameReader

LOG: Final = logging.getLogger("holdfast.link")
DIAL_SECONDS: Final = 5.0
SHAKE_SECONDS: Final = 5.0
SILENT_MS: Final = 5_000
PAUSE_FIRST_SECONDS: Final = 0.05
PAUSE_LAST_SECONDS: Final = 2.0
UNSENT_BYTES_MAX: Final = 8 << 20
"""What waits for a connection that is being made, and a turn's messages beyond it: one of them may
be longer than this."""
BUFFER_BYTES_MAX: Final = 32 << 20
"""What waits in a connection whose other side does not read; beyond it, repetitions of what is in
there already would only make it longer."""
STRANGERS_MAX: Final = 256
"""Accepted connections that have not shown yet who they are."""

DATA: Final = (
    BackupFrame,
    BackupAck,
    Forward,
    Forwarded,
    SyncAsk,
    SyncPlan,
    SyncPull,
    SyncPage,
    SyncEnd,
)
LANES: Final = dict.fromkeys(DATA, Lane.DATA)
"""Lanes of messages; of all others it is control."""

Deliver = Callable[[Origin, Message], None]
OnRefused = Callable[[str, str], None]


@dataclass(slots=True)
class LinkStats:
    """What the links did, for the metrics."""

    sent_messages: int = 0
    sent_bytes: int = 0
    received_messages: int = 0
    received_bytes: int = 0
    dropped_messages: int = 0
    dials: int = 0
    failed_dials: int = 0
    slow_handshakes: int = 0
    refused: int = 0
    opened: int = 0


class Connection(asyncio.Protocol):
    """One connection, dialled or accepted."""

    def __init__(
        self,
        links: Links,
        role: Role,
        dialled: Address = Address(""),
        lane: Lane = Lane.CONTROL,
    ) -> None:
        self.links = links
        self.transport: asyncio.Transport | None = None
        self.dialled = dialled
        """For a dialled one, where; its other side may call itself differently."""
        self.since = time.time()
        """Seconds since 1970."""
        self.shake = Handshake(role, links.myself, secrets.token_bytes(NONCE_BYTES), lane)
        self._reader = FrameReader()
        self._patience: asyncio.TimerHandle | None = None

    def is_open(self) -> bool:
        """Whether frames may be sent."""
        return self.shake.state is State.OPEN and self.transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say the first word."""
        transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        self.transport = transport
        _tune(transport.get_extra_info("socket"))
        if not self.links.connected(self):
            transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(SHAKE_SECONDS, self._too_slow)
        transport.write(self.shake.begin())

    def data_received(self, data: bytes) -> None:
        """Words of the handshake first, frames afterwards."""
        if self.is_open():
            self._frames(data)
            return
        assert self.transport is not None
        try:
            self.transport.write(self.shake.feed(data))
        except Refused as refusal:
            self._refuse(refusal)
            return
        if self.is_open():
            self._cancel_patience()
            self.links.opened(self)
            if self.shake.rest:
                self._frames(self.shake.rest)

    def _frames(self, data: bytes) -> None:
        stats = self.links.stats
        stats.received_bytes += len(data)
        try:
            messages = self._reader.feed(data)
        except RemoteProtocolError as error:
            LOG.warning("%s sends what is no message: %s", self.name, error.message)
            self.abort()
            return
        stats.received_messages += len(messages)
        for origin, message in messages:
            self.links.deliver(origin, message)

    def _refuse(self, refusal: Refused) -> None:
        assert self.transport is not None
        self._cancel_patience()
        self.transport.write(self.shake.farewell(refusal))
        self.transport.close()
        self.links.refused(self, refusal.message)

    def _too_slow(self) -> None:
        self._patience = None
        self.links.too_slow(self)
        self.abort()

    def _cancel_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def connection_lost(self, _: Exception | None) -> None:
        """Over, whoever ended it."""
        self._cancel_patience()
        self.transport = None
        self.links.lost(self)

    def abort(self) -> None:
        """End it at once."""
        if self.transport is not None:
            self.transport.abort()

    @property
    def name(self) -> str:
        """Whom it leads to, for the log."""
        if self.dialled or self.shake.peer:
            return self.dialled or self.shake.peer
        peer = self.transport.get_extra_info("peername") if self.transport else None
        return f"{peer[0]}:{peer[1]}" if peer else "somebody"


class Peer:
    """A lane to an address."""

    def __init__(self, links: Links, address: Address, lane: Lane) -> None:
        self.links = links
        self.address = address
        self.lane = lane
        self.connection: Connection | None = None
        self.frames: list[bytes] = []
        self.frames_bytes = 0
        self.waiting = 0
        """How many of them are of earlier turns, for want of a connection."""
        self.waiting_bytes = 0
        self.pause = 0.0
        self.dial_at = 0.0
        self.dialling: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why the last attempt to make a connection failed."""

    def add(self, frame: bytes) -> None:
        """One more for the end of the turn."""
        self.frames.append(frame)
        self.frames_bytes += len(frame)

    def flush(self) -> None:
        """Send what there is, or dial; drop what is too much."""
        connection = self.connection
        if connection is None or connection.transport is None:
            if self.waiting_bytes > UNSENT_BYTES_MAX:
                self.drop(self.waiting)
            self.waiting, self.waiting_bytes = len(self.frames), self.frames_bytes
            self._dial()
            return
        transport, frames, stats = connection.transport, self.frames, self.links.stats
        if transport.get_write_buffer_size() > BUFFER_BYTES_MAX:
            self.drop()
            return
        stats.sent_messages += len(frames)
        stats.sent_bytes += self.frames_bytes
        self._forget()
        transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def drop(self, kept: int = 0) -> None:
        """Lose what has not been sent, but for the first ones."""
        self.links.stats.dropped_messages += len(self.frames) - kept
        del self.frames[kept:]
        self.frames_bytes = self.waiting_bytes if kept else 0
        if not kept:
            self._forget()

    def _forget(self) -> None:
        self.frames, self.frames_bytes = [], 0
        self.waiting = self.waiting_bytes = 0

    def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        if self.dialling is not None or self.links.closed:
            return
        if loop.time() < self.dial_at:
            self.drop()
            return
        self.dialling = loop.create_task(self._dialled())

    async def _dialled(self) -> None:
        """Make a connection; who is there is seen in the handshake."""
        self.links.stats.dials += 1
        host, _, port = self.address.rpartition(":")
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self.links, Role.DIALLER, self.address, self.lane),
                    host.strip("[]"),
                    int(port),
                    ssl=None if self.links.tls is None else self.links.tls.client,
                )
        except (OSError, ValueError) as error:
            LOG.debug("%s does not answer: %s", self.address, error)
            self.trouble = getattr(error, "strerror", "") or str(error) or "no answer in time"
            self.links.stats.failed_dials += 1
            self.dialling = None
            self.failed()

    def failed(self) -> None:
        """Nobody is there, or nobody for us: a pause, longer each time."""
        self.drop()
        self.dialling = None
        self.pause = min(max(self.pause * 2, PAUSE_FIRST_SECONDS), PAUSE_LAST_SECONDS)
        self.dial_at = asyncio.get_running_loop().time() + self.pause

    def use(self, connection: Connection) -> None:
        """Send on this one from now on, unless another is in use."""
        if self.connection is None or self.connection.transport is None:
            self.connection = connection
            self.pause, self.trouble = 0.0, ""
            if self.frames:
                self.flush()


class Links:
    """All connections to other members: a carrier for the driver."""

    def __init__(self, myself: Myself) -> None:
        self.myself = myself
        self.tls: Tls | None = None
        self.stats = LinkStats()
        self.closed = False
        self.deliver: Deliver = _nowhere
        self.on_refused: OnRefused = _unheard
        self.accepted_by: dict[str, None] = {}
        """Who has ever shown to be of our cluster, by address."""
        self._peers: dict[tuple[Address, Lane], Peer] = {}
        self._dirty: dict[Peer, None] = {}
        self._connections: dict[Connection, None] = {}
        self._server: asyncio.Server | None = None

    async def serve(
        self,
        listener: socket.socket,
        deliver: Deliver,
        refused: OnRefused,
        *,
        tls: Tls | None = None,
    ) -> None:
        """Let others in; nothing is dialled before."""
        self.deliver, self.on_refused, self.tls = deliver, refused, tls
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self, Role.ACCEPTER),
            sock=listener,
            ssl=None if self.tls is None else self.tls.server,
        )

    # For the driver -----------------------------------------------------------------------------

    def send(self, to: Address, origin: Origin, message: Message) -> None:
        """At the end of the turn, with everything else for that address."""
        peer = self._peer(to, LANES.get(type(message), Lane.CONTROL))
        peer.add(encode(origin, message))
        self._dirty[peer] = None

    def _peer(self, address: Address, lane: Lane) -> Peer:
        peer = self._peers.get((address, lane))
        if peer is None:
            peer = self._peers[address, lane] = Peer(self, address, lane)
        return peer

    def flush(self) -> None:
        """The turn is over."""
        if self._dirty:
            dirty, self._dirty = self._dirty, {}
            for peer in dirty:
                peer.flush()

    # For connections ----------------------------------------------------------------------------

    def connected(self, connection: Connection) -> bool:
        """A connection was made; whether it may go on."""
        strangers = sum(not each.is_open() for each in self._connections)
        if self.closed or strangers >= STRANGERS_MAX:
            return False
        self._connections[connection] = None
        return True

    def opened(self, connection: Connection) -> None:
        """Both have shown who they are."""
        self.stats.opened += 1
        for address in dict.fromkeys((connection.dialled, connection.shake.peer)):
            if not address:
                continue
            self.accepted_by[address] = None
            peer = self._peer(address, connection.shake.lane)
            if address == connection.dialled:
                peer.dialling = None
            peer.use(connection)

    def refused(self, connection: Connection, reason: str) -> None:
        """There will be no link."""
        self.stats.refused += 1
        LOG.error("no link with %s: %s", connection.name, reason)
        if connection.dialled:
            self.on_refused(connection.dialled, reason)

    def too_slow(self, connection: Connection) -> None:
        """The other side has said too little for too long; that may pass."""
        self.stats.slow_handshakes += 1
        what = "it is dialled again" if connection.dialled else "it may dial again"
        LOG.warning("no handshake with %s within %g s: %s", connection.name, SHAKE_SECONDS, what)

    def lost(self, connection: Connection) -> None:
        """A connection is over: another one of the same pair may be left."""
        self._connections.pop(connection, None)
        for address in dict.fromkeys((connection.dialled, connection.shake.peer)):
            peer = self._peers.get((address, connection.shake.lane))
            if peer is None:
                continue
            if address == connection.dialled and connection.shake.state is not State.OPEN:
                peer.failed()
            if peer.connection is connection:
                peer.connection = self._other(address, connection.shake.lane)

    def _other(self, address: Address, lane: Lane) -> Connection | None:
        return next(
            (
                each
                for each in self._connections
                if each.is_open()
                and each.shake.lane is lane
                and address in (each.dialled, each.shake.peer)
            ),
            None,
        )

    def facts(self) -> tuple[LinkFacts, ...]:
        """What there is, for people."""
        return tuple(
            LinkFacts(
                each.shake.peer,
                bool(each.dialled),
                round(each.since * 1_000),
                each.transport.get_write_buffer_size(),
            )
            for each in self._connections
            if each.is_open() and each.transport is not None
        )

    def has_connections(self) -> bool:
        """Whether any is left."""
        return bool(self._connections)

    def troubles(self) -> dict[Address, str]:
        """Who was dialled in vain, and why."""
        return {each.address: each.trouble for each in self._peers.values() if each.trouble}

    async def close(self) -> None:
        """End everything; what is buffered is still sent."""
        self.closed = True
        if self._server is not None:
            self._server.close()
        for peer in self._peers.values():
            if peer.dialling is not None:
                peer.dialling.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await peer.dialling
        for connection in tuple(self._connections):
            if connection.transport is not None:
                connection.transport.close()


def _tune(sock: socket.socket | None) -> None:
    """Send at once; give up a connection whose other side has gone without a word."""
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_MS)


def _nowhere(_: Origin, __: Message) -> None:
    """Before the driver is there, what arrives is lost."""


def _unheard(_: str, __: str) -> None:
    """Before somebody listens, a refusal is only logged."""
