"""A member's disk: records in order, some of them not yet on stable storage.

A crash keeps what was stable and any *prefix* of the rest: a record may have reached the platter
although nobody was told, and the one after it in part. What is kept is folded into an `Image` at
the next start. Data is kept as bytes with checksums (`records`): what is half written at the end is
cut off; a record that is broken elsewhere makes the files useless (`design/5`).
"""

from __future__ import annotations

import random
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
from holdfast.sim import records


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
        records = {key: fragment.record_of(key) for key in fragment.records}
        locks = tuple((key, fragment.lock_record(key)) for key in fragment.locks)
        last = self.last
        return RecoveredFragment(last.partition, last.stand, last.index, last.clean, records, locks)


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
        "unsure",
        "urgent",
        "view",
    )

    def __init__(self) -> None:
        self.incarnation = 0
        self.promised = Term(0)
        self.view: View | None = None
        self.stable: StableTable | None = None
        self.busy_until = 0
        """When the last write that was begun will be stable; the disk writes in order."""
        self.urgent = False
        """Whether something that others rely on is not stable yet."""
        self.unsure = False
        """Whether the power was gone since data was written, and may not have been stable."""
        self._rows: dict[PartitionId, Row] = {}
        self._fragments: dict[PartitionId, Fragment] = {}
        self._data: dict[PartitionId, tuple[int, bytearray]] = {}
        """By partition the history that it is of, and its records."""
        self._pending: deque[Persist] = deque()
        self._written = False

    @property
    def pending(self) -> int:
        """Records that a crash may lose."""
        return len(self._pending)

    def write(self, effect: Persist) -> None:
        """Begin to write a record."""
        self._pending.append(effect)
        self.urgent |= not isinstance(effect.record, MutationsRecord)

    def sync(self, sequence: int) -> None:
        """All records up to this number are stable."""
        while self._pending and self._pending[0].sequence <= sequence:
            self._fold(self._pending.popleft().record)
        self.urgent = any(not isinstance(each.record, MutationsRecord) for each in self._pending)

    def sync_all(self) -> None:
        """Everything that was written is stable."""
        if self._pending:
            self.sync(self._pending[-1].sequence)

    def crash(self, kept: int, torn: float = 0.0) -> None:
        """The process is gone: this many of the pending records have made it, the rest not; and of
        the first one that has not, a part."""
        for _ in range(min(kept, len(self._pending))):
            self._fold(self._pending.popleft().record)
        record = self._pending[0].record if self._pending else None
        if isinstance(record, MutationsRecord):
            generation, log = self._data.get(record.partition, (None, bytearray()))
            if generation == record.generation:
                packed = records.pack(record)
                log += packed[: int(torn * len(packed))]
        self._pending.clear()
        self.busy_until, self.urgent = 0, False

    def rot(self, rng: random.Random) -> bool:
        """One bit of a stable record changes; not of a last one, which would look half written.
        Whether there is any such record."""
        logs = [log for _, log in self._data.values() if len(records.frames(log)) > 1]
        if not logs:
            return False
        log = rng.choice(logs)
        begin, end = rng.choice(records.frames(log)[:-1])
        bit = rng.randrange((begin + records.HEADER_BYTES) * 8, end * 8)
        log[bit // 8] ^= 1 << bit % 8
        return True

    def is_readable(self) -> bool:
        """Whether a process could start with these files."""
        try:
            self.image()
        except records.BrokenRecordError:
            return False
        return True

    def row(self, partition: PartitionId) -> Row | None:
        """The row that is stable."""
        return self._rows.get(partition)

    def is_writing(self, row: Row) -> bool:
        """Whether a row, or a newer one of its partition, is on its way to stable storage."""
        return any(
            each.partition == row.partition and each.version >= row.version
            for written in self._pending
            if isinstance(written.record, RowsRecord)
            for each in written.record.rows
        )

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
            data=tuple(self._recovered()),
            unsure=self.unsure,
        )

    def _recovered(self) -> Iterator[RecoveredFragment]:
        """Every log is read, be its partition still here or not: what is half written at its end
        must not stay there, or the next process would write behind it."""
        for partition in sorted(self._data):
            for written in _fold_data(self._data[partition][1]):
                if partition in self._fragments:
                    yield written.recovered()

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
                log = self._begin(record.partition, record.generation)
                log += records.pack(record)

    def _begin(self, partition: PartitionId, generation: int) -> bytearray:
        """Data of another history is over."""
        held = self._data.get(partition)
        if held is None or held[0] != generation:
            held = self._data[partition] = (generation, bytearray())
        return held[1]


def _fold_data(log: bytearray) -> Iterator[Written]:
    """What the records of a partition come to; what is half written at their end is cut off."""
    found, end = records.read(log)
    del log[end:]
    written: dict[bytes, Written] = {}
    for record in found:
        written.setdefault(record.name, Written(record)).add(record)
    yield from written.values()
