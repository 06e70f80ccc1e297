"""How much faster migrations side by side are than one after another, when a link takes its time.

A world of the simulator: five members with the real core, a clean network in which every message
takes about a millisecond, no disks. A sixth member joins; what is measured is the time from the
first plan that gives it something to the end of the last migration. It is virtual time: it follows
from the messages that members wait for, and not from this machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from holdfast.core.config import Config
from holdfast.core.node import Node
from holdfast.core.rebalancing import Activity
from holdfast.core.views import Kind, Member
from holdfast.ids import Address
from holdfast.sim.network import Network, NetworkOptions
from holdfast.sim.process import Process, Site
from holdfast.sim.surroundings import Shell
from holdfast.sim.timeline import MILLISECOND, SECOND
from holdfast.sim.world import World

MEMBERS: Final = 5
PARTITIONS: Final = 271
LINK_US: Final = 1_000
LIMIT_US: Final = 120 * SECOND


class Five:
    """They have founded a cluster and are at rest."""

    def __init__(self, parallel: int) -> None:
        addresses = tuple(Address(f"m{number}:5701") for number in range(MEMBERS))
        self.machines: dict[str, Node] = {}
        self.world = World(
            rng=random.Random(1),
            config=Config(
                initial=addresses,
                partition_count=PARTITIONS,
                backup_count=1,
                migrations_parallel_max=parallel,
            ),
            network=Network(random.Random(1), NetworkOptions(delay_us=LINK_US)),
            shell=Shell(),
            make_machine=self._make,
        )
        self.processes = [self.add(number) for number in range(MEMBERS)]
        self._until(lambda: self._members() == MEMBERS and self._resting())

    def _make(self, config: Config, me: Member) -> Node:
        node = Node(config, me, random.Random(me.name))
        self.machines[me.name] = node
        return node

    def add(self, number: int) -> Process:
        """One more member."""
        name = f"m{number}"
        address = Address(f"{name}:5701")
        site = Site(number, name, address, name, Kind.DATA, persistent=False, level_max=3)
        self.world.add_site(site)
        return self.world.launch(site)

    def _until(self, holds: Callable[[], bool]) -> int:
        begun = self.world.now
        while not holds():
            if self.world.now - begun > LIMIT_US:
                raise TimeoutError("the simulated cluster does not come to rest")
            self.world.run_until(self.world.now + MILLISECOND)
        return self.world.now

    def _master(self) -> Node | None:
        return next((node for node in self.machines.values() if node.is_master), None)

    def _members(self) -> int:
        master = self._master()
        return 0 if master is None or master.view is None else len(master.view.members)

    def _resting(self) -> bool:
        master = self._master()
        return (
            master is not None
            and master.leadership.rebalancing.activity is Activity.IDLE
            and all(row.replicas[1] is not None for row in master.table.rows)
        )

    def join_seconds(self) -> float:
        """A sixth member joins and gets its share."""
        self.world.founded = True
        self.add(MEMBERS)
        begun = self._until(lambda: not self._resting())
        ended = self._until(self._resting)
        return (ended - begun) / SECOND


def seconds(parallel: int) -> float:
    """With so many migrations at a time for each member."""
    return Five(parallel).join_seconds()
