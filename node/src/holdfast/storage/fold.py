"""The sum of all records: what a member has on disk, and the image that the next process gets.

Rules (`core.effects`, `core.stores.fragment`)
----------------------------------------------
* Records are applied in the order in which they were written.
* Data of a partition belongs to a generation. Records of another one end it: what was dropped, or
  rolled back, can't come back (`design/5`, "fenced by a record").
* A mutation that does not fit what is here was refused in memory as well.
* Data without a `FragmentRecord` is provisional: it is kept, for its record may still come, and is
  in no image.

Applying the same records again, from any earlier point of the log on, gives the same sum: a change
names the version that it changes, everything else replaces. So a base may be written while the log
goes on, and be followed by all of the log since it was begun (`bases`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

from holdfast.core.data_messages import Mutations
from holdfast.core.effects import FragmentRecord, MutationsRecord, Record
from holdfast.core.events import Image, RecoveredFragment
from holdfast.core.messages import Fragment, StableTable
from holdfast.core.stores import fragment as fragments
from holdfast.core.stores.settings import NameSettings
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import PartitionId, Term
from holdfast.storage.format.entries import (
    DROPPED,
    Entry,
    FragmentEntry,
    MembershipEntry,
    MutationsEntry,
    RowsEntry,
    StableEntry,
    entry_of,
)

SETTINGS: Final = NameSettings()
"""Of no name in particular: files have whatever was written."""


class Written:
    """One fragment, as the records have it."""

    __slots__ = ("damaged", "fragment", "last", "plain")

    def __init__(self, entry: MutationsEntry) -> None:
        self.fragment = fragments.Fragment(entry.name, SETTINGS, 0)
        self.last = entry
        self.plain = True
        """Whether there was nothing but strings."""
        self.damaged = False
        """Whether something that was written may be missing."""

    def add(self, entry: MutationsEntry) -> None:
        """More mutations."""
        self.last = entry
        if entry.plain:
            if len(entry.keys) == 1:
                self.fragment.records[entry.keys[0]] = entry.records[0]
            else:
                self.fragment.records.update(zip(entry.keys, entry.records, strict=True))
            return
        self.plain = False
        apply = self.fragment.apply
        for key, record in zip(entry.keys, entry.records, strict=True):
            apply(key, record)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Every key and lock, as whole records."""
        yield from self._records().items()
        yield from self._locks()

    def _records(self) -> dict[bytes, bytes]:
        """Of every key; the very ones that are here, where all are strings."""
        fragment = self.fragment
        if self.plain:
            return cast("dict[bytes, bytes]", fragment.records)
        return {key: fragment.record_of(key) for key in fragment.records}

    def _locks(self) -> Mutations:
        fragment = self.fragment
        return tuple((key, fragment.lock_record(key)) for key in fragment.locks)

    def recovered(self) -> RecoveredFragment:
        """What the next process finds, and takes from here."""
        last = self.last
        clean = last.clean and not self.damaged
        return RecoveredFragment(
            last.partition, last.standing, last.index, clean, self._records(), self._locks()
        )

    def record(self, mutations: Mutations) -> MutationsRecord:
        """A record that says where it stands."""
        last = self.last
        clean = last.clean and not self.damaged
        return MutationsRecord(
            last.partition,
            last.generation,
            last.name,
            mutations,
            last.standing,
            last.index,
            clean,
        )


class Control:
    """Everything but data: what was promised, and the tables."""

    __slots__ = ("incarnation", "promised", "rows", "stable", "view")

    def __init__(self) -> None:
        self.incarnation = 0
        self.promised = Term(0)
        self.view: View | None = None
        self.stable: StableTable | None = None
        self.rows: dict[PartitionId, Row] = {}

    def apply(self, entry: Entry) -> None:
        """Take an entry, if it is for me."""
        match entry:
            case MembershipEntry(incarnation=incarnation, promised=promised, view=view):
                self.incarnation, self.promised, self.view = incarnation, promised, view
            case RowsEntry(rows=rows, fresh=fresh):
                if fresh:
                    self.rows.clear()
                self.rows.update((row.partition, row) for row in rows)
            case StableEntry(stable=stable):
                self.stable = stable
            case _:
                pass

    @property
    def table(self) -> tuple[Row, ...]:
        """The rows, in order."""
        return tuple(self.rows[partition] for partition in sorted(self.rows))

    def copy(self) -> Control:
        """As it is now; everything in it is immutable."""
        copied = Control()
        copied.incarnation, copied.promised, copied.view = (
            self.incarnation,
            self.promised,
            self.view,
        )
        copied.stable, copied.rows = self.stable, dict(self.rows)
        return copied


class Data:
    """All partitions' data."""

    __slots__ = ("held", "written")

    def __init__(self) -> None:
        self.held: dict[PartitionId, Fragment] = {}
        self.written: dict[PartitionId, tuple[int, dict[bytes, Written]]] = {}

    def apply(self, entry: Entry) -> None:
        """Take an entry, if it is for me."""
        if type(entry) is MutationsEntry:
            self._mutate(entry)
        elif type(entry) is FragmentEntry:
            self._hold(entry)

    def _mutate(self, entry: MutationsEntry) -> None:
        partition = entry.partition
        kept = self.written.get(partition)
        if kept is None or kept[0] != entry.generation:
            kept = self.written[partition] = (entry.generation, {})
        written = kept[1].get(entry.name)
        if written is None:
            written = kept[1][entry.name] = Written(entry)
        written.add(entry)

    def _hold(self, entry: FragmentEntry) -> None:
        partition = entry.partition
        if entry.epoch == DROPPED:
            self.held.pop(partition, None)
            self.written.pop(partition, None)
            return
        self.held[partition] = Fragment(entry.epoch, entry.counter)
        if self.written.get(partition, (entry.epoch,))[0] != entry.epoch:
            del self.written[partition]

    def doubt(self, partitions: Iterable[PartitionId]) -> None:
        """Something of these may be missing."""
        for partition in partitions:
            for written in self.written.get(partition, (0, {}))[1].values():
                written.damaged = True

    def records(self, partition: PartitionId, size: int) -> Iterator[Record]:
        """Records that sum up to this partition, in pieces of about this size."""
        held = self.held.get(partition)
        if held is not None:
            yield FragmentRecord(partition, held)
        for written in tuple(self.written.get(partition, (0, {}))[1].values()):
            yield written.record(())
            for block in written.fragment.entries(size):
                yield written.record(tuple(block))

    def recovered(self) -> Iterator[RecoveredFragment]:
        """Every fragment that counts, in order; it is taken from here as it goes."""
        for partition in sorted(self.written):
            named = self.written.pop(partition)[1]
            if partition in self.held:
                for name in tuple(named):
                    yield named.pop(name).recovered()


class Fold:
    """The sum of all records."""

    __slots__ = ("control", "data", "written")

    def __init__(self) -> None:
        self.control = Control()
        self.data = Data()
        self.written = False
        """Whether there was any record."""

    def add(self, record: Record) -> None:
        """Take a record."""
        self.apply(entry_of(record))

    def apply(self, entry: Entry) -> None:
        """Take an entry."""
        self.written = True
        if type(entry) is MutationsEntry:  # most are: a log may have one for each record
            self.data.apply(entry)
        else:
            self.control.apply(entry)
            self.data.apply(entry)

    def image(self) -> Image | None:
        """What the next process finds; None when nothing was written. The data is moved into it."""
        if not self.written:
            return None
        control, held = self.control, self.data.held
        return Image(
            incarnation=control.incarnation,
            promised=control.promised,
            view=control.view,
            rows=control.table,
            stable=control.stable,
            fragments=tuple(
                (partition, held[partition].epoch, held[partition].counter)
                for partition in sorted(held)
            ),
            data=tuple(self.data.recovered()),
        )
