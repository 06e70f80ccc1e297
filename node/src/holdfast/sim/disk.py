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
    MutationsRecord,
    Persist,
    Record,
    RowsRecord,
    StableRecord,
)
from holdfast.core.events import Image, RecoveredFragment
from holdfast.core.messages import Fragment, StableTable
from holdfast.core.stores import fragment as fragments
from holdfast.core.stores.settings import NameSettings
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import PartitionId, Term


class Written:
    """One fragment on disk."""

    __slots__ = ("fragment", "last")

    def __init__(self, record: MutationsRecord) -> None:
        self.fragment = fragments.Fragment(record.name, NameSettings(), 0)
        self.last = record

    def add(self, record: MutationsRecord) -> None:
        """More mutations; one that does not fit was refused in memory as well."""
        for key, value in record.mutations:
            self.fragment.apply(key, value)
        self.last = record

    def recovered(self) -> RecoveredFragment:
        """What the next process finds."""
        fragment = self.fragment
        entries = [(key, fragment.record_of(key)) for key in fragment.records]
        entries += [(key, fragment.lock_record(key)) for key in fragment.locks]
        last = self.last
        return RecoveredFragment(last.partition, last.stand, last.index, last.clean, tuple(entries))


class Disk:
    """What was written, folded record by record as it becomes stable."""

    __slots__ = (
        "_data",
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
        self._data: dict[PartitionId, tuple[int, dict[bytes, Written]]] = {}
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
            data=tuple(
                written.recovered()
                for partition in sorted(self._data)
                for written in self._data[partition][1].values()
                if partition in self._fragments
            ),
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
                self._data.pop(partition, None)
            case FragmentRecord(partition=partition, fragment=fragment) if fragment is not None:
                self._fragments[partition] = fragment
                self._begin(partition, fragment.epoch)
            case MutationsRecord():
                self._begin(record.partition, record.generation)
                written = self._data[record.partition][1]
                written.setdefault(record.name, Written(record)).add(record)

    def _begin(self, partition: PartitionId, generation: int) -> None:
        """Data of another history is over."""
        if self._data.get(partition, (generation,))[0] != generation:
            del self._data[partition]
        self._data.setdefault(partition, (generation, {}))
