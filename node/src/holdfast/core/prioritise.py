"""COPY and SHIFT UP before what needs them not (seed 002 §3.2.3).

"We prefer to prioritize COPY and SHIFT UP migrations against a non-conflicting MOVE migration on a
hotter replica index, a non-conflicting SHIFT DOWN migration to a colder index. Non-conflicting
migrations have no common participant."

Three words are taken as the motivation given there has them:

* A SHIFT UP whose slot is still held lowers the number of copies, so it is not prioritised.
* Two moves also conflict when they touch a common slot: the one vacates what the other fills.
* A non-conflicting MOVE on a *colder* index is passed as well: the copy is both hotter and more.

What passes never lowers the copies in any slots 0..n, so no state on the way has fewer than the
same state had without it.
"""

from __future__ import annotations

from holdfast.core.migrations import MigrationType, Move, Step


def prioritise(steps: list[Step]) -> tuple[Step, ...]:
    """The same steps, each COPY and SHIFT UP as early as the rule allows; else in their order."""
    ordered: list[Step] = []
    for step in steps:
        place = len(ordered)
        if is_preferred(step):
            while place and may_pass(step[0], ordered[place - 1]):
                place -= 1
        ordered.insert(place, step)
    return tuple(ordered)


def is_preferred(step: Step) -> bool:
    """Whether a step adds a copy, or makes one hotter, and takes none away."""
    return (
        len(step) == 1
        and step[0].type in (MigrationType.COPY, MigrationType.SHIFT_UP)
        and step[0].source is None
    )


def may_pass(move: Move, step: Step) -> bool:
    """Whether a preferred move may happen before a step that was planned before it."""
    return all(is_behind(move, other) and are_apart(move, other) for other in step)


def is_behind(move: Move, other: Move) -> bool:
    """Whether `other` is of a kind that waits for a preferred move."""
    if other.type is MigrationType.SHIFT_DOWN:
        return max(other.source_new, other.destination_new) > move.destination_new
    return other.type is MigrationType.MOVE


def are_apart(move: Move, other: Move) -> bool:
    """Whether two moves share neither a member nor a slot."""
    return not any(member in other.participants() for member in move.participants()) and not any(
        slot in other.indexes() for slot in move.indexes()
    )
