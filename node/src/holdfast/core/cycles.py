"""Which movements of a new arrangement can't be done, and the arrangement without them.

A cycle is a set of slots whose members only change places among themselves: none of the slots
becomes vacant and none of the members leaves. "We can not perform them without decreasing the
available replica count [...] we cancel out cyclic migrations and leave the corresponding replica
ownerships as they are before repartitioning" (seed 002 §3.2.1). Every movement belongs to at most
one cycle, so the repair has one result whatever the order of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from holdfast.errors import PlanError
from holdfast.ids import NO_INDEX, REPLICA_COUNT_MAX, Replicas

Who = TypeVar("Who")
"""How members are told apart: by their ids, or while rows are made by numbers (`assignment`)."""


def index_of(row: Sequence[Who | None], member: Who | None) -> int:
    """Slot of a member, `NO_INDEX` when it has none or is nobody."""
    return row.index(member) if member is not None and member in row else NO_INDEX


def check_rows(current: Replicas, target: Replicas) -> None:
    """Refuse two rows that can't be states of the same partition."""
    if len(current) != len(target):
        raise PlanError(f"rows of {len(current)} and {len(target)} replicas can't be compared")
    for name, row in (("current", current), ("target", target)):
        if not 1 <= len(row) <= REPLICA_COUNT_MAX:
            raise PlanError(
                f"the {name} row has {len(row)} replicas; 1 to {REPLICA_COUNT_MAX} are possible"
            )
        for slot, member in enumerate(row):
            if index_of(row, member) not in (NO_INDEX, slot):
                raise PlanError(f"member {member!r} is twice in the {name} row")


def cycle_through(
    current: Sequence[Who | None], target: Sequence[Who | None], slot: int
) -> list[int]:
    """The slots of the cycle that starts and ends at `slot`; empty when there is none."""
    cycle = [slot]
    while (goal := index_of(target, current[cycle[-1]])) != slot:
        if goal == NO_INDEX:
            return []
        cycle.append(goal)
    return cycle if len(cycle) > 1 else []


def repair_cycles(current: Replicas, target: Replicas) -> tuple[Replicas, tuple[int, ...]]:
    """The target without its cycles, and the slots that therefore keep their members."""
    if current == target:
        return target, ()
    check_rows(current, target)
    kept = tuple(slot for slot in range(len(current)) if cycle_through(current, target, slot))
    repaired = tuple(
        current[slot] if slot in kept else member for slot, member in enumerate(target)
    )
    return repaired, kept
