"""Data: who serves a partition holds it, and no partition begins anew unless it was lost.

The data of a partition is one *lineage*, told by its epoch, from when somebody first served it. A
new epoch is a partition that begins empty: right at first, and after a *partition lost*, and never
else. What was assigned and never served holds no write of anybody: a master that hears nothing of
it may begin the partition as if for the first time. Older lineages, that were lost or never served,
may still be held by members that come back; they serve nothing.
"""

from __future__ import annotations

from holdfast.core.effects import NoticeKind
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import PartitionId
from holdfast.sim.checkers.ownership import Ownership
from holdfast.sim.checkers.watch import Change, newest_before, partition_of, running
from holdfast.sim.process import Process
from holdfast.sim.world import World

Place = tuple[str, PartitionId]


class Lineage:
    """The epoch that is right for each partition."""

    def __init__(self, world: World, ownership: Ownership) -> None:
        self.world = world
        self._ownership = ownership
        self._right: dict[Place, int] = {}
        self._lost_by: dict[Place, Process] = {}
        """Who said last that the partition was lost."""
        self._untold: dict[Place, tuple[Process, int]] = {}
        """The epoch with which a partition begins again while its new owner does not know it. That
        one hears last (`core.publication`), so nothing was written in it yet: if the master is
        deposed, its successor may begin again, or go on with what it finds. A master that gives it
        to itself knows it first, and a file of its own tells nobody else of it."""
        self._before: dict[Place, int] = {}
        """The epoch that was lost so."""

    def stepped(self, change: Change) -> None:
        """First what was lost, then what is held, then what is served."""
        view = change.view
        if view is None:
            return
        for notice in change.notices:
            if notice.kind is NoticeKind.PARTITION_LOST:
                self._lost(change, view, partition_of(notice.about))
        if self._untold:
            self._told(change, view)
        if change.fragments_before is not None:
            self._held(change, view)
        self._served(change.process)

    def _lost(self, change: Change, view: View, partition: PartitionId) -> None:
        rows = (pair for pair in change.rows if pair[0].partition == partition)
        before = next((newest_before(self.world, change, *pair) for pair in rows), None)
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
        epoch = self._right.pop(place, 0 if before is None else before.epoch)
        if epoch and place not in self._untold:  # or else that epoch never began either
            self._before[place] = epoch
        # whoever gets it may never take it, so the row says with what it begins again
        self._right[place] = change.process.node.table.row(partition).epoch
        self._untold[place] = (change.process, self._right[place])

    def _told(self, change: Change, view: View) -> None:
        for _, row in change.rows:
            place = (view.cluster, row.partition)
            master, epoch = self._untold.get(place, (change.process, -1))
            mine = row.owner == change.process.node.me.id
            if master.site is not change.process.site and mine and row.epoch == epoch:
                self._begun(place)

    def _begun(self, place: Place) -> None:
        """Its owner may be written to from now on."""
        self._untold.pop(place, None)
        self._before.pop(place, None)

    def _held(self, change: Change, view: View) -> None:
        held = change.fragments_before or {}
        for partition, fragment in change.process.node.fragments.items():
            if held.get(partition) == fragment:
                continue
            place = (view.cluster, partition)
            if place in self._untold and self._untold[place][1] < fragment.epoch:
                del self._untold[place]
                self._right[place] = fragment.epoch
            if self._right.get(place, fragment.epoch) < fragment.epoch:
                raise self.world.violation(
                    "no partition begins anew",
                    f"{change.process.name} begins partition {partition} anew with epoch"
                    f" {fragment.epoch}; it lives with epoch {self._right[place]}",
                )

    def _served(self, process: Process) -> None:
        fragments = process.node.fragments
        for place in self._ownership.claims(process):
            fragment = fragments.get(place[1])
            if fragment is not None and place in self._untold:
                if fragment.epoch == self._before.get(place):
                    self._right[place] = fragment.epoch
                self._begun(place)
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
        never told to anyone (the gate of the core holds that back): the data lives on. And what a
        partition began with, before it stood on any disk and before anybody was told, never was."""
        self._forget_untold(process)
        disk = process.site.disk
        if disk is None:
            return
        image = disk.image()
        epochs = {} if image is None else {row.partition: row.epoch for row in image.rows}
        for place in [place for place, who in self._lost_by.items() if who is process]:
            del self._lost_by[place]
            if self._right.get(place) != epochs.get(place[1]):
                self._right.pop(place, None)

    def _forget_untold(self, process: Process) -> None:
        """Only this one knew the row."""
        view = process.node.view
        if view is None:
            return
        for row in process.node.table.rows:
            place = (view.cluster, row.partition)
            if self._right.get(place) == row.epoch and not self._is_known(row, process):
                del self._right[place]

    def _is_known(self, row: Row, but: Process) -> bool:
        """Whether anybody else, or any disk, has a row of that history."""
        for site in self.world.sites:
            other = site.process
            if other is not None and other is not but:
                if other.node.table.row(row.partition).epoch == row.epoch:
                    return True
            elif site.disk is not None:
                held = site.disk.row(row.partition)
                if held is not None and held.epoch == row.epoch:
                    return True
        return False
