"""Data: who serves a partition holds it, and no partition begins anew unless it was lost.

The data of a partition is one *lineage*, told by its epoch, from its first assignment on. A new
epoch is a partition that begins empty: right at first, and after a *partition lost*, and never
else. Lineages that were lost may still be held by members that come back; they serve nothing.
"""

from __future__ import annotations

from holdfast.core.effects import NoticeKind
from holdfast.core.views import View
from holdfast.ids import PartitionId
from holdfast.sim.checkers.ownership import Ownership
from holdfast.sim.checkers.watch import Change, partition_of, running
from holdfast.sim.process import Process
from holdfast.sim.world import World

Place = tuple[str, PartitionId]


class Lineage:
    """The epoch that is right for each partition."""

    def __init__(self, world: World, ownership: Ownership) -> None:
        self.world = world
        self._ownership = ownership
        self._right: dict[Place, int] = {}
        self._past: dict[Place, set[int]] = {}
        self._lost_by: dict[Place, Process] = {}
        """Who said last that the partition was lost."""

    def stepped(self, change: Change) -> None:
        """First what was lost, then what is held, then what is served."""
        view = change.view
        if view is None:
            return
        for notice in change.notices:
            if notice.kind is NoticeKind.PARTITION_LOST:
                self._lost(change, view, partition_of(notice.about))
        if change.fragments_before is not None:
            self._held(change, view)
        self._served(change.process)

    def _lost(self, change: Change, view: View, partition: PartitionId) -> None:
        before = next((old for old, _ in change.rows if old.partition == partition), None)
        here = running(self.world)
        for member in () if before is None else before.holders:
            process = here.get(member)
            if process is None or not view.has(member, process.node.me.incarnation):
                continue
            if partition in process.node.fragments:
                raise self.world.violation(
                    "lost only when nobody holds it",
                    f"{change.process.name} says that partition {partition} is lost, but"
                    f" {process.name} holds it",
                )
        place = (view.cluster, partition)
        self._lost_by[place] = change.process
        if place in self._right:
            self._past.setdefault(place, set()).add(self._right.pop(place))
        # whoever gets it may never take it, so the row says with what it begins again
        self._right[place] = change.process.node.table.row(partition).epoch

    def _held(self, change: Change, view: View) -> None:
        held = change.fragments_before or {}
        for partition, fragment in change.process.node.fragments.items():
            if held.get(partition) == fragment:
                continue
            place = (view.cluster, partition)
            if fragment.epoch in self._past.get(place, ()):
                continue
            if self._right.setdefault(place, fragment.epoch) != fragment.epoch:
                raise self.world.violation(
                    "no partition begins anew",
                    f"{change.process.name} begins partition {partition} anew with epoch"
                    f" {fragment.epoch}; it lives with epoch {self._right[place]}",
                )

    def _served(self, process: Process) -> None:
        fragments = process.node.fragments
        for place in self._ownership.claims(process):
            fragment = fragments.get(place[1])
            # after a loss, what is served first is what the partition begins again with
            right = self._right.setdefault(place, -1 if fragment is None else fragment.epoch)
            if fragment is None or fragment.epoch != right:
                raise self.world.violation(
                    "who serves holds the data",
                    f"{process.name} serves partition {place[1]} with {fragment}; it lives with"
                    f" epoch {right}",
                )

    def ended(self, process: Process) -> None:
        """Its data may be gone; what is right stays right. But a loss that it had not persisted was
        never told to anyone (the gate of the core holds that back): the data lives on."""
        if not process.site.persistent:
            return
        disk = process.site.disk
        image = None if disk is None else disk.image()
        epochs = {} if image is None else {row.partition: row.epoch for row in image.rows}
        for place in [place for place, who in self._lost_by.items() if who is process]:
            del self._lost_by[place]
            if self._right.get(place) != epochs.get(place[1]):
                self._right.pop(place, None)
                self._past.get(place, set()).discard(epochs.get(place[1], -1))
