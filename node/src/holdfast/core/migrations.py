"""What a planned migration is: data alone, no decisions.

A `Move` says who gives up or changes an index and who takes it (seed 002, "API design": current
and new replica index of source and destination). A `Step` is the moves that are committed
together; between two steps the row may be seen, by the cluster and by a crash. The planner
(`holdfast.core.planner`) makes steps, the master's migration machine carries them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from holdfast.ids import NO_INDEX, MemberId, Replicas


class MigrationType(Enum):
    """The four kinds of seed 002 §3.1."""

    MOVE = "MOVE"
    """The destination is not in the row; the source, if any, leaves it (§3.1.1).

    Without destination it clears an index: the source leaves and nobody takes its place.
    """
    COPY = "COPY"
    """The destination is not in the row and the index is vacant (§3.1.2)."""
    SHIFT_DOWN = "SHIFT DOWN"
    """A replica goes to a colder index; whoever takes its old one does so in the same commit,
    and may be new or come from a colder index (§3.1.3)."""
    SHIFT_UP = "SHIFT UP"
    """A replica goes to a hotter index, which is vacant or whose holder leaves (§3.1.4)."""


@dataclass(frozen=True, slots=True)
class Move:
    """One migration of one partition. `None` and `NO_INDEX` stand for nobody and no index."""

    type: MigrationType
    source: MemberId | None
    """Holder of the destination's new index, before. `None` when that index is vacant."""
    source_current: int
    source_new: int
    """`NO_INDEX` when the source leaves the row."""
    destination: MemberId | None
    """Who takes the index. `None` when it is cleared."""
    destination_current: int
    """`NO_INDEX` when the destination is new to the row."""
    destination_new: int

    def apply(self, replicas: Replicas) -> Replicas:
        """The row after this move alone."""
        return apply_step(replicas, (self,))

    def participants(self) -> tuple[MemberId, ...]:
        """Source and destination, as far as there are any."""
        return tuple(member for member in (self.source, self.destination) if member is not None)

    def indexes(self) -> tuple[int, ...]:
        """Every index of the row that this move reads or writes."""
        ends = (
            self.source_current,
            self.source_new,
            self.destination_current,
            self.destination_new,
        )
        return tuple(index for index in ends if index != NO_INDEX)


Step = tuple[Move, ...]
"""Moves that are committed as one; usually one."""


def apply_step(replicas: Replicas, step: Iterable[Move]) -> Replicas:
    """The row after a step: all of its participants leave their indexes, then take the new ones."""
    row = list(replicas)
    moves = tuple(step)
    for move in moves:
        take_out(row, move.source, move.source_current)
        take_out(row, move.destination, move.destination_current)
    for move in moves:
        put_in(row, move.source, move.source_new)
        put_in(row, move.destination, move.destination_new)
    return tuple(row)


def take_out(row: list[MemberId | None], member: MemberId | None, index: int) -> None:
    """Vacate the index that a participant holds now."""
    if index != NO_INDEX:
        assert row[index] == member, f"{member} is not at index {index} of {row}"
        row[index] = None


def put_in(row: list[MemberId | None], member: MemberId | None, index: int) -> None:
    """Give a participant its new index, which must be vacant by now."""
    if index != NO_INDEX:
        assert row[index] is None, f"{row[index]} is still at index {index} of {row}"
        row[index] = member
