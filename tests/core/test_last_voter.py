"""The last voter does not leave before data that asks to be let in can go on without it."""

from __future__ import annotations

from holdfast.core.effects import NoticeKind
from holdfast.core.messages import Ask, Heartbeat, PublicationAck, Refusal
from holdfast.core.node import Node
from holdfast.core.states import ClusterState
from holdfast.core.views import Kind
from holdfast.ids import MemberId
from tests.core.asking import LEAVE, view
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


def with_data_at_the_door() -> Cluster:
    """A alone votes. D asks to be let in, and nobody is let in before C, which is lite, has
    confirmed the table."""
    cluster = Cluster(A)
    master = cluster.form()
    cluster.drops = [losing(PublicationAck)]
    for stay in (member(C, kind=Kind.LITE), member(D)):
        cluster.start(stay, initial=(address_of(A),))
        cluster.run_until(lambda: view(master).find(C) is not None)
    cluster.run_until(master.leadership.joining.data_asks)
    return cluster


def whose_master_is_dead() -> Cluster:
    """A led, and B is left."""
    cluster = Cluster(A, B)
    cluster.form()
    cluster.crash(A)
    cluster.confirm_dead(A)
    return cluster


def take_office_alone(cluster: Cluster) -> Node:
    """B leads, and votes alone."""
    heir = cluster.nodes[B]
    cluster.run_until(lambda: heir.leadership.is_master() and len(view(heir).voters) == 1)
    return heir


def goes_and_leaves_all_to(cluster: Cluster, leaver: MemberId, *others: MemberId) -> None:
    """It leaves in good order, and these go on with everything."""
    cluster.run_until(lambda: cluster.stops == [leaver])
    cluster.crash(leaver)
    assert tuple(m.id for m in view(cluster.settle()).members) == others
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []


def test_last_voter_waits_until_data_that_asks_is_let_in() -> None:
    """1. D asks to be let in. 2. A, alone, is asked to leave: without it, D could decide nothing.
    3. D is let in, becomes a voter, and gets what A has. 4. A leaves."""
    cluster = with_data_at_the_door()
    cluster.ask(A, LEAVE)
    cluster.run(1_000)
    assert cluster.stops == []
    cluster.drops = []
    goes_and_leaves_all_to(cluster, A, C, D)


def test_last_voter_that_has_just_begun_to_lead_waits_for_data_that_asked_before() -> None:
    """1. D asks B to be let in; A, who led, is dead. 2. B takes office, and has queued nobody. It
    is asked to leave at once. 3. D asks again, is let in and gets what B has. 4. B leaves."""
    cluster = whose_master_is_dead()
    cluster.start(member(D), initial=(address_of(B),), may_found=False)
    heir = take_office_alone(cluster)
    assert not heir.leadership.joining.data_asks()
    cluster.ask(B, LEAVE)
    goes_and_leaves_all_to(cluster, B, D)


def test_last_voter_waits_for_data_that_was_refused_until_now() -> None:
    """1. D is refused: the state lets in nobody new. 2. The state is ACTIVE again, and A, alone, is
    asked to leave before D has asked again. 3. D is let in, and gets what A has. 4. A leaves."""
    cluster = Cluster(A)
    master = cluster.form()
    cluster.ask(A, request_of(Ask.STATE, "passive", state=ClusterState.PASSIVE))
    cluster.run_until(lambda: view(master).state is ClusterState.PASSIVE)
    cluster.run(5_000)
    cluster.start(member(D), initial=(address_of(A),), may_found=False)
    cluster.run_until(lambda: bool(cluster.messages(Refusal, to=D)))
    cluster.ask(A, request_of(Ask.STATE, "active", state=ClusterState.ACTIVE))
    cluster.ask(A, LEAVE)
    goes_and_leaves_all_to(cluster, A, D)


def test_last_voter_leaves_when_nobody_has_asked_for_a_while() -> None:
    cluster = whose_master_is_dead()
    take_office_alone(cluster)
    cluster.ask(B, LEAVE)
    cluster.run_until(lambda: cluster.stops == [B], limit=2_000)


def test_last_voter_waits_no_longer_for_data_that_asks_no_more() -> None:
    cluster = with_data_at_the_door()
    cluster.crash(D)
    cluster.ask(A, LEAVE)
    cluster.run_until(lambda: cluster.stops == [A], limit=10_000)


def test_last_voter_waits_until_a_newcomer_votes() -> None:
    """A alone votes, and D is about to; without A, D could decide nothing."""
    cluster = Cluster(A)
    master = cluster.form()
    cluster.drops = [losing(Heartbeat)]
    cluster.start(member(D), initial=(address_of(A),))
    cluster.run_until(lambda: any(m.newcomer for m in view(master).members))
    cluster.ask(A, LEAVE)
    cluster.run(1_000)
    assert cluster.stops == []
    cluster.drops = []
    goes_and_leaves_all_to(cluster, A, D)
