"""What the world needs of a node: the door and the windows of `core.node.Node`.

A protocol instead of the class, so that the world itself can be tested with a few lines of fake.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from holdfast.core.config import Config
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.core.messages import Completed, Fragment, Migration, Origin, StableTable
from holdfast.core.serving import Serving
from holdfast.core.table import Table
from holdfast.core.views import Member, View
from holdfast.ids import MemberId, Millis, PartitionId


class Machine(Protocol):
    """One running member, as far as the world looks at it."""

    def step(self, event: Event, now: Millis) -> Sequence[Effect]:
        """The one door."""
        ...

    @property
    def wake_at(self) -> Millis | None:
        """When it wants to be woken, on its own clock."""
        ...

    @property
    def origin(self) -> Origin:
        """Goes with each message that it sends."""
        ...

    @property
    def me(self) -> Member:
        """Who it is, in this stay."""
        ...

    @property
    def view(self) -> View | None:
        """The newest view that it holds."""
        ...

    @property
    def table(self) -> Table:
        """Its partition table."""
        ...

    @property
    def stable(self) -> StableTable | None:
        """The stable table that it keeps, in a state that asks for one."""
        ...

    @property
    def fragments(self) -> Mapping[PartitionId, Fragment]:
        """The data that it holds."""
        ...

    @property
    def is_master(self) -> bool:
        """Whether it leads, in its own eyes, at its last step."""
        ...

    def leads(self, now: Millis) -> bool:
        """Whether it leads and has a mandate at this moment."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether it has left in good order."""
        ...

    def serving(self, partition: PartitionId, now: Millis) -> Serving:
        """What it may answer for a partition at this moment."""
        ...

    def active_migrations(self) -> Sequence[Migration]:
        """Migrations in which it takes part and whose end it doesn't know."""
        ...

    def running_load(self) -> Mapping[MemberId, int]:
        """As a master: in how many running migrations each member takes part."""
        ...

    def withheld(self) -> Collection[PartitionId]:
        """Rows that it owns and that others are to hear of first: it does not go by them yet."""
        ...

    def known_ends(self) -> Mapping[PartitionId, Sequence[Completed]]:
        """As a master: the completed migrations that it still tells of."""
        ...


MachineFactory = Callable[[Config, Member], Machine]
