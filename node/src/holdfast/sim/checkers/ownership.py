"""One owner at a time: at any instant, one member at most may acknowledge writes of a partition.

What a member may answer changes only by its steps, except that it *ends* with time. So it is
enough to look after each step at who else claims the same partition, by that one's own clock at
that very instant. A paused process does nothing; it is looked at after its next step.

Partitions that a member does not own in its table are looked at now and then only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        self._owned: dict[Process, tuple[Place, ...]] = {}
        """The rows that name a process as owner, as long as neither rows nor view change."""

    def claims(self, process: Process) -> Iterable[Place]:
        """What a process claimed at its last step."""
        return self._claims.get(process, ())

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
        self._gained = ()
        if after != before:
            self._note(process, before, after)
        for place in after:
            if len(self._claimers[place]) > 1:
                self._compare(process, place)

    def _note(self, process: Process, before: dict[Place, None], after: dict[Place, None]) -> None:
        self._gained = [place for place in after if place not in before]
        for place in before:
            if place not in after:
                del self._claimers[place][process]
        for place in self._gained:
            self._claimers.setdefault(place, {})[process] = None
        self._claims[process] = after

    def _claimed_now(self, change: Change, before: dict[Place, None]) -> dict[Place, None]:
        process, cluster = change.process, change.cluster
        if not cluster:
            return {}
        node, now = process.node, change.now
        looked = self._owned.get(process)
        if looked is None or change.rows or change.view_changed or change.entered:
            me, rows = node.me.id, node.table.rows
            looked = tuple((cluster, row.partition) for row in rows if row.replicas[0] == me)
            self._owned[process] = looked
        if process.steps % FULL_LOOK_STEPS == 0 or len(before) > len(looked):
            looked = tuple((cluster, row.partition) for row in node.table.rows)
        if not looked:
            return {}
        serving = node.serving
        return {place: None for place in looked if serving(place[1], now) is Serving.ALL}

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
        self._owned.pop(process, None)
        for place in self._claims.pop(process, {}):
            del self._claimers[place][process]
