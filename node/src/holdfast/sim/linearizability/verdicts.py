"""What a checker says of a history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.sim.linearizability.history import Operation
from holdfast.sim.linearizability.model import State


@dataclass(frozen=True, slots=True)
class Linearizable:
    """There is an order of all that was seen so far."""


@dataclass(frozen=True, slots=True)
class NotLinearizable:
    """Before this operation returned there was an order, and with it there is none.

    Operations that were under way then count with what they replied later, if they count at all.
    """

    operation: Operation
    states: tuple[State, ...]
    """What the key may have been just before, not counting what is under way."""
    under_way: tuple[Operation, ...]
    """What may have taken effect since, or not: pending, or of unknown outcome."""
    recent: tuple[Operation, ...]
    """What returned last before it, oldest first."""

    def __str__(self) -> str:
        """The story, a line for each fact."""
        states = " or ".join(map(repr, self.states))
        return "\n".join(
            (
                f"no order explains {self.operation}",
                *_listed("returned before it", self.recent),
                f"the key was then: {states}",
                *_listed("under way", self.under_way),
            )
        )


@dataclass(frozen=True, slots=True)
class Undecided:
    """The budget ended before the return of this operation could be judged."""

    operation: Operation
    steps: int


Verdict = Linearizable | NotLinearizable | Undecided


def _listed(title: str, operations: Iterable[Operation]) -> Iterable[str]:
    return (f"{title}: {operation}" for operation in operations)
