"""A member's part in migrations: source, destination, and what it keeps of the data.

Rules (seed 002 §2.1, §2.2; seed 001 §1.2; seed 000 "Fragmented Migration"; `design/3` §3)
-----------------------------------------------------------------------------------------
* A migration names the version of its partition. A participant first applies the completed
  migrations that come with the request, then takes part only if its row has that version, it has
  no other migration of the partition whose end it does not know, and no state change has locked it.
* The owner gives the data while it goes on serving; destinations get new writes like a backup
  (`data`). When every destination has caught up, the owner holds back writes and says where each
  fragment stands; when every destination stands there too, it hands over: it tells the master that
  it is ready. From then on it must not acknowledge a write of this partition until it knows how the
  migration ended. Where nothing is written meanwhile, catching up is all. Writes that wait for a
  backup are waited for as well, for a moment: once another member owns the partition, nobody here
  learns what became of them, and they would be answered so.
* The destination keeps what arrives beside what it had. It *commits* on the master's word: takes
  the new row and the new data, and answers once both are safe. It does not serve as the new owner
  before the master has published the row, because until then the master may still decide that the
  migration failed (`execution`).
* With `migration_blocking` the owner is closing from the beginning: nothing is written until the
  end, and so nothing has to be sent twice.
* A migration ends for a participant when it applies a row of the partition with a greater version:
  the row says what became of it. The completed list that comes along says so in words.
* The data of a partition begins empty, at every index, with the row that first assigned it or
  gave it away after a loss: its epoch. Data of an older epoch is replaced by the empty one.
* A member that lost its index keeps the data, fenced, until the row has as many holders as were
  promised; and for a moment more, as a plan may take an index away and give a hotter one with its
  next step (seed 002 §3.2.2, the last example): then it need not be sent what it had. A rolled-back
  destination keeps only what it had. What a returning member brings along it keeps for the time in
  which it may be given the partition back.

States
------
                            all caught up         all have everything
    (none) ───► COPYING ─────────────────► CLOSING ─────────────────► HANDED_OVER
       │           └───────── nothing was written meanwhile ──────────────►│
       ├── migration_blocking ──► CLOSING                                  │
       │                              (none) ◄─────────────────────────────┤
       └───────────────────► RECEIVED ──────────────►──── a newer row ──────┘
                                 │  commit                 ▲
                                 └──────► COMMITTED ───────┘

What can go wrong
-----------------
* *The master dies before the commit.* Both sides report an active migration; the new master rolls
  back by publishing the row with version + 2.
* *It dies after the commit.* The destination reports the row with version + 1; it wins.
* *Messages of an ended migration arrive late.* The version of the row has moved; they are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from holdfast.core.context import Context
from holdfast.core.data_messages import FragmentStand, Stand
from holdfast.core.effects import NoticeKind
from holdfast.core.membership import Membership
from holdfast.core.messages import (
    CommitAck,
    CommitRequest,
    Completed,
    Fragment,
    FragmentAck,
    FragmentPush,
    Migration,
    MigrationReady,
    MigrationRequest,
    Origin,
    Outcome,
)
from holdfast.core.table import Row
from holdfast.core.transitions import TransitionTable
from holdfast.ids import NO_INDEX, MemberId, Millis, PartitionId, Version

Reached = tuple[tuple[bytes, int], ...]
"""Of each fragment that is not empty, the entry of an index."""

PUSH_AGAIN = "push again"
SWEEP = "drop what did not come back"
DROP = "drop what was given up"
KEPT_RETRIES: Final = 4
"""What was given up is kept for so many retries: the next step of a plan begins at once."""


class Part(Enum):
    """How far a participant is."""

    COPYING = auto()
    CLOSING = auto()
    HANDED_OVER = auto()
    RECEIVED = auto()
    COMMITTED = auto()


class Turn(Enum):
    """What brings a participant on."""

    ALL_CAUGHT_UP = auto()
    ALL_RECEIVED = auto()
    COMMIT = auto()


PARTS = TransitionTable(
    "participation",
    {
        (Part.COPYING, Turn.ALL_CAUGHT_UP): Part.CLOSING,
        (Part.COPYING, Turn.ALL_RECEIVED): Part.HANDED_OVER,
        (Part.CLOSING, Turn.ALL_RECEIVED): Part.HANDED_OVER,
        (Part.RECEIVED, Turn.COMMIT): Part.COMMITTED,
    },
)


@dataclass(slots=True)
class Active:
    """A migration whose end this member does not know."""

    migration: Migration
    part: Part
    incoming: Fragment | None = None
    reached: dict[MemberId, Reached | None] = field(default_factory=dict)
    """Where each destination stands, as far as it said (the owner's side)."""
    completed: tuple[Completed, ...] = field(default=())
    final: tuple[FragmentStand, ...] = ()
    """Where the owner stands (the destination's side)."""
    owes_answer: bool = False
    """Whether the owner waits to hear where I stand."""
    closed_at: int = 0
    """Since when nobody writes (the owner's side)."""


class Data(Protocol):
    """What becomes of the data itself (`data.service`)."""

    def begin(self, partition: PartitionId, fragment: Fragment) -> None:
        """Empty data of a new history."""

    def expect(
        self,
        partition: PartitionId,
        fragment: Fragment,
        index: int,
        standing: tuple[FragmentStand, ...],
    ) -> None:
        """A migration is to give me this index; so far its owner has come."""

    def unexpected(self, partition: PartitionId) -> None:
        """It has failed."""

    def arrived(self, partition: PartitionId) -> None:
        """It is committed."""

    def published(self, row: Row) -> None:
        """The master has decided this row."""

    def drop(self, partition: PartitionId) -> None:
        """Nobody needs it here any more."""

    def leads(self, row: Row) -> bool:
        """Whether my ownership is the one of this row, the one that I know."""

    def standing(self, partition: PartitionId, index: int) -> tuple[FragmentStand, ...]:
        """Where I stand as the owner, in what goes to this index."""

    def reached(self, partition: PartitionId) -> Reached | None:
        """Where I stand as a destination; None while something is missing."""

    def is_awaited(self, partition: PartitionId) -> bool:
        """Whether a write to it has no answer yet, as a backup has not confirmed it."""

    def taken(self, partition: PartitionId) -> int:
        """How much of it came over since it was expected."""


class Participation:
    """All migrations that this member takes part in, and the rows and data that it holds."""

    data: Data

    def __init__(self, context: Context, membership: Membership) -> None:
        self.context = context
        self.membership = membership
        self.active: dict[PartitionId, Active] = {}
        self.completed: dict[PartitionId, tuple[Completed, ...]] = {}
        self.unpublished: dict[PartitionId, Version] = {}
        """Rows that I have and that the master has not published to me yet."""
        self.withheld: set[PartitionId] = set()
        """Of these, those that are not in my files."""
        self.given_up: dict[PartitionId, Millis] = {}
        """Since when I keep what nobody needs here any more."""
        self.locked = False
        """Whether a state change is under way (`locking`)."""
        self.turns = 0
        """How often a migration here began, went on or ended: what may be served depends on it."""

    def reset(self) -> None:
        """A new stay begins (`membership`). Where I come back with my rows I still withhold what I
        withheld: nobody has told me that others know of it."""
        table = self.context.table
        self.active = {}
        self.completed = {}
        self.unpublished = {
            partition: version
            for partition, version in self.unpublished.items()
            if partition in self.withheld and table.row(partition).version == version
        }
        self.withheld = set(self.unpublished)
        self.given_up = {}
        self._name_active()
        if self.context.fragments:
            self.context.timers.set(SWEEP, self.context.now + self.context.config.rejoin_grace_ms)

    # The owner's side -----------------------------------------------------------------------------

    def on_request(self, origin: Origin, message: MigrationRequest) -> None:
        """The master wants this partition copied and handed over."""
        migration = message.migration
        if not self.membership.follows(origin, migration.id.term):
            return
        active = self.active.get(migration.partition)
        if active is not None and active.migration.id == migration.id:
            self._report(active)
            return
        reason = self._why_not(migration, message.completed)
        if not reason and migration.sender != self.context.me.id:
            reason = "I am not the owner"
        if not reason and not self.data.leads(self.context.table.row(migration.partition)):
            reason = "the data is not here, or not mine yet"
        if reason:
            self._ready(migration, reason)
            return
        others = [member for member in migration.destinations if member != self.context.me.id]
        part = Part.CLOSING if self.context.config.migration_blocking else Part.COPYING
        started = Active(migration, part, None, dict.fromkeys(others), message.completed)
        self._begin(started)
        self._push(started)
        self._look_at_reached(started)

    def _why_not(self, migration: Migration, completed: Sequence[Completed]) -> str:
        partition = migration.partition
        self._apply_completed(partition, completed)
        version = self.context.table.row(partition).version
        if version != migration.version_before:
            return f"my version is {version}, the migration's {migration.version_before}"
        if partition in self.active:
            return "I do not know the end of an earlier migration"
        if self.locked:
            return "a state change is under way"
        return ""

    def _begin(self, active: Active) -> None:
        migration = active.migration
        self.active[migration.partition] = active
        self._name_active()
        self.context.tell(f"partition {migration.partition}", f"{active.part.name} {migration.id}")

    def _name_active(self) -> None:
        self.turns += 1
        self.membership.active = tuple(active.migration.id for active in self.active.values())

    def _push(self, active: Active) -> None:
        migration, closing = active.migration, active.part is not Part.COPYING
        fragment = self.context.fragments[migration.partition]
        for destination in active.reached:
            standing = self._standing(migration, destination)
            push = FragmentPush(migration, active.completed, fragment, standing, closing)
            self.context.send_member(destination, push)
        if not self.context.timers.running(PUSH_AGAIN):
            self.context.timers.set(PUSH_AGAIN, self.context.now + self.context.config.retry_ms)

    def _standing(self, migration: Migration, destination: MemberId) -> tuple[FragmentStand, ...]:
        index = migration.after.index(destination)
        return self.data.standing(migration.partition, index)

    def on_fragment_ack(self, origin: Origin, message: FragmentAck) -> None:
        """A destination has everything up to somewhere, or says why not."""
        active = self.active.get(message.partition)
        if active is None or active.migration.id != message.id:
            return
        if active.part not in (Part.COPYING, Part.CLOSING) or origin.id not in active.reached:
            return
        if message.reason:
            self._ready(active.migration, f"{origin.id}: {message.reason}")
            return
        active.reached[origin.id] = message.reached
        self._look_at_reached(active)

    def _look_at_reached(self, active: Active) -> None:
        """Hand over when everybody has everything; hold back writes when everybody is near."""
        migration = active.migration
        if not self._has_unanswered(active) and all(
            reached is not None and has_reached(reached, self._standing(migration, member), index)
            for member, reached in active.reached.items()
            if (index := migration.after.index(member)) >= 0
        ):
            self._turn(active, Turn.ALL_RECEIVED)
            self._report(active)
        elif active.part is Part.COPYING and None not in active.reached.values():
            self._turn(active, Turn.ALL_CAUGHT_UP)
            active.closed_at = self.context.now
            self._push(active)

    def _turn(self, active: Active, turn: Turn) -> None:
        active.part = PARTS.next(active.part, turn, self.context.story)
        self.turns += 1

    def _has_unanswered(self, active: Active) -> bool:
        """Whether writes wait whose fate nobody here would learn any more."""
        if active.migration.after[0] == self.context.me.id:
            return False
        closed = active.part is Part.CLOSING
        if closed and self.context.now >= active.closed_at + self.context.config.retry_ms:
            return False
        return self.data.is_awaited(active.migration.partition)

    def _report(self, active: Active) -> None:
        if active.part is Part.HANDED_OVER:
            self._ready(active.migration, "")

    def _ready(self, migration: Migration, reason: str) -> None:
        view = self.context.view
        assert view is not None
        ready = MigrationReady(migration.id, migration.partition, reason)
        self.context.send_member(view.master, ready)

    # The destination's side -----------------------------------------------------------------------

    def on_push(self, origin: Origin, message: FragmentPush) -> None:
        """The owner sends the data of a partition that I am to hold."""
        migration = message.migration
        view = self.context.view
        if view is None or not self.context.listed or view.term != migration.id.term:
            return
        if self.context.promised != view.term or self.context.me.id not in migration.destinations:
            return
        active = self.active.get(migration.partition)
        if active is None or active.migration.id != migration.id:
            reason = self._why_not(migration, message.completed)
            if reason:
                ack = FragmentAck(migration.id, migration.partition, reason, ())
                self.context.send(origin.address, ack)
                return
            active = Active(migration, Part.RECEIVED, message.fragment)
            self._begin(active)
            index = migration.after.index(self.context.me.id)
            self.data.expect(migration.partition, message.fragment, index, message.standing)
        active.final = message.standing if message.closing else ()
        active.owes_answer = True
        self._answer_push(active)

    def _answer_push(self, active: Active) -> None:
        """Say where I stand, once I have everything that the owner spoke of."""
        migration = active.migration
        reached = self.data.reached(migration.partition)
        index = migration.after.index(self.context.me.id)
        if reached is not None and (not active.final or has_reached(reached, active.final, index)):
            active.owes_answer = False
            ack = FragmentAck(migration.id, migration.partition, "", reached)
            self.context.send_member(migration.sender, ack)

    def on_commit(self, origin: Origin, message: CommitRequest) -> bool:
        """The master's decision; whether to answer that it is committed."""
        migration = message.migration
        if not self.membership.follows(origin, migration.id.term):
            return False
        if self.commit(migration):
            taken = self.data.taken(migration.partition)
            self.context.send(origin.address, CommitAck(migration.id, migration.partition, taken))
            return True
        return False

    def commit(self, migration: Migration) -> bool:
        """Take the new row and the data; whether they are mine now (or were already)."""
        active = self.active.get(migration.partition)
        if active is None or active.migration.id != migration.id:
            row = self.context.table.row(migration.partition)
            return row.version == migration.version_committed and row.replicas == migration.after
        if active.part is Part.RECEIVED:
            self._commit(active)
        return True

    def _commit(self, active: Active) -> None:
        context, migration = self.context, active.migration
        active.part = PARTS.next(active.part, Turn.COMMIT, context.story)
        held = context.table.row(migration.partition)
        row = held.changed(migration.version_committed, migration.after, migration.id.term)
        assert active.incoming is not None
        context.hold(migration.partition, active.incoming)
        self.data.arrived(migration.partition)
        self.unpublished[migration.partition] = row.version
        taken = context.table.apply((row,))
        context.persist_rows(taken)
        entry = Completed(migration, Outcome.SUCCESS)
        self.completed[migration.partition] = (entry,)
        del self.active[migration.partition]
        self._name_active()

    # Rows and completed migrations ----------------------------------------------------------------

    def take(self, rows: Sequence[Row], completed: Sequence[Completed]) -> None:
        """Apply what the master published: rows, and how migrations of theirs ended."""
        context = self.context
        taken = context.table.apply(rows)
        context.persist_rows(taken)
        for partition in dict.fromkeys(row.partition for row in rows):
            entries = tuple(e for e in completed if e.migration.partition == partition)
            if entries:
                self.completed[partition] = entries
            else:
                self.completed.pop(partition, None)
        self.published(rows)

    def withhold(self, row: Row) -> None:
        """A row that I own, and that others are to hear of before me, by my own word as the master.
        Till then my files must not say that I own it: I never led."""
        self.withheld.add(row.partition)
        self.unpublished[row.partition] = row.version
        self.turns += 1
        self._keep_or_drop(row)

    def begin_with_rows(self) -> None:
        """Of a stay that begins: what I have is published, but for what I withhold."""
        rows = self.context.table.rows
        self.published([row for row in rows if row.partition not in self.withheld])

    def published(self, rows: Sequence[Row]) -> None:
        """The master has decided these rows: end migrations, see to the data."""
        written = [row.partition for row in rows if row.partition in self.withheld]
        self.withheld.difference_update(written)
        self.context.persist_rows(tuple(map(self.context.table.row, written)))
        for row in rows:
            if self.unpublished.get(row.partition, row.version + 1) <= row.version:
                del self.unpublished[row.partition]
            self._settle(self.context.table.row(row.partition))

    def _settle(self, row: Row) -> None:
        active = self.active.get(row.partition)
        if active is not None and row.version > active.migration.version_before:
            self._end(row, active)
        self._keep_or_drop(row)
        if row.partition not in self.unpublished:
            self.data.published(row)

    def _end(self, row: Row, active: Active) -> None:
        """Row by row this is all that a participant needs: it holds an index now, or it doesn't."""
        del self.active[row.partition]
        self._name_active()
        outcome = self._outcome(row, active.migration)
        if active.incoming is not None:
            if outcome is Outcome.SUCCESS:
                self.context.hold(row.partition, active.incoming)
                self.data.arrived(row.partition)
            else:
                self.data.unexpected(row.partition)
        self.context.notice(
            NoticeKind.MIGRATION_ENDED, f"partition {row.partition}", f"here: {outcome}"
        )

    def _outcome(self, row: Row, migration: Migration) -> Outcome:
        """What the completed list says; else what the row says."""
        for entry in self.completed.get(row.partition, ()):
            if entry.migration.id == migration.id:
                return entry.outcome
        committed = row.version == migration.version_committed
        return Outcome.SUCCESS if committed else Outcome.FAILED

    def _keep_or_drop(self, row: Row) -> None:
        context = self.context
        if row.index_of(context.me.id) != NO_INDEX:
            self.given_up.pop(row.partition, None)
            held = context.fragments.get(row.partition)
            if held is None or held.epoch != row.epoch:
                context.forget(row.partition)  # of a migration of this history that never ended
                context.hold(row.partition, Fragment(row.epoch, 0))
                self.data.begin(row.partition, Fragment(row.epoch, 0))
        elif row.partition in self.active or row.partition not in context.fragments:
            return
        elif self._enough_hold(row) and not self._may_get_it_back(row.partition):
            self._give_up(row.partition)

    def _give_up(self, partition: PartitionId) -> None:
        """Nobody needs it here: drop it, a moment after that was so first."""
        now, timers = self.context.now, self.context.timers
        kept_ms = KEPT_RETRIES * self.context.config.retry_ms
        until = self.given_up.setdefault(partition, now) + kept_ms
        if now >= until:
            del self.given_up[partition]
            self.context.drop(partition)
            self.data.drop(partition)
        elif not timers.running(DROP):
            timers.set(DROP, until)

    def _may_get_it_back(self, partition: PartitionId) -> bool:
        """I have just returned with it, or the stable table says that it is mine (seed 003)."""
        stable, timers = self.context.stable, self.context.timers
        if timers.running(SWEEP):
            return True
        return stable is not None and self.context.me.id in stable.rows[partition].replicas

    def _enough_hold(self, row: Row) -> bool:
        """Whether the copies that were promised exist without mine (`design/3` §3, "Dropping")."""
        view = self.context.view
        assert view is not None
        members = len(view.candidates)
        promised = min(self.context.config.backup_count + 1, members)
        return len(row.holders) >= max(promised, 1)

    def _apply_completed(self, partition: PartitionId, completed: Sequence[Completed]) -> None:
        """Catch up with migrations of this partition that I have not heard of (seed 001 §1.2)."""
        for entry in completed:
            row = self.context.table.row(partition)
            migration = entry.migration
            if migration.partition == partition and entry.version_after == row.version:
                self.published((row,))  # whoever sends the end of a migration tells its row, too
            if migration.partition != partition or row.version != migration.version_before:
                continue
            success = entry.outcome is Outcome.SUCCESS
            replicas = migration.after if success else migration.before
            taken = self.context.table.apply(
                (row.changed(entry.version_after, replicas, migration.id.term),)
            )
            self.context.persist_rows(taken)
            self.published(taken)

    def forget_completed(self) -> None:
        """Everyone knows every row: how migrations ended is history.

        That was so when the master said it. What I have committed since, only I know of.
        """
        self.completed = {p: ends for p, ends in self.completed.items() if p in self.unpublished}

    def sweep(self) -> None:
        """Look again at what is kept beyond the rows: the members or the promise have changed."""
        if self.context.listed:
            for partition in tuple(self.context.fragments):
                self._keep_or_drop(self.context.table.row(partition))

    # Time -----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Repeat data that was not confirmed."""
        timers, now = self.context.timers, self.context.now
        if timers.due(SWEEP, now) or timers.due(DROP, now):
            self.sweep()
        self.look_at_data()
        if not timers.due(PUSH_AGAIN, now):
            return
        for active in self.active.values():
            if active.part in (Part.COPYING, Part.CLOSING):
                self._push(active)

    def look_at_data(self) -> None:
        """Go on with what waits for the data alone: mutations, or acknowledgements of them."""
        for active in self.active.values():
            if active.owes_answer:
                self._answer_push(active)
            elif active.part is Part.CLOSING:
                self._look_at_reached(active)

    def is_handing_over(self, partition: PartitionId) -> bool:
        """Whether who serves this partition is being decided, with me as one of two."""
        active = self.active.get(partition)
        handing = active is not None and active.part in (Part.CLOSING, Part.HANDED_OVER)
        return handing or partition in self.unpublished


def has_reached(reached: Reached, stands: Sequence[FragmentStand], index: int) -> bool:
    """Whether somebody has every mutation for this index of an owner that stands there."""
    entries = dict(reached)
    return all(entries.get(each.name, 0) == entry_of(each.stand, index) for each in stands)


def entry_of(stand: Stand, index: int) -> int:
    """What the replica at this index compares (`data.vectors`)."""
    return stand.entries[index - 1] if index else stand.counter
