"""The one door: what can't be is refused, and a step always ends."""

from __future__ import annotations

from random import Random

import pytest

from holdfast.core.effects import NoticeKind
from holdfast.core.events import Asked, Event, Loaded, Started, Woke
from holdfast.core.membership import Phase
from holdfast.core.messages import (
    Abort,
    Ask,
    Fragment,
    FragmentPush,
    Migration,
    MigrationId,
    MigrationRequest,
    NewView,
    Publication,
    PublicationAck,
    StablePublication,
    StableTable,
    Versions,
    VersionsRequest,
)
from holdfast.core.migrations import MigrationType, Move
from holdfast.core.node import Node
from holdfast.core.serving import Serving
from holdfast.core.states import ClusterState
from holdfast.errors import LocalProtocolError
from holdfast.ids import NO_INDEX, Millis, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    address_of,
    losing,
    member,
    partition,
    request_of,
    row,
    view_of,
)

# Illegal events -----------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [Woke(), Loaded(), Asked(request_of(Ask.LEAVE))])
def test_nothing_happens_before_the_start(event: Event) -> None:
    cluster = Cluster(A)
    node = Node(cluster.start(member(B)).context.config, member(A), Random(1))
    with pytest.raises(LocalProtocolError, match=f"{type(event).__name__}: not started yet"):
        node.step(event, Millis(0))
    assert node.step(Started(None), Millis(0))


def test_process_starts_once() -> None:
    cluster = Cluster(A)
    cluster.form()
    node = cluster.nodes[A]
    held = (node.view, node.table.rows)
    with pytest.raises(LocalProtocolError, match="Started: started twice") as caught:
        node.step(Started(None), Millis(cluster.now))
    assert caught.value.story == node.story()
    assert (node.view, node.table.rows) == held


def test_clock_does_not_run_backwards() -> None:
    cluster = Cluster(A)
    cluster.form()
    node = cluster.nodes[A]
    at, wake_at = node.context.now, node.wake_at
    with pytest.raises(LocalProtocolError, match=f"the clock went from {at} back to {at - 1} ms"):
        node.step(Woke(), Millis(at - 1))
    assert (node.context.now, node.wake_at) == (at, wake_at)


def test_step_that_does_not_come_to_an_end_is_our_bug() -> None:
    cluster = Cluster(A)
    node = cluster.form()
    locking, view = node.locking, node.view
    assert view is not None

    def talk_to_myself() -> None:
        node.context.send(node.me.address, Abort("nothing", view.term))

    locking.advance = talk_to_myself  # type: ignore[method-assign]
    with pytest.raises(LocalProtocolError, match="does not come to an end"):
        node.step(Woke(), Millis(cluster.now))


def test_stopped_node_takes_no_notice_and_never_wakes() -> None:
    cluster = Cluster(A, B)
    cluster.form()
    cluster.ask(B, request_of(Ask.LEAVE))
    node = cluster.nodes[B]
    cluster.run_until(lambda: node.stopped)
    assert node.phase is Phase.STOPPED
    assert node.wake_at is None
    assert cluster.step(B, Woke()) == []
    assert cluster.inject(member(A), B, NewView(view_of(member(A), member(B), term=9))) == []
    assert cluster.stops == [B]


# Serving ------------------------------------------------------------------------------------------


def owned_by(node: Node) -> int:
    return next(row.partition for row in node.table.rows if row.owner == node.me.id)


def test_owner_serves_all_while_it_has_a_lease_and_nothing_after() -> None:
    cluster = Cluster(A, B)
    cluster.form()
    node = cluster.nodes[B]
    mine, other = partition(owned_by(node)), partition(owned_by(cluster.nodes[A]))
    now = Millis(cluster.now)
    assert node.serving(mine, now) is Serving.ALL
    assert node.serving(other, now) is Serving.NONE
    assert node.serving(mine, Millis(now + 2_000)) is Serving.NONE
    assert cluster.nodes[A].serving(other, now) is Serving.ALL
    assert cluster.nodes[A].serving(other, Millis(now + 2_000)) is Serving.NONE


def test_nobody_serves_outside_a_cluster() -> None:
    cluster = Cluster(A, B)
    node = cluster.start(member(A))
    assert node.serving(partition(0), Millis(0)) is Serving.NONE
    assert cluster.master is None


def test_owner_without_the_data_serves_nothing() -> None:
    cluster = Cluster(A)
    node = cluster.form()
    node.context.drop(partition(0))
    assert node.serving(partition(0), Millis(cluster.now)) is Serving.NONE


def test_owner_of_another_reign_than_its_data_serves_nothing() -> None:
    cluster = Cluster(A)
    node = cluster.form()
    node.data.holdings.here[partition(0)].reign -= 1
    assert node.serving(partition(0), Millis(cluster.now)) is Serving.NONE


def test_owner_that_has_not_heard_of_its_commit_from_the_master_serves_nothing() -> None:
    cluster = Cluster(A)
    node = cluster.form()
    held = node.table.row(partition(0))
    node.participation.unpublished[partition(0)] = held.version
    assert node.serving(partition(0), Millis(cluster.now)) is Serving.NONE


def test_passive_cluster_serves_reads() -> None:
    cluster = Cluster(A)
    node = cluster.form()
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.PASSIVE))
    cluster.settle()
    assert node.serving(partition(0), Millis(cluster.now)) is Serving.READS


@pytest.mark.parametrize(
    ("stale_read_disabled", "expected"), [(False, Serving.READS), (True, Serving.NONE)]
)
def test_handed_over_partition_serves_reads_unless_stale_reads_are_disabled(
    expected: Serving, *, stale_read_disabled: bool
) -> None:
    cluster = Cluster(A, B, stale_read_disabled=stale_read_disabled)
    master = cluster.form()
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.NO_MIGRATION))
    cluster.settle()
    held = cluster.nodes[B].table.row(partition(owned_by(cluster.nodes[B])))
    assert master.view is not None
    after = (held.replicas[0], None, held.replicas[1])
    move = Move(MigrationType.SHIFT_DOWN, A, 1, 2, None, NO_INDEX, NO_INDEX)
    migration = Migration(
        MigrationId(master.view.term, 99),
        held.partition,
        held.version,
        (move,),
        held.replicas,
        after,
    )
    cluster.inject(member(A), B, MigrationRequest(migration, ()))
    assert cluster.nodes[B].active_migrations() == (migration,)
    assert cluster.nodes[B].serving(held.partition, Millis(cluster.now)) is expected


def test_master_leads_as_long_as_its_mandate() -> None:
    cluster = Cluster(A, B)
    node = cluster.form()
    assert node.leads(node.election.mandate_until) is False
    assert node.leads(Millis(node.election.mandate_until - 1))
    assert not cluster.nodes[B].leads(Millis(cluster.now))


# What a member answers ----------------------------------------------------------------------------


def pair() -> tuple[Cluster, Node]:
    """A leads, B follows; B's messages are the test's."""
    cluster = Cluster(A, B)
    cluster.form()
    return cluster, cluster.nodes[B]


def test_only_a_master_tells_of_ends() -> None:
    cluster, node = pair()
    assert cluster.nodes[A].known_ends() == {}
    assert node.known_ends() == {}


def test_publication_of_a_replaced_master_changes_nothing() -> None:
    cluster, node = pair()
    held = node.table.rows
    cluster.inject(member(A), B, Publication(Term(0), 1, (row(0, 99, B, A, None),), ()))
    assert node.table.rows == held
    assert cluster.messages(PublicationAck)[-1].sequence != 99


def test_publication_of_my_master_is_applied_and_confirmed() -> None:
    cluster, node = pair()
    cluster.inject(member(A), B, Publication(Term(1), 99, (row(0, 99, B, A, None),), ()))
    assert node.table.row(partition(0)) == row(0, 99, B, A, None)
    assert cluster.messages(PublicationAck)[-1] == PublicationAck(Term(1), 99)


def test_versions_are_told_to_my_master_only() -> None:
    cluster, node = pair()
    for term in (0, 1):
        cluster.inject(member(A), B, VersionsRequest(Term(term)))
    assert cluster.messages(Versions) == [Versions(Term(1), node.table.versions)]


def test_versions_and_confirmations_of_another_term_are_ignored() -> None:
    cluster, _ = pair()
    node = cluster.nodes[A]
    ahead = tuple(version + 1 for version in node.table.versions)
    cluster.inject(member(B), A, Versions(Term(0), ahead))
    cluster.inject(member(B), A, PublicationAck(Term(0), 1))
    cluster.inject(member(A), B, Versions(Term(1), ahead))
    assert node.is_master


def test_master_that_a_member_is_ahead_of_gives_up_and_settles_afresh() -> None:
    cluster, _ = pair()
    node = cluster.nodes[A]
    cluster.inject(member(A), B, Publication(Term(1), 99, (row(0, 99, B, A, None),), ()))
    cluster.inject(member(B), A, Versions(Term(1), cluster.nodes[B].table.versions))
    assert not node.is_master
    assert "B knows of a newer table" in cluster.noticed(NoticeKind.LOST_MASTERSHIP)[0].detail
    master = cluster.settle()
    assert master.table.row(partition(0)).version >= 99


def test_stable_table_is_taken_when_the_view_names_it() -> None:
    cluster, node = pair()
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    kept = node.stable
    assert kept is not None
    for wrong in (
        StableTable(Term(9), kept.version, kept.rows),
        StableTable(kept.term, Version(0), kept.rows),
    ):
        cluster.inject(member(A), B, StablePublication(wrong))
        assert node.stable == kept
    node.membership.keep_stable(None)
    cluster.inject(member(C), B, StablePublication(kept))
    assert node.stable is None
    cluster.inject(member(A), B, StablePublication(kept))
    assert node.stable == kept


def test_stable_table_means_nothing_outside_a_cluster() -> None:
    cluster = Cluster(A, B)
    node = cluster.start(member(A))
    rows = node.table.rows
    cluster.inject(member(B), A, StablePublication(StableTable(Term(1), Version(1), rows)))
    cluster.inject(member(B), A, PublicationAck(Term(1), 1))
    cluster.inject(member(B), A, Versions(Term(1), node.table.versions))
    assert node.stable is None


def test_story_is_told_by_subject() -> None:
    cluster = Cluster(A)
    node = cluster.form()
    assert any("became master" in line for line in node.story(A))
    assert node.story("nobody") == ()
    assert set(node.story(A)) <= set(node.story())


def test_data_from_nowhere_is_not_taken() -> None:
    cluster = Cluster(A, B)
    node = cluster.start(member(A))
    cluster.drops = [losing(object)]
    migration = Migration(
        MigrationId(Term(1), 1), partition(0), Version(0), (), (B, None, None), (B, A, None)
    )
    cluster.inject(member(B), A, FragmentPush(migration, (), Fragment(1, 1)))
    assert node.active_migrations() == ()
    assert address_of(B) not in [to for _, to, m in cluster.sent if isinstance(m, FragmentPush)]
