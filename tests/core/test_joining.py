"""Whom the master lets in, and its words to the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.events import ConfirmedDead
from holdfast.core.messages import (
    Ask,
    JoinRequest,
    NewView,
    NotListed,
    PublicationAck,
    Redirect,
    Refusal,
)
from holdfast.core.node import Node
from holdfast.core.states import ClusterState
from holdfast.core.views import Drain, Kind, Member
from holdfast.ids import Millis
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
)

d = member(D)


def joining(stay: Member = d) -> JoinRequest:
    return JoinRequest(stay, "holdfast", "", 1, 6, 3)


def cluster_of(
    *ids_: str, state: ClusterState = ClusterState.ACTIVE, persistent: bool = False
) -> tuple[Cluster, Node]:
    cluster = Cluster(*[i for i in (A, B, C) if i in (ids_ or (A, B))])
    master = cluster.form(persistent=persistent)
    if state is not ClusterState.ACTIVE:
        cluster.ask(A, request_of(Ask.STATE, state=state))
        cluster.settle()
        assert master.view is not None
        assert master.view.state is state
    return cluster, master


def ids_in(node: Node) -> list[str]:
    assert node.view is not None
    return [m.id for m in node.view.members]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"cluster_name": "x"}, "IllegalArgument", "this is cluster holdfast, not x"),
        (
            {"cluster": "Z.9"},
            "IllegalState",
            "its files are of another cluster; give it an empty directory",
        ),
        ({"protocol": 2}, "UnsupportedOperation", "this cluster speaks protocol 1"),
        (
            {"member": member(D, level_max=2)},
            "UnsupportedOperation",
            "the cluster is at level 3, the member speaks 2",
        ),
        (
            {"partition_count": 7},
            "IllegalArgument",
            "the cluster has 6 partitions of 3 replicas, the member 7 of 3",
        ),
        (
            {"replica_count": 2},
            "IllegalArgument",
            "the cluster has 6 partitions of 3 replicas, the member 6 of 2",
        ),
    ],
)
def test_each_refusal_has_its_own_words(change: dict[str, object], error: str, words: str) -> None:
    cluster, master = cluster_of()
    request = replace(joining(), **change)  # type: ignore[arg-type]
    cluster.inject(d, A, request)
    assert cluster.messages(Refusal, to=D) == [Refusal("join", error, words)]
    cluster.run(1_000)
    assert ids_in(master) == [A, B]


@pytest.mark.parametrize(
    "state", [ClusterState.FROZEN, ClusterState.PASSIVE, ClusterState.STABLE_CLUSTER]
)
def test_states_that_expect_their_members_let_in_nobody_else(state: ClusterState) -> None:
    cluster, master = cluster_of(state=state, persistent=True)
    cluster.inject(d, A, joining())
    (refusal,) = cluster.messages(Refusal, to=D)
    assert refusal.error == "IllegalState"
    assert refusal.message == f"the state {state} lets in only members that it expects"
    cluster.crash(B)
    cluster.confirm_dead(B)
    cluster.settle()
    assert ids_in(master) == [A]
    cluster.start(member(B, 2, persistent=True))
    cluster.settle()
    assert ids_in(master) == [A, B]


def test_member_of_the_stable_table_is_expected_although_nobody_remembers_its_departure() -> None:
    cluster, master = cluster_of(A, B, C, state=ClusterState.STABLE_CLUSTER)
    cluster.crash(C)
    cluster.confirm_dead(C)
    cluster.settle()
    assert master.view is not None
    master.context.view = replace(master.view, departed=())
    cluster.inject(member(C, 2), A, joining(member(C, 2)))
    assert cluster.messages(Refusal) == []
    cluster.inject(d, A, joining())
    assert len(cluster.messages(Refusal)) == 1


def test_member_that_a_frozen_row_names_is_expected_although_its_departure_is_forgotten() -> None:
    cluster, master = cluster_of(A, B, C, state=ClusterState.FROZEN)
    cluster.crash(C)
    cluster.confirm_dead(C)
    cluster.run_until(lambda: ids_in(master) == [A, B])
    assert master.view is not None
    master.context.view = replace(master.view, departed=())
    cluster.inject(member(C, 2), A, joining(member(C, 2)))
    assert cluster.messages(Refusal) == []


@pytest.mark.parametrize("state", [ClusterState.ACTIVE, ClusterState.NO_MIGRATION])
def test_anyone_joins_where_joining_is_allowed(state: ClusterState) -> None:
    cluster, master = cluster_of(state=state)
    cluster.start(d, initial=(address_of(B),))
    cluster.settle()
    assert ids_in(master) == [A, B, D]
    holds = any(row.index_of(D) >= 0 for row in master.table.rows)
    assert holds is (state is ClusterState.ACTIVE)


def test_any_member_redirects_to_the_master_unless_that_is_dead() -> None:
    cluster, _ = cluster_of()
    cluster.inject(d, B, joining())
    assert cluster.messages(Redirect) == [Redirect(address_of(A))]
    cluster.drops = [losing(object)]
    cluster.crash(A)
    cluster.confirm_dead(A)
    node = cluster.nodes[B]
    assert node.view is not None
    node.context.view = replace(node.view, master=A)
    cluster.inject(d, B, joining())
    assert len(cluster.messages(Redirect)) == 1


def test_process_outside_a_cluster_says_nothing() -> None:
    cluster = Cluster(A, B)
    cluster.start(member(A))
    cluster.inject(d, A, joining())
    assert not [m for _, to, m in cluster.sent if to == address_of(D)]


def test_request_that_is_repeated_after_it_was_granted_gets_the_view_again() -> None:
    cluster, master = cluster_of()
    listed = member(B)
    cluster.inject(listed, A, joining(listed))
    assert cluster.messages(NewView, to=B)[-1] == NewView(master.view)  # type: ignore[arg-type]
    cluster.inject(member(B, 0), A, joining(member(B, 0)))
    cluster.run(1_000)
    assert ids_in(master) == [A, B]


def test_newer_stay_of_a_listed_member_takes_the_older_one_out_first() -> None:
    cluster, master = cluster_of(A, B, C, persistent=True)
    cluster.crash(B)
    cluster.start(member(B, 2, persistent=True))
    cluster.settle()
    assert ids_in(master) == [A, C, B]
    assert master.view is not None
    assert master.view.has(B, 2)


def test_joiner_is_taken_as_a_new_stay_whatever_it_says_of_itself() -> None:
    cluster, master = cluster_of()
    boasting = replace(d, drain=Drain.LEAVING, recovered=True)
    cluster.inject(boasting, A, joining(boasting))
    cluster.run_until(lambda: D in ids_in(master))
    assert master.view is not None
    assert master.view.find(D) == replace(d, newcomer=True)


def test_members_come_in_one_by_one_the_longest_waiting_first() -> None:
    cluster, master = cluster_of()
    for member_id in (D, C):
        cluster.start(member(member_id), initial=(address_of(A),))
    cluster.settle()
    assert ids_in(master) == [A, B, D, C]


def test_nobody_is_let_in_while_the_state_changes() -> None:
    cluster, master = cluster_of()
    cluster.drops = [lambda sender, to, _: B in (sender, to)]
    cluster.ask(A, request_of(Ask.STATE, state=ClusterState.FROZEN))
    cluster.inject(d, A, joining())
    cluster.inject(member(C), A, joining(member(C)))
    cluster.drops = []
    cluster.run_until(lambda: master.view is not None and master.view.state is ClusterState.FROZEN)
    cluster.run(2_000)
    assert ids_in(master) == [A, B]


def test_lite_member_joins_and_gets_nothing() -> None:
    cluster, master = cluster_of()
    cluster.start(member(D, kind=Kind.LITE), initial=(address_of(A),))
    cluster.settle()
    assert ids_in(master) == [A, B, D]
    assert all(row.index_of(D) < 0 for row in master.table.rows)


# While a new master settles -----------------------------------------------------------------------


def settling(since: int = 1_000) -> tuple[Cluster, Node]:
    """B leads a whole cluster that comes back from files, and has waited for A for so long."""
    cluster = Cluster(A, B, C)
    cluster.form(persistent=True)
    cluster.crash(A, B, C)
    for member_id in (B, C):
        cluster.start(member(member_id, 2, persistent=True))
    node = cluster.nodes[B]
    cluster.run_until(lambda: node.view is not None and node.view.recovering)
    cluster.run(since)
    return cluster, node


def test_listed_member_that_restarted_takes_its_place_again_while_its_master_settles() -> None:
    cluster, node = settling()
    assert node.view is not None
    assert node.view.has(A, 1)
    cluster.start(member(A, 2, persistent=True))
    master = cluster.settle()
    assert master.view is not None
    assert sorted(ids_in(master)) == [A, B, C]
    assert master.view.find(A) == member(A, 2, persistent=True, recovered=True)
    assert all(row.version >= 1 for row in master.table.rows)


def test_its_place_is_taken_again_when_the_view_is_committed() -> None:
    cluster, node = settling(since=0)
    assert node.view is not None
    key = node.view.key
    cluster.inject(member(A, 2, persistent=True), B, joining(member(A, 2, persistent=True)))
    assert node.view.key == key
    cluster.run(100)
    cluster.inject(member(A, 2, persistent=True), B, joining(member(A, 2, persistent=True)))
    assert node.view.has(A, 2)


@pytest.mark.parametrize(
    "stay", [member(A, 2), member(A, 1, persistent=True), member(D, 2, persistent=True)]
)
def test_others_wait_until_it_has_settled(stay: Member) -> None:
    cluster, node = settling()
    assert node.view is not None
    key = node.view.key
    cluster.inject(stay, B, replace(joining(stay), cluster="A.1"))
    cluster.run(100)
    assert node.view.key == key


def test_member_that_was_taken_out_learns_it() -> None:
    cluster, _ = cluster_of(A, B, C)
    cluster.drops = [lambda sender, to, _: sender == C or to == address_of(C)]
    cluster.run(10_000)
    cluster.drops = []
    cluster.run_until(lambda: bool(cluster.messages(NotListed, to=C)))
    master = cluster.settle()
    assert master.view is not None
    assert master.view.has(C, 2)


def queued() -> tuple[Cluster, Node]:
    """C is let in and has not confirmed the table, so D waits for its turn."""
    cluster = Cluster(A, B)
    master = cluster.form()
    cluster.drops = [losing(PublicationAck)]
    cluster.start(member(C), initial=(address_of(A),))
    cluster.run(5)
    cluster.inject(d, A, joining())
    assert ids_in(master) == [A, B, C]
    assert master.leadership.joining.asks_until(D) == cluster.now + 1_000
    return cluster, master


def test_stay_whose_end_is_a_fact_is_not_let_in_although_it_asked() -> None:
    """Its request was on its way when it died, or waits for its turn."""
    cluster, master = queued()
    cluster.step(A, ConfirmedDead(D, 1, Millis(0)))
    cluster.drops = []
    cluster.run(700)
    assert master.leadership.joining.asks_until(D) is None
    cluster.inject(d, A, joining())
    assert master.leadership.joining.asks_until(D) is None
    assert ids_in(master) == [A, B, C]


def test_whoever_asks_no_more_is_not_let_in() -> None:
    cluster, master = queued()
    cluster.run(1_300)
    cluster.drops = []
    cluster.run(700)
    assert master.leadership.joining.asks_until(D) is None
    assert ids_in(master) == [A, B, C]


def test_process_that_restarted_without_a_view_takes_its_place_too() -> None:
    """It promised the founder, and its files hold no more than that."""
    cluster, node = settling()
    cluster.run(2_000)
    stay = member(A, 2, persistent=True)
    cluster.inject(stay, B, replace(joining(stay), cluster=""))
    assert node.view is not None
    assert node.view.has(A, 2)


def test_whoever_is_listed_with_an_older_stay_lets_the_others_pass() -> None:
    """1. A change is open. 2. C restarts, then B. 3. B's older stay is taken out first."""
    cluster = Cluster(A)
    master = cluster.form()
    for member_id in (B, C):
        cluster.start(member(member_id, kind=Kind.LITE), initial=(address_of(A),))
        cluster.settle()
    cluster.crash(B, C)
    assert master.view is not None
    master.leadership.mastership.change(master.view)
    for member_id in (C, B):
        stay = member(member_id, 2, kind=Kind.LITE)
        cluster.inject(stay, A, joining(stay))
    assert [(m.id, m.incarnation) for m in master.view.members] == [(A, 1), (B, 2)]
