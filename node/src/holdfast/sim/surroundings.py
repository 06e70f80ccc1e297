"""What surrounds a process besides the network: disk, clock, arbiter, and those who watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.ids import MemberId
from holdfast.sim.process import Process


@dataclass(frozen=True, slots=True)
class Death:
    """An end of a process that an arbiter can confirm."""

    id: MemberId
    incarnation: int
    at_us: int


class Observer(Protocol):
    """Who watches the world: checkers, workload, faults, marks."""

    def stepped(self, process: Process, event: Event, effects: Sequence[Effect]) -> None:
        """A process made a step; none of its effects is carried out yet."""

    def ended(self, process: Process) -> None:
        """A process crashed or stopped."""


@dataclass(frozen=True, slots=True)
class Shell:
    """What a process meets besides the network."""

    disk_us: int = 0
    """Mean time until a record is stable."""
    lazy_us: int = 0
    """How long data may be persisted without being stable (`everysec`); 0 for never. Then the end
    of a process loses nothing, and the end of its power what was not stable."""
    turn_us: int = 0
    """How long a process collects what arrives before it looks at it; 0 for not at all."""
    load_us: int = 0
    """Longest time to load what was persisted."""
    wake_late_us: int = 0
    """How late a timer may fire."""
    clock_skew: int = 0
    """Greatest difference of a clock's rate from true time, in parts per million."""
    arbiter_us: int | None = None
    """How long until a death is confirmed to the others; None without arbiter."""
