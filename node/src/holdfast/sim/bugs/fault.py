"""What a deliberate fault is: a name, and a wrong function in the place of a right one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from holdfast.sim.options import Options

SEEDS_MAX: Final = 400
"""Within so many seeds the simulator must find a fault: about ten times as many as it mostly takes,
as a change of the core shifts the histories, and with them the seeds in which a fault shows."""


@dataclass(frozen=True, slots=True)
class Bug:
    """One deliberate fault."""

    name: str
    about: str
    """What it does wrong, and what should go wrong for it."""
    apply: Callable[[], AbstractContextManager[None]]
    start: int = 1
    """Where the search begins: at a seed in which it showed when that was looked up last. It only
    saves time, for as long as it is right."""
    mix: Callable[[Options], Options] | None = None
    """What is set of the options that a seed has drawn, where a fault shows seldom (`mixes`)."""

    @property
    def searched(self) -> range:
        """The seeds in which it must be found."""
        return range(self.start, self.start + SEEDS_MAX)


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
