"""When the table is repaired and planned anew, and towards which target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.effects import NoticeKind
from holdfast.core.events import Continued, Woke
from holdfast.core.execution import Course, Running
from holdfast.core.messages import (
    Ask,
    CommitAck,
    Heartbeat,
    Migration,
    MigrationId,
    MigrationRequest,
    Publication,
    PublicationAck,
)
from holdfast.core.node import Node
from holdfast.core.rebalancing import PLAN_LATER, Activity, candidates_of
from holdfast.core.repair import repaired
from holdfast.core.serving import Serving
from holdfast.core.states import ClusterState
from holdfast.core.views import Drain, Kind
from holdfast.ids import MemberId, Millis, PartitionId, Replicas, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    D,
    address_of,
    losing,
    member,
    request_of,
    view_of,
)

GRACE = 30_000
COPIES = 2
"""Of any name, by these settings; what stands behind them has no data."""


def cluster_in(state: ClusterState, *ids: MemberId, **settings: object) -> tuple[Cluster, Node]:
    """Members in a state, all settled."""
    cluster = Cluster(*ids, **settings)
    master = cluster.form()
    if state is not ClusterState.ACTIVE:
        cluster.ask(A, request_of(Ask.STATE, "state", state=state))
        cluster.settle()
    return cluster, master


def active(*ids: MemberId, **settings: object) -> tuple[Cluster, Node]:
    return cluster_in(ClusterState.ACTIVE, *ids, **settings)


def rows_of(node: Node) -> list[Replicas]:
    return [row.replicas for row in node.table.rows]


def dies(cluster: Cluster, *ids: MemberId, incarnation: int = 1) -> None:
    """Members die, and the arbiter says so."""
    cluster.crash(*ids)
    for dead in ids:
        cluster.confirm_dead(dead, incarnation)
    cluster.run(100)


# Fresh --------------------------------------------------------------------------------------------


def test_fresh_table_needs_no_migration() -> None:
    cluster, master = active(A, B, C)
    assert all(row.version == 1 and None not in row.replicas for row in master.table.rows)
    assert cluster.messages(MigrationRequest) == []
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []


def test_nothing_is_assigned_before_everyone_knows_the_members() -> None:
    cluster = Cluster(A, B, C)
    cluster.drops = [lambda sender, _, m: sender == C and isinstance(m, Heartbeat)]
    cluster.start_all()
    cluster.run(2_000)
    assert all(row == (None, None, None) for row in rows_of(cluster.nodes[A]))
    cluster.drops = []
    cluster.settle()
    assert all(None not in row for row in rows_of(cluster.nodes[A]))


def test_without_data_members_nothing_is_assigned() -> None:
    cluster = Cluster(A, B)
    cluster.start(member(A))
    cluster.start(member(B, kind=Kind.LITE))
    master = cluster.settle()
    assert all(row == (A, None, None) for row in rows_of(master))
    cluster.crash(A)
    cluster.confirm_dead(A)
    cluster.run(GRACE + 5_000)
    assert cluster.nodes[B].is_master
    assert all(row == (A, None, None) for row in rows_of(cluster.nodes[B]))
    cluster.start(member(D), initial=(address_of(B),))
    cluster.run_until(lambda: set(rows_of(cluster.nodes[B])) == {(D, None, None)})
    cluster.settle()
    assert len(cluster.noticed(NoticeKind.PARTITION_LOST)) == 6


def test_a_first_assignment_is_served_when_everybody_knows() -> None:
    """What its founder served before anybody else knew would be gone with it (seeds 2759, 8992)."""
    cluster = Cluster(A, B, C)
    cluster.drops = [
        lambda _, to, message: to == address_of(C) and isinstance(message, Publication)
    ]
    cluster.start_all()
    cluster.run_until(lambda: any(row[0] == A for row in rows_of(cluster.nodes[B])))
    cluster.run(100)
    assert all(serving(cluster.nodes[each]) == set() for each in (A, B))
    cluster.drops = []
    cluster.settle()
    assert serving(cluster.nodes[A])


def serving(node: Node) -> set[Serving]:
    """Of any partition."""
    now = node.context.now
    found = {node.serving(row.partition, now) for row in node.table.rows}
    return found - {Serving.NONE}


def test_successor_of_a_master_that_told_nobody_of_its_assignment_makes_its_own() -> None:
    cluster = Cluster(A, B, C)
    cluster.drops = [lambda _, to, message: bool(to) and isinstance(message, Publication)]
    cluster.start_all()
    cluster.run_until(lambda: any(row[0] == A for row in rows_of(cluster.nodes[A])))
    cluster.drops = []
    cluster.crash(A)
    cluster.confirm_dead(A)
    cluster.run_until(lambda: any(row[0] is not None for row in rows_of(cluster.nodes[B])))
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []


# Loss ---------------------------------------------------------------------------------------------


def test_backup_is_promoted_at_once_and_copies_are_made_anew_after_the_grace() -> None:
    cluster = Cluster(A, B, C, D)
    master = cluster.form(persistent=True)
    dies(cluster, D)
    assert all(row[0] is not None and D not in row for row in rows_of(master))
    gaps = sum(None in row for row in rows_of(master))
    assert gaps
    cluster.run(GRACE - 1_000)
    assert sum(None in row for row in rows_of(master)) == gaps
    cluster.run(3_000)
    cluster.settle()
    assert all(None not in row for row in rows_of(master))


def test_member_with_files_that_returns_within_the_grace_gets_back_what_it_had() -> None:
    cluster = Cluster(A, B, C, D)
    master = cluster.form(persistent=True)
    before = rows_of(master)
    dies(cluster, D)
    cluster.run(10_000)
    assert rows_of(master) != before
    cluster.start(member(D, 2, persistent=True))
    cluster.settle()
    assert rows_of(master) == before


def test_member_without_files_whose_death_is_a_fact_is_not_awaited() -> None:
    cluster, master = active(A, B, C, D)
    dies(cluster, D)
    cluster.run(5_000)
    awaited = master.leadership.rebalancing.awaited
    assert not awaited(MemberId("nobody"))
    assert not awaited(D)
    assert all(None not in row for row in rows_of(master))


@pytest.mark.parametrize("persistent", [False, True])
def test_partition_whose_members_all_left_waits_for_those_that_may_come_back(
    *, persistent: bool
) -> None:
    cluster = Cluster(A, B, C, replica_count=1, backup_count=0)
    master = cluster.form(persistent=persistent)
    owned = [row.partition for row in master.table.rows if row.owner == C]
    cluster.crash(C)
    cluster.run_until(lambda: master.view is not None and len(master.view.members) == 2)
    cluster.run(1_000)
    assert [row.partition for row in master.table.rows if row.owner == C] == owned
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []
    if persistent:
        cluster.start(member(C, 2, persistent=True))
        cluster.settle()
        assert cluster.noticed(NoticeKind.PARTITION_LOST) == []
    else:
        cluster.run(GRACE + 1_000)
        lost = cluster.noticed(NoticeKind.PARTITION_LOST)
        assert [notice.about for notice in lost] == [f"partition {p}" for p in owned]
        assert {notice.detail for notice in lost} == {"highest lost index 0"}
        assert all(row.owner in (A, B) for row in master.table.rows)


def test_state_that_does_not_promote_waits_for_ever() -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form(persistent=True)
    cluster.ask(A, request_of(Ask.STATE, "state", state=ClusterState.FROZEN))
    cluster.settle()
    before = rows_of(master)
    dies(cluster, C)
    cluster.run(200_000)
    assert rows_of(master) == before
    assert master.leadership.rebalancing.awaited(C)
    cluster.start(member(C, 2, persistent=True))
    cluster.settle()
    assert rows_of(master) == before


def test_state_without_migrations_promotes_and_makes_no_copies() -> None:
    cluster, master = cluster_in(ClusterState.NO_MIGRATION, A, B, C, D)
    dies(cluster, D)
    cluster.run(GRACE * 3)
    assert all(row[0] is not None for row in rows_of(master))
    assert any(None in row for row in rows_of(master))
    assert cluster.messages(MigrationRequest) == []
    cluster.ask(A, request_of(Ask.STATE, "back", state=ClusterState.ACTIVE))
    cluster.settle()
    cluster.run(GRACE)
    cluster.settle()
    assert all(None not in row for row in rows_of(master))


# The stable table ---------------------------------------------------------------------------------


def test_stable_cluster_gives_back_what_a_returning_member_had_and_moves_nothing_else() -> None:
    cluster = Cluster(A, B, C, D)
    master = cluster.form(persistent=True)
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    before = rows_of(master)
    dies(cluster, D)
    cluster.run(300_000)
    assert any(None in row for row in rows_of(master))
    assert cluster.messages(MigrationRequest) == []
    cluster.start(member(D, 2, persistent=True))
    cluster.settle()
    assert rows_of(master) == before


@pytest.mark.parametrize("after", [0, 60_000])
def test_stable_cluster_repairs_when_nobody_is_awaited_any_more(after: int) -> None:
    cluster = Cluster(A, B, C, D, stable_repair_after_ms=Millis(after))
    master = cluster.form(persistent=True)
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    left = [repaired(row, lambda member: member != D) for row in rows_of(master)]
    dies(cluster, D)
    if after:
        cluster.run(after - 2_000)
        assert rows_of(master) == left
    cluster.run(10_000)
    for before, now in zip(left, rows_of(master), strict=True):
        assert None not in now[:COPIES]
        assert all(member in (None, now[index]) for index, member in enumerate(before))
        assert now[COPIES:] == before[COPIES:]
        assert None in before[:COPIES] or now == before


def test_stable_cluster_that_repairs_moves_up_whoever_stands_behind() -> None:
    cluster = Cluster(A, B, C, stable_repair_after_ms=Millis(0))
    master = cluster.form(persistent=True)
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    assert any(row[1] == C for row in rows_of(master))
    dies(cluster, C)
    cluster.run(2_000)
    assert {frozenset(row[:COPIES]) for row in rows_of(master)} == {frozenset((A, B))}


def test_stable_cluster_that_repairs_leaves_whoever_is_to_go_where_it_is() -> None:
    cluster = Cluster(A, B, C, D, stable_repair_after_ms=Millis(0))
    master = cluster.form(persistent=True)
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    held = [[index for index, each in enumerate(row) if each == B] for row in rows_of(master)]
    view = master.view
    assert view is not None
    b = view.find(B)
    assert b is not None
    master.leadership.mastership.change(view.with_changed(replace(b, drain=Drain.LEAVING)))
    dies(cluster, D)
    cluster.run(2_000)
    rows = rows_of(master)
    assert all(None not in row[:COPIES] for row in rows)
    for before, row in zip(held, rows, strict=True):
        assert all(row[index] == B or row[0] == B for index in before)


def test_stable_cluster_gives_nothing_to_whoever_has_no_share_of_it() -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form(persistent=True)
    cluster.start(member(D, kind=Kind.LITE), initial=(address_of(A),))
    cluster.settle()
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    before = rows_of(master)
    view = master.view
    assert view is not None
    lite = view.find(D)
    assert lite is not None
    master.leadership.mastership.change(view.with_changed(replace(lite, kind=Kind.DATA)))
    cluster.run(300_000)
    assert rows_of(master) == before
    cluster.ask(A, request_of(Ask.STATE, "back", state=ClusterState.ACTIVE))
    cluster.settle()
    assert any(D in row for row in rows_of(master))


def test_stable_cluster_without_a_stable_table_moves_nothing() -> None:
    cluster, master = cluster_in(ClusterState.STABLE_CLUSTER, A, B, C)
    before = rows_of(master)
    master.membership.keep_stable(None)
    master.leadership.rebalancing.again()
    cluster.run(5_000)
    assert rows_of(master) == before


def test_stable_row_whose_members_are_all_away_is_left_alone() -> None:
    cluster = Cluster(A, B, C, replica_count=1, backup_count=0)
    master = cluster.form(persistent=True)
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    before = rows_of(master)
    dies(cluster, C)
    cluster.run(100_000)
    assert rows_of(master) == before


def test_row_that_nobody_holds_is_assigned_without_a_loss() -> None:
    cluster, master = active(A, B)
    vacant = replace(master.table.rows[0], version=Version(9), replicas=(None, None, None))
    cluster.drops = [losing(MigrationRequest)]
    master.leadership.publisher.change([vacant, replace(vacant, partition=PartitionId(1))])
    cluster.step(A, Woke())
    cluster.start(member(C, kind=Kind.LITE), initial=(address_of(A),))
    cluster.run(3_000)
    assert [master.table.row(PartitionId(n)).owner for n in (0, 1)] != [None, None]
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []


def test_below_level_three_repair_waits_for_the_running_migration() -> None:
    cluster = Cluster(A, B, level=2)
    cluster.start(member(A))
    cluster.start(member(B))
    cluster.start(member(D, kind=Kind.LITE), initial=(address_of(A),))
    master = cluster.settle()
    cluster.drops = [losing(CommitAck)]
    cluster.start(member(C), initial=(address_of(A),))
    cluster.run_until(lambda: bool(cluster.messages(CommitAck)))
    running = dict(master.leadership.execution.running)
    dies(cluster, D)
    assert master.leadership.execution.running == running
    cluster.drops = []
    cluster.settle()
    assert len(set(master.table.versions)) == 1


# Planning -----------------------------------------------------------------------------------------


def test_plan_is_cut_into_slices() -> None:
    cluster = Cluster(A, B, plan_slice_rows=2, partition_count=10)
    master = cluster.form()
    cluster.start(member(C), initial=(address_of(A),))
    activities: list[Activity] = []
    for _ in range(3_000):
        cluster.run(1)
        activities.append(master.leadership.rebalancing.activity)
    assert Activity.MOVING in activities
    assert activities[-1] is Activity.IDLE
    cluster.settle()
    assert all(None not in row for row in rows_of(master))


def planning() -> tuple[Cluster, Node]:
    """A has begun to plan and waits for its next slice."""
    cluster, master = active(A, B)
    master.leadership.rebalancing.again()
    cluster.step(A, Woke())
    assert master.leadership.rebalancing.activity is Activity.PLANNING
    return cluster, master


def test_plan_of_an_older_table_is_thrown_away() -> None:
    cluster, master = planning()
    held = master.table.row(master.table.rows[0].partition)
    master.leadership.publisher.change([replace(held, version=held.version + 1)])  # type: ignore[arg-type]
    cluster.step(A, Continued())
    cluster.settle()
    assert master.leadership.rebalancing.activity is Activity.IDLE


def test_slice_that_nobody_waits_for_does_nothing() -> None:
    cluster, master = active(A, B)
    assert cluster.step(A, Continued()) == []
    assert master.leadership.rebalancing.activity is Activity.IDLE


def test_migration_that_fails_again_and_again_is_planned_again_after_a_moment() -> None:
    cluster = Cluster(A, B, migration_timeout_ms=Millis(1_000))
    master = cluster.form()
    cluster.drops = [losing(MigrationRequest, CommitAck)]
    cluster.start(member(C), initial=(address_of(A),))
    cluster.run(8_000)
    ended = [each.detail for each in cluster.noticed(NoticeKind.MIGRATION_ENDED)]
    assert sum(each.startswith("failed") for each in ended) > 1
    assert len(cluster.noticed(NoticeKind.MIGRATIONS_PLANNED)) < 10
    cluster.drops = []
    cluster.settle()
    assert all(None not in row for row in rows_of(master))


def test_row_whose_owner_is_away_is_not_planned() -> None:
    cluster = Cluster(A, B, C, replica_count=1, backup_count=0)
    master = cluster.form(persistent=True)
    owned = [row.partition for row in master.table.rows if row.owner == C]
    cluster.crash(C)
    cluster.run_until(lambda: master.view is not None and len(master.view.members) == 2)
    cluster.start(member(D, persistent=True), initial=(address_of(A),))
    cluster.run(8_000)
    assert [row.partition for row in master.table.rows if row.owner == C] == owned


# At the door --------------------------------------------------------------------------------------


def alone_with_files_of_b(grace: int = 0) -> tuple[Cluster, Node, list[PartitionId]]:
    """A and B with one copy of everything; B is gone."""
    cluster = Cluster(A, B, C, replica_count=1, backup_count=0, rejoin_grace_ms=Millis(grace))
    master = cluster.form(persistent=True)
    owned = [row.partition for row in master.table.rows if row.owner == B]
    cluster.crash(B)
    return cluster, master, owned


def test_member_that_asks_to_be_let_in_is_awaited_whatever_the_grace() -> None:
    """1. B ends and comes back at once. 2. Its former stay is taken out. 3. It gets its own."""
    cluster, master, owned = alone_with_files_of_b()
    cluster.start(member(B, 2, persistent=True))
    cluster.settle()
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []
    assert [row.partition for row in master.table.rows if row.owner == B] == owned


def test_member_that_asked_and_fell_silent_is_awaited_for_a_while_only() -> None:
    """It can't be let in before everyone knows the rows, and nobody confirms them."""
    cluster, master, owned = alone_with_files_of_b()
    cluster.drops = [losing(PublicationAck)]
    held = next(row for row in master.table.rows if row.owner == A)
    master.leadership.publisher.change(
        [held.changed(Version(held.version + 1), held.replicas, Term(1))]
    )
    cluster.start(member(B, 2, persistent=True))
    cluster.run_until(lambda: master.leadership.joining.asks_until(B) is not None)
    cluster.crash(B)
    cluster.run(600)
    assert master.view is not None
    assert master.view.find(B) is None
    assert master.leadership.rebalancing.awaited(B)
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []
    cluster.run(1_000)
    assert len(cluster.noticed(NoticeKind.PARTITION_LOST)) == len(owned)
    assert not master.leadership.rebalancing.awaited(B)


def test_who_is_awaited_is_given_up_even_if_a_plan_is_made_later_than_that() -> None:
    """Nobody was awaited any more when the plan was made, and nobody looked at the rows again."""
    cluster, master, owned = alone_with_files_of_b(grace=600)
    master.context.timers.set(PLAN_LATER, cluster.now + 10_000)
    cluster.run_until(lambda: master.view is not None and master.view.find(B) is None)
    cluster.run(400)
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []
    cluster.run(600)
    assert len(cluster.noticed(NoticeKind.PARTITION_LOST)) == len(owned)


def under_way(cluster: Cluster, master: Node, partition: PartitionId) -> Running:
    """A migration that takes its time."""
    row = master.table.row(partition)
    number = MigrationId(Term(1), 1_000 + partition)
    migration = Migration(number, partition, row.version, (), row.replicas, row.replicas)
    return Running(migration, (), Millis(cluster.now), Course.COPYING, ())


def test_what_was_running_when_the_grace_ended_is_repaired_after_it() -> None:
    """A row under way is left alone by a repair, and nobody remembered it when that had ended
    (seed 5370)."""
    cluster, master, owned = alone_with_files_of_b(grace=600)
    cluster.run_until(lambda: master.view is not None and master.view.find(B) is None)
    rebalancing = master.leadership.rebalancing
    cluster.run(100)
    assert rebalancing.repaired_key != (0, 0)
    running = rebalancing.execution.running
    running.update((each, under_way(cluster, master, each)) for each in owned)
    cluster.run(1_000)
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []
    running.clear()
    cluster.run(1_000)
    assert len(cluster.noticed(NoticeKind.PARTITION_LOST)) == len(owned)


# Everybody goes -----------------------------------------------------------------------------------


def test_who_takes_what_is_left_when_all_data_members_are_to_go() -> None:
    going = [replace(member(each), drain=Drain.LEAVING) for each in (A, B, C)]
    lite = replace(member(D), kind=Kind.LITE)
    assert [each.id for each in candidates_of(view_of(*going, lite, master=B))] == [B]
    assert [each.id for each in candidates_of(view_of(lite, *going, master=D))] == [A]
    assert [each.id for each in candidates_of(view_of(*going[:2], member(C), master=A))] == [C]
    assert candidates_of(view_of(lite, master=D)) == []
