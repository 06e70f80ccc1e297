"""What a deliberate fault is: a name, and a wrong function in the place of a right one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bug:
    """One deliberate fault."""

    name: str
    about: str
    """What it does wrong, and what should go wrong for it."""
    apply: Callable[[], AbstractContextManager[None]]
    seeds: int = 40
    """Within how many seeds, from `start` on, the simulator must find it."""
    start: int = 1
    """The first of these seeds. A fault that needs a rare history is shown where that happens."""

    @property
    def searched(self) -> range:
        """The seeds in which it must be found."""
        return range(self.start, self.start + self.seeds)


@contextmanager
def replaced(owner: Any, name: str, wrong: Any) -> Iterator[None]:
    """While this lasts, `owner.name` is something else."""
    right = getattr(owner, name)
    # a static method read from its class is a plain function; what is put back must be the original
    original = vars(owner).get(name, right)
    setattr(owner, name, wrong)
    try:
        yield
    finally:
        setattr(owner, name, original)
