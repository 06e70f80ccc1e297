"""Records and their bytes: the body of a block is a msgpack array of entries.

Each entry is an array that begins with its number:

    0  file       [kind, number, member, partitions, replicas]   first in each file
    1  membership [incarnation, promised, view]
    2  rows       [rows, fresh]
    3  stable     [stable table, or nil]
    4  fragment   [partition, epoch, counter], epoch -1 when it is dropped
    5  mutations  [partition, generation, name, index, clean, stand, lineage, plain, keys, records]

Rules
-----
* A record says its partition and its name once for all of its mutations, so it finds its place by
  arithmetic (seed 003, the `prefix` of hot restart), and keys and records are two arrays, which go
  into a dictionary without a step for each.
* `plain` says that every record is a string: later ones replace earlier ones, and nothing else is
  to be known. It is worked out once, when it is written.
* Sums of records equal the records: who reads entries in order and applies them has what the member
  had (`storage.fold`).
* What can't be decoded is a `CorruptFile`, although its checksum is right: somebody else wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.core.data_messages import FragmentStand, Mutations, Stand
from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    MutationsRecord,
    Record,
    RowsRecord,
    StableRecord,
)
from holdfast.core.messages import Fragment, StableTable
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.errors import CorruptFile, TableError
from holdfast.ids import PartitionId, Term, Version
from holdfast.storage.format.flat import MUTATIONS, Flat, flattened

DROPPED: Final = -1


class FileEntry(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """What a file is: it can't be taken for another one."""

    kind: str
    number: int
    member: str
    partition_count: int
    replica_count: int


class MembershipEntry(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A `MembershipRecord`."""

    incarnation: int
    promised: Term
    view: View | None


class RowsEntry(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A `RowsRecord`."""

    rows: tuple[Row, ...]
    fresh: bool


class StableEntry(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A `StableRecord`."""

    stable: StableTable | None


class FragmentEntry(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A `FragmentRecord`."""

    partition: PartitionId
    epoch: int
    counter: int


class MutationsEntry(msgspec.Struct, array_like=True, tag=MUTATIONS, gc=False):
    """A `MutationsRecord`."""

    partition: PartitionId
    generation: int
    name: bytes
    index: int
    clean: bool
    stand: tuple[int, int, tuple[int, ...]]
    lineage: tuple[tuple[int, int], ...]
    plain: bool
    keys: Sequence[bytes]
    records: Sequence[bytes]

    @property
    def standing(self) -> FragmentStand:
        """Where the fragment stands after these."""
        return FragmentStand(self.name, Stand(*self.stand), self.lineage)

    @property
    def mutations(self) -> Mutations:
        """Keys and records, as the core has them."""
        return tuple(zip(self.keys, self.records, strict=True))


Entry = FileEntry | MembershipEntry | RowsEntry | StableEntry | FragmentEntry | MutationsEntry

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Entry])


def entry_of(record: Record) -> Entry:
    """The entry of a record."""
    match record:
        case MutationsRecord():
            return mutations_entry(record)
        case FragmentRecord(partition=partition, fragment=None):
            return FragmentEntry(partition, DROPPED, 0)
        case FragmentRecord(partition=partition, fragment=Fragment(epoch=epoch, counter=counter)):
            return FragmentEntry(partition, epoch, counter)
        case MembershipRecord(incarnation=incarnation, promised=promised, view=view):
            return MembershipEntry(incarnation, promised, view)
        case RowsRecord(rows=rows, fresh=fresh):
            return RowsEntry(rows, fresh)
        case StableRecord(stable=stable):
            return StableEntry(stable)
    raise AssertionError(f"no entry for {type(record).__name__}")  # pragma: no cover


def mutations_entry(record: MutationsRecord) -> MutationsEntry:
    """The entry of mutations."""
    flat, _ = flattened(record)
    return MutationsEntry(*flat[1:])  # type: ignore[arg-type]  # its own fields, in their order


def record_of(entry: Entry) -> Record:
    """The record of an entry; a `FileEntry` is none."""
    match entry:
        case MutationsEntry():
            return MutationsRecord(
                entry.partition,
                entry.generation,
                entry.name,
                entry.mutations,
                entry.standing,
                entry.index,
                entry.clean,
            )
        case FragmentEntry(partition=partition, epoch=epoch, counter=counter):
            dropped = epoch == DROPPED
            return FragmentRecord(partition, None if dropped else Fragment(Version(epoch), counter))
        case MembershipEntry(incarnation=incarnation, promised=promised, view=view):
            return MembershipRecord(incarnation, promised, view)
        case RowsEntry(rows=rows, fresh=fresh):
            return RowsRecord(rows, fresh)
        case StableEntry(stable=stable):
            return StableRecord(stable)
    raise AssertionError(f"{type(entry).__name__} is no record")


def is_control(entry: Entry) -> bool:
    """Whether other members may rely on it: all but data, which they have as well."""
    return not isinstance(entry, MutationsEntry)


def encode(entries: Iterable[Entry | Flat]) -> bytes:
    """The body of a block."""
    return _ENCODER.encode(list(entries))


def decode(body: bytes, file: str, offset: int) -> Sequence[Entry]:
    """The entries of a block that stands at this offset of a file."""
    try:
        entries = _DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, TableError) as error:
        raise CorruptFile(file, f"a malformed entry: {error}", offset=offset) from error
    for entry in entries:
        if type(entry) is MutationsEntry and not is_sound(entry):
            reason = f"mutations of partition {entry.partition} that can't be"
            raise CorruptFile(file, reason, offset=offset)
    return entries


def is_sound(entry: MutationsEntry) -> bool:
    """What the types of an entry don't say."""
    return len(entry.keys) == len(entry.records) and len(entry.stand[2]) > 0
