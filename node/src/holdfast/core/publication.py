"""The table on its way: what the master publishes, and who has it.

Rules (seed 001 §1.2, seed 002 §1.1, §2.1; `design/3` §2)
---------------------------------------------------------
* Only the master changes rows, and only through `Publisher.change`. What changed is sent to every
  member, once in a step; rows that did not change are not sent. While migrations run, what one of
  them changed waits until all that has come with its end is taken (`Continue`): those that were
  made safe together end together, and every member hears of them, writes down and confirms them
  once. An owner that waits for its row waits for the rest of that turn.
* The master knows per member which rows it has not confirmed, and repeats those.
* **The owner hears last.** A row that only its holders and the master knew would be gone with them.
  So an owner hears of a row after everyone whose word may bring back the one before it, and the
  master, where it is the owner itself, waits as long (`docs/adr/0041`):
  - of a partition that begins, at first or again after a loss, after *everybody* else: a successor
    may begin it once more, or find the data that was taken for lost; so of one that is led by
    another as its owner left: that one may come back with its files, and go on as if nobody had;
  - of one that moved, after those whom the row takes an index from, or gives a colder one: a
    successor that knows the row before would let them lead, and they would not know what they lack;
  - of one that somebody lacks when a mastership begins, after all who lack it.
* With a row go the completed migrations of its partition, so that participants learn the end of
  theirs. A completed migration is forgotten when **every** member has confirmed its row.
* A member that joined confirms all rows before it counts as settled; and nobody is granted a lease
  before it has seen every row that it lacked when the mastership began (`mastership`).
* Every `stamp_check_ms` the master compares the stamp in each member's last heartbeat with its own.
  A member that differs although nothing is under way is asked for its versions and gets what it
  lacks. A member that is *ahead* knows of a mastership that this master doesn't: the master gives
  up its office, and whoever is next fetches from everyone.

States
------
For each member and partition: `unsent → sent → confirmed`; a repeat puts sent ones back to unsent.

What can go wrong
-----------------
* *A publication overtakes an older one.* Versions decide; the older is ignored on arrival.
* *A confirmation arrives for rows that changed again.* It names versions; only these are confirmed.
* *Who is to hear before the owner does not answer.* Nobody writes until that member has left, and
  that is sure (`View.base`): as long as its lease may last.
* *The master goes while it, as the owner, waits.* It says so to the next one, and is told again
  (`Report.unpublished`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from holdfast.core.context import MASTER, Context
from holdfast.core.messages import (
    Completed,
    Publication,
    PublicationAck,
    Versions,
    VersionsRequest,
)
from holdfast.core.participation import Participation
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import MemberId, PartitionId, Replicas, Version

AGAIN = MASTER + "publish again"
STAMPS = MASTER + "compare stamps"
NOBODY: Final[frozenset[MemberId]] = frozenset()
ROWS_MAX: Final = 1_024
"""Rows in one message; a whole table of 16,384 goes in sixteen."""


class Subscriber:
    """What one member has not confirmed."""

    def __init__(self) -> None:
        self.unconfirmed: dict[PartitionId, Version] = {}
        self.unseen: dict[PartitionId, None] = {}
        """Rows that it lacked when this mastership, or its stay, began."""
        self.unsent: dict[PartitionId, None] = {}
        self.sent: dict[int, tuple[tuple[PartitionId, Version], ...]] = {}


class Publisher:
    """The master's side of publication."""

    def __init__(self, context: Context, participation: Participation) -> None:
        self.context = context
        self.participation = participation
        self.completed: dict[PartitionId, tuple[Completed, ...]] = {}
        self._subscribers: dict[MemberId, Subscriber] = {}
        self._lagging: dict[PartitionId, int] = {}
        self._held: dict[PartitionId, frozenset[MemberId]] = {}
        """Who is to confirm these rows before their owners are told; nobody any more when an owner
        is about to be."""
        self._minded: View | None = None
        """The view whose members were looked at last."""
        self._sequence = 0
        self._gathers = False
        """Whether rows wait for what has come with the ends of their migrations."""
        self._gathered = False

    # Changing -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A mastership begins: nobody has confirmed anything to it."""
        self.completed = {}
        self._subscribers = {}
        self._lagging = {}
        self._held = {}
        self._minded = None
        self._sequence = 0
        self._gathers = self._gathered = False

    def change(
        self,
        rows: Sequence[Row],
        completed: Sequence[Completed] = (),
        after_all: AbstractSet[PartitionId] = frozenset(),
    ) -> None:
        """Change rows, as the master; they go out at the end of the step.

        A row may be held already: the master was a destination itself and has committed it.
        """
        table = self.context.table
        before = {row.partition: table.row(row.partition).replicas for row in rows}
        before.update((e.migration.partition, e.migration.before) for e in completed)
        new = tuple(row for row in rows if row != table.row(row.partition))
        for row in new:
            table.set(row)
        for entry in completed:
            partition = entry.migration.partition
            self.completed[partition] = (*self.completed.get(partition, ()), entry)
        for subscriber in self._subscribers.values():
            for row in rows:
                self._owe(subscriber, row)
        everybody = frozenset(self._subscribers)
        for row in rows:
            last = row.partition in after_all
            first = everybody if last else self._displaced(before[row.partition], row.replicas)
            self._hold(row, first)
        if not self._subscribers:
            self.completed = {}
        self.publish_here(rows, new)

    def publish_here(self, rows: Iterable[Row], new: Iterable[Row]) -> None:
        """Take rows for decided here as well, and write down the new ones: mine are when those who
        are to hear first have."""
        self.context.persist_rows(tuple(row for row in new if not self._is_withheld(row)))
        self.participation.published([row for row in rows if not self._is_withheld(row)])

    def _is_withheld(self, row: Row) -> bool:
        return row.owner == self.context.me.id and row.partition in self._held

    def _displaced(self, before: Replicas, after: Replicas) -> frozenset[MemberId]:
        """Whom a row displaces, as far as they have a say."""
        view = self.context.view
        assert view is not None
        places = displaced(before, after)
        return frozenset(each for each in places if view.find_or_base(each) is not None)

    def _hold(self, row: Row, members: frozenset[MemberId]) -> None:
        """Have these members confirm a row before its owner hears of it."""
        me, partition = self.context.me.id, row.partition
        first = self._held.pop(partition, NOBODY).union(members).difference((row.owner, me))
        if first:
            self._held[partition] = first
            if row.owner == me:
                self.participation.withhold(row)

    def remember(self, entry: Completed) -> None:
        """A migration ended under an earlier master, and someone has not heard of it."""
        partition = entry.migration.partition
        if partition in self._lagging:
            self.completed[partition] = (*self.completed.get(partition, ()), entry)

    def _owe(self, subscriber: Subscriber, row: Row) -> None:
        if row.partition not in subscriber.unconfirmed:
            self._lagging[row.partition] = self._lagging.get(row.partition, 0) + 1
        subscriber.unconfirmed[row.partition] = row.version
        subscriber.unsent[row.partition] = None

    # Members --------------------------------------------------------------------------------------

    def subscribe(self, member: MemberId, versions: Sequence[int]) -> None:
        """This member holds these versions; it gets what is newer."""
        subscriber = self._subscribers.setdefault(member, Subscriber())
        for row in self.context.table.newer_than(versions):
            self._owe(subscriber, row)
            subscriber.unseen[row.partition] = None

    def hold_what_is_lacking(self) -> None:
        """A mastership begins: what somebody lacks may be known to its holders alone."""
        for member, subscriber in self._subscribers.items():
            first = frozenset((member,))
            for partition in subscriber.unseen:
                self._hold(self.context.table.row(partition), first)

    def forget(self, members: Iterable[MemberId]) -> None:
        """These members left."""
        for member in members:
            subscriber = self._subscribers.pop(member, None)
            if subscriber is not None:
                for partition in subscriber.unconfirmed:
                    self._caught_up(partition)

    def wait_no_more(self) -> None:
        """No owner waits for who has surely left."""
        view = self.context.view
        if view is None or view is self._minded:
            return
        self._minded = view
        for partition, first in tuple(self._held.items()):
            gone = [member for member in first if view.find_or_base(member) is None]
            self._has_heard(partition, gone)

    def _has_heard(self, partition: PartitionId, members: Iterable[MemberId]) -> None:
        """The owner waits for these no more; once it waits for none it hears of its row."""
        first = self._held.get(partition)
        if not first:
            return
        left = self._held[partition] = first.difference(members)
        if left:
            return
        row = self.context.table.row(partition)
        owner = self._subscribers.get(row.owner) if row.owner is not None else None
        if owner is None or partition not in owner.unsent:
            del self._held[partition]  # nothing has to be sent: it is me, or knew the row before
        if row.owner == self.context.me.id:
            self.participation.published((row,))

    def has(self, member: MemberId) -> bool:
        """Whether it is published to."""
        return member in self._subscribers

    @property
    def subscribers(self) -> tuple[MemberId, ...]:
        """Everyone that is published to."""
        return tuple(self._subscribers)

    def _caught_up(self, partition: PartitionId) -> None:
        self._lagging[partition] -= 1
        if not self._lagging[partition]:
            del self._lagging[partition]
            self.completed.pop(partition, None)

    def knows_the_beginning(self, member: MemberId) -> bool:
        """Whether a member has seen every row that it lacked when this mastership began.

        Before that it may take itself for an owner that it is no more: whatever it knew of
        hand-overs, its restart has wiped out.
        """
        subscriber = self._subscribers.get(member)
        return subscriber is not None and not subscriber.unseen

    def confirmed_by(self, members: Iterable[MemberId], partition: PartitionId) -> bool:
        """Whether these members have confirmed the row of a partition as it is now."""
        known = (self._subscribers.get(member) for member in members)
        return not any(each is not None and partition in each.unconfirmed for each in known)

    def holds_back(self, partition: PartitionId) -> bool:
        """Whether its owner has not been told of a row, as others are to hear before it."""
        return partition in self._held

    def is_quiet(self) -> bool:
        """Whether every member has confirmed every row."""
        return not self._lagging

    # Sending --------------------------------------------------------------------------------------

    def on_continued(self) -> None:
        """All that came with the end of a migration has been taken."""
        self._gathered, self._gathers = self._gathers, False

    def flush(self, *, more: bool) -> None:
        """Send what changed, and what has to be repeated; `more` ends of migrations may come."""
        context = self.context
        if context.timers.due(AGAIN, context.now):
            for subscriber in self._subscribers.values():
                subscriber.sent = {}
                subscriber.unsent = dict.fromkeys(subscriber.unconfirmed)
        if more and not self._gathered:
            self._gather()
            return
        self._gathered = False
        for member, subscriber in self._subscribers.items():
            pending = self._pending(member, subscriber)
            for partition in pending:
                del subscriber.unsent[partition]
                if self._is_owner(member, partition):
                    self._held.pop(partition, None)
            for start in range(0, len(pending), ROWS_MAX):
                self._send(member, subscriber, pending[start : start + ROWS_MAX])
        if self._lagging and not context.timers.running(AGAIN):
            context.timers.set(AGAIN, context.now + context.config.retry_ms)

    def _gather(self) -> None:
        """Send what there is when this turn is over."""
        pairs = self._subscribers.items()
        if not self._gathers and any(self._pending(*pair) for pair in pairs):
            self._gathers = True
            self.context.outbox.continue_soon()

    def _pending(self, member: MemberId, subscriber: Subscriber) -> tuple[PartitionId, ...]:
        """What a member may be told now."""
        return tuple(p for p in subscriber.unsent if not self._hears_later(member, p))

    def _hears_later(self, member: MemberId, partition: PartitionId) -> bool:
        """Whether it is the owner, and others are to hear before it."""
        return bool(self._held.get(partition)) and self._is_owner(member, partition)

    def _is_owner(self, member: MemberId, partition: PartitionId) -> bool:
        return self.context.table.row(partition).owner == member

    def _send(
        self, member: MemberId, subscriber: Subscriber, partitions: Sequence[PartitionId]
    ) -> None:
        view = self.context.view
        assert view is not None
        self._sequence += 1
        rows = tuple(self.context.table.row(partition) for partition in partitions)
        subscriber.sent[self._sequence] = tuple((row.partition, row.version) for row in rows)
        completed = tuple(
            entry for partition in partitions for entry in self.completed.get(partition, ())
        )
        self.context.send_member(member, Publication(view.term, self._sequence, rows, completed))

    def on_ack(self, member: MemberId, message: PublicationAck) -> bool:
        """These rows arrived; whether the last that the member had not seen was among them."""
        subscriber = self._subscribers.get(member)
        if subscriber is None:
            return False
        had_to_wait = bool(subscriber.unseen)
        for partition, version in subscriber.sent.pop(message.sequence, ()):
            subscriber.unseen.pop(partition, None)
            if subscriber.unconfirmed.get(partition) == version:
                del subscriber.unconfirmed[partition]
                subscriber.unsent.pop(partition, None)
                self._caught_up(partition)
                self._has_heard(partition, (member,))
        return had_to_wait and not subscriber.unseen

    # Stamps ---------------------------------------------------------------------------------------

    def compare_stamps(self, stamps: Mapping[MemberId, int]) -> None:
        """Ask whoever differs although nothing is under way to it."""
        view = self.context.view
        assert view is not None
        for member, subscriber in self._subscribers.items():
            stamp = stamps.get(member)
            if stamp is None or subscriber.unconfirmed or stamp == self.context.table.stamp:
                continue
            self.context.send_member(member, VersionsRequest(view.term))

    def on_versions(self, member: MemberId, message: Versions) -> bool:
        """Send what is lacking; False when the member is ahead of me."""
        held = self.context.table.versions
        if any(theirs > mine for theirs, mine in zip(message.versions, held, strict=True)):
            return False
        if member in self._subscribers:
            self.subscribe(member, message.versions)
        return True


def displaced(before: Replicas, after: Replicas) -> tuple[MemberId, ...]:
    """Whom a row takes an index from, or gives a colder one."""
    return tuple(
        member
        for index, member in enumerate(before)
        if member is not None and member not in after[: index + 1]
    )
