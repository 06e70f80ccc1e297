"""A change of the voters that can't be committed is taken back by the master that made it."""

from __future__ import annotations

from holdfast.core.effects import NoticeKind
from holdfast.core.events import Woke
from holdfast.core.membership import Phase
from holdfast.core.messages import Ask, Heartbeat
from holdfast.core.node import Node
from holdfast.core.views import View
from holdfast.ids import MemberId, Term
from tests.core.harness import A, B, C, Cluster, D, address_of, cut, losing, member, request_of

LEAVE = request_of(Ask.LEAVE)


def view(node: Node) -> View:
    assert node.view is not None
    return node.view


def ids(node: Node) -> list[MemberId]:
    return [listed.id for listed in view(node).members]


def without_c() -> tuple[Cluster, Node]:
    """C is silent and was taken out; B died before it could confirm that."""
    cluster = Cluster(A, B, C)
    node = cluster.form()
    cluster.drops = [cut([C])]
    cluster.run_until(lambda: ids(node) == [A, B])
    cluster.crash(B)
    return cluster, node


def test_voters_before_a_removal_decide_again_when_one_dies_that_it_needed() -> None:
    """1. A takes C out. 2. B dies unheard. 3. A withdraws. 4. C is heard: A and C go on."""
    cluster, node = without_c()
    assert not view(node).sealed
    cluster.run(5_000)
    assert not node.is_master
    assert ids(node) == [A, B, C]
    assert view(node).sealed
    assert len(cluster.noticed(NoticeKind.CHANGE_WITHDRAWN)) == 1
    cluster.drops = []
    master = cluster.settle()
    assert sorted(ids(master)) == [A, C]
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []


def test_member_that_learnt_of_the_withdrawn_change_comes_back_by_its_id() -> None:
    """C has heard that it is out, and began a new stay, before B died."""
    cluster, node = without_c()
    cluster.drops = []
    cluster.run_until(lambda: cluster.nodes[C].me.incarnation == 2)
    assert not view(node).sealed
    master = cluster.settle()
    assert sorted(ids(master)) == [A, C]
    assert view(master).has(C, 2)


def test_voter_that_dies_at_the_door_does_not_cost_the_mandate() -> None:
    """1. A is alone and makes D a voter. 2. D dies before it confirms. 3. A goes on alone."""
    cluster = Cluster(A)
    node = cluster.form()
    cluster.start(member(D), initial=(address_of(A),))
    cluster.run_until(lambda: bool(view(node).base))
    cluster.crash(D)
    cluster.run(5_000)
    assert len(cluster.noticed(NoticeKind.CHANGE_WITHDRAWN)) == 1
    assert cluster.noticed(NoticeKind.LOST_MASTERSHIP) == []
    assert node.is_master
    assert ids(node) == [A]


def test_master_that_could_not_leave_is_the_same_stay_with_its_table() -> None:
    """1. A takes itself out of A, B, C. 2. B dies unheard, C is cut off. 3. A is in again."""
    cluster = Cluster(A, B, C)
    node = cluster.form()
    cluster.ask(A, LEAVE)
    cluster.run_until(lambda: ids(node) == [B, C])
    rows = node.table.rows
    cluster.crash(B)
    cluster.drops = [cut([C])]
    cluster.run(5_000)
    assert ids(node) == [A, B, C]
    assert node.phase is Phase.MEMBER
    assert node.me.incarnation == 1
    assert node.table.rows == rows
    assert cluster.answers == {}, "it has not left, whatever was under way"
    cluster.drops = []
    cluster.run_until(lambda: cluster.stops == [A])
    cluster.crash(A)
    assert ids(cluster.settle()) == [C]


def test_change_of_an_earlier_master_is_not_withdrawn_by_the_next() -> None:
    """Only who made it knows that it was never sealed."""
    cluster, node = without_c()
    cluster.nodes[A].context.promised = Term(7)
    key = view(node).key
    cluster.run(5_000)
    assert view(node).key == key
    assert cluster.noticed(NoticeKind.CHANGE_WITHDRAWN) == []


def test_change_that_is_confirmed_in_time_stands() -> None:
    cluster = Cluster(A, B, C)
    node = cluster.form()
    cluster.crash(C)
    cluster.run_until(lambda: ids(node) == [A, B])
    cluster.drops = [losing(Heartbeat)]
    cluster.run(1_000)
    assert not view(node).sealed
    cluster.drops = []
    cluster.run(1_000)
    assert view(node).sealed
    assert cluster.step(A, Woke()) is not None
    assert cluster.noticed(NoticeKind.CHANGE_WITHDRAWN) == []
