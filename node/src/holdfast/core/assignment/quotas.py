"""How much each member should hold: the shares that the groups allow, and the least that must move.

Copies are poured like water. All members rise together until a group meets its bound:

* as many groups as replicas, or more: a group holds at most one copy of a partition, so at most P;
* fewer groups than replicas: a group holds at least one copy of each partition, so at least P, and
  at most P for each of its members.

Inside a group the copies are level. With groups of one size no bound is met, and every member
holds `floor` or `ceil` of P * width / members.

Where a share is not a whole number, the members that hold most keep the odd copies: rounding then
never moves anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Sequence

from holdfast.core.assignment.board import SLICE, VACANT, Board


def group_sizes(board: Board) -> list[int]:
    """Members by group."""
    sizes = [0] * board.group_count
    for group in board.groups:
        sizes[group] += 1
    return sizes


def group_shares(board: Board, sizes: Sequence[int], level: int) -> list[int]:
    """Copies by group when the water stands at `level` copies a member."""
    partitions = board.partition_count
    if board.distinct < board.width:
        return [max(partitions, size * level) for size in sizes]
    return [min(partitions, size * level) for size in sizes]


def water_level(board: Board, sizes: Sequence[int]) -> int:
    """The highest whole level that the copies there are can reach."""
    copies = board.partition_count * board.width
    levels = range(board.partition_count + 1)
    return bisect_right(levels, copies, key=lambda at: sum(group_shares(board, sizes, at))) - 1


def copy_quotas(board: Board) -> list[int]:
    """The copies that each member should hold; they add up to all copies."""
    sizes = group_sizes(board)
    level = water_level(board, sizes)
    shares = group_shares(board, sizes, level)
    above = group_shares(board, sizes, min(level + 1, board.partition_count))
    fullest_first = sorted(board.members, key=lambda member: (-board.loads[member], member))
    _add_odd_copies(board, shares, above, fullest_first)
    return _level_in_groups(board, sizes, shares, fullest_first)


def _add_odd_copies(
    board: Board, shares: list[int], above: Sequence[int], fullest_first: Sequence[int]
) -> None:
    """Add what a whole level leaves over: to groups that hold it already, then to any."""
    odd = board.partition_count * board.width - sum(shares)
    held = [0] * board.group_count
    for member, load in enumerate(board.loads):
        held[board.groups[member]] += load
    for holding in (True, False):
        for member in fullest_first:
            group = board.groups[member]
            room = min(held[group], above[group]) if holding else above[group]
            if odd and shares[group] < room:
                shares[group] += 1
                odd -= 1


def _level_in_groups(
    board: Board, sizes: Sequence[int], shares: Sequence[int], fullest_first: Sequence[int]
) -> list[int]:
    odd = [share % size for share, size in zip(shares, sizes, strict=True)]
    quotas = [0] * len(board.groups)
    for member in fullest_first:
        group = board.groups[member]
        extra = min(1, odd[group])
        quotas[member] = shares[group] // sizes[group] + extra
        odd[group] -= extra
    return quotas


def owner_bounds(board: Board, loads: Sequence[int]) -> tuple[list[int], list[int]]:
    """The fewest and the most partitions that each member should own.

    Owners are level among all members, whatever the groups. Where loads are level too, a member's
    bounds follow from its own load, so that every other index can be level as well.
    """
    members = len(board.groups)
    if max(loads) - min(loads) <= 1:
        return role_bounds(loads, board.width)
    return role_bounds([board.partition_count] * members, members)


def role_bounds(copies: Sequence[int], indexes: int) -> tuple[list[int], list[int]]:
    """The fewest and the most at one of so many indexes, when copies spread over them evenly."""
    return [count // indexes for count in copies], [-(-count // indexes) for count in copies]


def least_copies(board: Board) -> Generator[None, None, int]:
    """A lower bound on the copies that any assignment must make from the board's origin.

    Two things must be made good, and one copy may serve both, so the greater one counts:
    each row lacks copies, or groups that it could reach; each member lacks copies up to the whole
    part of its share. Here is all that a single join or leave can ask for: the joiner's share, or
    what the member that left had held.
    """
    sizes = group_sizes(board)
    shares = group_shares(board, sizes, water_level(board, sizes))
    lacking = [shares[group] // sizes[group] for group in board.groups]
    for_rows = 0
    for partition, row in enumerate(board.origin):
        if partition % SLICE == 0:
            yield
        held = [member for member in row if member != VACANT]
        reached = len(frozenset(board.groups[member] for member in held))
        for_rows += max(0, board.width - len(held), board.distinct - reached)
        for member in held:
            lacking[member] -= 1
    return max(for_rows, sum(max(0, copies) for copies in lacking))
