"""A new master's first work: the newest table, and the end of what was running."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.events import ConfirmedDead
from holdfast.core.messages import (
    Ask,
    CommitAck,
    CommitRequest,
    Fetch,
    FragmentPush,
    Heartbeat,
    Migration,
    MigrationId,
    MigrationReady,
    NewView,
    Publication,
    Report,
    StablePublication,
    StableTable,
)
from holdfast.core.node import Node
from holdfast.core.settlement import newest_stable
from holdfast.core.states import ClusterState
from holdfast.core.table import Row
from holdfast.ids import MemberId, Millis, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    address_of,
    follower,
    losing,
    member,
    partition,
    request_of,
    row,
    view_of,
)

a, b, c = member(A), member(B), member(C)


def interrupted(*lost: type, after: type) -> Cluster:
    """A is the master; B owns; C has just joined; A dies when such a message was sent."""
    cluster = Cluster(A, B)
    cluster.form()
    cluster.drops = [losing(*lost)]
    cluster.start(c, initial=(address_of(A),))
    cluster.run_until(lambda: bool(cluster.messages(after)))
    cluster.run(5)
    cluster.crash(A)
    cluster.drops = []
    cluster.confirm_dead(A)
    return cluster


def whole(cluster: Cluster) -> Node:
    """Settled, with two copies of everything and nothing left over."""
    master = cluster.settle()
    cluster.run(40_000)
    for node in cluster.nodes.values():
        assert node.active_migrations() == ()
        assert node.participation.unpublished == {}
        mine = [r.partition for r in master.table.rows if node.me.id in r.replicas]
        assert sorted(node.fragments) == mine
    assert all(len(r.holders) == 2 for r in master.table.rows)
    return master


@pytest.mark.parametrize(
    ("lost", "after"),
    [
        (FragmentPush, FragmentPush),
        (MigrationReady, MigrationReady),
        (CommitRequest, CommitRequest),
        (CommitAck, CommitAck),
        (Publication, Publication),
    ],
)
def test_master_that_dies_at_any_point_of_a_migration_leaves_nothing_over(
    lost: type, after: type
) -> None:
    whole(interrupted(lost, after=after))


def test_what_nobody_committed_is_rolled_back_past_the_version_that_might_be() -> None:
    cluster = interrupted(CommitRequest, after=CommitRequest)
    active = {m.partition: m for n in cluster.nodes.values() for m in n.active_migrations()}
    assert active
    told = [n.detail for _, n in cluster.notices]
    master = whole(cluster)
    told = [n.detail for who, n in cluster.notices[len(told) :] if who == master.me.id]
    assert told.count("rolled back") == len(active)
    for number, migration in active.items():
        assert master.table.row(number).version >= migration.version_failed


def test_commit_that_reached_a_destination_is_kept_and_told_to_the_source() -> None:
    cluster = interrupted(CommitAck, after=CommitAck)
    committed = dict(cluster.nodes[C].participation.unpublished)
    assert committed
    held = {p: cluster.nodes[C].table.row(p) for p in committed}
    cluster.run_until(lambda: cluster.master is not None)
    master = cluster.master
    assert master is not None
    for number, row_ in held.items():
        assert master.table.row(number).version >= row_.version
    assert "rolled back" not in [n.detail for who, n in cluster.notices if who == master.me.id]
    whole(cluster)


# A member's side ----------------------------------------------------------------------------------


def test_report_has_rows_only_where_the_stamps_differ() -> None:
    cluster = follower()
    cluster.inject(a, B, Publication(Term(1), 1, (row(0, 5, B, A, None),), ()))
    node = cluster.nodes[B]
    view = view_of(a, b, c)
    for stamp, rows in ((node.table.stamp, ()), (0, node.table.rows)):
        cluster.inject(a, B, Fetch(view, stamp))
        assert cluster.messages(Report)[-1].rows == rows


def test_report_is_given_to_the_master_of_the_newest_term_only() -> None:
    cluster = follower()
    cluster.inject(c, B, Fetch(view_of(a, b, c), 0))
    cluster.inject(c, B, Fetch(view_of(a, b, c, term=0, master=C), 0))
    cluster.inject(c, B, Fetch(view_of(a, c, term=2, master=C), 0))
    assert cluster.messages(Report) == []
    assert cluster.nodes[B].view == view_of(a, c, term=2, master=C)


# The master's side --------------------------------------------------------------------------------


def settling() -> tuple[Cluster, Node]:
    """B has just become master of term 2 and asks A and C, whom the test plays."""
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.crash(A)
    cluster.drops = [losing(Fetch, NewView)]
    cluster.sent.clear()
    cluster.run_until(lambda: bool(cluster.messages(Fetch)))
    cluster.crash(C)
    return cluster, cluster.nodes[B]


def report(term: int = 2) -> Report:
    return Report(Term(term), 0, (), (), (), (), None)


def test_everyone_is_asked_until_they_answer() -> None:
    cluster, node = settling()
    cluster.run(600)
    assert len(cluster.messages(Fetch, to=A)) == 2
    cluster.inject(c, B, report())
    cluster.run(600)
    assert [m.id for m in node.leadership.settlement.missing()] in ([A], [])
    assert len(cluster.messages(Fetch, to=C)) == 2


def test_report_of_another_term_or_another_stay_is_not_counted() -> None:
    cluster, node = settling()
    cluster.inject(c, B, report(1))
    cluster.inject(member(C, 9), B, report())
    assert [m.id for m in node.leadership.settlement.missing()] == [A, C]
    outside = Cluster(A, B)
    outside.start(a)
    outside.inject(b, A, report())


def test_migration_whose_partition_has_moved_on_is_over() -> None:
    cluster, node = settling()
    held = node.table.row(partition(0))
    over = Migration(
        MigrationId(Term(1), 5), held.partition, Version(0), (), held.replicas, held.replicas
    )
    cluster.step(B, ConfirmedDead(A, 1, Millis(0)))
    for _ in range(8):
        view = node.view
        assert view is not None
        now = Millis(cluster.now)
        beat = Heartbeat(view.term, view.version, now, now, 0, True, Term(0), Version(0), ())
        cluster.inject(c, B, beat)
        cluster.inject(c, B, replace(report(), active=(over,)))
        cluster.run(100)
    assert node.is_master
    assert "rolled back" not in [notice.detail for _, notice in cluster.notices]


def test_newest_rows_of_anyone_win() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    newest = Row(partition(0), Version(77), (C, B, None))
    cluster.nodes[C].context.table.apply((newest,))
    cluster.crash(A)
    cluster.confirm_dead(A)
    master = cluster.settle()
    assert master.me.id == B
    assert master.table.row(partition(0)).version >= 77


def test_stable_table_of_the_transition_that_the_view_names_is_adopted() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    kept = cluster.nodes[C].stable
    cluster.nodes[B].membership.keep_stable(None)
    cluster.crash(A)
    cluster.confirm_dead(A)
    master = cluster.settle()
    assert master.me.id == B
    assert master.stable == kept


@pytest.mark.parametrize(("term", "found"), [(4, True), (3, False)])
def test_stable_table_of_another_transition_is_none(term: int, *, found: bool) -> None:
    table = StableTable(Term(term), Version(2), (row(0, 1, A),))
    view = replace(view_of(a), stable=(4, 2))
    assert newest_stable(view, [None, table]) == (table if found else None)


def test_member_that_lacks_the_stable_table_gets_it_at_the_next_look() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    kept = cluster.nodes[A].stable
    cluster.nodes[B].membership.keep_stable(None)
    cluster.run(16_000)
    assert cluster.nodes[B].stable == kept
    assert cluster.messages(StablePublication, to=C) == []


@pytest.mark.parametrize("first", [A, B])
def test_below_level_three_a_roll_back_raises_every_row(first: MemberId) -> None:
    cluster = Cluster(A, B, level=2)
    cluster.form()
    cluster.drops = [losing(CommitRequest)]
    cluster.start(c, initial=(address_of(A),))
    cluster.run_until(lambda: bool(cluster.messages(CommitRequest)))
    cluster.crash(first)
    cluster.drops = []
    cluster.confirm_dead(first)
    master = whole(cluster)
    assert len(set(master.table.versions)) == 1
