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
from holdfast.ids import PartitionId
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
        """What it had may be elsewhere."""
