"""What a figure is: a function from how to run to rows of the table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bench.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run."""

    quick: bool = False
    """Less of everything: to see that it runs, not to know."""
    rounds: int = 3
    megabytes: int = 200
    """Of values, where data moves."""
    repeats: int = 5
    """Of deaths."""

    def count(self, number: int) -> int:
        """So many commands, or fewer."""
        return number // 5 if self.quick else number

    def each_round(self, what: str) -> Iterator[int]:
        """The rounds, told as they begin."""
        for number in range(1, self.rounds + 1):
            say(f"{what}, round {number} of {self.rounds}")
            yield number


@dataclass(frozen=True, slots=True)
class Figure:
    """One that can be asked for by its name."""

    name: str
    about: str
    measure: Callable[[Plan], Iterable[Outcome]]


def say(what: str) -> None:
    """Progress is told apart from results."""
    sys.stderr.write(f"  {time.strftime('%H:%M:%S')} {what}\n")
    sys.stderr.flush()
