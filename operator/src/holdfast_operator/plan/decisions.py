"""What the rules of a plan hand to one another."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast_operator.actions import Action, Event
from holdfast_operator.model.cluster import State
from holdfast_operator.observed import Pod


@dataclass(frozen=True, slots=True)
class Hold:
    """Why something waits: ends up in a condition, and in an event when it is new."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many pods each set is to have now, and what must happen before it may be fewer."""

    data: int
    lite: int
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    hold: Hold | None = None
    """Why the sizes are not the declared ones."""
    promotion: Hold | None = None
    """Why lite members are not what they are declared to be."""
    moving: bool = False
    """Whether members are being added or taken away."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Pods that get a new template."""

    active: bool = False
    pod: Pod | None = None
    """The one that goes now."""
    hold: Hold | None = None
    needs_stable: bool = False
    outdated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Course:
    """All that was decided about one cluster."""

    sizes: Sizes
    restart: Restart
    target: State | None
    """The state that the grid is to have now; None while it has none."""
    ending: bool = False
    """Pods are to go, all of them: hibernation or deletion."""
    events: tuple[Event, ...] = field(default=())
