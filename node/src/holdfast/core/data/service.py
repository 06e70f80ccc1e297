"""The data of one member, put together: what the node gives events to.

    commands ──► plane ──► stores, mutations ──► replication ──► frames ──► replicas of the others
                   │                                 │ ▲                         │
    replies  ◄── tickets ◄─────── acknowledgements ──┘ └── checks, pulling ◄► giving ──┘

Each module documents its own rules; here is only who calls whom.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from holdfast.core.context import Context
from holdfast.core.data.checks import Checks
from holdfast.core.data.copies import Holding
from holdfast.core.data.giving import Giving
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.memory import Memory
from holdfast.core.data.plane import Plane, Serves
from holdfast.core.data.pulling import Pulling
from holdfast.core.data.replicas import Replicas
from holdfast.core.data.replication import Replication
from holdfast.core.data.rounds import Rounds
from holdfast.core.data.tickets import Desk
from holdfast.core.data_messages import FragmentStand
from holdfast.core.events import Batch
from holdfast.core.membership import Membership
from holdfast.core.messages import Fragment
from holdfast.core.participation import Participation, Reached
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import NO_INDEX, Millis, PartitionId


class DataService:
    """Everything about the data; `Participation` tells it what becomes of partitions."""

    def __init__(
        self,
        context: Context,
        membership: Membership,
        participation: Participation,
        serves: Serves,
        serves_until: Callable[[], Millis],
        chance: Random,
    ) -> None:
        self.context = context
        self.membership = membership
        self.wall_offset = 0
        """What the shell's wall clock is ahead of the core's clock."""
        self.desk = Desk()
        self.holdings = Holdings(context)
        self.replication = Replication(context, self.holdings, participation, self.desk)
        self.replicas = Replicas(context, self.holdings, self._lacking)
        self.pulling = Pulling(context, self.holdings, self.replicas)
        self.giving = Giving(
            context, self.holdings, self.replication.flush, self.replication.takers_of
        )
        self.checks = Checks(context, self.holdings, self.pulling)
        self.plane = Plane(context, self.holdings, self.replication, self.desk, serves, chance)
        self.replication.on_room = self.plane.shut
        self.rounds = Rounds(context, self.holdings, serves)
        self.memory = Memory(context, self.holdings, serves)
        participation.data = self
        self.participation = participation
        self._serves_until = serves_until
        self._seen: View | None = None
        self._changes: tuple[int, int, int, int, bool] | None = None
        """What had happened when somebody looked anew last."""

    def _lacking(self, partition: PartitionId, *, at_once: bool = False) -> None:
        self.pulling.want(partition, at_once=at_once)

    @property
    def wall(self) -> int:
        """Milliseconds of the wall clock."""
        return self.context.now + self.wall_offset

    def reset(self) -> None:
        """A new stay begins."""
        self.holdings.reset()
        self.replication.reset()
        self.replicas.reset()
        self.pulling.reset()
        self.giving.reset()

    def execute(self, batches: tuple[Batch, ...]) -> None:
        """Batches of clients."""
        self.plane.execute(batches, self.wall)

    def advance(self) -> None:
        """Time has passed, or something has changed."""
        self.look_anew()
        self.plane.advance(self.wall)
        self._flush()
        self.rounds.advance(self.plane.call)
        self.memory.advance(self.plane.call)
        self.plane.hold_back()
        self._flush()
        self.replication.advance()
        self.giving.advance()
        self.checks.advance()
        self.pulling.advance()
        self.membership.resumes = self.holdings.resumes()
        self._reply()
        self.look_anew()

    def go_on(self) -> None:
        """Nothing has changed but the data, and no time is over."""
        self.plane.go_on(self.wall)
        self._flush()
        self._reply()

    def room(self, *, full: bool) -> None:
        """Whether the disk has too little room for more."""
        self.context.disk_full = full
        self.plane.shut()
        self.replicas.tell_room()

    def look_anew(self) -> None:
        """Who serves what, and who gets what is written, may have changed."""
        context = self.context
        if context.now < self._serves_until() and context.view is self._seen:
            changes = (
                context.table.changes,
                context.moves,
                self.holdings.moves,
                self.participation.turns,
                context.has_room,
            )
            if changes == self._changes:
                return
            self._changes = changes
        else:
            self._seen, self._changes = context.view, None
        self.plane.shut()
        self.replication.look_anew()

    def _flush(self) -> None:
        self.rounds.watch_written()
        self.replication.flush()

    def _reply(self) -> None:
        for session, reply in self.desk.take():
            self.context.outbox.reply(session, reply)

    # What becomes of partitions (`participation.Data`) --------------------------------------------

    def begin(self, partition: PartitionId, fragment: Fragment) -> None:
        """Empty data of a new history. Whether that is all of it, its owner has to say: a row that
        is new to me may be an old one, which I had not kept when I ended."""
        self.holdings.begin(partition, fragment.epoch).unverified = True

    def expect(
        self,
        partition: PartitionId,
        fragment: Fragment,
        index: int,
        standing: tuple[FragmentStand, ...],
    ) -> None:
        """A migration is to give me this index; so far its owner has come."""
        holding = self.holdings.expect(partition, fragment, index)
        holding.compare(standing)
        if holding.arriving():
            self.pulling.want(partition, at_once=True)

    def unexpected(self, partition: PartitionId) -> None:
        """It has failed."""
        self.holdings.unexpected(partition)

    def arrived(self, partition: PartitionId) -> None:
        """It is committed."""
        holding = self.holdings.get(partition)
        if holding is not None and holding.target != NO_INDEX:
            holding.arrived()
            self.holdings.tidy(holding)

    def published(self, row: Row) -> None:
        """The master has decided this row."""
        holding = self.holdings.get(row.partition)
        led = 0 if holding is None else holding.reign
        self.holdings.published(row)
        self.replication.published(row)
        if holding is not None:
            self._look_after(holding, led)
        self.replicas.look_again()  # also where nothing is here: a frame may wait for just this row

    def _look_after(self, holding: Holding, led: int) -> None:
        """What follows for data that is here; `led` is the reign that I had of it."""
        if holding.reign and holding.reign != led:
            self.replication.begin_reign(holding)
            self.rounds.watch((holding.partition,))
        elif holding.recalls:
            self.pulling.want(holding.partition, at_once=True)
        elif holding.index > 0 and holding.lacking():
            self.pulling.want(holding.partition)

    def leads(self, row: Row) -> bool:
        """Whether my ownership is the one of this row, the one that I know."""
        holding = self.holdings.here.get(row.partition)
        return holding is not None and 0 < holding.reign == row.reign

    def drop(self, partition: PartitionId) -> None:
        """Nobody needs it here any more."""
        self.holdings.drop(partition)

    def standing(self, partition: PartitionId, index: int) -> tuple[FragmentStand, ...]:
        """Where I stand as the owner, in what goes to this index."""
        self.replication.flush()
        holding = self.holdings.here[partition]
        return tuple(copy.standing() for copy in holding if copy.goes_to(index))

    def reached(self, partition: PartitionId) -> Reached | None:
        """Where I stand as a destination; None while something is missing."""
        holding = self.holdings.get(partition)
        if holding is None or holding.target == NO_INDEX or holding.arriving():
            return None
        return tuple(
            (copy.name, copy.arrival.held.at(copy.arrival.index))
            for copy in holding
            if copy.arrival is not None
        )

    def is_awaited(self, partition: PartitionId) -> bool:
        """Whether a write to it has no answer yet, as a backup has not confirmed it."""
        return self.replication.is_awaited(partition)

    def taken(self, partition: PartitionId) -> int:
        """How much of it came over since it was expected."""
        holding = self.holdings.get(partition)
        return 0 if holding is None else holding.taken
