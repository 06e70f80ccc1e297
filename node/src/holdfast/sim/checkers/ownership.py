"""One owner at a time: at any instant, one member at most may acknowledge writes of a partition.

What a member may answer changes only by its steps, except that it *ends* with time. So it is
enough to look after each step at who else claims the same partition, by that one's own clock at
that very instant. A paused process does nothing; it is looked at after its next step.

Partitions that a member does not own in its table are looked at now and then only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.serving import Serving
from holdfast.ids import PartitionId
from holdfast.sim.checkers.watch import Change
from holdfast.sim.process import Process
from holdfast.sim.world import World

FULL_LOOK_STEPS: Final = 16

Place = tuple[str, PartitionId]


class Ownership:
    """Who claims what."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._claimers: dict[Place, dict[Process, None]] = {}
        self._claims: dict[Process, dict[Place, None]] = {}
        self._gained: Sequence[Place] = ()

    def claims(self, process: Process) -> tuple[Place, ...]:
        """What a process claimed at its last step."""
        return tuple(self._claims.get(process, ()))

    def claimed(self, process: Process, place: Place) -> bool:
        """Whether a process claimed this at its last step."""
        return place in self._claims.get(process, ())

    @property
    def gained(self) -> Sequence[Place]:
        """What whoever stepped last claims since that step."""
        return self._gained

    def stepped(self, change: Change) -> None:
        """Look at what the process claims now."""
        process = change.process
        before = self._claims.get(process, {})
        after = self._claimed_now(change, before)
        self._gained = [place for place in after if place not in before]
        for place in before:
            if place not in after:
                del self._claimers[place][process]
        for place in after:
            claimers = self._claimers.setdefault(place, {})
            claimers[process] = None
            if len(claimers) > 1:
                self._compare(process, place)
        self._claims[process] = after

    def _claimed_now(self, change: Change, before: dict[Place, None]) -> dict[Place, None]:
        process, cluster = change.process, change.cluster
        node = process.node
        if not cluster:
            return {}
        me, now = node.me.id, process.clock.read(self.world.now)
        full = process.steps % FULL_LOOK_STEPS == 0
        return {
            (cluster, row.partition): None
            for row in node.table.rows
            if (full or row.replicas[0] == me or (cluster, row.partition) in before)
            and node.serving(row.partition, now) is Serving.ALL
        }

    def _compare(self, process: Process, place: Place) -> None:
        _, partition = place
        for other in self._claimers[place]:
            if other is process or not other.awake:
                continue
            now = other.clock.read(self.world.now)
            if other.node.serving(partition, now) is Serving.ALL:
                raise self.world.violation(
                    "one owner at a time",
                    f"{process.name} and {other.name} may both acknowledge writes of partition"
                    f" {partition}",
                )

    def ended(self, process: Process) -> None:
        """It claims nothing any more."""
        for place in self._claims.pop(process, {}):
            del self._claimers[place][process]
