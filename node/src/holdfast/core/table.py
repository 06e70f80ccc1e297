"""The partition table: rows with versions, their stamp, and how an update is applied.

Rules (seed 001 §1, `design/3` §2)
----------------------------------
* A row is `(partition, version, replicas)`. Only the master changes rows; every change makes the
  row's version greater, so rows of one partition are totally ordered.
* A received row is applied when its version is greater than the one held; otherwise it is
  ignored. A table is therefore applied partly, partition by partition (seed 001 §1.2).
* The *stamp* is a hash of all versions in partition order (seed 001 §1.3). It tells equality and
  nothing else. It is computed when asked for after a change, so a batch costs one hash.
* A row numbers the ownerships of its partition (*reigns*). The numbers of a term begin where those
  of the term before end, so two masterships never give the same one to different owners.
* To *order* whole tables, at a recovery, the sum of versions is used (seed 001 §3.2).

States
------
A table is a value that its holder updates in place; `version -1` is a row never heard of, so that
any received row wins over it.

What can go wrong
-----------------
A member that was away may hold rows of a mastership that was replaced, with versions that the new
master used for other content. Such a member is no longer listed; when it joins again it `reset`s
its table and takes the master's, so versions of two histories are never compared (`membership`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import mmh3

from holdfast.errors import TableError
from holdfast.ids import (
    NO_INDEX,
    PARTITION_COUNT_MAX,
    REPLICA_COUNT_MAX,
    MemberId,
    PartitionId,
    Replicas,
    Term,
    Version,
)

STAMP_SEED: Final = 0x01000193
UNKNOWN: Final = Version(-1)
REIGN_BITS: Final = 10
"""So many changes of a partition's owner have numbers of their own in each term."""


@dataclass(frozen=True, slots=True)
class Row:
    """One partition of the table, as it is stored, sent and persisted."""

    partition: PartitionId
    version: Version
    replicas: Replicas
    epoch: Version = Version(0)
    """The reign with which the data of this partition began: its first assignment, or the last
    time that it was lost. Data of another epoch belongs to a history that was given up."""
    reign: int = 0
    """Number of the present ownership: greater than that of every owner before, also of one that
    only a mastership which was replaced knew of. What an owner writes carries it."""

    def changed(self, version: Version, replicas: Replicas, term: Term) -> Row:
        """The same data, in other places, by the word of this term's master."""
        reign = self.reign
        if replicas[0] != self.replicas[0]:
            reign = self._next_reign(term)
        return replace(self, version=version, replicas=replicas, reign=reign)

    def resumed(self, version: Version, term: Term) -> Row:
        """The same owner after a restart: what it wrote last may not be on its disk."""
        return replace(self, version=version, reign=self._next_reign(term))

    def _next_reign(self, term: Term) -> int:
        return max(self.reign + 1, term << REIGN_BITS)

    @property
    def owner(self) -> MemberId | None:
        """The member at index 0."""
        return self.replicas[0]

    @property
    def holders(self) -> tuple[MemberId, ...]:
        """The members of the row, hottest first."""
        return tuple(member for member in self.replicas if member is not None)

    def index_of(self, member: MemberId) -> int:
        """Replica index of a member, `NO_INDEX` when it has none."""
        return self.replicas.index(member) if member in self.replicas else NO_INDEX


def check_replicas(replicas: Replicas) -> None:
    """Refuse a row that can't be: wrong length, or a member twice."""
    if not 1 <= len(replicas) <= REPLICA_COUNT_MAX:
        raise TableError(f"a row has 1 to {REPLICA_COUNT_MAX} indexes, not {len(replicas)}")
    holders = [member for member in replicas if member is not None]
    if len(holders) != len(frozenset(holders)):
        raise TableError(f"a member stands twice in {replicas}")


def stamp_of(versions: Sequence[int]) -> int:
    """64-bit MurmurHash3 of the big-endian versions in partition order (seed 001 §1.3)."""
    buffer = struct.pack(f">{len(versions)}i", *versions)
    return mmh3.hash64(buffer, seed=STAMP_SEED, signed=True)[0]


class Table:
    """The partition table as one member knows it."""

    def __init__(self, partition_count: int, replica_count: int) -> None:
        if not 1 <= partition_count <= PARTITION_COUNT_MAX:
            raise TableError(f"partitions must be 1 to {PARTITION_COUNT_MAX}: {partition_count}")
        if not 1 <= replica_count <= REPLICA_COUNT_MAX:
            raise TableError(f"replicas must be 1 to {REPLICA_COUNT_MAX}: {replica_count}")
        self.partition_count = partition_count
        self.replica_count = replica_count
        self._stamp: int | None = None
        self._all: tuple[Row, ...] | None = None
        self.changes = 0
        """How often rows have changed, of whatever number."""
        self._rows: list[Row] = []
        self.reset()

    def reset(self) -> None:
        """Forget every row: whatever the master sends next is taken."""
        vacant: Replicas = (None,) * self.replica_count
        self._rows = [
            Row(PartitionId(partition), UNKNOWN, vacant)
            for partition in range(self.partition_count)
        ]
        self._note_change()

    def _note_change(self) -> None:
        self._stamp = self._all = None
        self.changes += 1

    def __len__(self) -> int:
        return self.partition_count

    def row(self, partition: PartitionId) -> Row:
        """The row of a partition; a number out of range is refused."""
        if not 0 <= partition < self.partition_count:
            raise TableError(f"partition {partition} is not in 0..{self.partition_count - 1}")
        return self._rows[partition]

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows in partition order: the same tuple, until one of them changes."""
        if self._all is None:
            self._all = tuple(self._rows)
        return self._all

    @property
    def versions(self) -> tuple[int, ...]:
        """All versions in partition order."""
        return tuple(row.version for row in self._rows)

    @property
    def stamp(self) -> int:
        """The stamp of this table, computed once after a change."""
        if self._stamp is None:
            self._stamp = stamp_of(self.versions)
        return self._stamp

    @property
    def version_sum(self) -> int:
        """Orders whole tables at a recovery (seed 001 §3.2)."""
        return sum(self.versions)

    def check(self, row: Row) -> None:
        """Refuse a row that does not fit this table."""
        self.row(row.partition)
        if len(row.replicas) != self.replica_count:
            raise TableError(
                f"partition {row.partition}: {len(row.replicas)} replicas in a table of"
                f" {self.replica_count}"
            )
        check_replicas(row.replicas)

    def set(self, row: Row) -> None:
        """The master's own change: it must raise the version."""
        self.check(row)
        held = self._rows[row.partition]
        if row.version <= held.version:
            raise TableError(
                f"partition {row.partition}: version {row.version} does not raise {held.version}"
            )
        self._rows[row.partition] = row
        self._note_change()

    def apply(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """Take the rows that are newer than ours; return those that were taken.

        All rows are checked before the first is taken, so a malformed update changes nothing.
        """
        received = tuple(rows)
        for row in received:
            self.check(row)
        taken = []
        for row in received:
            if row.version > self._rows[row.partition].version:
                self._rows[row.partition] = row
                taken.append(row)
        if taken:
            self._note_change()
        return tuple(taken)

    def newer_than(self, versions: Sequence[int]) -> tuple[Row, ...]:
        """The rows that someone with these versions lacks."""
        if len(versions) != self.partition_count:
            raise TableError(f"{len(versions)} versions for {self.partition_count} partitions")
        return tuple(
            row for row, held in zip(self._rows, versions, strict=True) if row.version > held
        )
