"""The files of a new cluster's members, written group by group of partitions, in any process.

Rules (`design/5`, "Restore"; `bases`)
--------------------------------------
* Whoever begins writes, for each member, identity, manifest and a log with nothing but what is
  about the cluster: view, term, table, which partitions are held.
* The data of a partition is in one base, so that groups of partitions can be written by themselves,
  at the same time. The number of a base follows from its first partition: nobody has to be asked.
* Whoever ends names all bases in the manifests. Before that no member could start with them and
  miss something, as they stand in a folder that is no member's; then that gets its name.
* Each partition begins a history of its own: versions of records stay, what comes is later.
* A base has about `SET_BYTES`, or one partition.

What can go wrong
-----------------
*Whoever writes ends early, or twice.* A base is written beside, under a name that nobody else has,
and renamed when it is whole. Of two that were made of the same partitions, either will do. What is
left over is named by no manifest: the member removes it when it starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from holdfast.core.data_messages import FragmentStand, Stand
from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    MutationsRecord,
    Persist,
    Record,
    RowsRecord,
)
from holdfast.core.messages import Fragment
from holdfast.core.stores.settings import Durability
from holdfast.core.stores.space import Space
from holdfast.core.table import Row
from holdfast.core.views import Member, View
from holdfast.ids import PartitionId, Version
from holdfast.storage import layout
from holdfast.storage.bases import SET_BYTES
from holdfast.storage.engine import FileEngine
from holdfast.storage.files import RealFiles, replace
from holdfast.storage.format import block, entries, manifest
from holdfast.storage.format.entries import FileEntry
from holdfast.storage.format.manifest import Base, Identity

SEGMENT: Final = 1
"""The only one: it has what is about the cluster."""
PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is the same for all members."""

    view: View
    rows: tuple[Row, ...]
    epoch: int
    """Of all data."""
    count: int
    """Of the last mutation that any of it may know."""
    copies: int
    """How many holders of a partition get its data."""
    members: tuple[Member, ...]
    """Those whose files are made here; the others make theirs themselves."""

    @property
    def wanted(self) -> frozenset[PartitionId]:
        """Partitions of which any of them gets data."""
        return frozenset(
            row.partition
            for row in self.rows
            if any(self.index_of(each, row.partition) is not None for each in self.members)
        )

    def index_of(self, member: Member, partition: PartitionId) -> int | None:
        """With which index its data is written; None if this member gets none."""
        index = self.rows[partition].index_of(member.id)
        return max(index, 1) if 0 <= index < self.copies else None

    def identity_of(self, member: Member) -> Identity:
        """Whose directory it will be."""
        return Identity(member.id, 0, len(self.rows), len(self.rows[0].replicas))


def begin(folder: Path, beginning: Beginning) -> None:
    """A directory for each member, without data."""
    for member in beginning.members:
        files = RealFiles(folder / member.name)
        try:
            _begin(files, member, beginning)
        finally:
            files.close()


def _begin(files: RealFiles, member: Member, beginning: Beginning) -> None:
    engine = FileEngine(
        files, beginning.identity_of(member), durability_of=lambda _: Durability.OFF
    )
    engine.recover()
    writer = engine.open(member.incarnation)
    epoch = Fragment(Version(beginning.epoch), 0)
    records: tuple[Record, ...] = (
        MembershipRecord(member.incarnation, beginning.view.term, beginning.view),
        RowsRecord(beginning.rows, fresh=True),
        *(
            FragmentRecord(row.partition, epoch)
            for row in beginning.rows
            if row.index_of(member.id) >= 0
        ),
    )
    persists = [Persist(number, each) for number, each in enumerate(records, 1)]
    writer.work([*engine.packer.bodies_of(persists)], 0.0)
    writer.close(0.0)


@dataclass(frozen=True, slots=True)
class Made:
    """The bases of some partitions."""

    bases: Mapping[str, tuple[Base, ...]]
    """By the member's name."""
    keys: int
    locks: int
    bytes: int


def write(folder: Path, beginning: Beginning, spaces: Mapping[PartitionId, Space]) -> Made:
    """Everything of these partitions, in the directories of those who get it."""
    outs = [Out(folder / each.name, each, beginning) for each in beginning.members]
    try:
        keys = locks = 0
        for partition in sorted(spaces):
            space = spaces[partition]
            keys += sum(len(fragment.records) for fragment in space)
            locks += sum(len(fragment.locks) for fragment in space)
            holders = {
                out: index
                for out in outs
                if (index := beginning.index_of(out.member, partition)) is not None
            }
            for out in holders:
                out.take(partition)
            for index in sorted(frozenset(holders.values())):
                for body, count in bodies(partition, space, index, beginning):
                    for out, wanted in holders.items():
                        if wanted == index:
                            out.add(body, count)
    finally:
        for out in outs:
            out.end()
    sizes = [each.size for out in outs for each in out.bases]
    return Made({out.member.name: tuple(out.bases) for out in outs}, keys, locks, sum(sizes))


def bodies(
    partition: PartitionId, space: Space, index: int, beginning: Beginning
) -> Iterator[tuple[bytes, int]]:
    """The records of a partition, as they stand in blocks; and how many each has."""
    epoch, count = beginning.epoch, beginning.count
    stand = Stand(epoch, count, (count,) * 6)
    for fragment in space:
        standing = FragmentStand(fragment.name, stand, ((epoch, count),))
        for piece in fragment.entries(PIECE_BYTES):
            record = MutationsRecord(
                partition, epoch, fragment.name, tuple(piece), standing, index, clean=True
            )
            yield entries.encode((entries.entry_of(record),)), 1


class Out:
    """The bases of one member, while they are written."""

    def __init__(self, directory: Path, member: Member, beginning: Beginning) -> None:
        self.member = member
        self.beginning = beginning
        self.bases: list[Base] = []
        self._files = RealFiles(directory, lock=False)
        self._open: OpenBase | None = None

    def take(self, partition: PartitionId) -> None:
        """What comes next is of this partition."""
        if self._open is not None and self._open.size >= SET_BYTES:
            self.end()
        if self._open is None:
            identity = self.beginning.identity_of(self.member)
            self._open = OpenBase(self._files, SEGMENT + 1 + partition, identity)
        self._open.partitions.append(partition)

    def add(self, body: bytes, count: int) -> None:
        """A block."""
        assert self._open is not None, "a partition is named before its blocks come"
        self._open.add(body, count)

    def end(self) -> None:
        """What is open is whole."""
        if self._open is not None:
            base, self._open = self._open.end(self.beginning.epoch), None
            self.bases.append(base)


class OpenBase:
    """One base, while it is written."""

    def __init__(self, files: RealFiles, number: int, identity: Identity) -> None:
        self.number = number
        self.size = 0
        self.partitions: list[PartitionId] = []
        self._files = files
        self._name = f"{layout.base_name(number)}.{uuid4().hex}"
        self._file = files.create(self._name)
        self._sequence = 0
        counts = (identity.partition_count, identity.replica_count)
        self.add(entries.encode((FileEntry("base", number, identity.member, *counts),)), 1)

    def add(self, body: bytes, count: int) -> None:
        """A block."""
        self._sequence += 1
        data = block.encode(body, count=count, sequence=self._sequence, stable=0, control=0)
        self._file.write(data)
        self.size += len(data)

    def end(self, epoch: int) -> Base:
        """Whole, and on stable storage."""
        self._file.sync()
        self._file.close()
        self._files.rename(self._name, layout.base_name(self.number))
        self._files.sync_folder(layout.DATA)
        partitions = tuple(self.partitions)
        return Base(self.number, SEGMENT, partitions, (epoch,) * len(partitions), self.size)


def end(folder: Path, beginning: Beginning, made: Sequence[Made]) -> None:
    """Name what was written: from now on a member can start with it."""
    for member in beginning.members:
        files = RealFiles(folder / member.name, lock=False)
        named = manifest.decode_manifest(files.read(layout.MANIFEST), layout.MANIFEST)
        bases = sorted(
            (base for each in made for base in each.bases[member.name]),
            key=lambda base: base.number,
        )
        following = SEGMENT + 1 + len(beginning.rows)
        named = msgspec.structs.replace(named, bases=tuple(bases), next=following)
        replace(files, layout.MANIFEST, manifest.encode(named))
