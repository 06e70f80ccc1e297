"""One seed: from its options to a verdict.

Two phases. *Safety*: anything may go wrong, and every invariant must hold after every step.
*Liveness*: everything is healed, the state is asked back to ACTIVE, and the cluster must come to
rest within a bound, and stay there. A seed fails with the first invariant that doesn't hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.core.config import Config
from holdfast.core.messages import Ask
from holdfast.core.node import Node
from holdfast.core.states import ClusterState
from holdfast.core.views import Kind, Member
from holdfast.errors import InvariantViolated
from holdfast.sim import bugs
from holdfast.sim.aim import Aim
from holdfast.sim.checkers.everything import checkers_of
from holdfast.sim.checkers.histories import judge
from holdfast.sim.checkers.quiet import unsettled
from holdfast.sim.checkers.replicas import unequal
from holdfast.sim.checkers.requests import Requests
from holdfast.sim.checkers.survival import Survival
from holdfast.sim.checkers.watch import Watch
from holdfast.sim.clients import Clients
from holdfast.sim.faults import Faults
from holdfast.sim.followers import Followers
from holdfast.sim.machine import MachineFactory
from holdfast.sim.network import Network
from holdfast.sim.options import Options, draw_options
from holdfast.sim.story import Story
from holdfast.sim.timeline import MILLISECOND, SECOND
from holdfast.sim.walls import Walls
from holdfast.sim.workload import Workload, kind_of
from holdfast.sim.world import World

SETTLE_MS: Final = 60_000
"""How long a healed cluster may take to come to rest, besides the waits that its settings ask."""
READ_MS: Final = 60_000
"""How long a cluster at rest may take to answer a read of every key."""
POLL_MS: Final = 500
CALM_POLLS: Final = 4
"""At so many polls in a row it must be at rest."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold."""

    invariant: str
    message: str
    story: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one seed."""

    seed: int
    options: tuple[tuple[str, str], ...]
    digest: str
    steps: int
    virtual_ms: int
    marks: dict[str, int]
    violation: Violation | None


def make_node(config: Config, me: Member) -> Node:
    """A member of the grid, with chances of its own."""
    return Node(config, me, random.Random(f"{me.id} {me.incarnation}"))


class Run:
    """Everything that belongs to one seed."""

    def __init__(
        self,
        seed: int,
        *,
        make_machine: MachineFactory = make_node,
        listener: Callable[[str], None] | None = None,
        tune: Callable[[Options], Options] | None = None,
    ) -> None:
        rng = random.Random(seed)
        options = draw_options(seed, rng)
        self.options = options if tune is None else tune(options)
        self.world = World(
            rng=rng,
            config=self.options.config,
            network=Network(rng, self.options.network),
            shell=self.options.shell,
            make_machine=make_machine,
            story=Story(listener),
            walls=Walls(seed, self.options.wall_skew_ms),
        )
        self.requests = Requests(self.world)
        self.faults = Faults(self.world, self.options)
        self.workload = Workload(self.world, self.options, self.requests.asked)
        self.clients = Clients(self.world, seed, self.options.clients, self.options.client_think_ms)
        aim_gap_ms = self.options.aim_gap_ms if self.options.clients else 0
        self.aim = Aim(self.world, self.faults, self.clients, seed, aim_gap_ms)
        checkers = checkers_of(self.world, self.requests)
        if self.options.clients:
            checkers = (*checkers, Survival(self.world, self.clients.retire))
        self.followers = Followers(self.world, seed)
        watch = Watch(self.world, checkers)
        self.world.observers = [watch, self.faults, self.clients, self.followers]
        self._activation = ""

    def verdict(self) -> Verdict:
        """Live through both phases."""
        violation = None
        try:
            self._safety()
            self._liveness()
            self._histories()
        except InvariantViolated as error:
            violation = Violation(error.invariant, error.message, error.story)
        return Verdict(
            seed=self.options.seed,
            options=self.options.table(),
            digest=self.world.digest,
            steps=self.world.steps,
            virtual_ms=self.world.now // MILLISECOND,
            marks=dict(self.world.marks),
            violation=violation,
        )

    def _safety(self) -> None:
        world, spread = self.world, self.options.start_spread_ms
        for site in self.options.sites:
            world.add_site(site)
        for site in self.options.sites:
            world.plan(int(world.rng.random() * spread) * MILLISECOND, world.launch, site)
        world.run_until(spread * MILLISECOND)
        self.faults.start()
        self.workload.start()
        self.clients.start()
        self.aim.start()
        if self.options.clients:
            self.followers.start()
        world.run_until(world.now + self.options.safety_ms * MILLISECOND)

    # Liveness ------------------------------------------------------------------------------------

    def _liveness(self) -> None:
        """Heal, then wait for rest."""
        self.workload.stopped = True
        self.clients.stopped = self.followers.stopped = True
        self.faults.heal()
        self._keep_data()
        healed = self.world.now
        bound = healed + self._bound_ms() * MILLISECOND
        calm, reasons = 0, ["nothing was looked at"]
        while calm < CALM_POLLS and self.world.now < bound:
            self.world.run_until(self.world.now + POLL_MS * MILLISECOND)
            self._activate()
            reasons = [*unsettled(self.world, self.requests), *unequal(self.world)]
            calm = 0 if reasons else calm + 1
        if calm < CALM_POLLS:
            waited = (self.world.now - healed) // SECOND
            raise self.world.violation(
                "a healed cluster comes to rest",
                f"{waited} s after everything was healed: " + "; ".join(reasons),
            )
        self.world.marks["seconds to rest"] += (self.world.now - healed) // SECOND

    def _histories(self) -> None:
        """Read every key once more; then what all clients saw must have an order."""
        clients, world = self.clients, self.world
        if not self.options.clients:
            return
        clients.read_everything()
        bound = world.now + READ_MS * MILLISECOND
        while not clients.has_read_everything and world.now < bound:
            world.run_until(world.now + POLL_MS * MILLISECOND)
        if not clients.has_read_everything:
            raise world.violation("a cluster at rest answers", "a key can't be read")
        judge(world, clients)

    def _bound_ms(self) -> int:
        """The settings ask for some waits before anything may be done."""
        config = self.options.config
        waits = (config.rejoin_grace_ms, config.migration_timeout_ms, config.change_lock_ms)
        return SETTLE_MS + sum(waits) + 2 * config.validation_timeout_ms

    def _keep_data(self) -> None:
        """A cluster needs a data member; if all were lost, a new one comes."""
        if not any(kind_of(process) is Kind.DATA for process in self.world.processes):
            self.world.launch(self.workload.add_site(Kind.DATA))

    def _activate(self) -> None:
        """Ask the state back to ACTIVE until it is."""
        if self.requests.is_open(self._activation):
            return
        for process in self.world.processes:
            view = process.node.view
            if process.node.is_master and view is not None:
                if view.state is not ClusterState.ACTIVE and not view.recovering:
                    self._activation = self.workload.ask(process, Ask.STATE, wait_ms=10_000)
                return


def run_seed(
    seed: int, bug: str | None = None, *, listener: Callable[[str], None] | None = None
) -> Verdict:
    """Run one seed, with a deliberate fault of the core, and in its mix, if one is named."""
    with bugs.active(bug):
        return Run(seed, listener=listener, tune=bugs.mix_of(bug)).verdict()
