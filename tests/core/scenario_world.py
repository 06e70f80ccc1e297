"""A small deterministic world of real nodes: integer milliseconds, messages that can be looked at.

Nothing here is random. A message travels for 1 ms and then arrives, unless it is held, dropped, or
its way is cut; of what is due at the same time, messages come before timers, in the order in which
they were sent, and timers in the order of names. All members share one clock.

The world writes the trace: what arrives, what nodes do, who serves, who has the data. It also
watches that no two members ever acknowledge writes of one partition at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from holdfast.core import effects, events
from holdfast.core.config import LEVEL_MAX, Config
from holdfast.core.node import Node
from holdfast.core.serving import Serving
from holdfast.core.views import Kind, Member
from holdfast.ids import Address, MemberId, Millis, PartitionId
from tests.core import scenario_text as text
from tests.core.disk import Disk
from tests.core.scenario_parts import InFlight

TRAVEL_MS = 1
WORDS = {Serving.ALL: "", Serving.READS: " (reads)"}


class World:
    """Nodes, the messages between them, one clock, and the trace."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.now = Millis(0)
        self.zero = Millis(0)
        """Where the trace's clock begins."""
        self.nodes: dict[str, Node] = {}
        self.members: dict[str, Member] = {}
        self.died_at: dict[str, int] = {}
        self.disks: dict[str, Disk] = {}
        self.paused: dict[str, None] = {}
        self.in_flight: list[InFlight] = []
        self.groups: list[frozenset[str]] = []
        self.holds: list[Callable[[InFlight], bool]] = []
        self.drops: list[Callable[[InFlight], bool]] = []
        self.muted: tuple[type, ...] = text.NOISE
        self.verbose = False
        self.silent = False
        self.trace: list[str] = []
        self.busy_at = 0
        """When something worth a line happened last."""
        self._servers: dict[int, str] = {}

    # Trace ----------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        """Add a line to the trace."""
        self.busy_at = self.now
        if not self.silent:
            self.trace.append(f"{self.now - self.zero} {line}")

    def _say_message(self, one: InFlight, fate: str = "") -> None:
        if self.verbose or not isinstance(one.message, self.muted):
            self.say(f"{one}{fate}")

    def _watch_serving(self) -> None:
        for partition in range(min(self.config.partition_count, text.ROWS_SHOWN)):
            servers = self.servers(PartitionId(partition))
            if self._servers.get(partition, "nobody") != servers:
                self._servers[partition] = servers
                self.say(f"p{partition} is served by {servers}")

    def servers(self, partition: PartitionId) -> str:
        """Who would answer for a partition now."""
        levels = {name: node.serving(partition, self.now) for name, node in self.nodes.items()}
        serving = {name: level for name, level in levels.items() if level is not Serving.NONE}
        writing = [name for name, level in serving.items() if level is Serving.ALL]
        if len(writing) > 1 and not self.silent:
            raise AssertionError(f"{self.now - self.zero} ms: p{partition} is served by {serving}")
        return ", ".join(f"{name}{WORDS[level]}" for name, level in serving.items()) or "nobody"

    # Processes ------------------------------------------------------------------------------------

    def define(self, name: str, *, lite: bool, persistent: bool, group: str) -> None:
        """A member that may be started."""
        self.members[name] = Member(
            id=MemberId(name),
            incarnation=1,
            name=name,
            address=Address(name),
            group=group or name,
            kind=Kind.LITE if lite else Kind.DATA,
            persistent=persistent,
            level_max=LEVEL_MAX,
        )
        self.disks[name] = Disk()

    def start(self, name: str) -> None:
        """A process begins, with the files that it has."""
        member, disk = self.members[name], self.disks[name]
        image = disk.image() if member.persistent and disk.incarnation else None
        if image is not None:
            member = Member(
                id=member.id,
                incarnation=image.incarnation + 1,
                name=member.name,
                address=member.address,
                group=member.group,
                kind=member.kind,
                persistent=True,
                level_max=member.level_max,
            )
        self.nodes[name] = Node(self.config, member, Random(member.id))
        self.nodes = dict(sorted(self.nodes.items()))
        self.step(name, events.Started(image))
        self.step(name, events.Loaded())

    def kill(self, name: str) -> None:
        """A process ends; what it has sent is still under way."""
        self.members[name] = self.nodes.pop(name).me
        self.died_at[name] = self.now
        self.paused.pop(name, None)
        self._watch_serving()

    def step(self, name: str, event: events.Event) -> None:
        """Give a node an event, and carry out what it says."""
        node = self.nodes[name]
        waiting = [event]
        while waiting:
            had = frozenset(node.fragments)
            for effect in node.step(waiting.pop(0), self.now):
                waiting += self._carry_out(name, node, effect)
            self._watch_data(name, node, had)
        self._watch_serving()
        if node.stopped and name in self.nodes:
            self.kill(name)

    def _watch_data(self, name: str, node: Node, had: frozenset[PartitionId]) -> None:
        for partition in sorted(had.symmetric_difference(node.fragments)):
            word = "drops" if partition in had else "has"
            self.say(f"{name} {word} the data of p{partition}")

    def _carry_out(self, name: str, node: Node, effect: effects.Effect) -> list[events.Event]:
        """Do what the node asks; what it is to be told at once."""
        line = text.effect(effect)
        if line:
            self.say(f"{name} {line}")
        match effect:
            case effects.Send(to=to, message=message):
                self._send(InFlight(self.now + TRAVEL_MS, name, to, node.origin, message))
            case effects.Persist(sequence=sequence, record=record):
                self.disks[name].write(record)
                return [events.Persisted(sequence)]
            case effects.Continue():
                return [events.Continued()]
            case _:
                pass
        return []

    # Messages -------------------------------------------------------------------------------------

    def _send(self, one: InFlight) -> None:
        if any(drops(one) for drops in self.drops):
            self._say_message(one, " (dropped)")
            return
        one.held = any(holds(one) for holds in self.holds)
        if one.held:
            self._say_message(one, " (held)")
        self.in_flight.append(one)

    def _is_cut(self, one: InFlight) -> bool:
        places = [
            (one.sender in group, one.to in group)
            for group in self.groups
            if one.sender in group or one.to in group
        ]
        return len(places) > 1

    def deliver(self, one: InFlight) -> None:
        """A message arrives, or is lost on its way."""
        self.in_flight.remove(one)
        if one.to not in self.nodes or self._is_cut(one):
            if self.verbose:
                self._say_message(one, " (lost)")
            return
        self._say_message(one)
        self.step(one.to, events.Received(one.origin, one.message))

    # Time -----------------------------------------------------------------------------------------

    def _next_message(self) -> InFlight | None:
        ready = [one for one in self.in_flight if not one.held and one.to not in self.paused]
        return min(ready, key=lambda one: one.due, default=None)

    def _next_timer(self) -> tuple[int, str] | None:
        timers = [
            (max(node.wake_at, self.now), name)
            for name, node in self.nodes.items()
            if name not in self.paused and node.wake_at is not None
        ]
        return min(timers, default=None)

    def advance(self, until: int) -> None:
        """Let time pass: messages arrive and timers fire."""
        while True:
            one, timer = self._next_message(), self._next_timer()
            due = None if one is None else max(one.due, self.now)
            first = until if timer is None else min(until, timer[0])
            if one is not None and due is not None and due <= first:
                self.now = Millis(due)
                self.deliver(one)
                continue
            if timer is None or timer[0] > until:
                break
            self.now = Millis(timer[0])
            self._watch_serving()
            self.step(timer[1], events.Woke())
        self.now = Millis(until)
        self._watch_serving()

    def settle(self, quiet_ms: int, limit_ms: int) -> bool:
        """Let time pass until nothing worth a line has happened for a while."""
        limit = self.now + limit_ms
        self.busy_at = self.now
        while self.now < limit:
            if self.now >= self.busy_at + quiet_ms:
                return True
            self.advance(min(limit, self.busy_at + quiet_ms))
        return False

    def master(self) -> Node:
        """The node that leads."""
        leading = [node for node in self.nodes.values() if node.is_master]
        if len(leading) != 1:
            raise AssertionError(f"{len(leading)} masters")
        return leading[0]
