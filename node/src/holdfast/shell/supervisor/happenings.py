"""What goes in and out of the supervision: its events and effects, as data.

A child is a place for one member process after another, known by its index. A stay is one process
that has said who it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.ids import Address, MemberId, Millis
from holdfast.shell.supervisor.reports import Report

# Events -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """The first event: nothing runs yet."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A child's process said something about itself."""

    child: int
    report: Report


@dataclass(frozen=True, slots=True)
class Babbled:
    """A child's process said something that is no report."""

    child: int
    reason: str


@dataclass(frozen=True, slots=True)
class Exited:
    """A child's process is gone: a fact. Whatever it had reported came before."""

    child: int
    status: int
    """Its exit code, or the signal that ended it as a negative number."""


@dataclass(frozen=True, slots=True)
class NotSpawned:
    """The system gave no process."""

    child: int
    reason: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Somebody wants an end: a signal arrived."""


@dataclass(frozen=True, slots=True)
class KillAsked:
    """Somebody wants to see this process die."""

    child: int


@dataclass(frozen=True, slots=True)
class Woke:
    """The time that `wake_at` named has come."""


Event = Begun | Reported | Babbled | Exited | NotSpawned | StopAsked | KillAsked | Woke

# Effects ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a process for this child."""

    child: int
    may_found: bool
    """Whether it may help to found a cluster (`docs/adr/0004`)."""


@dataclass(frozen=True, slots=True)
class Signal:
    """Send a signal to this child's process."""

    child: int
    number: int


@dataclass(frozen=True, slots=True)
class Confirm:
    """Tell these addresses, by HTTP, that this stay is over."""

    child: int
    id: MemberId
    incarnation: int
    died_at: Millis
    to: tuple[Address, ...]


class What(StrEnum):
    """Kinds of what people and scripts are told."""

    STARTED = "started"
    INTRODUCED = "introduced"
    WAITING = "waiting"
    READY = "ready"
    LEAVING = "leaving"
    LEFT = "left"
    DIED = "died"
    REFUSED = "refused"
    KILLED = "killed"
    RESTARTS = "restarts"
    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"
    BABBLED = "babbled"


@dataclass(frozen=True, slots=True)
class Tell:
    """Something that people and scripts want to know."""

    what: What
    child: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """No process is left and none will be started: end with this code."""

    code: int


Effect = Spawn | Signal | Confirm | Tell | Finish
