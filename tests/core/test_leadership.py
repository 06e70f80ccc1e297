"""The master's round: who is waited for when a cluster comes back, and what is compared."""

from __future__ import annotations

import pytest

from holdfast.core.config import RecoveryPolicy
from holdfast.core.effects import NoticeKind
from holdfast.core.events import Loaded, Woke
from holdfast.core.messages import Ask, Publication, StablePublication, Versions, VersionsRequest
from holdfast.core.node import Node
from holdfast.core.publication import STAMPS
from holdfast.core.serving import Serving
from holdfast.core.states import ClusterState
from holdfast.core.views import Kind
from holdfast.ids import MemberId, Millis, Version
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
    request_of,
    row,
)

ACTIVE = ClusterState.ACTIVE
PARTIAL = [RecoveryPolicy.MOST_RECENT, RecoveryPolicy.MOST_COMPLETE]


def stopped(
    *ids: MemberId, state: ClusterState = ClusterState.ACTIVE, **settings: object
) -> Cluster:
    """A cluster with files whose members all ended at once."""
    cluster = Cluster(*ids, **settings)
    cluster.form(persistent=True)
    if state is not ACTIVE:
        cluster.ask(ids[0], request_of(Ask.STATE, state=state))
        cluster.settle()
    cluster.run(10)
    cluster.crash(*ids)
    cluster.notices.clear()
    cluster.sent.clear()
    return cluster


def comes_back(cluster: Cluster, *ids: MemberId, loaded: bool = True) -> None:
    for member_id in ids:
        cluster.start(member(member_id, 2, persistent=True), loaded=loaded)


def recovering(cluster: Cluster) -> Node:
    """The master of a cluster that comes back, settled and waiting for data."""
    cluster.run_until(lambda: cluster.master is not None)
    master = cluster.master
    assert master is not None
    return master


@pytest.mark.parametrize("state", [ClusterState.ACTIVE, ClusterState.FROZEN])
def test_whole_cluster_comes_back_with_its_state_and_table(state: ClusterState) -> None:
    cluster = stopped(A, B, C, state=state)
    rows = dict(cluster.disks[A].rows)
    comes_back(cluster, A, B, C)
    master = cluster.settle()
    assert master.view is not None
    assert master.view.state is state
    assert not master.view.recovering
    assert all(row.replicas == rows[row.partition].replicas for row in master.table.rows)
    assert all(m.recovered for m in master.view.members)
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []
    assert len(cluster.noticed(NoticeKind.RECOVERED)) == 1


def test_cluster_is_passive_until_everyone_has_loaded() -> None:
    cluster = stopped(A, B)
    comes_back(cluster, A, B, loaded=False)
    master = recovering(cluster)
    cluster.run(5_000)
    assert master.view is not None
    assert master.view.recovering
    assert master.serving(partition(0), Millis(cluster.now)) is Serving.NONE
    cluster.step(A, Loaded())
    cluster.run(2_000)
    assert cluster.nodes[A].view.recovering  # type: ignore[union-attr]
    cluster.step(B, Loaded())
    master = cluster.settle()
    assert master.view is not None
    assert not master.view.recovering


def test_full_recovery_waits_for_ever_and_says_for_whom() -> None:
    cluster = stopped(A, B, C)
    comes_back(cluster, A, B)
    cluster.run(400_000)
    assert cluster.master is None
    told = cluster.noticed(NoticeKind.RECOVERY_WAITS)
    assert {notice.detail for notice in told} == {"not back yet: name-C"}
    comes_back(cluster, C)
    cluster.settle()


@pytest.mark.parametrize("policy", PARTIAL)
def test_partial_recovery_goes_on_with_whoever_is_back_in_time(policy: RecoveryPolicy) -> None:
    cluster = stopped(A, B, C, recovery_policy=policy)
    comes_back(cluster, A, B)
    cluster.run(100_000)
    assert cluster.master is None
    cluster.run(60_000)
    master = cluster.settle()
    assert master.view is not None
    assert sorted(m.id for m in master.view.members) == [A, B]


def test_lite_members_hold_no_recovery_up() -> None:
    cluster = Cluster(A, B, C)
    for member_id in (A, B, C):
        kind = Kind.LITE if member_id == C else Kind.DATA
        cluster.start(member(member_id, persistent=True, kind=kind))
    cluster.settle()
    cluster.crash(A, B, C)
    comes_back(cluster, A, B)
    master = cluster.settle()
    assert master.view is not None
    assert sorted(m.id for m in master.view.members) == [A, B]


def test_full_recovery_says_who_does_not_load_and_goes_on_waiting() -> None:
    cluster = stopped(A, B, data_load_timeout_ms=Millis(5_000))
    comes_back(cluster, A)
    comes_back(cluster, B, loaded=False)
    recovering(cluster)
    cluster.run(20_000)
    told = [notice.detail for notice in cluster.noticed(NoticeKind.RECOVERY_WAITS)]
    assert "not loaded in time: name-B" in told
    cluster.step(B, Loaded())
    cluster.settle()


@pytest.mark.parametrize("policy", PARTIAL)
def test_partial_recovery_takes_out_who_does_not_load(policy: RecoveryPolicy) -> None:
    cluster = stopped(
        A, B, C, data_load_timeout_ms=Millis(5_000), recovery_policy=policy, replica_count=3
    )
    comes_back(cluster, A, B)
    comes_back(cluster, C, loaded=False)
    master = recovering(cluster)
    cluster.run(7_000)
    assert master.view is not None
    assert sorted(m.id for m in master.view.members)[:2] == [A, B]
    cluster.step(C, Loaded())
    cluster.settle()


@pytest.mark.parametrize("policy", PARTIAL)
def test_master_does_not_take_itself_out(policy: RecoveryPolicy) -> None:
    cluster = stopped(A, data_load_timeout_ms=Millis(2_000), recovery_policy=policy)
    comes_back(cluster, A, loaded=False)
    cluster.run(9_000)
    told = [notice.detail for notice in cluster.noticed(NoticeKind.RECOVERY_WAITS)]
    assert "not loaded in time: name-A" in told
    cluster.step(A, Loaded())
    cluster.settle()


def test_deposed_master_learns_that_it_lost_its_mandate() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.drops = [losing(object)]
    cluster.run(5_000)
    details = {notice.detail for notice in cluster.noticed(NoticeKind.LOST_MASTERSHIP)}
    assert details == {"my mandate is over"}


# Comparing ----------------------------------------------------------------------------------------


def test_member_whose_table_differs_gets_what_it_lacks() -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form()
    newest = row(0, 9, B, C, A)
    master.context.table.apply((newest,))
    cluster.run(40_000)
    assert cluster.messages(VersionsRequest)
    assert cluster.messages(Versions)
    for node in cluster.nodes.values():
        assert node.table.row(partition(0)) == newest
    assert Version(9) in [r.version for p in cluster.messages(Publication) for r in p.rows]


def test_stable_table_is_sent_to_whoever_lacks_it_and_is_heard() -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form()
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    cluster.nodes[B].membership.keep_stable(None)
    del master.leadership.mastership.heartbeats[C]
    cluster.drops = [lambda sender, _, __: sender == C]
    cluster.run(15_400)
    assert cluster.nodes[B].stable == master.stable
    assert len(cluster.messages(StablePublication, to=B)) == 1


def test_stable_table_waits_for_whoever_was_not_heard_yet() -> None:
    cluster = Cluster(A, B)
    master = cluster.form()
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    cluster.nodes[B].membership.keep_stable(None)
    del master.leadership.mastership.heartbeats[B]
    master.context.timers.set(STAMPS, cluster.now)
    cluster.step(A, Woke())
    assert cluster.messages(StablePublication) == []


def test_whoever_left_for_good_is_forgotten() -> None:
    cluster = Cluster(A, B, C, D)
    master = cluster.form()
    for dead in (D, C):
        cluster.crash(dead)
        cluster.confirm_dead(dead)
        cluster.settle()
        cluster.run(40_000)
    assert master.view is not None
    assert [m.id for m in master.view.departed] == [C]
    cluster.start(member(D, 2), initial=(address_of(A),))
    cluster.settle()
