"""A dumb judge of assignments: it counts, and shares out with fractions, and knows no algorithm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from holdfast.core.assignment import Candidate
from holdfast.ids import MemberId, Replicas

Table = Sequence[Replicas]


def members(count: int, groups: int | None = None) -> list[Candidate]:
    """m1, m2 and so on; round robin over the groups, or each in its own."""
    return [
        candidate(number, (number - 1) % groups + 1 if groups else number)
        for number in range(1, count + 1)
    ]


def candidate(number: int, group: int) -> Candidate:
    """One member."""
    return Candidate(MemberId(f"m{number}"), f"g{group}")


def vacant(partitions: int, replicas: int) -> list[Replicas]:
    """A table before the first assignment."""
    return [(None,) * replicas] * partitions


def check_legal(candidates: Sequence[Candidate], table: Table, replicas: int) -> None:
    """Each row is full, of distinct members, and reaches all groups that it can, one after another
    from the owner on: whatever the number of backups, their copies are apart."""
    group_of = {candidate.id: candidate.group for candidate in candidates}
    width = min(replicas, len(candidates))
    wanted = min(replicas, len(set(group_of.values())))
    for row in table:
        assert len(row) == replicas, row
        assert row[width:] == (None,) * (replicas - width), row
        holders = [member for member in row[:width] if member is not None]
        assert len(set(holders)) == width, row
        assert len({group_of[member] for member in holders[:wanted]}) == wanted, row


def loads(candidates: Sequence[Candidate], table: Table) -> list[int]:
    """Copies by member."""
    held = Counter(member for row in table for member in row)
    return [held[candidate.id] for candidate in candidates]


def at_index(candidates: Sequence[Candidate], table: Table, index: int) -> list[int]:
    """Copies by member at one index."""
    held = Counter(row[index] for row in table)
    return [held[candidate.id] for candidate in candidates]


def spread(counts: Sequence[int]) -> int:
    """Most less fewest."""
    return max(counts) - min(counts)


def shares(candidates: Sequence[Candidate], partitions: int, replicas: int) -> list[Fraction]:
    """The copies that each member should hold, as a fraction.

    Equal shares for all; a group that this gives more (or, with few groups, less) than one copy of
    each partition is put at exactly that, and the rest is shared among the others again.
    """
    sizes = Counter(candidate.group for candidate in candidates)
    width = min(replicas, len(candidates))
    few_groups = len(sizes) < width
    bound: list[str] = []
    while True:
        free = [group for group in sizes if group not in bound]
        copies = partitions * (width - len(bound))
        level = Fraction(copies, sum(sizes[group] for group in free)) if free else Fraction(0)
        if few_groups:
            bound_now = [group for group in free if sizes[group] * level < partitions]
        else:
            bound_now = [group for group in free if sizes[group] * level > partitions]
        if not bound_now:
            break
        bound += bound_now
    return [
        Fraction(partitions, sizes[candidate.group]) if candidate.group in bound else level
        for candidate in candidates
    ]


def least(candidates: Sequence[Candidate], current: Table, replicas: int) -> int:
    """The fewest copies that any assignment must make: see "Movement" in the theory."""
    group_of = {candidate.id: candidate.group for candidate in candidates}
    width = min(replicas, len(candidates))
    distinct = min(replicas, len(set(group_of.values())))
    for_rows = 0
    for row in current:
        alive = {member for member in row if member in group_of}
        for_rows += max(
            0, width - len(alive), distinct - len({group_of[member] for member in alive})
        )
    lacking = zip(
        shares(candidates, len(current), replicas), loads(candidates, current), strict=True
    )
    return max(for_rows, sum(max(0, int(share) - load) for share, load in lacking))


def made(current: Table, target: Table) -> int:
    """Pairs of partition and member that are new."""
    return sum(
        len(set(then) - set(now) - {None}) for now, then in zip(current, target, strict=True)
    )


def check_owners(candidates: Sequence[Candidate], table: Table, at_least: int = 1) -> None:
    """Owners differ by at most 1 (or as given), or 10 % of the mean."""
    owners = at_index(candidates, table, 0)
    assert spread(owners) <= max(at_least, len(table) / len(candidates) / 10), owners


def check_fresh(candidates: Sequence[Candidate], table: Table, replicas: int) -> None:
    """What a fresh assignment promises beyond being legal."""
    width = min(replicas, len(candidates))
    assert spread(at_index(candidates, table, 0)) <= 1
    held = loads(candidates, table)
    for load, share in zip(held, shares(candidates, len(table), replicas), strict=True):
        assert -1 < load - share < 1, (load, share)
    if len({candidate.group for candidate in candidates}) < width:
        return  # who is of a small group stands in front: that yields to no level
    backups = [at_index(candidates, table, index) for index in range(1, width)]
    for of_member in zip(*backups, strict=True):
        assert spread(of_member) <= 1, of_member
    if spread(held) <= 1:
        assert all(spread(counts) <= 1 for counts in backups)
