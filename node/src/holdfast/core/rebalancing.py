"""When the table is repaired and planned anew, and towards which target.

Rules (seed 002 §3.2; seed 003 "STABLE_CLUSTER"; `design/3` §2, §3, §7)
-----------------------------------------------------------------------
* The algorithm is stateless: repair, target, plan. Any change of the members or the state and any
  failed migration cancels what has not begun and starts it again.
* Nothing is assigned before **every** member has confirmed the newest view: all know who is data
  and who is lite (`design/3` §8).
* *Repair* (`repair`) runs where the state promotes on loss. The row of a running migration is left
  alone until that has ended: its destination may have committed the next version already.
* *Target*. Where the state rebalances: the deterministic assignment, begun from the rows as they
  were before members left if all of these are back, so that a member that returns within
  `rejoin_grace` gets back what it had. While someone is awaited, missing copies are not made
  elsewhere. Where every data member is to go, the one that goes last takes what the others have.
  Where the state reclaims: the stable table as far as its members are here; nothing else moves, no
  copy beyond it is given up for a vacant index, and copies that a name asks for are made elsewhere
  only when nobody is awaited any more, beside those that are there.
* *Awaited* is who left and may come back with data: for ever where the state doesn't promote, until
  `stable_repair_after` with a stable table, else within the grace, and not if it had no files and
  its death is a fact. Whoever asks to be let in is awaited in any case: its data is at the door.
* Planning a large table is cut into slices; a slice is never longer than a few milliseconds.

States
------
             something changed               target known           steps all done
    IDLE ───────────────────────► PLANNING ───────────────► MOVING ────────────────► IDLE
     ▲                               │  ▲                      │
     └───────────────────────────────┘  └──────────────────────┘
         the state allows no move          something changed

What can go wrong
-----------------
* *The table changes while a plan is made.* The plan is of an older table and is thrown away.
* *A migration fails again and again.* The next plan waits for a moment each time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from enum import Enum, auto
from functools import partial

from holdfast.core.assignment import Assigning, Candidate, assign, fill
from holdfast.core.context import MASTER, Context
from holdfast.core.cycles import repair_cycles
from holdfast.core.effects import NoticeKind
from holdfast.core.execution import Execution
from holdfast.core.mastership import Mastership
from holdfast.core.migrations import Step
from holdfast.core.planner import plan
from holdfast.core.publication import Publisher
from holdfast.core.repair import give_away, keeping, repair_table, repaired
from holdfast.core.states import Rebalance
from holdfast.core.table import Row
from holdfast.core.versioning import raised, versions_are_global
from holdfast.core.views import Member, View, ViewKey
from holdfast.ids import MemberId, Millis, PartitionId, Replicas

PLAN_LATER = MASTER + "plan later"
GRACE_ENDS = MASTER + "grace ends"

Planned = tuple[tuple[PartitionId, tuple[Step, ...]], ...]
Finish = Callable[[], None]
Job = Generator[None, None, Finish]
"""Sliced work; in the end it says what to do with the result."""


class Activity(Enum):
    """What the master does about the table."""

    IDLE = auto()
    PLANNING = auto()
    MOVING = auto()


class Rebalancing:
    """Repair, target and plan of one mastership."""

    def __init__(
        self,
        context: Context,
        mastership: Mastership,
        publisher: Publisher,
        execution: Execution,
        asks_until: Callable[[MemberId], Millis | None],
    ) -> None:
        self.context = context
        self.asks_until = asks_until
        """Until when somebody counts as asking to be let in (`joining`)."""
        self.mastership = mastership
        self.publisher = publisher
        self.execution = execution
        self.held = False
        """Whether a state change keeps new migrations from starting (`transition`)."""
        self.repaired_key: ViewKey = (0, 0)
        self._before_loss: dict[PartitionId, Replicas] = {}
        self._all_lost: dict[PartitionId, int] = {}
        self._wanted = True
        self._job: Job | None = None
        self._job_for_what: tuple[ViewKey, int] = ((0, 0), 0)

    def begin(self) -> None:
        """A mastership begins, or ends."""
        self.execution.begin()
        self.repaired_key = (0, 0)
        self._before_loss = {}
        self._all_lost = {}
        self._job = None
        self._wanted = True

    @property
    def activity(self) -> Activity:
        """What goes on."""
        if self._job is not None:
            return Activity.PLANNING
        moving = self.execution.running or self.execution.schedule.planned
        return Activity.MOVING if moving else Activity.IDLE

    def again(self) -> None:
        """Something changed: forget what has not begun and plan afresh."""
        self.execution.cancel()
        self._job = None
        self._wanted = True

    # Who is here, who may come back ---------------------------------------------------------------

    def awaited(self, member_id: MemberId) -> bool:
        """Whether someone that left may come back with its data."""
        view = self.context.view
        assert view is not None
        if self._is_at_the_door(member_id):
            return True
        gone = next((member for member in view.departed if member.id == member_id), None)
        if gone is None:
            return False
        until = self._awaited_until(view, gone)
        return until is None or self.context.now < until

    def _is_at_the_door(self, member_id: MemberId) -> bool:
        timers, until = self.context.timers, self.asks_until(member_id)
        if until is None or self.context.now >= until:
            return False
        if not timers.running(GRACE_ENDS):
            timers.set(GRACE_ENDS, until)
        return True

    def _awaited_until(self, view: View, gone: Member) -> int | None:
        config, attributes = self.context.config, view.attributes
        if not attributes.promotes_on_loss:
            return None
        left_at = self.mastership.left_at.get(gone.id, self.context.now)
        if not gone.persistent and self.context.is_dead(gone):
            return left_at
        if attributes.keeps_stable_table:
            after = config.stable_repair_after_ms
            return None if after is None else left_at + after
        return left_at + config.rejoin_grace_ms

    def _someone_is_awaited(self, view: View) -> bool:
        """Departed, or back and a newcomer still; and until when, as a timer."""
        if any(member.newcomer for member in view.members):
            return True
        named = [gone for gone in view.departed if self._is_named(gone)]
        times = [self._awaited_until(view, gone) for gone in named]
        ends = [end for end in times if end is not None and end > self.context.now]
        if ends:
            self.context.timers.set(GRACE_ENDS, min(ends))
        return bool(ends) or any(end is None for end in times)

    def _is_named(self, gone: Member) -> bool:
        """Whether a row, or a row before a loss, or the stable table waits for this member."""
        stable = self.context.stable
        rows: list[Iterable[Replicas]] = [
            (row.replicas for row in self.context.table.rows),
            self._before_loss.values(),
        ]
        if stable is not None:
            rows.append(row.replicas for row in stable.rows)
        return any(gone.id in replicas for some in rows for replicas in some)

    # Repair ---------------------------------------------------------------------------------------

    def repair(self) -> None:
        """Promote, and give away what is lost, for the members of the newest view."""
        context, view = self.context, self.context.view
        assert view is not None
        running = self.execution.running
        if versions_are_global(view.level) and running:
            return
        if not running:
            self.repaired_key = view.key
        self._all_lost = {}
        if not view.attributes.promotes_on_loss:
            return
        rows = [row for row in self._touched(view) if row.partition not in running]
        warm = context.config.warm_indexes
        present = frozenset(member.id for member in view.members).__contains__
        result = repair_table(rows, present, self.awaited, warm)
        for partition in result.changes:
            row = context.table.row(partition)
            self._before_loss.setdefault(partition, row.replicas)
        self._publish(view, result.changes)
        if result.lost:
            self._give_away(view, result.lost)
        self._someone_is_awaited(view)  # if so, a timer brings us back here when that is over

    def _touched(self, view: View) -> Iterator[Row]:
        """Rows that may need repair: a large table is looked at in one go, so this is quick."""
        fine = frozenset((*(member.id for member in view.members), None))
        for row in self.context.table.rows:
            if row.replicas[0] is None or not fine.issuperset(row.replicas):
                yield row

    def _give_away(self, view: View, lost: dict[PartitionId, int]) -> None:
        if len(lost) == len(self.context.table):
            self._all_lost = lost
            return
        owned: dict[MemberId, int] = {}
        for row in self.context.table.rows:
            if row.owner is not None:
                owned[row.owner] = owned.get(row.owner, 0) + 1
        ids = [member.id for member in view.candidates]
        rows = give_away(tuple(lost), owned, ids, self.context.config.replica_count)
        self._give(view, rows, lost)

    def _fresh(self, view: View, lost: dict[PartitionId, int]) -> Job:
        """Nothing is held by anyone: the first assignment needs no migration."""
        config = self.context.config
        vacant: list[Replicas] = [(None,) * config.replica_count] * config.partition_count
        rows = yield from assign(candidates_of(view), vacant, config.replica_count)
        numbered = {PartitionId(partition): row for partition, row in enumerate(rows)}
        return partial(self._give, view, numbered, lost)

    def _give(
        self, view: View, rows: dict[PartitionId, Replicas], lost: dict[PartitionId, int]
    ) -> None:
        table = raised(self.context.table, view.level, view.term, rows, anew=True)
        self.publisher.change(table, after_all=rows.keys())
        for partition in sorted(p for p in rows if lost.get(p, -1) >= 0):
            detail = f"highest lost index {lost[partition]}"
            self.context.notice(NoticeKind.PARTITION_LOST, f"partition {partition}", detail)

    def _publish(self, view: View, changes: dict[PartitionId, Replicas]) -> None:
        table = self.context.table
        promoted = {place for place, new in changes.items() if new[0] != table.row(place).owner}
        if changes:
            self.publisher.change(raised(table, view.level, view.term, changes), after_all=promoted)

    # Planning -------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Start what may start; plan when something changed and everyone knows the members."""
        timers, now = self.context.timers, self.context.now
        view = self.context.view
        assert view is not None
        if timers.due(GRACE_ENDS, now):
            self.repaired_key = (0, 0)  # what waited for somebody is repaired for nobody
        if self.repaired_key != view.key:
            if not self.mastership.committed():
                return
            self.again()
            self.repair()
        if self.execution.failed:
            self.execution.failed = False
            self.again()
            timers.set(PLAN_LATER, now + self.context.config.retry_ms)
        if self.held:
            return
        self._plan_if_wanted(view)
        if self._job is None:
            self.execution.start()

    def _plan_if_wanted(self, view: View) -> None:
        timers, now = self.context.timers, self.context.now
        if not self._wanted or self._job is not None or self.execution.running:
            return
        if timers.running(PLAN_LATER) and not timers.due(PLAN_LATER, now):
            return
        if not self.mastership.known_to_all():
            return
        self._wanted = False
        self._job = self._job_for(view)
        if self._job is not None:
            self._job_for_what = self._basis()
            self.context.outbox.continue_soon()

    def _job_for(self, view: View) -> Job | None:
        rebalance = view.attributes.rebalance
        if self._all_lost and view.candidates:
            lost, self._all_lost = self._all_lost, {}
            self._wanted = True
            return self._fresh(view, lost)
        if rebalance is Rebalance.NO or not candidates_of(view):
            return None
        awaited = self._someone_is_awaited(view)
        if rebalance is Rebalance.RECLAIM:
            return self._reclaim(view, awaited=awaited)
        start = self._rows_before_loss(view)
        if start is None and awaited:
            return None
        self._before_loss = {}
        rows = [row.replicas for row in self.context.table.rows] if start is None else start
        return self._towards(assign(candidates_of(view), rows, self.context.config.replica_count))

    def _rows_before_loss(self, view: View) -> list[Replicas] | None:
        """The table as it was before members left, if all that it needs are back."""
        if not self._before_loss:
            return None
        present = frozenset(member.id for member in view.candidates)
        remembered = self._before_loss
        if any(m is not None and m not in present for row in remembered.values() for m in row):
            return None
        return [remembered.get(row.partition, row.replicas) for row in self.context.table.rows]

    def _reclaim(self, view: View, *, awaited: bool) -> Job | None:
        """The stable table as far as its members are here (seed 003, "Partitioning"). A newcomer
        that the row has waited for keeps what it has."""
        stable = self.context.stable
        if stable is None:
            return None
        present = frozenset(member.id for member in view.candidates)
        now = self.context.table.rows
        rows: list[Replicas] = []
        for row, wanted in zip(now, stable.rows, strict=True):
            here = present.union(m for m in row.holders if view.find(m) is not None)
            target = repaired(wanted.replicas, here.__contains__)
            rows.append(row.replicas if target[0] is None else keeping(target, row.replicas))
        asked_for = min(len(present), self.context.config.copies_max)
        if awaited or not any(None in row[:asked_for] for row in rows):
            return self._towards(given(tuple(rows)))
        return self._towards(self._filled(view, rows, asked_for))

    def _filled(self, view: View, rows: list[Replicas], asked_for: int) -> Assigning:
        """The rows, those that lack a copy with more of them. Who is to go stays where it is."""
        candidates = candidates_of(view)
        full = yield from fill(candidates, rows, self.context.config.replica_count)
        stays = frozenset((None, *(candidate.id for candidate in candidates))).issuperset
        pairs = zip(rows, full, strict=True)
        filled = ((row, more if stays(row) else keeping(row, more)) for row, more in pairs)
        return tuple(
            with_head(row, more[:asked_for]) if None in row[:asked_for] else row
            for row, more in filled
        )

    def _towards(self, target: Generator[None, None, tuple[Replicas, ...]]) -> Job:
        """Plan every row whose target differs, a slice of rows at a time."""
        config = self.context.config
        rows = self.context.table.rows
        wanted = yield from target
        planned: list[tuple[PartitionId, tuple[Step, ...]]] = []
        for row, replicas in zip(rows, wanted, strict=True):
            if row.partition % config.plan_slice_rows == config.plan_slice_rows - 1:
                yield
            if row.replicas == replicas or not self._is_alive(row):
                continue
            reachable, _ = repair_cycles(row.replicas, replicas)
            planned.append((row.partition, plan(row.replicas, reachable)))
        return partial(self._schedule, tuple(planned))

    def _is_alive(self, row: Row) -> bool:
        """Whether the owner is here to send; a row that waits for its members is left alone."""
        view = self.context.view
        return view is not None and row.owner is not None and view.find(row.owner) is not None

    def _basis(self) -> tuple[ViewKey, int]:
        """What a plan is made of: members and table. When they change it is worth nothing."""
        view = self.context.view
        assert view is not None
        return view.key, self.context.table.stamp

    def on_continued(self) -> None:
        """One more slice of the plan."""
        if self._job is None:
            return
        if self._job_for_what != self._basis():
            self.again()
            return
        try:
            next(self._job)
        except StopIteration as end:
            finish: Finish = end.value
            self._job = None
            finish()
        else:
            self.context.outbox.continue_soon()

    def _schedule(self, planned: Planned) -> None:
        execution, table = self.execution, self.context.table
        for partition, steps in planned:
            execution.schedule.add(partition, steps, table.row(partition).owner)
        count = execution.schedule.planned
        execution.planned(count)
        if count:
            detail = f"{count} steps for {len(planned)} partitions"
            self.context.notice(NoticeKind.MIGRATIONS_PLANNED, str(self.repaired_key), detail)


def candidates_of(view: View) -> list[Candidate]:
    """The members that may hold partitions, for the assignment; or else whoever goes last."""
    return [Candidate(member.id, member.group) for member in view.candidates or last_to_go(view)]


def last_to_go(view: View) -> tuple[Member, ...]:
    """Who takes what the others have when all are to go: the master, as it goes last in any case
    (`service`); where it is lite, the oldest voter."""
    master = tuple(voter for voter in view.voters if voter.id == view.master)
    return master or view.voters[:1]


def with_head(row: Replicas, head: Replicas) -> Replicas:
    """A row that begins so; who moved up stands behind no more."""
    return (*head, *(None if member in head else member for member in row[len(head) :]))


def given(rows: tuple[Replicas, ...]) -> Generator[None, None, tuple[Replicas, ...]]:
    """A target that is known already, in the form of one that is computed."""
    yield
    return rows
