"""Which members should hold which partitions: the target table, from members and present table.

    members with groups ─┐
    partitions now ──────┤   promote ─ evict ─ deal ─ level copies ─ level roles ──> target table
    replica count ───────┘   ╰── fill vacancies ──╯   ╰─ who holds ─╯ ╰─ at which ─╯
                                                                        index

The result depends on these three inputs and on nothing else, so that every member that has them
computes the same table (seed 003, "Deterministic partition assignment"; `design/3` §2). How to get
from the present table to the target is the planner's question.

Rules
-----
* A row of the target has min(replica count, members) distinct members from index 0 on, then `None`.
* *Groups.* A row reaches min(groups, replicas) groups. While groups suffice no two replicas share
  one; when they don't, every group has a replica and the rest double up, because a copy in the same
  group is better than none. Those that double up stand behind: from the owner on, one index after
  another is of a new group until all are reached. A name has copies at the first indexes alone, and
  they are apart. This rule yields to no other.
* *Copies.* A member's quota is its level share of all copies within what the groups allow
  (`quotas`): with groups of one size, floor or ceil of P * replicas / members. A fresh table meets
  the quotas, and so does one that follows from it by changes that the groups don't hinder. Where
  they do, a member may stay 1/10 of its quota off rather than cost copies that nobody lacks.
* *Owners* are level among all members, whatever the groups: they differ by at most 1, as long as
  the copies allow it. After a change in a table made here they differ by at most 1 or 10 % of the
  mean, whichever is more.
* *Backups.* Each member's copies are spread over the backup indexes as evenly as whole numbers
  and groups allow. So where loads are level every index is level, and elsewhere it is as level as
  the groups let it be.
* *Movement.* The unit is the (partition, member) pair that the target has and the present table
  has not: a copy to be made. The least (`least_copies`) is the greater of two sums: over the rows,
  the copies or groups that each lacks; over the members, the copies that each lacks up to the whole
  part of its quota. One join: the joiner's share. One leave: what the member that left had held.
  What is made stays within 1/20 of that, unless unequal groups leave a member too far from its
  quota otherwise (`transfers`); where groups don't hinder it is the least itself.
* *Roles* cost no copy. A row that lost its owner gets a survivor for one, if that member does not
  own enough already; a new copy takes the place of the copy it replaces; roles are traded only to
  level an index, and an owner with data is not traded for one without while another trade helps.
  Where members of a row would only change places the planner cancels it (`cycles`): such a trade
  is the last that is made, so that the owners are level in what is reached, not in a wish alone.
* The target of the target is the target.
* k-safety (seed 003, "Other considerations around backups"), that is, not making up for a lost
  member at all, is decided before anyone asks here. Lite members are simply no candidates.

States
------
None is kept between calls. Inside one call the `Board` goes through four: *entered* (members that
are no candidates are vacant), *full* (groups reached), *level in copies*, *level in roles*. The
generator may be dropped at any `yield`; nothing was touched.

What can go wrong
-----------------
* Order of the input. Candidates are numbered by id, and each walk follows numbers; sets are only
  asked for membership. Two masters with the members in another order get the same table.
* Time. A table of 16,384 rows takes longer than the loop may be held, hence the slices: a `yield`
  at least every 32 rows (`SLICE`), or 32 rows' worth of search.
* Unequal groups. A group of one member may be asked for a copy of every partition; that is what
  distinct groups mean. Its members own no more than the others.
* A plan cut short. The present table is then something between two targets, perhaps with gaps;
  what it has is kept like any other copy, and only what is lacking moves.
* Company. If the same members always met in the same rows, the loss of one would fall on few, and
  after a change no row would be left where the right member could come in. So dealing leaves to
  chance whatever the quotas leave open (`vacancies`).
* A row whose members all left comes back with other members. That the data is lost is for the
  caller to say (`design/3` §2, *partition lost*).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from holdfast.core.assignment.board import SLICE, VACANT, Board, Steps
from holdfast.core.assignment.quotas import copy_quotas
from holdfast.core.assignment.quotas import least_copies as least_copies_of
from holdfast.core.assignment.roles import level_roles
from holdfast.core.assignment.transfers import budget, level_copies
from holdfast.core.assignment.vacancies import deal, evict, promote
from holdfast.core.table import check_replicas
from holdfast.errors import ConfigurationError, TableError
from holdfast.ids import PARTITION_COUNT_MAX, REPLICA_COUNT_MAX, MemberId, Replicas

__all__ = ["Assigning", "Candidate", "assign", "assign_now", "fill", "least_copies"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A data member that may hold partitions."""

    id: MemberId
    group: str
    """Failure domain: members of a group may be lost together (zone, node or pod)."""


Result = TypeVar("Result")

Assigning = Generator[None, None, tuple[Replicas, ...]]
"""Work in slices of a few milliseconds; the target table is the return value."""


def assign(
    candidates: Sequence[Candidate], current: Sequence[Replicas], replica_count: int
) -> Assigning:
    """Compute the target table in slices. Impossible input is refused at once, not at a slice."""
    _check(candidates, current, replica_count)
    return _assign(sorted(candidates, key=lambda candidate: candidate.id), current, replica_count)


def fill(
    candidates: Sequence[Candidate], current: Sequence[Replicas], replica_count: int
) -> Assigning:
    """The table as it is, with a member at every index that is vacant; what is held stays."""
    _check(candidates, current, replica_count)
    return _fill(sorted(candidates, key=lambda candidate: candidate.id), current, replica_count)


def assign_now(
    candidates: Sequence[Candidate], current: Sequence[Replicas], replica_count: int
) -> tuple[Replicas, ...]:
    """Compute the target table in one go."""
    return run_to_end(assign(candidates, current, replica_count))


def least_copies(
    candidates: Sequence[Candidate], current: Sequence[Replicas], replica_count: int
) -> int:
    """The fewest copies that must be made from the current table, whoever assigns (see *Movement*).

    Not sliced: this is for reports and tests.
    """
    _check(candidates, current, replica_count)
    if not candidates or not current:
        return 0
    ordered = sorted(candidates, key=lambda candidate: candidate.id)
    board = _board(ordered, len(current), replica_count)
    run_to_end(_enter(board, current, _numbers(ordered)))
    return run_to_end(least_copies_of(board))


def run_to_end(slices: Generator[None, None, Result]) -> Result:
    """What sliced work returns, for callers with nothing else to do."""
    while True:
        try:
            next(slices)
        except StopIteration as finished:
            result: Result = finished.value
            return result


def _check(
    candidates: Sequence[Candidate], current: Sequence[Replicas], replica_count: int
) -> None:
    if not 1 <= replica_count <= REPLICA_COUNT_MAX:
        raise ConfigurationError(
            [f"replicas must be 1 to {REPLICA_COUNT_MAX}, not {replica_count}"]
        )
    if len(current) > PARTITION_COUNT_MAX:
        raise TableError(f"{len(current)} partitions, more than {PARTITION_COUNT_MAX}")
    if len(frozenset(candidate.id for candidate in candidates)) != len(candidates):
        raise ConfigurationError(["a member stands twice among the candidates"])


def _numbers(ordered: Sequence[Candidate]) -> dict[MemberId, int]:
    return {candidate.id: number for number, candidate in enumerate(ordered)}


def _held(row: Replicas, numbers: dict[MemberId, int]) -> tuple[int, ...]:
    """A row in numbers; members that are no candidates leave their index vacant."""
    check_replicas(row)
    return tuple(VACANT if member is None else numbers.get(member, VACANT) for member in row)


def _board(ordered: Sequence[Candidate], partition_count: int, replica_count: int) -> Board:
    names = sorted(frozenset(candidate.group for candidate in ordered))
    groups = {name: number for number, name in enumerate(names)}
    width = min(replica_count, len(ordered))
    return Board([groups[candidate.group] for candidate in ordered], partition_count, width)


def _fill(
    ordered: Sequence[Candidate], current: Sequence[Replicas], replica_count: int
) -> Assigning:
    if not ordered or not current:
        return ((None,) * replica_count,) * len(current)
    board = _board(ordered, len(current), replica_count)
    yield from _enter(board, current, _numbers(ordered))
    quotas = copy_quotas(board)
    yield from promote(board, quotas)
    yield from deal(board, quotas)
    return (yield from _rows(board, ordered, replica_count))


def _assign(
    ordered: Sequence[Candidate], current: Sequence[Replicas], replica_count: int
) -> Assigning:
    if not ordered or not current:
        return ((None,) * replica_count,) * len(current)
    board = _board(ordered, len(current), replica_count)
    yield from _enter(board, current, _numbers(ordered))
    yield from promote(board, copy_quotas(board))
    quotas = copy_quotas(board)
    affordable = yield from budget(board, quotas)
    yield from evict(board, quotas)
    yield from deal(board, quotas)
    yield from level_copies(board, affordable)
    yield from level_roles(board)
    return (yield from _rows(board, ordered, replica_count))


def _enter(board: Board, current: Sequence[Replicas], numbers: dict[MemberId, int]) -> Steps:
    for partition, row in enumerate(current):
        if partition % SLICE == 0:
            yield
        board.enter(_held(row, numbers))


def _rows(board: Board, ordered: Sequence[Candidate], replica_count: int) -> Assigning:
    behind = (None,) * (replica_count - board.width)
    ids = [candidate.id for candidate in ordered]
    rows: list[Replicas] = []
    for partition, row in enumerate(board.rows):
        if partition % SLICE == 0:
            yield
        rows.append((*[ids[member] for member in row], *behind))
    return tuple(rows)
