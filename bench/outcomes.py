"""The pure part: medians, percentiles, ratios of runs, and whether a figure reaches its goal."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
import itertools

RATIO: Final = "x"


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure is to reach."""

    bound: float
    unit: str = RATIO
    at_most: bool = False
    """Else: at least."""

    def met_by(self, value: float) -> bool:
        """Whether this is good enough."""
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {amount(self.bound, self.unit)}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row of the table."""

    figure: str
    goal: Goal | None
    """None: reported, with nothing to reach."""
    reached: float
    unit: str
    peer: str
    """What it is compared with, in the same run; empty for an absolute figure."""
    ours: tuple[float, ...]
    """Of each round."""
    theirs: tuple[float, ...]
    absolute: str
    note: str = ""

    @property
    def verdict(self) -> str:
        """`ok`, `short`, or nothing where there is no goal."""
        if self.goal is None:
            return ""
        return "ok" if self.goal.met_by(self.reached) else "short"

    def record(self) -> dict[str, Any]:
        """As it is written to the file."""
        goal = None if self.goal is None else str(self.goal)
        return {**asdict(self), "goal": goal, "verdict": self.verdict}


def compared(
    figure: str,
    goal: Goal | None,
    peer: str,
    runs: Sequence[Sequence[float]],
    unit: str,
    note: str = "",
) -> Outcome:
    """A ratio of our runs to the peer's. What was measured side by side is divided first, and the
    median taken then: the load of the machine changes between rounds more than within one."""
    ours, theirs = runs
    ratio = statistics.median(ours_ratios(ours, theirs))
    absolute = f"{spread(ours, unit)} : {spread(theirs, unit)}"
    return Outcome(figure, goal, ratio, RATIO, peer, tuple(ours), tuple(theirs), absolute, note)


def measured(
    figure: str, goal: Goal | None, values: Sequence[float], unit: str, note: str = ""
) -> Outcome:
    """An absolute figure: the median."""
    reached = statistics.median(values)
    return Outcome(figure, goal, reached, unit, "", tuple(values), (), spread(values, unit), note)


def worst(
    figure: str, goal: Goal | None, values: Sequence[float], unit: str, note: str = ""
) -> Outcome:
    """An absolute figure that must hold each time: the greatest."""
    reached = max(values)
    return Outcome(figure, goal, reached, unit, "", tuple(values), (), spread(values, unit), note)


def ours_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def spread(values: Sequence[float], unit: str) -> str:
    """The median, and the range where there is one."""
    middle = amount(statistics.median(values), unit)
    if len(values) == 1:
        return middle
    return f"{middle} [{amount(min(values))}-{amount(max(values))}]"


def amount(value: float, unit: str = "") -> str:
    """Three digits are as much as a measurement is worth."""
    if value and abs(value) < 10:
        text = f"{value:.2f}"
    elif abs(value) < 100:
        text = f"{value:.1f}"
    else:
        text = f"{value:,.0f}"
    if not unit or unit == RATIO:
        return text + unit
    return f"{text} {unit}"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    if not values:
        raise ValueError("nothing was measured")
    ordered = sorted(values)
    rank = -int(-share * len(ordered) // 1)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def longest_silence(ends: Sequence[float], begin: float, end: float) -> float:
    """The longest time without a completion in this window."""
    marks = [begin, *sorted(each for each in ends if begin <= each <= end), end]
    return max(later - earlier for earlier, later in itertools.pairwise(marks))
