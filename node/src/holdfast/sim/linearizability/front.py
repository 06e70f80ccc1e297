"""Configurations that may be so, and only those that another does not make superfluous."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.sim.linearizability.model import State

Place = tuple[int, State]
"""Which operations under way are in the order already, as bits; what the key is after them."""


class BudgetSpentError(Exception):
    """The search took all the steps that it may take."""


class Meter:
    """Counts the work: each trial of an operation, and each comparison of configurations."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.steps = 0

    def count(self, steps: int = 1) -> None:
        """So much is done; an error when it was too much."""
        self.steps += steps
        if self.steps > self.budget:
            raise BudgetSpentError


class Front:
    """For each place the sets of unknown operations that it took to get there, as bits.

    Whoever used fewer can still use the others: of two sets, one inside the other, only the
    smaller is kept.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._places: dict[Place, list[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def __iter__(self) -> Iterator[tuple[Place, int]]:
        """Each place with each of its sets."""
        for place, sets in self._places.items():
            for used in sets:
                yield place, used

    def has(self, place: Place, used: int) -> bool:
        """Whether this very configuration is here, and was not replaced by a better one."""
        return used in self._places.get(place, ())

    def covers(self, place: Place, used: int) -> bool:
        """Whether a configuration is here that can do all that this one can."""
        sets = self._places.get(place, ())
        self._meter.count(len(sets))
        return any(other & ~used == 0 for other in sets)

    def add(self, place: Place, used: int) -> bool:
        """False if it would be superfluous. What becomes superfluous by it goes."""
        if self.covers(place, used):
            return False
        sets = self._places.setdefault(place, [])
        sets[:] = [other for other in sets if used & ~other]
        sets.append(used)
        return True

    def states(self) -> list[State]:
        """What the key may be, in an order that depends on nothing else."""
        return sorted({state for _, state in self._places}, key=_shown)

    def used_by_all(self) -> int:
        """Unknown operations that took effect, whatever else is so."""
        common = -1
        for _, used in self:
            common &= used
        return common


def _shown(state: State) -> str:
    return repr(sorted(state) if isinstance(state, frozenset) else state)
