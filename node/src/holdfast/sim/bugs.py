"""Deliberate faults of the core, to show that the simulator finds them.

A bug is a name and a way to put a wrong function in the place of a right one, for as long as a
context lasts. It is switched on by name, so that a worker process of its own can do it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from holdfast.errors import IllegalArgument


@dataclass(frozen=True, slots=True)
class Bug:
    """One deliberate fault."""

    name: str
    about: str
    """What it does wrong, and what should go wrong for it."""
    apply: Callable[[], AbstractContextManager[None]]
    seeds: int = 50
    """Within how many seeds, from 1 on, the simulator must find it."""


BUGS: Final[dict[str, Bug]] = {}
"""All that are known, by name."""


def register(bug: Bug) -> Bug:
    """Make a bug known by its name."""
    assert bug.name not in BUGS, f"two bugs are called {bug.name}"
    BUGS[bug.name] = bug
    return bug


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


def active(name: str | None) -> AbstractContextManager[None]:
    """The context of a bug; without a name, of none."""
    if name is None:
        return nullcontext()
    if name not in BUGS:
        known = ", ".join(sorted(BUGS)) or "there are none"
        raise IllegalArgument(f"no bug is called {name!r}; known: {known}")
    return BUGS[name].apply()
