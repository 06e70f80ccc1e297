"""Small clusters of real nodes, one clock of whole milliseconds, a network that a test may cut.

A message takes one millisecond. What is sent to an address where no node runs is kept in `sent`
and goes nowhere, so a test can play that member itself (`inject`). Nothing here decides anything
about the protocol: it carries effects out, as a shell does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import TypeVar

from holdfast.core.config import Config
from holdfast.core.effects import (
    Answer,
    Continue,
    Effect,
    HangUp,
    Notice,
    NoticeKind,
    Pending,
    Persist,
    Reply,
    Send,
    Stop,
)
from holdfast.core.events import (
    Asked,
    Commanded,
    ConfirmedDead,
    Continued,
    Event,
    Loaded,
    Persisted,
    Received,
    Started,
    Woke,
)
from holdfast.core.messages import (
    Ask,
    Grant,
    Message,
    NewView,
    Origin,
    Request,
)
from holdfast.core.node import Node
from holdfast.core.serving import Serving
from holdfast.core.states import ClusterState
from holdfast.core.table import Row
from holdfast.core.views import Kind, Member, View
from holdfast.ids import Address, MemberId, Millis, PartitionId, Term, Version
from tests.core.disk import Disk

A, B, C, D, E = map(MemberId, "ABCDE")

Kept = TypeVar("Kept")
Drop = Callable[[MemberId, Address, Message], bool]
"""Whether to lose a message, by its sender, its addressee and itself."""


def address_of(member_id: MemberId) -> Address:
    """Where a member of these tests is reached."""
    return Address(f"{member_id.lower()}:1")


def member(
    member_id: MemberId,
    incarnation: int = 1,
    *,
    kind: Kind = Kind.DATA,
    persistent: bool = False,
    level_max: int = 3,
    recovered: bool = False,
) -> Member:
    """A stay, in a failure domain of its own."""
    return Member(
        id=member_id,
        incarnation=incarnation,
        name=f"name-{member_id}",
        address=address_of(member_id),
        group=f"zone-{member_id}",
        kind=kind,
        persistent=persistent,
        level_max=level_max,
        recovered=recovered,
    )


def origin_of(stay: Member) -> Origin:
    """What travels with a member's messages."""
    return Origin(stay.id, stay.incarnation, stay.address)


def view_of(
    *members: Member,
    term: int = 1,
    version: int = 1,
    master: MemberId | None = None,
    state: ClusterState = ClusterState.ACTIVE,
    level: int = 3,
) -> View:
    """A view; its master is the first member unless it is said."""
    return View(
        term=Term(term),
        version=Version(version),
        master=members[0].id if master is None else master,
        cluster="A.1",
        level=level,
        state=state,
        members=members,
    )


def request_of(
    ask: Ask,
    request_id: str = "q",
    *,
    state: ClusterState = ClusterState.ACTIVE,
    level: int = 3,
    wait_ms: int = 0,
) -> Request:
    """An administrator's request."""
    return Request(request_id, ask, state, level, Millis(wait_ms), 0)


def partition(number: int) -> PartitionId:
    """A number as a partition."""
    return PartitionId(number)


def row(
    number: int, version: int, *replicas: MemberId | None, reign: int = 0, epoch: int = 0
) -> Row:
    """A row of the table."""
    return Row(PartitionId(number), Version(version), replicas, Version(epoch), reign)


class Cluster:
    """Nodes, their disks, and the network between them."""

    def __init__(self, *ids: MemberId, **settings: object) -> None:
        self.ids = ids
        self.settings: dict[str, object] = {
            "initial": tuple(address_of(member_id) for member_id in ids),
            "partition_count": 6,
            "replica_count": 3,
            "forming_patience_ms": Millis(100),
            **settings,
        }
        self.now = 0
        self.nodes: dict[MemberId, Node] = {}
        self.disks: dict[MemberId, Disk] = {}
        self.unwritten: dict[MemberId, list[Persist]] = {}
        self.slow_disk = False
        """Whether records stay unwritten until the test calls `write`."""
        self.drops: list[Drop] = []
        self.sent: list[tuple[MemberId, Address, Message]] = []
        self.answers: dict[str, list[Answer]] = {}
        self.pendings: list[Pending] = []
        self.notices: list[tuple[MemberId, Notice]] = []
        self.stops: list[MemberId] = []
        self.replies: dict[int, bytes] = {}
        """What each client was told since its last command."""
        self.hung_up: list[int] = []
        """Clients whose connections were to be closed."""
        self._numbers = count()
        self._events: list[tuple[int, int, MemberId, Node | None, Event]] = []

    # Processes ------------------------------------------------------------------------------------

    def start(self, stay: Member, *, loaded: bool = True, **settings: object) -> Node:
        """Run a process; with files if the stay is persistent, on top of what they say."""
        config = Config(**{**self.settings, **settings})  # type: ignore[arg-type]
        disk = self.disks.setdefault(stay.id, Disk()) if stay.persistent else None
        node = Node(config, stay, Random(stay.id))
        self.nodes[stay.id] = node
        self.unwritten[stay.id] = []
        self.step(stay.id, Started(disk.image() if disk and disk.incarnation else None))
        if loaded:
            self.step(stay.id, Loaded())
        return node

    def start_all(self, *, persistent: bool = False) -> None:
        """Run everyone."""
        for member_id in self.ids:
            self.start(member(member_id, persistent=persistent))

    def crash(self, *ids: MemberId) -> None:
        """End processes without a word."""
        for member_id in ids:
            del self.nodes[member_id]

    def confirm_dead(self, dead: MemberId, incarnation: int = 1, ago: int = 0) -> None:
        """The arbiter tells everyone."""
        for member_id in tuple(self.nodes):
            self.step(member_id, ConfirmedDead(dead, incarnation, Millis(ago)))

    # Events ---------------------------------------------------------------------------------------

    def step(self, member_id: MemberId, event: Event) -> list[Effect]:
        """Give an event to a node now, and carry out what it says."""
        node = self.nodes[member_id]
        effects = node.step(event, Millis(self.now))
        check_gates(node, self.now)
        for effect in effects:
            self._carry_out(member_id, effect)
        return effects

    def _carry_out(self, member_id: MemberId, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._send(member_id, effect)
        elif isinstance(effect, Persist):
            self.unwritten[member_id].append(effect)
            if not self.slow_disk:
                self.write(member_id)
        elif isinstance(effect, Continue):
            self._later(0, member_id, Continued())
        elif isinstance(effect, Answer):
            self.answers.setdefault(effect.request, []).append(effect)
        elif isinstance(effect, Pending):
            self.pendings.append(effect)
        elif isinstance(effect, Notice):
            self.notices.append((member_id, effect))
        elif isinstance(effect, HangUp):
            self.hung_up.append(effect.session)
        elif isinstance(effect, Reply):
            told = self.replies.get(effect.session, b"")
            self.replies[effect.session] = told + effect.data
        else:
            assert isinstance(effect, Stop)
            self.stops.append(member_id)

    def write(self, member_id: MemberId) -> None:
        """Records reach the disk."""
        for effect in self.unwritten[member_id]:
            self.disks[member_id].write(effect.record)
            self._later(1, member_id, Persisted(effect.sequence))
        self.unwritten[member_id] = []

    def _send(self, sender: MemberId, effect: Send) -> None:
        self.sent.append((sender, effect.to, effect.message))
        if any(drop(sender, effect.to, effect.message) for drop in self.drops):
            return
        for member_id, node in self.nodes.items():
            if node.me.address == effect.to:
                origin = self.nodes[sender].origin
                self._later(1, member_id, Received(origin, effect.message))

    def _later(self, after: int, to: MemberId, event: Event) -> None:
        entry = (self.now + after, next(self._numbers), to, self.nodes.get(to), event)
        heapq.heappush(self._events, entry)

    def inject(self, origin: Member, to: MemberId, message: Message) -> list[Effect]:
        """A message arrives now, from whoever the test plays."""
        return self.step(to, Received(origin_of(origin), message))

    def grant(self, to: MemberId = B, *, sent_at: int | None = None, serve: bool = True) -> None:
        """A grants a lease, in the view of A and as of now."""
        view = self.nodes[to].view
        assert view is not None
        at = Millis(self.now if sent_at is None else sent_at)
        quiet = False
        grant = Grant(view.term, view.version, at, Millis(self.now), serve, quiet)
        self.inject(member(A), to, grant)

    def ask(self, member_id: MemberId, request: Request) -> None:
        """An administrator asks."""
        self.step(member_id, Asked(request))

    def command(self, member_id: MemberId, *commands: str, session: int = 1) -> None:
        """A client sends commands, each in words."""
        self.replies.pop(session, None)
        batch = [command.encode().split() for command in commands]
        self.step(member_id, Commanded(((session, batch),)))

    def reply(self, member_id: MemberId, *commands: str, session: int = 1) -> bytes:
        """What a client is told within some journeys, and as many writes to disk."""
        self.command(member_id, *commands, session=session)
        self.run(8)
        return self.replies.get(session, b"")

    # Time -----------------------------------------------------------------------------------------

    def run(self, span: int) -> None:
        """Let time pass."""
        self._run_to(self.now + span, lambda: False)

    def run_until(self, condition: Callable[[], bool], limit: int = 60_000) -> None:
        """Let time pass until something is so."""
        self._run_to(self.now + limit, condition)
        assert condition(), f"not so by {self.now} ms"

    def _run_to(self, end: int, condition: Callable[[], bool]) -> None:
        while not condition():
            wakes = [(node.wake_at, member_id) for member_id, node in self.nodes.items()]
            due = [(at, member_id) for at, member_id in wakes if at is not None]
            first = min(due, default=(Millis(end + 1), A))
            event_at = self._events[0][0] if self._events else end + 1
            at = min(first[0], event_at)
            if at > end:
                self.now = end
                return
            self.now = max(at, self.now)
            if event_at <= first[0]:
                self._give()
            else:
                self.step(first[1], Woke())

    def _give(self) -> None:
        _, _, member_id, node, event = heapq.heappop(self._events)
        if self.nodes.get(member_id) is node and node is not None:
            self.step(member_id, event)

    # Looking --------------------------------------------------------------------------------------

    @property
    def master(self) -> Node | None:
        """The master, if exactly one node says so."""
        masters = [node for node in self.nodes.values() if node.is_master]
        assert len(masters) <= 1
        return masters[0] if masters else None

    def settled(self) -> bool:
        """Whether all running nodes are members of one view with one table, and nothing moves."""
        nodes = list(self.nodes.values())
        master = self.master
        if master is None or master.view is None:
            return False
        if any(node.view != master.view or node.active_migrations() for node in nodes):
            return False
        if any(m.id not in self.nodes for m in master.view.members):
            return False
        if any(node.table.rows != master.table.rows for node in nodes) or master.running_load():
            return False
        return not master.leadership.execution.schedule.planned

    def settle(self, limit: int = 60_000) -> Node:
        """Run until `settled`, and for a second more."""
        self.run_until(self.settled, limit)
        self.run(1_000)
        self.run_until(self.settled, limit)
        assert self.master is not None
        return self.master

    def form(self, *, persistent: bool = False) -> Node:
        """Run everyone until there is a cluster whose partitions are all owned."""
        self.start_all(persistent=persistent)
        self.run_until(lambda: self.master is not None and self._everyone_in())
        return self.settle()

    def _everyone_in(self) -> bool:
        master = self.master
        assert master is not None
        assert master.view is not None
        listed = frozenset(m.id for m in master.view.members)
        owned = all(row.owner is not None for row in master.table.rows)
        return listed >= frozenset(self.nodes) and (owned or not master.view.candidates)

    def messages(self, kind: type[Kept], *, to: MemberId | None = None) -> list[Kept]:
        """What was sent of a kind."""
        return [
            message
            for _, address, message in self.sent
            if isinstance(message, kind) and (to is None or address == address_of(to))
        ]

    def noticed(self, kind: NoticeKind) -> list[Notice]:
        """What was noticed of a kind, by anyone."""
        return [notice for _, notice in self.notices if notice.kind is kind]


def check_gates(node: Node, now: int) -> None:
    """Whatever may be served without a look may be served."""
    if node.is_quiet(Commanded(()), Millis(now)):
        for partition in node.data.plane.opened:
            assert node.serving(partition, Millis(now)) is Serving.ALL


def follower(*, persistent: bool = False, kind: Kind = Kind.DATA, **settings: object) -> Cluster:
    """B runs and follows A, in a view of A, B and C; the test plays A and C."""
    cluster = Cluster(B, may_found=False, **settings)
    stay = member(B, persistent=persistent, kind=kind)
    cluster.start(stay)
    cluster.inject(member(A), B, NewView(view_of(member(A), stay, member(C))))
    cluster.run(10)
    return cluster


def cut(side: Iterable[MemberId]) -> Drop:
    """A network that is cut between these members and everyone else."""
    inside = frozenset(side)
    addresses = frozenset(address_of(member_id) for member_id in sorted(inside))
    return lambda sender, to, _: (sender in inside) is not (to in addresses)


def losing(*kinds: type) -> Drop:
    """A network that loses every message of these kinds."""
    return lambda _, __, message: isinstance(message, kinds)
