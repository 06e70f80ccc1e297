"""Sites and the processes that run on them.

A *site* is a place that outlives its processes: a name, an address, a failure domain, and perhaps
a disk. A *process* is one run of a member there. With a disk the next process is the same member
with a greater incarnation; without one it is another member, at the same address.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.core.effects import Effect
from holdfast.core.events import Event, Received
from holdfast.core.messages import Fragment
from holdfast.core.table import Row
from holdfast.core.views import Kind, Member, View
from holdfast.ids import Address, MemberId, Millis, PartitionId
from holdfast.sim.clocks import Clock
from holdfast.sim.disk import Disk
from holdfast.sim.machine import Machine
from holdfast.sim.triggers import Trigger


@dataclass(slots=True)
class Site:
    """A place for processes."""

    number: int
    name: str
    address: Address
    group: str
    kind: Kind
    persistent: bool
    level_max: int
    disk: Disk | None = None
    member: MemberId | None = None
    """Who ran here last; with a disk, who runs here for ever."""
    incarnation: int = 0
    """The greatest that was ever used here by that member."""
    process: Process | None = None
    starts: int = 0
    retired: bool = False
    """Nobody will start a process here any more."""

    @property
    def running(self) -> bool:
        """Whether a process is there, paused or not."""
        return self.process is not None


@dataclass(slots=True)
class Seen:
    """What a process was at the end of its last step: what checkers compare with."""

    view: View | None = None
    rows: tuple[Row, ...] = ()
    fragments: Mapping[PartitionId, Fragment] = field(default_factory=dict)
    incarnation: int = 0


@dataclass(slots=True, eq=False)
class Process:
    """One run of a member."""

    site: Site
    serial: int
    name: str
    node: Machine
    clock: Clock
    started_us: int
    alive: bool = True
    paused: bool = False
    inbox: deque[Event] = field(default_factory=deque)
    """What arrives while it is paused."""
    arrived: list[Received] = field(default_factory=list)
    """What has come since its last turn."""
    wake_due: int | None = None
    """The moment for which a wake-up is in the queue of the world."""
    trigger: Trigger | None = None
    rest: Sequence[Effect] | None = None
    """What is left to carry out of the step in whose middle it was paused."""
    steps: int = 0
    stepped_us: int = 0
    """When it made its last step; it may have been paused in its middle."""
    stepped_at: Millis = Millis(0)
    """The same moment on its own clock."""
    going: bool = False
    """Whether it was asked to leave or to become lite, whatever came of it."""
    seen: Seen = field(default_factory=Seen)

    @property
    def member(self) -> Member:
        """Who it is."""
        return self.node.me

    @property
    def awake(self) -> bool:
        """Whether it may do anything at this moment."""
        return self.alive and not self.paused


def member_of(site: Site, rng: random.Random) -> Member:
    """The member that the next process of a site is, and its stay."""
    site.starts += 1
    if site.member is None:
        site.member = MemberId(f"{rng.getrandbits(12):03x}-{site.name}.{site.starts}")
        site.incarnation = 0
    site.incarnation += 1
    return Member(
        id=site.member,
        incarnation=site.incarnation,
        name=site.name,
        address=site.address,
        group=site.group,
        kind=site.kind,
        persistent=site.persistent,
        level_max=site.level_max,
    )
