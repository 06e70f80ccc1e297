"""Applications: a few clients with real commands on few hot keys and many cold ones.

A client has one command under way. It asks who owns the key, sends the command there, and takes
down when it asked and what came back. A refusal that promises that nothing was done is not taken
down; an error that says that the outcome is unknown, a process that died and a reply that does not
come are taken down as *unknown*. The histories are judged at the end (`checkers.histories`).

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
from holdfast.ids import Address, PartitionId
from holdfast.sim.linearizability import UNKNOWN, Failure, Operation
from holdfast.sim.process import Process
from holdfast.sim.resp import ErrorReply, parse
from holdfast.sim.timeline import MILLISECOND
from holdfast.sim.world import World

PATIENCE_MS: Final = 12_000
HOP_US: Final = 300
NOT_DONE: Final = ("MOVED", "CLUSTERDOWN", "TRYAGAIN", "CROSSSLOT", "LOADING", "OOM")

Call = tuple[bytes, ...]


@dataclass(slots=True)
class Asked:
    """A command under way."""

    call: Call
    invoked: int
    process: Process
    session: int


@dataclass(slots=True, eq=False)
class Client:
    """One application."""

    name: str
    sessions: dict[Process, int] = field(default_factory=dict)
    asked: Asked | None = None
    known: Address | None = None
    """Where the last answer pointed to."""
    turn: int = 0


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
        self._last: list[Call] = []
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

    # Asking ---------------------------------------------------------------------------------------

    def _plan_next(self, client: Client) -> None:
        client.turn += 1
        gap = int(self.rng.expovariate(1.0) * self.think_ms * MILLISECOND) + HOP_US
        self.world.plan(gap, self._next, client, client.turn)

    def _next(self, client: Client, turn: int) -> None:
        if turn != client.turn or client.asked is not None:
            return
        if not self.stopped:
            self._ask(client, self._draw())
        elif self._last and client is self._clients[0]:
            self._ask(client, self._last[0])

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
        self.world.plan(HOP_US, self.world.give, process, Commanded(session, (call,)))
        self.world.plan(PATIENCE_MS * MILLISECOND, self._tired, client, asked)

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

    def _draw(self) -> Call:
        self._serial += 1
        fresh = b"v%d" % self._serial
        if self.rng.random() < 0.2:
            key = self._aged(b"cold", b"%d" % self.rng.randrange(200))
            return (b"SET", key, fresh) if self.rng.random() < 0.7 else (b"GET", key)
        hot = self.rng.choice(HOT)
        words = self.rng.choice(CALLS[hot[:1]])
        values = {b"*": fresh, b"?": b"m%d" % self.rng.randrange(4)}
        return (words[0], self._hot(hot), *(values.get(word, word) for word in words[1:]))

    # Answers --------------------------------------------------------------------------------------

    def stepped(self, process: Process, event: Event, effects: Sequence[Effect]) -> None:
        """Replies leave with the effects of a step."""
        del event, process
        for effect in effects:
            if isinstance(effect, Reply):
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
            self._note(client, asked, UNKNOWN, None)
        else:
            self._note(client, asked, Failure(code), self.world.now)

    def _note(self, client: Client, asked: Asked, reply: object, at: int | None) -> None:
        operation = Operation(client.name, asked.call, asked.invoked, at, reply)
        self.history.append(operation)
        if self._last and asked.call == self._last[0] and operation.is_known:
            self._last.pop(0)
        self.world.tell(str(operation))

    def _unknown(self, client: Client, asked: Asked) -> None:
        client.asked = None
        self._note(client, asked, UNKNOWN, None)
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
                self._unknown(client, asked)
            elif process in client.sessions:
                del self._by_session[client.sessions.pop(process)]

    def read_everything(self) -> None:
        """At the end: one client reads every hot key once more."""
        self._last = [(READ[hot[:1]], self._hot(hot), *RANGE.get(hot[:1], ())) for hot in HOT]
        self._plan_next(self._clients[0])

    @property
    def has_read_everything(self) -> bool:
        """Whether that is done."""
        return not self._last


HOT: Final = (b"s1", b"s2", b"n1", b"h1", b"t1", b"l1", b"s3")
"""A hot key's first letter says what it is."""

CALLS: Final[dict[bytes, tuple[Call, ...]]] = {
    b"s": ((b"SET", b"*"), (b"SET", b"*"), (b"GET",), (b"GET",), (b"DEL",), (b"GETSET", b"*")),
    b"n": ((b"INCR",), (b"INCR",), (b"GET",)),
    b"h": ((b"HSET", b"?", b"*"), (b"HGET", b"?"), (b"HDEL", b"?"), (b"HGETALL",)),
    b"t": ((b"SADD", b"?"), (b"SREM", b"?"), (b"SMEMBERS",), (b"SCARD",)),
    b"l": ((b"RPUSH", b"*"), (b"LPOP",), (b"LRANGE", b"0", b"-1"), (b"LLEN",)),
}
READ: Final[dict[bytes, bytes]] = {
    b"s": b"GET",
    b"n": b"GET",
    b"h": b"HGETALL",
    b"t": b"SMEMBERS",
    b"l": b"LRANGE",
}
RANGE: Final[dict[bytes, Call]] = {b"l": (b"0", b"-1")}
