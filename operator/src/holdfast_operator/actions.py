"""What a plan consists of: values, carried out by `apply`. Each may be repeated without harm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast_operator.model.cluster import State


@dataclass(frozen=True, slots=True)
class Apply:
    """Make an object as it is to be (server-side apply).

    `only_new`: it must not be there. A body that names a `resourceVersion` is applied to exactly
    that version: sizes that were decided upon old ones could take away a pod that has data."""

    body: dict[str, Any]
    only_new: bool = False


@dataclass(frozen=True, slots=True)
class MakeSecret:
    """A secret that nobody knows yet. It is made once and never changed."""

    name: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly this object: never one of the same name that came after it."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Grow:
    """A claim asks for more."""

    claim: str
    storage: str


@dataclass(frozen=True, slots=True)
class Finalizers:
    """Of the Cluster itself."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeState:
    """Ask the grid for a state; migrations may delay it."""

    state: State

    @property
    def key(self) -> str:
        """At most one with the same key is asked at a time."""
        return "state"


@dataclass(frozen=True, slots=True)
class Promote:
    """Make a lite member, where it runs, a data member."""

    member: str
    """Its id."""

    @property
    def key(self) -> str:
        """A promotion and a demotion of one member exclude each other."""
        return f"kind of {self.member}"


@dataclass(frozen=True, slots=True)
class Demote:
    """Have a data member, where it runs, give its partitions away and become a lite one."""

    member: str

    @property
    def key(self) -> str:
        """A promotion and a demotion of one member exclude each other."""
        return f"kind of {self.member}"


@dataclass(frozen=True, slots=True)
class StopAsking:
    """What is being asked is not wanted any more."""

    key: str


@dataclass(frozen=True, slots=True)
class ConfirmDead:
    """Tell the grid that a process is gone: a fact. How long ago is not said: that would compare
    two clocks."""

    member: str
    incarnation: int
    name: str

    @property
    def key(self) -> str:
        """Once for each stay at a time."""
        return f"death of {self.member}.{self.incarnation}"


@dataclass(frozen=True, slots=True)
class BackUp:
    """Have every member keep its part of a backup of this name."""

    name: str

    @property
    def key(self) -> str:
        """Once at a time."""
        return f"backup {self.name}"


@dataclass(frozen=True, slots=True)
class Forget:
    """Have every member remove its part of a backup."""

    name: str

    @property
    def key(self) -> str:
        """Once at a time."""
        return f"forget {self.name}"


Ask = ChangeState | Promote | Demote | ConfirmDead | BackUp | Forget
Action = Apply | MakeSecret | Delete | Grow | Finalizers | StopAsking | Ask


@dataclass(frozen=True, slots=True)
class Event:
    """Something that people should know."""

    reason: str
    message: str
    warning: bool = False
