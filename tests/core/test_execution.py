"""The master's side of migrations: order of commits, failures, bounds."""

from __future__ import annotations

import pytest

from holdfast.core.effects import NoticeKind
from holdfast.core.events import Woke
from holdfast.core.execution import Course, Execution
from holdfast.core.messages import (
    CommitAck,
    CommitRequest,
    Completed,
    FragmentAck,
    FragmentPush,
    MigrationId,
    MigrationReady,
    MigrationRequest,
    Outcome,
    Publication,
    PublicationAck,
    Redirect,
)
from holdfast.core.migrations import MigrationType, Move, Step
from holdfast.core.node import Node
from holdfast.core.versioning import LIGHT_TIMES
from holdfast.ids import NO_INDEX, MemberId, Millis, Replicas, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    D,
    address_of,
    losing,
    member,
    partition,
)

a, b, c = member(A), member(B), member(C)
P = partition(0)


def taken(kind: MigrationType, source: MemberId | None, index: int, to: MemberId | None) -> Move:
    at = NO_INDEX if source is None else index
    return Move(kind, source, at, NO_INDEX, to, NO_INDEX, NO_INDEX if to is None else index)


def planned(*steps: Step, lost: tuple[type, ...] = (), **settings: object) -> tuple[Cluster, Node]:
    """A leads B and C; every row is (B); these steps are planned for partition 0."""
    cluster = Cluster(A, B, C, **settings)
    master = cluster.form()
    rows = [held.changed(Version(9), (B, None, None), Term(1)) for held in master.table.rows]
    master.leadership.publisher.change(rows)
    cluster.step(A, Woke())
    cluster.run(20)
    cluster.drops = [losing(*lost)]
    cluster.sent.clear()
    cluster.notices.clear()
    master.leadership.execution.schedule.add(P, steps, B)
    cluster.step(A, Woke())
    return cluster, master


GIVE: Step = (taken(MigrationType.MOVE, B, 0, C),)
COPY: Step = (taken(MigrationType.COPY, None, 1, C),)
TWO: Step = (taken(MigrationType.MOVE, B, 0, C), taken(MigrationType.COPY, None, 1, A))


def running(master: Node) -> Course | None:
    found = master.leadership.execution.running.get(P)
    return None if found is None else found.course


def decided(master: Node) -> tuple[Version, Replicas]:
    """What the row says of who holds the data."""
    held = master.table.row(P)
    return held.version, held.replicas


def ended(cluster: Cluster) -> list[str]:
    """How migrations ended, in the master's words."""
    return [
        notice.detail
        for who, notice in cluster.notices
        if who == A and notice.kind is NoticeKind.MIGRATION_ENDED and "here" not in notice.detail
    ]


def done(cluster: Cluster) -> list[str]:
    """What the master said of plans that were carried out."""
    kind = NoticeKind.MIGRATIONS_DONE
    return [notice.detail for who, notice in cluster.notices if (who, notice.kind) == (A, kind)]


def test_migration_that_succeeds_raises_the_version_by_one() -> None:
    cluster, master = planned(COPY)
    cluster.run(20)
    assert decided(master) == (10, (B, C, None))
    assert ended(cluster) == ["success"]
    assert done(cluster) == ["1 steps, 0 bytes taken"]
    assert master.running_load() == {}
    assert master.leadership.execution.progress.completed == 1
    kinds = [
        type(m)
        for _, _, m in cluster.sent
        if not isinstance(m, (Publication, PublicationAck, Redirect))
    ]
    assert kinds == [
        MigrationRequest,
        FragmentPush,
        FragmentAck,
        MigrationReady,
        CommitRequest,
        CommitAck,
    ]


def test_source_learns_the_end_only_after_every_destination_has_committed() -> None:
    cluster, master = planned(GIVE, lost=(CommitAck,))
    cluster.run(100)
    assert running(master) is Course.COMMITTING
    assert master.table.row(P).version == 9
    assert cluster.nodes[C].table.row(P).version == 10
    assert cluster.nodes[B].table.row(P).version == 9
    assert cluster.messages(Publication) == []
    cluster.drops = []
    cluster.run(600)
    assert master.table.row(P).owner == C
    assert cluster.nodes[B].table.row(P).owner == C


def test_new_owner_commits_last() -> None:
    cluster, master = planned(TWO)
    cluster.run(20)
    assert master.table.row(P).replicas == (C, A, None)
    (commit,) = cluster.messages(CommitRequest)
    assert commit.migration.destinations == (A, C)
    assert [to for _, to, message in cluster.sent if message is commit] == [address_of(C)]


def test_destinations_that_do_not_confirm_are_asked_again() -> None:
    cluster, master = planned(GIVE, lost=(CommitRequest,))
    cluster.run(1_200)
    assert len(cluster.messages(CommitRequest)) >= 2
    assert running(master) is Course.COMMITTING
    cluster.drops = []
    cluster.run(600)
    assert ended(cluster)[0] == "success"


def test_owner_that_does_not_answer_is_asked_again_then_given_up() -> None:
    cluster, master = planned(GIVE, lost=(MigrationRequest,), migration_timeout_ms=Millis(2_000))
    cluster.run(1_200)
    assert len(cluster.messages(MigrationRequest)) >= 2
    cluster.run(1_400)
    assert ended(cluster)[0] == "failed the owner did not get ready in time"
    assert master.table.row(P).replicas[0] == B
    assert master.table.row(P).version >= 11


def test_migration_that_fails_raises_the_version_by_two() -> None:
    cluster, master = planned(GIVE, lost=(MigrationRequest,))
    migration = cluster.messages(MigrationRequest)[0].migration
    cluster.inject(b, A, MigrationReady(migration.id, P, "no"))
    assert decided(master) == (11, (B, None, None))
    assert ended(cluster) == ["failed no"]
    assert master.leadership.execution.progress.failed == 1
    cluster.step(A, Woke())
    assert cluster.messages(Publication, to=B)[0].completed == (
        Completed(migration, Outcome.FAILED),
    )
    assert master.running_load() == {}


def test_failure_cancels_what_has_not_begun_and_plans_afresh_after_a_moment() -> None:
    cluster, master = planned(GIVE, COPY, lost=(MigrationRequest,))
    migration = cluster.messages(MigrationRequest)[0].migration
    cluster.inject(b, A, MigrationReady(migration.id, P, "no"))
    assert master.leadership.execution.schedule.planned == 0
    assert done(cluster) == []
    cluster.drops = []
    cluster.settle()
    assert all(None not in row.replicas for row in master.table.rows)


def test_words_about_another_migration_are_ignored() -> None:
    cluster, master = planned(GIVE, lost=(MigrationReady, CommitRequest))
    real = cluster.messages(MigrationRequest)[0].migration.id
    other = MigrationId(Term(1), 99)
    cluster.inject(b, A, MigrationReady(other, P, "no"))
    cluster.inject(b, A, MigrationReady(real, partition(1), "no"))
    cluster.inject(c, A, CommitAck(real, P))
    assert running(master) is Course.COPYING
    cluster.inject(b, A, MigrationReady(real, P, ""))
    assert running(master) is Course.COMMITTING
    cluster.inject(b, A, MigrationReady(real, P, "too late"))
    cluster.inject(b, A, CommitAck(real, P))
    cluster.inject(c, A, CommitAck(other, P))
    assert running(master) is Course.COMMITTING
    cluster.inject(c, A, CommitAck(real, P))
    assert running(master) is None


@pytest.mark.parametrize("lost", [MigrationReady, CommitAck])
@pytest.mark.parametrize("who", [B, C])
def test_participant_that_leaves_fails_the_migration_committed_or_not(
    who: MemberId, lost: type
) -> None:
    cluster, master = planned(GIVE, lost=(lost,))
    cluster.run(20)
    assert running(master) is not None
    cluster.crash(who)
    cluster.confirm_dead(who)
    cluster.run_until(lambda: running(master) is None)
    assert ended(cluster)[0] == "failed a participant left"
    assert master.table.row(P).version >= 11


def test_member_that_takes_no_part_may_leave() -> None:
    cluster, master = planned(COPY, lost=(CommitAck,))
    cluster.start(member(D), initial=(address_of(A),))
    cluster.run(3_000)
    assert running(master) is Course.COMMITTING
    cluster.crash(D)
    cluster.confirm_dead(D)
    cluster.run(50)
    assert running(master) is Course.COMMITTING


def test_step_without_destination_needs_nobody() -> None:
    cluster, master = planned(COPY, (taken(MigrationType.MOVE, C, 1, None),))
    cluster.run(20)
    assert master.table.row(P).replicas[:2] != (B, C)
    assert ended(cluster)[:2] == ["success", "success"]


def loads_of_a_join(*, bound: int, keys: int) -> list[int]:
    """In how many migrations some member took part at a time, while a third one joined two."""
    cluster = Cluster(A, B, migrations_parallel_max=bound, partition_count=12)
    master = cluster.form()
    for key in range(keys):
        for owner in (A, B):
            cluster.reply(owner, f"SET {key} v")  # it is one of the two; the other one says so
    cluster.start(c, initial=(address_of(A),))
    loads: list[int] = []
    for _ in range(3_000):
        cluster.run(1)
        loads += master.running_load().values()
    cluster.settle()
    return loads


def test_migrations_that_move_nothing_are_begun_in_growing_numbers() -> None:
    assert 3 < max(loads_of_a_join(bound=3, keys=0)) <= 3 * LIGHT_TIMES


def test_no_member_takes_part_in_more_migrations_than_its_bound_while_they_move_data() -> None:
    assert max(loads_of_a_join(bound=3, keys=600)) == 3


def test_one_at_a_time_stays_one_whatever_it_moves() -> None:
    assert max(loads_of_a_join(bound=1, keys=0)) == 1


@pytest.mark.parametrize("level", [1, 2])
def test_below_level_three_one_migration_runs_and_the_next_waits_until_all_know(
    level: int,
) -> None:
    cluster = Cluster(A, B, level=level)
    master = cluster.form()
    cluster.start(c, initial=(address_of(A),))

    def settled() -> bool:
        assert len(master.leadership.execution.running) <= 1
        assert len(set(master.table.versions)) == 1
        return cluster.settled() and len(master.view.members) == 3  # type: ignore[union-attr]

    cluster.run_until(settled)
    cluster.settle()
    assert all(None not in row.replicas for row in master.table.rows)


def test_progress_counts_what_was_planned_ended_and_failed() -> None:
    cluster = Cluster(A, B)
    master = cluster.form()
    cluster.start(c, initial=(address_of(A),))
    cluster.settle()
    progress = master.leadership.execution.progress
    assert progress.planned == progress.completed > 0
    assert progress.failed == 0
    assert isinstance(master.leadership.execution, Execution)


def test_request_carries_the_ends_that_the_owner_may_not_know() -> None:
    cluster, master = planned(COPY, (taken(MigrationType.COPY, None, 2, A),), lost=(Publication,))
    cluster.run(20)
    second = cluster.messages(MigrationRequest)[-1]
    assert [entry.outcome for entry in second.completed] == [Outcome.SUCCESS]
    assert decided(master) == (11, (B, C, A))


def holding_three(cluster: Cluster, master: Node) -> None:
    """Partition 0 is held by B, C and A, and C has not heard of that."""
    cluster.drops = [
        lambda _, to, message: to == address_of(C) and isinstance(message, Publication)
    ]
    held = master.table.row(P)
    master.leadership.publisher.change([held.changed(Version(20), (B, C, A), Term(1))])
    cluster.step(A, Woke())
    cluster.run(20)
    cluster.sent.clear()


CLEAR: Step = (taken(MigrationType.MOVE, A, 2, None),)
SHIFT: Step = (Move(MigrationType.SHIFT_UP, C, 1, NO_INDEX, A, 2, 1),)
FRONT: Step = (Move(MigrationType.SHIFT_UP, B, 0, NO_INDEX, A, 2, 0),)


def test_copy_is_given_up_only_when_those_who_keep_one_know_of_theirs() -> None:
    cluster, master = planned()
    holding_three(cluster, master)
    master.leadership.execution.schedule.add(P, [CLEAR], B)
    cluster.step(A, Woke())
    cluster.run(1_000)
    assert running(master) is Course.WAITING
    cluster.drops = []
    cluster.run(600)
    assert decided(master) == (21, (B, C, None))
    assert cluster.messages(MigrationRequest) == [], "nobody has to send anything"


def test_whoever_loses_its_copy_need_not_know_of_it() -> None:
    cluster, master = planned()
    holding_three(cluster, master)
    master.leadership.execution.schedule.add(P, [SHIFT], B)
    cluster.step(A, Woke())
    cluster.run(100)
    assert decided(master) == (21, (B, A, None))


def test_copy_is_not_given_up_if_someone_leaves_who_was_to_keep_one() -> None:
    """C takes no part in it; without C there would be one copy less than before."""
    cluster, master = planned()
    holding_three(cluster, master)
    cluster.drops = [losing(MigrationReady)]
    master.leadership.execution.schedule.add(P, [FRONT], B)
    cluster.step(A, Woke())
    cluster.run(1_000)
    assert running(master) is Course.COPYING
    cluster.crash(C)
    cluster.confirm_dead(C)
    cluster.run_until(lambda: running(master) is None)
    assert ended(cluster)[0] == "failed who was to keep a copy left"
    assert {A, B}.issubset(decided(master)[1])


def test_step_that_can_not_begin_is_given_up_in_time() -> None:
    cluster, master = planned(migration_timeout_ms=Millis(1_200))
    holding_three(cluster, master)
    master.leadership.execution.schedule.add(P, [CLEAR], B)
    cluster.step(A, Woke())
    cluster.run(2_000)
    assert ended(cluster)[0].startswith("failed")


def test_progress_of_a_new_plan_has_nothing_of_the_one_before() -> None:
    """1. A step has ended. 2. Another plan is made. 3. A third one, while a step still runs."""
    cluster, master = planned(COPY)
    cluster.run(20)
    execution = master.leadership.execution
    before = execution.progress
    assert before.completed == 1
    execution.planned(0)
    assert execution.progress is before, "nothing to do is no plan: the last one is still shown"
    execution.planned(2)
    assert (execution.progress.planned, execution.progress.completed) == (2, 0)
    cluster, master = planned(COPY, lost=(FragmentPush,))
    cluster.run(20)
    execution = master.leadership.execution
    assert running(master) is Course.COPYING
    execution.planned(3)
    assert (execution.progress.planned, execution.progress.completed) == (4, 0)
