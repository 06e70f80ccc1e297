"""How far two partition tables are apart, in the units that cost something.

The dear unit is the copy: a member that holds a partition in the target and not in the current
table must receive all of its data. A change of owner costs a hand-over, any other change of index
costs the planner a step, and neither moves data between members that have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import TableError
from holdfast.ids import Replicas


@dataclass(frozen=True, slots=True)
class Distance:
    """What lies between a current table and a target."""

    partitions: int = 0
    """Partitions whose rows differ."""
    copies: int = 0
    """(partition, member) pairs that are new: copies to make."""
    owners: int = 0
    """Partitions whose owner differs, also where one of the two has none."""
    indexes: int = 0
    """Members that stay in a row at another index."""

    def __add__(self, other: Distance) -> Distance:
        return Distance(
            self.partitions + other.partitions,
            self.copies + other.copies,
            self.owners + other.owners,
            self.indexes + other.indexes,
        )


def distance(current: Sequence[Replicas], target: Sequence[Replicas]) -> Distance:
    """Compare two tables of the same partitions. A missing index is a vacant one."""
    if len(current) != len(target):
        raise TableError(f"tables of {len(current)} and {len(target)} partitions")
    pairs = zip(current, target, strict=True)
    return sum((_row_distance(now, then) for now, then in pairs), start=Distance())


def _row_distance(now: Replicas, then: Replicas) -> Distance:
    now, then = _without_tail(now), _without_tail(then)
    if now == then:
        return Distance()
    kept = [member for member in then if member is not None and member in now]
    return Distance(
        partitions=1,
        copies=sum(member is not None for member in then) - len(kept),
        owners=int(now[:1] != then[:1]),
        indexes=sum(now.index(member) != then.index(member) for member in kept),
    )


def _without_tail(row: Replicas) -> Replicas:
    """The row up to its last member."""
    while row and row[-1] is None:
        row = row[:-1]
    return row
