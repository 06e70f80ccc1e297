"""The table while it is being worked on: rows of member numbers and the counts that steer the work.

Members are numbers here, in the order of their ids, so that comparing and counting cost little and
nothing depends on how strings hash. `VACANT` stands in an index without a member. The board keeps
three counts up to date with every change: copies per member, members per index, and it remembers
which copies were there to begin with (`origin`), because only the others cost a transfer.

Long walks are generators that yield every `SLICE` rows: the caller has a loop to serve.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from holdfast.core.cycles import cycle_through
from holdfast.ids import REPLICA_COUNT_MAX

VACANT: Final = -1

SLICE: Final = 32
"""Rows between two yields: 2 ms where rows are dealt anew among 100 members, less elsewhere."""

Steps = Generator[None, None, None]
"""Work that is done in slices."""


class Board:
    """Rows of `width` member numbers, with their counts."""

    def __init__(self, groups: Sequence[int], partition_count: int, width: int) -> None:
        self.groups = list(groups)
        """Group number by member number."""
        self.group_count = max(groups) + 1
        self.partition_count = partition_count
        self.width = width
        """Indexes that get a member: the replica count, or the member count when that is less."""
        self.distinct = min(self.group_count, width)
        """Groups that each row must reach."""
        self.rows: list[list[int]] = []
        self.origin: list[tuple[int, ...]] = []
        """The members that held each partition to begin with, by index."""
        self.loads = [0] * len(groups)
        """Copies by member."""
        self.counts = [[0] * len(groups) for _ in range(REPLICA_COUNT_MAX)]
        """Copies by index, then by member."""
        self.made = 0
        """Copies that are not in the origin: what the work has cost so far."""

    @property
    def members(self) -> range:
        """All member numbers."""
        return range(len(self.groups))

    def enter(self, held: tuple[int, ...]) -> None:
        """Add the next partition with the copies it has now. A row may be too wide at first."""
        row = [*held, *[VACANT] * (self.width - len(held))]
        for index, member in enumerate(row):
            self._count(index, member, 1)
        self.rows.append(row)
        self.origin.append(held)

    def narrow(self, partition: int) -> None:
        """Cut a row to the width. Copies that lie beyond fill its gaps first: they are there."""
        row = self.rows[partition]
        while len(row) > self.width:
            if VACANT in row[: self.width] and row[-1] != VACANT:
                self.swap(partition, row.index(VACANT), len(row) - 1)
            self.put(partition, len(row) - 1, VACANT)
            row.pop()

    def put(self, partition: int, index: int, member: int) -> None:
        """Let a member, or nobody, take an index."""
        row = self.rows[partition]
        self.made += self.is_new(partition, member) - self.is_new(partition, row[index])
        self._count(index, row[index], -1)
        row[index] = member
        self._count(index, member, 1)

    def _count(self, index: int, member: int, change: int) -> None:
        if member != VACANT:
            self.loads[member] += change
            self.counts[index][member] += change

    def swap(self, partition: int, index: int, other: int) -> None:
        """Exchange the roles of two members of a row. No copy moves."""
        row = self.rows[partition]
        first, second = row[index], row[other]
        self.put(partition, index, second)
        self.put(partition, other, first)

    def brought(self, partition: int, index: int, colder: int) -> list[int]:
        """The row if two members exchanged their roles; where groups must differ, whoever of the
        taker's group stood there goes to where the taker was, and the giver takes its place."""
        row = list(self.rows[partition])
        if index < self.distinct <= colder:
            group = self.groups[row[colder]]
            place = next(at for at in range(self.distinct) if self.groups[row[at]] == group)
            if place != index:
                row[place], row[colder] = row[colder], row[place]
                colder = place
        row[index], row[colder] = row[colder], row[index]
        return row

    def bring(self, partition: int, index: int, colder: int) -> None:
        """Exchange the roles of two members."""
        before = tuple(self.rows[partition])
        for at, member in enumerate(self.brought(partition, index, colder)):
            if member != before[at]:
                self.put(partition, at, member)

    def is_cyclic(self, partition: int, row: Sequence[int], index: int) -> bool:
        """Whether the member that the row would have at this index only changes places with others:
        nobody comes and nobody goes, so that the planner can't do it (`cycles`)."""
        origin = self.origin[partition]
        beyond = [VACANT] * (len(row) - len(origin))
        return bool(cycle_through((*origin, *beyond), row, index))

    def fits(self, partition: int, index: int, member: int) -> bool:
        """Whether a member of a row may have an index, as far as those at hotter ones matter: each
        of the first `distinct` is of another group."""
        if index >= self.distinct or self.distinct == self.width:
            return True
        row, groups = self.rows[partition], self.groups
        return all(groups[row[at]] != groups[member] for at in range(index))

    def is_new(self, partition: int, member: int) -> bool:
        """Whether the member's copy would have to be made."""
        return member != VACANT and member not in self.origin[partition]

    def allows(self, partition: int, leaving: int, entering: int) -> bool:
        """Whether a full row may exchange one member for another without losing a group."""
        row, groups = self.rows[partition], self.groups
        if entering in row:
            return False
        gained, lost = groups[entering], groups[leaving]
        if gained == lost:
            return True
        reached = [groups[member] for member in row]
        if self.distinct < self.width:  # each row reaches every group, some of them twice
            return reached.count(lost) > 1
        return gained not in reached

    def holders(self, *, touched: bool = False) -> Generator[None, None, list[list[int]]]:
        """The partitions of each member, in order; all of them, or those whose row was changed."""
        found: list[list[int]] = [[] for _ in self.members]
        for partition, row in enumerate(self.rows):
            if partition % SLICE == 0:
                yield
            if touched and tuple(row) == self.origin[partition]:
                continue
            for member in row:
                found[member].append(partition)
        return found
