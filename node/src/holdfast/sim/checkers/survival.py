"""Which losses are announced: only what a member says may be lost may be missing afterwards.

An acknowledged write is on its owner and on the synchronous backups of the row, and whoever leads
next is one of these. Where none is left, the core says so: it declares the partition *lost*, or its
new owner announces that *writes may be lost*; or the whole cluster is gone, and another is founded.
Then the keys of that partition are retired (`clients`). Whatever else is missing is a violation:
the histories show it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.effects import NoticeKind
from holdfast.core.node import Node
from holdfast.core.table import Row
from holdfast.ids import MemberId, PartitionId
from holdfast.sim.checkers.watch import Change, partition_of
from holdfast.sim.process import Process
from holdfast.sim.world import World

ANNOUNCED: Final = (NoticeKind.PARTITION_LOST, NoticeKind.WRITES_LOST)


class Survival:
    """Watches what is announced."""

    def __init__(self, world: World, retire: Callable[[PartitionId], None]) -> None:
        self.world = world
        self._retire = retire

    def stepped(self, change: Change) -> None:
        """Take a member at its word."""
        for notice in change.notices:
            if notice.kind in ANNOUNCED:
                self._retire(partition_of(notice.about))
            elif notice.kind is NoticeKind.FOUNDED:
                for partition in range(self.world.config.partition_count):
                    self._retire(PartitionId(partition))

    def ended(self, process: Process) -> None:
        """Nobody may have known of the newest row but this one, and then nobody can tell what was
        lost with it: it was the last that had everything, and no disk of it is left."""
        if process.site.disk is not None or not isinstance(process.node, Node):
            return
        for partition in process.node.data.holdings.here:
            newest = self._newest(partition, process)
            if self._has_all(process, newest) and not self._is_elsewhere(process, newest):
                self._retire(partition)

    def _newest(self, partition: PartitionId, also: Process) -> Row:
        known = [also, *self.world.processes]
        return max((each.node.table.row(partition) for each in known), key=lambda row: row.version)

    def _has_all(self, process: Process, newest: Row) -> bool:
        """By the newest row it holds what was acknowledged, and nothing is missing."""
        assert isinstance(process.node, Node)
        holding = process.node.data.holdings.get(newest.partition)
        if holding is None or process.member.id not in self._promised(newest):
            return False
        return holding.reign == newest.reign or (holding.index > 0 and not holding.lacking())

    def _promised(self, row: Row) -> tuple[MemberId | None, ...]:
        return row.replicas[: self.world.config.unnamed.backups + 1]

    def _is_elsewhere(self, process: Process, newest: Row) -> bool:
        """Another one that runs has it, or a disk whose process will come back."""
        for other in self.world.processes:
            if other is not process and self._has_all(other, newest):
                return True
        return any(
            site.process is None and site.disk is not None and site.member in self._promised(newest)
            for site in self.world.sites
        )
