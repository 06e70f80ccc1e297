"""A node of a few lines, and a world for it: the simulator without the core's decisions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.config import Config
from holdfast.core.effects import Effect
from holdfast.core.events import Event, Started, Woke
from holdfast.core.messages import Completed, Fragment, Migration, Origin, StableTable
from holdfast.core.serving import Serving
from holdfast.core.states import ClusterState
from holdfast.core.table import Row, Table
from holdfast.core.views import Kind, Member, View
from holdfast.ids import Address, MemberId, Millis, PartitionId, Replicas, Term, Version
from holdfast.sim.network import CLEAN, Network, NetworkOptions
from holdfast.sim.process import Process, Site
from holdfast.sim.surroundings import Shell
from holdfast.sim.world import World

PARTITIONS = 2
REPLICAS = 2


class FakeNode:
    """Does what it is told: tests set its state and the effects of its next steps."""

    def __init__(self, config: Config, me: Member) -> None:
        self.config = config
        self.me = me
        self.wake_at: Millis | None = None
        self.view: View | None = None
        self.table = Table(PARTITIONS, REPLICAS)
        self.fragments: dict[PartitionId, Fragment] = {}
        self.is_master = False
        self.mandate_until = Millis(2**60)
        self.stopped = False
        self.serves: dict[PartitionId, tuple[Millis, Millis]] = {}
        """From when until when it serves, on its own clock."""
        self.load: dict[MemberId, int] = {}
        self.active: list[Migration] = []
        self.stable: StableTable | None = None
        self.ends: dict[PartitionId, tuple[Completed, ...]] = {}
        self.keeps_back: list[PartitionId] = []
        self.script: list[Sequence[Effect]] = []
        self.events: list[tuple[Millis, Event]] = []

    @property
    def origin(self) -> Origin:
        return Origin(self.me.id, self.me.incarnation, self.me.address)

    def leads(self, now: Millis) -> bool:
        return self.is_master and now < self.mandate_until

    def step(self, event: Event, now: Millis) -> Sequence[Effect]:
        self.events.append((now, event))
        if isinstance(event, Woke):
            self.wake_at = None
        if isinstance(event, Started) or not self.script:
            return []
        return self.script.pop(0)

    def serving(self, partition: PartitionId, now: Millis) -> Serving:
        begin, end = self.serves.get(partition, (Millis(0), Millis(0)))
        return Serving.ALL if begin <= now < end else Serving.NONE

    def active_migrations(self) -> Sequence[Migration]:
        return self.active

    def running_load(self) -> dict[MemberId, int]:
        return self.load

    def withheld(self) -> list[PartitionId]:
        return self.keeps_back

    def known_ends(self) -> dict[PartitionId, tuple[Completed, ...]]:
        return self.ends

    def put(self, partition: int, version: int, *replicas: MemberId | None, epoch: int = 0) -> None:
        """Set a row, whatever it held."""
        row: Replicas = (*replicas, *(None,) * (REPLICAS - len(replicas)))
        held = Row(PartitionId(partition), Version(version), row, Version(epoch))
        self.table._rows[partition] = held
        self.table._note_change()


def make_world(
    count: int = 2,
    *,
    seed: int = 1,
    network: NetworkOptions = CLEAN,
    shell: Shell | None = None,
    persistent: bool = False,
    factory: type[FakeNode] = FakeNode,
) -> World:
    """A world with sites and nothing running."""
    rng = random.Random(seed)
    world = World(
        rng=rng,
        config=Config(partition_count=PARTITIONS, replica_count=REPLICAS),
        network=Network(rng, network),
        shell=shell or Shell(),
        make_machine=factory,
    )
    for number in range(count):
        world.add_site(make_site(number, persistent=persistent))
    return world


def make_site(number: int, *, persistent: bool = False) -> Site:
    """A place for a data member."""
    return Site(
        number=number,
        name=f"m{number:02}",
        address=Address(f"m{number:02}:1"),
        group=f"g{number}",
        kind=Kind.DATA,
        persistent=persistent,
        level_max=3,
    )


def start(world: World) -> list[Process]:
    """Start a process at each site."""
    return [world.launch(site) for site in world.sites]


def fake(process: Process) -> FakeNode:
    """The fake behind a process."""
    node = process.node
    assert isinstance(node, FakeNode)
    return node


def view_of(processes: Sequence[Process], *, version: int = 1, term: int = 1) -> View:
    """A view that lists these, led by the first."""
    members = tuple(process.node.me for process in processes)
    return View(Term(term), Version(version), members[0].id, "c", 3, ClusterState.ACTIVE, members)


def install(processes: Sequence[Process], view: View | None = None) -> View:
    """Give all of them a view, the same object for none."""
    given = view or view_of(processes)
    for process in processes:
        fake(process).view = replace(given)
    return given


def wake(world: World, process: Process) -> None:
    """One step, in which nothing happens but what the script says."""
    world.give(process, Woke())
