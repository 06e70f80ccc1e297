"""Carrying out a plan: the master's side of migrations.

Rules (seed 002 §2.1; seed 001 §2.2; `design/3` §3)
---------------------------------------------------
1. The master asks the owner. The owner copies to the destinations, holds back writes, says ready.
2. The master sends each destination the new row: *commit*. The row has version + 1 there.
3. When every destination has confirmed, the master changes its own table and publishes; the source
   learns it from the publication, and only then may drop its data.
4. A destination that does not confirm is asked again until it does or leaves. If it left, the row
   gets version + 2 with its old content: greater than anything the destination may have stored.
5. A migration that fails before the commit (refused, a participant left, time is up) also gets
   version + 2, so that no late message of it can find its version again.
6. Of several destinations, the new owner is asked last; see "What can go wrong".
7. At most `migrations_parallel_max` at a time for each member, which bounds what moves at a time.
   Where as many as these have ended one after the other and moved nothing, as the destinations had
   it all, some more are begun after each, up to many times as many; one that moves data ends that.
8. A step that gives up a copy waits until everyone who keeps one has confirmed the row that says
   so: who has not heard of it may not have begun to hold the partition. Every step waits until its
   owner may hear of the row before it (`publication`), as it would learn it from the request.
   It fails if anyone leaves who was to keep a copy: what it gives up may be the last but one.

A failed migration, a change of the members or of the state cancels what has not begun
(`rebalancing`); what runs is brought to its end.

States
------
             rule 8 holds            ready         each destination in turn      all confirmed
    WAITING ─────────────► COPYING ────► COMMITTING ────────────────────────► (published, +1)
       │                       │               │
       │      time is up, left │ refused       │ a destination left
       └───────────────────────┴───────────────┴────────────────────────────► (published, +2)

What can go wrong
-----------------
* *A destination confirmed, then left.* The commit stands only when all have; else version + 2
  takes it back everywhere. It has served nobody: an owner by commit serves only after the
  publication (`participation`), which has not happened.
* *The master dies anywhere.* `settlement`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from holdfast.core.context import MASTER, Context
from holdfast.core.effects import NoticeKind
from holdfast.core.messages import (
    CommitAck,
    CommitRequest,
    Completed,
    Migration,
    MigrationId,
    MigrationReady,
    MigrationRequest,
    Outcome,
)
from holdfast.core.migrations import Step, apply_step
from holdfast.core.publication import Publisher
from holdfast.core.schedule import Party, Schedule
from holdfast.core.table import Row
from holdfast.core.transitions import TransitionTable
from holdfast.core.versioning import decided, one_at_a_time, parallel_max
from holdfast.ids import MemberId, Millis, PartitionId, Term

ASK_AGAIN = MASTER + "ask again (migrations)"


class Course(Enum):
    """How far a running migration is, for the master."""

    WAITING = auto()
    COPYING = auto()
    COMMITTING = auto()
    ENDED = auto()


class Word(Enum):
    """What moves it on."""

    SAFE = auto()
    READY = auto()
    FAILS = auto()
    COMMITTED = auto()


COURSES = TransitionTable(
    "execution",
    {
        (Course.WAITING, Word.SAFE): Course.COPYING,
        (Course.WAITING, Word.FAILS): Course.ENDED,
        (Course.COPYING, Word.READY): Course.COMMITTING,
        (Course.COPYING, Word.FAILS): Course.ENDED,
        (Course.COMMITTING, Word.FAILS): Course.ENDED,
        (Course.COMMITTING, Word.COMMITTED): Course.ENDED,
    },
)


@dataclass(slots=True)
class Running:
    """A migration under way, as the master sees it."""

    migration: Migration
    party: Party
    started_at: Millis
    course: Course
    uncommitted: tuple[MemberId, ...]
    """Destinations that have not confirmed the commit, in the order of asking."""


@dataclass(slots=True)
class Progress:
    """What the present plan has come to (shown to people)."""

    planned: int = 0
    """Its steps, and those of the plan before that were running when it was made."""
    completed: int = 0
    failed: int = 0
    moved: int = 0
    """Bytes of keys and values that its destinations took."""


class Execution:
    """All migrations of one mastership."""

    def __init__(self, context: Context, publisher: Publisher) -> None:
        self.context = context
        self.publisher = publisher
        self.schedule = Schedule()
        self.running: dict[PartitionId, Running] = {}
        self.progress = Progress()
        self.failed = False
        """Whether a migration failed since the last look: time to plan afresh."""
        self._sequence = 0
        self._light = 0
        """How many migrations of this plan ended one after the other that moved nothing."""

    def begin(self) -> None:
        """A mastership begins, or ends: nothing runs."""
        self.schedule = Schedule()
        self.running = {}
        self.progress = Progress()
        self.failed = False
        self._sequence = 0

    # Starting -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin every step that the bounds allow."""
        view = self.context.view
        assert view is not None
        if one_at_a_time(view.level) and not (self.publisher.is_quiet() and not self.running):
            return
        configured = self.context.config.migrations_parallel_max
        bound = parallel_max(view.level, configured, self._light)
        for partition, step, party in self.schedule.start(bound):
            self._start(view.term, partition, step, party)
            if one_at_a_time(view.level):
                return

    def _start(self, term: Term, partition: PartitionId, step: Step, party: Party) -> None:
        row = self.context.table.row(partition)
        self._sequence += 1
        migration = Migration(
            id=MigrationId(term, self._sequence),
            partition=partition,
            version_before=row.version,
            moves=step,
            before=row.replicas,
            after=apply_step(row.replicas, step),
        )
        running = Running(
            migration, party, self.context.now, Course.WAITING, migration.destinations
        )
        self.running[partition] = running
        self.context.tell(f"partition {partition}", f"migration {migration.id} begins")
        self._go_on_if_safe(running)
        if not self.context.timers.running(ASK_AGAIN):
            self.context.timers.set(ASK_AGAIN, self.context.now + self.context.config.retry_ms)

    def _go_on_if_safe(self, running: Running) -> None:
        if not self._is_safe(running.migration):
            return
        running.course = COURSES.next(running.course, Word.SAFE, self.context.story)
        if running.uncommitted:
            self._ask_owner(running)
        else:
            self._commit_next(running, Word.READY)

    def _is_safe(self, migration: Migration) -> bool:
        """Whether the owner may hear of its row, and there are copies enough without those who
        have not heard of theirs (rule 8)."""
        if self.publisher.holds_back(migration.partition):
            return False
        kept = [member for member in relied_on(migration) if member in migration.before]
        return self.publisher.confirmed_by(kept, migration.partition)

    def _ask_owner(self, running: Running) -> None:
        migration = running.migration
        completed = self.publisher.completed.get(migration.partition, ())
        self.context.send_member(migration.sender, MigrationRequest(migration, completed))

    # Ready and commit -----------------------------------------------------------------------------

    def _find(self, partition: PartitionId, migration: MigrationId) -> Running | None:
        running = self.running.get(partition)
        return running if running is not None and running.migration.id == migration else None

    def on_ready(self, message: MigrationReady) -> None:
        """The owner has copied everything and holds back writes; or could not."""
        running = self._find(message.partition, message.id)
        if running is None or running.course is not Course.COPYING:
            return
        if message.reason:
            self._fail(running, message.reason)
        else:
            self._commit_next(running, Word.READY)

    def _commit_next(self, running: Running, word: Word | None = None) -> None:
        if word is not None:
            running.course = COURSES.next(running.course, word, self.context.story)
        if running.uncommitted:
            request = CommitRequest(running.migration)
            self.context.send_member(running.uncommitted[0], request)
        else:
            self._succeed(running)

    def on_commit_ack(self, sender: MemberId, message: CommitAck) -> None:
        """A destination has committed, and it will survive its restart."""
        running = self._find(message.partition, message.id)
        if running is None or running.course is not Course.COMMITTING:
            return
        if running.uncommitted and running.uncommitted[0] == sender:
            running.uncommitted = running.uncommitted[1:]
            self.progress.moved += message.taken
            self._light = 0 if message.taken else self._light + 1
            self._commit_next(running)

    # Ending ---------------------------------------------------------------------------------------

    def _succeed(self, running: Running) -> None:
        migration = running.migration
        running.course = COURSES.next(running.course, Word.COMMITTED, self.context.story)
        held = self.context.table.row(migration.partition)
        row = held.changed(migration.version_committed, migration.after, migration.id.term)
        self.progress.completed += 1
        self._end(running, row, Outcome.SUCCESS, "")
        self.schedule.finish(migration.partition, running.party, migration.after[0])
        if self.schedule.is_done:
            self._tell_done()

    def _tell_done(self) -> None:
        view, progress = self.context.view, self.progress
        assert view is not None
        detail = f"{progress.completed} steps, {progress.moved} bytes taken"
        self.context.notice(NoticeKind.MIGRATIONS_DONE, str(view.key), detail)

    def _fail(self, running: Running, reason: str) -> None:
        migration = running.migration
        running.course = COURSES.next(running.course, Word.FAILS, self.context.story)
        held = self.context.table.row(migration.partition)
        row = held.changed(migration.version_failed, migration.before, migration.id.term)
        self.progress.failed += 1
        self.failed = True
        self._end(running, row, Outcome.FAILED, reason)
        self.schedule.release(running.party)

    def _end(self, running: Running, row: Row, outcome: Outcome, reason: str) -> None:
        view = self.context.view
        assert view is not None
        del self.running[row.partition]
        rows = decided(self.context.table, view.level, row)
        self.publisher.change(rows, (Completed(running.migration, outcome),))
        detail = f"{outcome} {reason}".strip()
        self.context.notice(NoticeKind.MIGRATION_ENDED, f"partition {row.partition}", detail)

    def go_on_with(self, members: frozenset[MemberId]) -> None:
        """The others left: their migrations fail, committed or not (seed 002 §2.1, step 4)."""
        for running in tuple(self.running.values()):
            if not members.issuperset(running.party):
                self._fail(running, "a participant left")
            elif not members.issuperset(relied_on(running.migration)):
                self._fail(running, "who was to keep a copy left")

    def planned(self, count: int) -> None:
        """A plan of so many steps was made: what ended before it is none of it."""
        if count:
            self.progress = Progress(len(self.running) + count)
            self._light = 0

    def cancel(self) -> None:
        """Forget what has not begun."""
        self.schedule.cancel()
        self.progress.planned = self.progress.completed + self.progress.failed + len(self.running)

    # Time -----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Begin what had to wait; repeat what was not answered; give up what takes too long."""
        timers, config, now = self.context.timers, self.context.config, self.context.now
        for running in tuple(self.running.values()):
            if running.course is Course.WAITING:
                self._go_on_if_safe(running)
        if not timers.due(ASK_AGAIN, now):
            return
        for running in tuple(self.running.values()):
            if running.course is Course.COMMITTING:
                self._commit_next(running)
            elif now >= running.started_at + config.migration_timeout_ms:
                self._fail(running, "the owner did not get ready in time")
            elif running.course is Course.COPYING:
                self._ask_owner(running)
        if self.running:
            timers.set(ASK_AGAIN, now + config.retry_ms)


def relied_on(migration: Migration) -> tuple[MemberId, ...]:
    """Who keeps the data where a copy is given up; nobody else is relied on."""
    after = tuple(member for member in migration.after if member is not None)
    before = sum(member is not None for member in migration.before)
    return after if len(after) < before else ()
