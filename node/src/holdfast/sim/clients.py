"""Applications: a few clients with real commands on few hot keys and many cold ones.

A client has one command under way. It asks who owns the key, sends the command there, and takes
down when it asked and what came back. A refusal that promises that nothing was done is not taken
down; an error that says that the outcome is unknown, a process that died and a reply that does not
come are taken down as *unknown*. The histories are judged at the end (`checkers.histories`).

What is to end by itself, a value or a lock, has its end in the history, too (`walls`). That it is
over is not taken down from an owner that may not write: it says so by its own clock and removes
nothing, so the next owner may say otherwise by its clock (`core.stores.expiry`).

A key ends with an age. When its partition has lost data that it may lose, the key is *retired*: its
history ends, and the clients go on with the next age.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.data.plane import slot_of
from holdfast.core.effects import Effect, Reply
from holdfast.core.events import Commanded, Disconnected, Event
from holdfast.core.serving import Serving
from holdfast.ids import Address, PartitionId
from holdfast.sim.commands import ENDING, HOT, READ, as_noted, draw_words, life_of
from holdfast.sim.linearizability import UNKNOWN, Failure, Operation
from holdfast.sim.process import Process
from holdfast.sim.resp import ErrorReply, parse
from holdfast.sim.timeline import MILLISECOND
from holdfast.sim.world import World

COLD: Final = 60
"""So many keys are written seldom, and read at the end."""
READ_AGAIN_MS: Final = 10
PATIENCE_MS: Final = 12_000
HOP_US: Final = 300
ENDS_UNSEEN: Final = (None, -2)
"""Replies that tell that something is over."""
NOT_DONE: Final = ("MOVED", "CLUSTERDOWN", "TRYAGAIN", "CROSSSLOT", "LOADING", "OOM")

Call = tuple[bytes, ...]


@dataclass(slots=True)
class Asked:
    """A command under way."""

    call: Call
    invoked: int
    process: Process
    session: int
    unwritable: bool = False
    """Whether whoever was asked could not write at some step since."""

    @property
    def may_end(self) -> bool:
        """Whether it is about something that may end by itself."""
        return self.call[1][:1] in ENDING


@dataclass(slots=True, eq=False)
class Client:
    """One application."""

    name: str
    sessions: dict[Process, int] = field(default_factory=dict)
    asked: Asked | None = None
    known: Address | None = None
    """Where the last answer pointed to."""
    turn: int = 0
    token: bytes = b"1"
    """Of the last lock that it got."""


class Clients:
    """All applications, and what they saw."""

    def __init__(self, world: World, seed: int, count: int, think_ms: int) -> None:
        self.world = world
        self.rng = random.Random(f"clients of {seed}")
        self.think_ms = think_ms
        self.history: list[Operation] = []
        self.stopped = False
        self.ages: dict[PartitionId, int] = {}
        self._clients = [Client(f"c{number}") for number in range(count)]
        self._by_session: dict[int, Client] = {}
        self._last_session = 0
        self._last: dict[Call, None] = {}
        """Reads that are left at the end."""
        self._serial = 0

    def start(self) -> None:
        """Begin to ask."""
        for client in self._clients:
            self._plan_next(client)

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return any(client.asked is not None for client in self._clients)

    def retire(self, partition: PartitionId) -> None:
        """Data of this partition was lost, as it may be: begin anew with other keys."""
        self.world.marks["partitions whose loss was excusable"] += 1
        for client in self._clients:
            asked = client.asked
            if asked is not None and self.partition_of(asked.call[1]) == partition:
                self._unknown(client, asked)
        self.ages[partition] = self.ages.get(partition, 0) + 1

    def partition_of(self, key: bytes) -> PartitionId:
        """Where a key lives."""
        return PartitionId(slot_of(key) * self.world.config.partition_count >> 14)

    def _aged(self, name: bytes, tag: bytes) -> bytes:
        """A key whose age does not move it elsewhere."""
        return b"%b:{%b}%d" % (name, tag, self.ages.get(self.partition_of(tag), 0))

    def _hot(self, hot: bytes) -> bytes:
        return self._aged(hot[:1], hot)

    def _cold(self, number: int) -> bytes:
        return self._aged(b"cold", b"%d" % number)

    # Asking ---------------------------------------------------------------------------------------

    def _plan_next(self, client: Client) -> None:
        client.turn += 1
        think_ms = READ_AGAIN_MS if self.stopped else self.think_ms
        gap = int(self.rng.expovariate(1.0) * think_ms * MILLISECOND) + HOP_US
        self.world.plan(gap, self._next, client, client.turn)

    def _next(self, client: Client, turn: int) -> None:
        if turn != client.turn or client.asked is not None:
            return
        if not self.stopped:
            self._ask(client, self._draw(client))
        else:
            self._read_next(client)

    def _ask(self, client: Client, call: Call) -> None:
        """Send this command to whoever is thought to own the key."""
        process = self._target(client, call[1])
        if process is None:
            self._plan_next(client)
            return
        session = client.sessions.get(process)
        if session is None:
            self._last_session += 1
            session = client.sessions[process] = self._last_session
            self._by_session[session] = client
        asked = client.asked = Asked(call, self.world.now, process, session)
        self.world.plan(HOP_US, self.world.give, process, Commanded(((session, [list(call)]),)))
        self.world.plan(PATIENCE_MS * MILLISECOND, self._tired, client, asked)

    def press(self, partition: PartitionId) -> None:
        """Whoever has nothing under way writes to this partition now."""
        places = [n for n in range(COLD) if self.partition_of(b"%d" % n) == partition]
        for client in self._clients:
            if places and client.asked is None and not self.stopped:
                client.turn += 1
                self._serial += 1
                key = self._cold(self.rng.choice(places))
                self._ask(client, (b"SET", key, b"v%d" % self._serial))

    def _target(self, client: Client, key: bytes) -> Process | None:
        processes = self.world.processes
        if not processes:
            return None
        by_address = {process.site.address: process for process in processes}
        known, client.known = client.known, None
        if known in by_address:
            return by_address[known]
        asked = self.rng.choice(processes)
        owner = asked.node.table.row(self.partition_of(key)).owner
        for process in processes:
            if process.member.id == owner and self.rng.random() < 0.95:
                return process
        return asked

    def _draw(self, client: Client) -> Call:
        self._serial += 1
        fresh = b"v%d" % self._serial
        if self.rng.random() < 0.2:
            key = self._cold(self.rng.randrange(COLD))
            return (b"SET", key, fresh) if self.rng.random() < 0.7 else (b"GET", key)
        hot = self.rng.choice(HOT)
        name, *words = draw_words(self.rng, hot, fresh, client.token)
        return (name, self._hot(hot), *words)

    # Answers --------------------------------------------------------------------------------------

    def stepped(self, process: Process, event: Event, effects: Sequence[Effect]) -> None:
        """Replies leave with the effects of a step."""
        del event
        for client in self._clients:
            asked = client.asked
            if asked is not None and asked.process is process and asked.may_end:
                partition = self.partition_of(asked.call[1])
                if process.node.serving(partition, process.stepped_at) is not Serving.ALL:
                    asked.unwritable = True
        for effect in effects:
            if type(effect) is Reply:
                self.world.plan(HOP_US, self._replied, effect.session, effect.data)

    def _replied(self, session: int, data: bytes) -> None:
        client = self._by_session.get(session)
        asked = None if client is None else client.asked
        if client is None or asked is None or asked.session != session:
            return
        client.asked = None
        reply = parse(data)
        if isinstance(reply, ErrorReply):
            self._refused(client, asked, reply)
        elif asked.unwritable and reply in ENDS_UNSEEN:
            self.world.marks["ends that nobody could write down"] += 1
            self._read_at_the_end(asked)
        else:
            self._note(client, asked, reply, self.world.now)
            self.world.marks["commands answered"] += 1
        self._plan_next(client)

    def _refused(self, client: Client, asked: Asked, reply: ErrorReply) -> None:
        code, _, rest = reply.text.partition(" ")
        self.world.marks[f"commands refused: {code}"] += 1
        if code == "MOVED":
            client.known = Address(rest.split()[1])
        if code in NOT_DONE:
            return
        if code == "UNKNOWNOUTCOME":
            self._note(client, asked, UNKNOWN, self.world.now)
        else:
            self._note(client, asked, Failure(code), self.world.now)

    def _note(self, client: Client, asked: Asked, reply: object, at: int | None) -> None:
        """What was done, or may have been done; `at` is None where no answer ever came."""
        known = reply is not UNKNOWN
        call = asked.call
        if known:
            self._read_at_the_end(asked)
        elif call[0] == b"HOLDFAST.LOCKED":
            return
        if call[0] == b"HOLDFAST.LOCK" and isinstance(reply, int):
            client.token = b"%d" % reply
            self.world.marks["locks given"] += 1
        self._serial += 1
        tag = b"end %d" % self._serial
        noted = as_noted(call, reply, asked.session, tag)
        self._tell(Operation(client.name, noted, asked.invoked, at if known else None, reply))
        life_ms = life_of(call)
        if life_ms is not None and (not known or self._was_written(reply)):
            self._end(asked, tag, life_ms, at)

    def _was_written(self, reply: object) -> bool:
        return reply == b"OK" or (isinstance(reply, int) and reply > 0)

    def _end(self, asked: Asked, tag: bytes, life_ms: int, at: int | None) -> None:
        """The end of what was written has its place in the history, too."""
        first, last = self.world.walls.window_us(asked.invoked, at, life_ms)
        reply = UNKNOWN if last is None else None
        self._tell(Operation("clock", (b"(END)", asked.call[1], tag), first, last, reply))

    def _tell(self, operation: Operation) -> None:
        self.history.append(operation)
        self.world.tell(str(operation))

    def _read_at_the_end(self, asked: Asked) -> None:
        self._last.pop(asked.call, None)

    def _unknown(self, client: Client, asked: Asked, at: int | None = None) -> None:
        """No answer will come; if anything was done, it was done until that instant."""
        client.asked = None
        self._note(client, asked, UNKNOWN, at)
        self._forget_session(client, asked.process)
        self._plan_next(client)

    def _forget_session(self, client: Client, process: Process) -> None:
        session = client.sessions.pop(process, None)
        if session is not None:
            del self._by_session[session]
            self.world.give(process, Disconnected(session))

    def _tired(self, client: Client, asked: Asked) -> None:
        if client.asked is asked:
            self.world.marks["commands without an answer"] += 1
            self._unknown(client, asked)

    def ended(self, process: Process) -> None:
        """What was under way there is of unknown outcome."""
        for client in self._clients:
            asked = client.asked
            if asked is not None and asked.process is process:
                self._unknown(client, asked, self.world.now)
            elif process in client.sessions:
                del self._by_session[client.sessions.pop(process)]

    def read_everything(self) -> None:
        """At the end: every hot key, and every other one that was written, is read once more."""
        reads = [(hot, READ[hot[:1]]) for hot in HOT]
        calls = [(name, self._hot(hot), *rest) for hot, (name, *rest) in reads]
        written = {operation.key for operation in self.history}
        calls += [(b"GET", key) for key in map(self._cold, range(COLD)) if key in written]
        self._last = dict.fromkeys(calls)
        for client in self._clients:
            self._plan_next(client)

    def _read_next(self, client: Client) -> None:
        """One of the reads that are left: another one for each client, as long as there are."""
        if self._last:
            left = tuple(self._last)
            self._ask(client, left[self._clients.index(client) % len(left)])

    @property
    def has_read_everything(self) -> bool:
        """Whether that is done."""
        return not self._last
