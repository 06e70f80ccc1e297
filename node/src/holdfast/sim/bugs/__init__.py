"""Deliberate faults of the core, to show that the simulator finds them.

A bug is a name and a way to put a wrong function in the place of a right one, for as long as a
context lasts. It is switched on by name, so that a worker process of its own can do it too.

The faults themselves stand by subject: `members` (views, leases, votes), `masters` (the mandate, a
new master's first work, repair), `moves` (migrations and the rows that they change), `data`
(replication, acknowledgements, sync, files). What a fault needs that is rare is in `mixes`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from holdfast.errors import IllegalArgument
from holdfast.sim.bugs import data, masters, members, moves
from holdfast.sim.bugs.fault import Bug, replaced
from holdfast.sim.options import Options

__all__ = ["BUGS", "Bug", "active", "mix_of", "register", "replaced"]

BUGS: Final[dict[str, Bug]] = {}
"""All that are known, by name."""


def register(bug: Bug) -> Bug:
    """Make a bug known by its name."""
    assert bug.name not in BUGS, f"two bugs are called {bug.name}"
    BUGS[bug.name] = bug
    return bug


def active(name: str | None) -> AbstractContextManager[None]:
    """The context of a bug; without a name, of none."""
    if name is None:
        return nullcontext()
    if name not in BUGS:
        known = ", ".join(sorted(BUGS)) or "there are none"
        raise IllegalArgument(f"no bug is called {name!r}; known: {known}")
    return BUGS[name].apply()


def mix_of(name: str | None) -> Callable[[Options], Options] | None:
    """What a bug that is known sets of the options of its seeds, if it sets any."""
    return None if name is None else BUGS[name].mix


for _bug in (*members.BUGS, *masters.BUGS, *moves.BUGS, *data.BUGS):
    register(_bug)
