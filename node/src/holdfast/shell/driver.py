"""The driver: gives the node what happened, in turns, and carries out what it says.

Rules (`design/2` "The life of a SET", `core.effects`)
------------------------------------------------------
* Whatever sockets deliver in one tick of the event loop is collected; then comes one *turn*. In it
  the node gets the messages, those about single partitions together (`core.turns`), then the
  commands of all clients as one event, so that what they change goes to each backup in one frame.
* Effects are carried out in the order in which the node gave them. What goes to sockets is written
  once a turn, joined.
* What must be kept is given to the files at the end of the turn, as one block, when what may leave
  before it has left. The node is told at once of what is kept by then (`storage.pace`), in a later
  turn of the rest. What others could learn waits for that in the core (`core.outbox`).
* Only a turn touches the node, and a turn is never inside another: what happens meanwhile is for
  the next one.
* The node is given nothing before it is started: ports listen a moment earlier, and what comes by
  them waits.
* The driver decides nothing. What the node may not be told (a message that fits no state of it) is
  dropped like a lost one; any other error of the core is the end of the process, for nobody knows
  then what its state is worth.

States
------
    made ──start──► running ──► stopped (the node said `Stop`) | failed (the core raised)

What can go wrong
-----------------
*A turn takes long.* Leases run on the clock that the node is given, so it serves nothing too late;
`Stalls` keeps the longest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from holdfast.core import events
from holdfast.core.effects import (
    Answer,
    Continue,
    Effect,
    HangUp,
    Notice,
    Pending,
    Persist,
    Reply,
    Send,
    Stop,
)
from holdfast.core.messages import Message, Origin, Request
from holdfast.core.node import Node
from holdfast.core.turns import in_turns
from holdfast.errors import DiskFailed, RemoteProtocolError
from holdfast.ids import Address, Millis

LOG: Final = logging.getLogger("holdfast.driver")
NS_PER_MS: Final = 1_000_000
ENDED: Final = "this member has ended; look at the cluster to see whether it was done"
WALL_EVERY_MS: Final = 1_000
"""How often the wall clock is looked at: it may be set while we run."""


class Monotonic:
    """Milliseconds since this process began to count; never back."""

    def __init__(self) -> None:
        self._zero = time.monotonic_ns() - NS_PER_MS

    def read(self) -> Millis:
        """Now."""
        return Millis((time.monotonic_ns() - self._zero) // NS_PER_MS)

    @staticmethod
    def wall() -> int:
        """Milliseconds since 1970, as this machine believes."""
        return time.time_ns() // NS_PER_MS


class Carrier(Protocol):
    """Where messages go: the links to other members."""

    def send(self, to: Address, origin: Origin, message: Message) -> None:
        """Send at the end of this turn, or lose it."""

    def flush(self) -> None:
        """The turn is over."""


class Clients(Protocol):
    """Where replies go: the applications' connections."""

    def reply(self, session: int, data: bytes) -> None:
        """Write, in order."""

    def hang_up(self, session: int) -> None:
        """Close, once everything up to here is written."""

    def turned(self) -> None:
        """The turn is over."""


class Files(Protocol):
    """Where records go."""

    def write(self, persists: list[Persist]) -> int:
        """The records of this turn, in order; up to which number they are kept already, or 0."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request; `error` is empty when it was done."""

    error: str
    message: str

    @property
    def done(self) -> bool:
        """Whether it was done."""
        return not self.error


@dataclass(slots=True)
class Stalls:
    """How long the loop was held by turns."""

    turns: int = 0
    commands: int = 0
    messages: int = 0
    refused_messages: int = 0
    longest_ns: int = 0
    total_ns: int = 0
    latest_ms: int = 0
    """The most that a wake-up came too late: the loop was held, by whatever it was."""

    def note(self, took_ns: int) -> None:
        """One turn."""
        self.turns += 1
        self.total_ns += took_ns
        self.longest_ns = max(self.longest_ns, took_ns)


@dataclass(slots=True)
class Asking:
    """A request that was asked here and has no answer yet."""

    outcome: asyncio.Future[Outcome]
    on_pending: Callable[[str], None]


@dataclass(slots=True)
class Waiting:
    """What the next turn gives to the node."""

    happened: list[events.Event] = field(default_factory=list)
    batches: list[events.Batch] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    """Sessions that are over; what they said before comes first."""
    continues: bool = False


class Driver:
    """Owns the node of this process."""

    def __init__(
        self,
        node: Node,
        *,
        carrier: Carrier,
        clients: Clients,
        files: Files | None = None,
        clock: Monotonic | None = None,
    ) -> None:
        self.node = node
        self.clock = clock if clock is not None else Monotonic()
        self.stats = Stalls()
        self.failure: BaseException | None = None
        self._files = files
        self._persists: list[Persist] = []
        self._carrier = carrier
        self._clients = clients
        self._reply = clients.reply
        self._listeners: list[Callable[[Notice], None]] = []
        self._asking: dict[str, Asking] = {}
        self._waiting = Waiting()
        self._started = False
        self._scheduled = False
        self._ended: asyncio.Event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._timer_due = 0
        self._wall_at = 0
        self.on_second: Callable[[], None] = lambda: None
        """Called once a second at most, before a turn: what is looked at now and then."""
        self._act: dict[type, Callable[..., None]] = {
            HangUp: self._on_hang_up,
            Send: self._on_send,
            Continue: self._on_continue,
            Persist: self._on_persist,
            Answer: self._on_answer,
            Pending: self._on_pending,
            Notice: self._on_notice,
            Stop: self._on_stop,
        }

    # What others give ---------------------------------------------------------------------------

    def start(self, image: events.Image | None = None) -> None:
        """The first events of a process, before whatever waits already; what its files said, if it
        has any."""
        self._started = True
        self._waiting.happened[:0] = [events.Started(image), events.Loaded()]
        self._schedule()

    def persisted(self, sequence: int) -> None:
        """Every record up to this number is kept."""
        self.give(events.Persisted(sequence))

    def disk_failed(self, error: DiskFailed) -> None:
        """What this member was told to keep may be lost."""
        if not self._ended.is_set():
            LOG.critical("the disk failed, and this member ends: %s", error.message)
            self.failure = error
            self._end()

    def disk_full(self, full: bool) -> None:
        """Whether there is too little room for more data."""
        self.give(events.Room(full))
        if full:
            LOG.error("the disk is nearly full: writes are refused until there is room")
        else:
            LOG.info("there is room on the disk again")

    def listen(self, listener: Callable[[Notice], None]) -> None:
        """Tell every notice of the node to this one, too."""
        self._listeners.append(listener)

    def give(self, event: events.Event) -> None:
        """An event for the next turn."""
        self._waiting.happened.append(event)
        if not self._scheduled:
            self._schedule()

    def receive(self, origin: Origin, message: Message) -> None:
        """A message of another member."""
        self.stats.messages += 1
        self.give(events.Received(origin, message))

    def command(self, session: int, commands: Sequence[list[bytes]]) -> None:
        """Commands of a client, in order."""
        self.stats.commands += len(commands)
        self._waiting.batches.append((session, commands))
        if not self._scheduled:
            self._schedule()

    def disconnected(self, session: int) -> None:
        """A client has gone."""
        self._waiting.gone.append(session)
        self._schedule()

    async def ask(
        self, request: Request, on_pending: Callable[[str], None] | None = None
    ) -> Outcome:
        """Ask something of the cluster, as an administrator; wait for what becomes of it."""
        if self._ended.is_set():
            return Outcome("IllegalState", f"{request.id}: {ENDED}")
        if request.id in self._asking:
            return await asyncio.shield(self._asking[request.id].outcome)
        outcome: asyncio.Future[Outcome] = self._loop.create_future()
        self._asking[request.id] = Asking(outcome, on_pending or (lambda _: None))
        self.give(events.Asked(request))
        return await asyncio.shield(outcome)

    async def ended(self) -> None:
        """Wait until the node has stopped or failed (`failure` tells which)."""
        await self._ended.wait()

    # Turns --------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if self._started and not self._scheduled and not self._ended.is_set():
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Everything that waits, as of now."""
        began = time.monotonic_ns()
        self._scheduled = False
        if self._ended.is_set():
            return
        waiting, self._waiting = self._waiting, Waiting()
        try:
            self._give_all(waiting)
            if self._persists:
                self._carrier.flush()  # backups write while this member does
                self._keep_all()
            self._carrier.flush()
            self._clients.turned()
            self._arm()
        except DiskFailed as error:
            self.disk_failed(error)
        except Exception as error:  # whatever the core raises, nobody knows its state any more
            self._fail(error)
        self.stats.note(time.monotonic_ns() - began)

    def _give_all(self, waiting: Waiting) -> None:
        now = self.clock.read()
        if now >= self._wall_at:
            self._wall_at = now + WALL_EVERY_MS
            self.node.data.wall_offset = self.clock.wall() - now
            self.on_second()
        for event in in_turns(waiting.happened):
            self._step(event, now)
        if waiting.batches:
            self._step(events.Commanded(tuple(waiting.batches)), now)
        for session in waiting.gone:
            self._step(events.Disconnected(session), now)
        if waiting.continues:
            self._step(events.Continued(), now)
        if not (waiting.happened or waiting.batches or waiting.gone or waiting.continues):
            self._step(events.Woke(), now)

    def _step(self, event: events.Event, now: Millis) -> None:
        try:
            effects = self.node.step(event, now)
        except RemoteProtocolError as error:
            self._refuse(error.message)
            return
        if type(event) is events.Gathered:
            for message in self.node.refused:
                self._refuse(message)
        self._carry_out(effects)

    def _refuse(self, reason: str) -> None:
        self.stats.refused_messages += 1
        LOG.warning("a message was refused: %s", reason)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if type(effect) is Reply:
                self._reply(effect.session, effect.data)
            else:
                self._act[type(effect)](effect)

    def _keep_all(self) -> None:
        """Give this turn's records to the files, and tell the node what is kept already.

        Without files, memory is as stable as it gets.
        """
        while self._persists:
            persists, self._persists = self._persists, []
            kept = persists[-1].sequence if self._files is None else self._files.write(persists)
            if kept:
                self._step(events.Persisted(kept), self.clock.read())

    def _arm(self) -> None:
        """Have a turn when the node wants to be woken."""
        wake_at = None if self._ended.is_set() else self.node.wake_at
        if wake_at is None or (self._timer is not None and self._timer_at <= wake_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = wake_at
        now = self.clock.read()
        self._timer_due = max(wake_at, now + 1)
        self._timer = self._loop.call_later((self._timer_due - now) / 1_000, self._woken)

    def _woken(self) -> None:
        self._timer = None
        now, wake_at = self.clock.read(), self.node.wake_at
        self.stats.latest_ms = max(self.stats.latest_ms, now - self._timer_due)
        if wake_at is not None and now >= wake_at:
            self._schedule()
        else:
            self._arm()

    def _fail(self, error: Exception) -> None:
        LOG.critical("the core failed: %s", error, exc_info=error)
        self.failure = error
        self._end()

    def _end(self) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for request, asking in self._asking.items():
            if not asking.outcome.done():
                asking.outcome.set_result(Outcome("IllegalState", f"{request}: {ENDED}"))
        self._asking = {}

    # Effects ------------------------------------------------------------------------------------

    def _on_hang_up(self, effect: HangUp) -> None:
        self._clients.hang_up(effect.session)

    def _on_send(self, effect: Send) -> None:
        self._carrier.send(effect.to, self.node.origin, effect.message)

    def _on_continue(self, _: Continue) -> None:
        self._waiting.continues = True
        self._schedule()

    def _on_persist(self, effect: Persist) -> None:
        self._persists.append(effect)

    def _on_answer(self, effect: Answer) -> None:
        asking = self._asking.pop(effect.request, None)
        if asking is not None and not asking.outcome.done():
            asking.outcome.set_result(Outcome(effect.error, effect.message))

    def _on_pending(self, effect: Pending) -> None:
        asking = self._asking.get(effect.request)
        if asking is not None:
            asking.on_pending(effect.reason)

    def _on_notice(self, effect: Notice) -> None:
        for listener in self._listeners:
            try:
                listener(effect)
            except Exception:
                LOG.exception("a listener failed at the notice %s", effect.kind)

    def _on_stop(self, _: Stop) -> None:
        self._end()
