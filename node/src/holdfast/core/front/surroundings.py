"""What asides may look at: the member, its data, its clients. They change nothing but sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.core.context import Context
from holdfast.core.data.copies import Holding
from holdfast.core.data.service import DataService
from holdfast.core.data.sessions import Session, Sessions
from holdfast.core.data.tickets import Ticket
from holdfast.core.front.facts import Facts
from holdfast.core.front.keyspace import Keyspace
from holdfast.core.front.transactions import Transactions
from holdfast.core.membership import Membership, Phase
from holdfast.core.participation import Participation
from holdfast.core.requests import Requests
from holdfast.core.stores.snapshot import Snapshot
from holdfast.ids import Millis


@dataclass(slots=True)
class Surroundings:
    """What a command that is not about keys is told of."""

    context: Context
    membership: Membership
    participation: Participation
    requests: Requests
    data: DataService
    facts: Facts = field(default_factory=Facts)
    since: Millis = Millis(0)
    """When this process began."""
    forwarded: Callable[[], int] = int
    """How many commands were sent to other members."""
    ticket: Ticket = field(init=False)
    """Where the reply to the present command goes."""
    keyspace: Keyspace = field(init=False)
    transactions: Transactions = field(init=False)
    freed: Callable[[Session], None] = field(init=False)
    """To be told when a session's pending reply is here."""
    asked: int = 0
    """Requests that were asked by commands."""
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    """What a session reads at its leisure, by its number (`bulk`)."""
    leaving: dict[int, None] = field(default_factory=dict)
    """Sessions that have said QUIT and are not hung up on yet."""

    @property
    def sessions(self) -> Sessions:
        """My clients."""
        return self.data.plane.sessions

    def owned(self) -> list[Holding]:
        """The partitions that I own."""
        me, table = self.context.me.id, self.context.table
        return [
            holding
            for holding in self.data.holdings.here.values()
            if holding.reign and table.row(holding.partition).owner == me
        ]

    @property
    def is_member(self) -> bool:
        """Whether I am of a cluster."""
        return self.context.view is not None and self.membership.phase is Phase.MEMBER
