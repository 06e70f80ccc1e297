"""A member's disk: records in order, some of them not yet on stable storage.

A crash keeps what was stable and any *prefix* of the rest: a record may have reached the platter
although nobody was told. What is kept is folded into an `Image` at the next start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    Persist,
    Record,
    RowsRecord,
    StableRecord,
)
from holdfast.core.events import Image
from holdfast.core.messages import Fragment, StableTable
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import PartitionId, Term


class Disk:
    """What was written, folded record by record as it becomes stable."""

    __slots__ = (
        "_fragments",
        "_pending",
        "_rows",
        "_written",
        "busy_until",
        "incarnation",
        "promised",
        "stable",
        "view",
    )

    def __init__(self) -> None:
        self.incarnation = 0
        self.promised = Term(0)
        self.view: View | None = None
        self.stable: StableTable | None = None
        self.busy_until = 0
        """When the last write that was begun will be stable; the disk writes in order."""
        self._rows: dict[PartitionId, Row] = {}
        self._fragments: dict[PartitionId, Fragment] = {}
        self._pending: deque[Persist] = deque()
        self._written = False

    @property
    def pending(self) -> int:
        """Records that a crash may lose."""
        return len(self._pending)

    def write(self, effect: Persist) -> None:
        """Begin to write a record."""
        self._pending.append(effect)

    def sync(self, sequence: int) -> None:
        """All records up to this number are stable."""
        while self._pending and self._pending[0].sequence <= sequence:
            self._fold(self._pending.popleft().record)

    def crash(self, kept: int) -> None:
        """The process is gone: this many of the pending records have made it, the rest not."""
        for _ in range(min(kept, len(self._pending))):
            self._fold(self._pending.popleft().record)
        self._pending.clear()
        self.busy_until = 0

    def row(self, partition: PartitionId) -> Row | None:
        """The row that is stable."""
        return self._rows.get(partition)

    def fragment(self, partition: PartitionId) -> Fragment | None:
        """The data that is stable."""
        return self._fragments.get(partition)

    def image(self) -> Image | None:
        """What the next process finds; None when nothing was ever stable."""
        if not self._written:
            return None
        return Image(
            incarnation=self.incarnation,
            promised=self.promised,
            view=self.view,
            rows=tuple(self._rows[partition] for partition in sorted(self._rows)),
            stable=self.stable,
            fragments=tuple(self._folded_fragments()),
        )

    def _folded_fragments(self) -> Iterator[tuple[PartitionId, int, int]]:
        for partition in sorted(self._fragments):
            fragment = self._fragments[partition]
            yield partition, fragment.epoch, fragment.counter

    def _fold(self, record: Record) -> None:
        self._written = True
        match record:
            case MembershipRecord(incarnation=incarnation, promised=promised, view=view):
                self.incarnation, self.promised, self.view = incarnation, promised, view
            case RowsRecord(rows=rows, fresh=fresh):
                if fresh:
                    self._rows.clear()
                self._rows.update((row.partition, row) for row in rows)
            case StableRecord(stable=stable):
                self.stable = stable
            case FragmentRecord(partition=partition, fragment=None):
                self._fragments.pop(partition, None)
            case FragmentRecord(partition=partition, fragment=fragment) if fragment is not None:
                self._fragments[partition] = fragment
