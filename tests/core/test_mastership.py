"""Mandate, leases, and one change of the view at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.effects import NoticeKind
from holdfast.core.events import Woke
from holdfast.core.mastership import Stage
from holdfast.core.messages import (
    Fetch,
    Grant,
    Heartbeat,
    NewerTerm,
    NewView,
    NotListed,
    Promise,
    Report,
)
from holdfast.core.node import Node
from holdfast.core.serving import Serving
from holdfast.core.views import Kind, Member
from holdfast.ids import Millis, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    D,
    E,
    address_of,
    cut,
    losing,
    member,
    partition,
)

LEASE, MARGIN, HEARTBEAT = 2_000, 200, 500
a, b, c = member(A), member(B), member(C)


def three(**settings: object) -> tuple[Cluster, Node]:
    cluster = Cluster(A, B, C, **settings)
    return cluster, cluster.form()


def beat(cluster: Cluster, node: Node, stay: Member, **change: object) -> None:
    """A heartbeat that the test plays."""
    view = node.view
    assert view is not None
    now = Millis(cluster.now)
    sound = Heartbeat(
        view.term, view.version, now, now, node.table.stamp, True, Term(0), Version(0), ()
    )
    cluster.inject(stay, A, replace(sound, **change))  # type: ignore[arg-type]


# Mandate ------------------------------------------------------------------------------------------


def test_mandate_counts_from_what_a_majority_echoed() -> None:
    cluster, node = three()
    cluster.drops = [losing(Heartbeat)]
    cluster.run(600)
    old = node.election.mandate_until
    beat(cluster, node, b, granted_at=Millis(cluster.now))
    assert node.election.mandate_until == cluster.now + LEASE - MARGIN
    assert node.election.mandate_until > old


def test_echo_from_the_future_or_the_past_moves_nothing() -> None:
    cluster, node = three()
    cluster.run(600)
    before = dict(node.leadership.mastership.echoed)
    beat(cluster, node, b, granted_at=Millis(cluster.now + 1))
    beat(cluster, node, b, granted_at=Millis(-1))
    assert node.leadership.mastership.echoed == before


def test_master_without_a_majority_stops_before_anyone_replaces_it() -> None:
    cluster, node = three()
    owned = [row.partition for row in node.table.rows if row.owner == A]
    cluster.drops = [cut([A])]
    elected_at = 0
    stopped_at = 0
    for _ in range(5_000):
        cluster.run(1)
        serves = node.serving(owned[0], Millis(cluster.now)) is not Serving.NONE
        if serves:
            stopped_at = cluster.now + 1
        others = [cluster.nodes[B].is_master, cluster.nodes[C].is_master]
        if any(others) and not elected_at:
            elected_at = cluster.now
    assert stopped_at < elected_at


# Heartbeats ---------------------------------------------------------------------------------------


def test_heartbeat_of_an_older_term_is_told_of_the_newer_one() -> None:
    cluster, node = three()
    beat(cluster, node, b, term=Term(0))
    assert cluster.messages(NewerTerm, to=B) == [NewerTerm(Term(1), node.view)]


def test_heartbeat_outside_a_cluster_is_told_that_there_is_none() -> None:
    cluster = Cluster(A, B)
    node = cluster.start(a)
    beat_ = Heartbeat(Term(0), Version(0), Millis(0), Millis(0), 0, True, Term(0), Version(0), ())
    cluster.inject(b, A, beat_)
    assert cluster.messages(NewerTerm, to=B) == [NewerTerm(Term(0), None)]
    assert node.view is None


def test_heartbeat_of_a_newer_term_or_to_a_follower_is_nothing_to_answer() -> None:
    cluster, node = three()
    cluster.sent.clear()
    beat(cluster, node, b, term=Term(9))
    view = node.view
    assert view is not None
    beat_ = Heartbeat(
        view.term, view.version, Millis(0), Millis(0), 0, True, Term(0), Version(0), ()
    )
    cluster.inject(c, B, beat_)
    assert cluster.messages(Grant) == []


def test_heartbeat_of_a_stay_that_is_not_listed_is_told_so() -> None:
    cluster, node = three()
    for stay in (member(D), member(B, 2)):
        beat(cluster, node, stay, version=Version(0))
        beat(cluster, node, stay)
    view = node.view
    assert view is not None
    told = NotListed(view, Millis(cluster.now))
    assert cluster.messages(NotListed) == [told, told]


def test_lease_is_granted_only_to_whoever_confirmed_the_newest_view() -> None:
    cluster, node = three()
    cluster.sent.clear()
    beat(cluster, node, b, version=Version(0))
    assert cluster.messages(Grant) == []
    assert cluster.messages(NewView, to=B) == [NewView(node.view)]  # type: ignore[arg-type]
    beat(cluster, node, b)
    assert cluster.messages(Grant, to=B)[0].serve


def test_settling_master_grants_no_lease() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.drops = [losing(Report)]
    cluster.crash(A)
    cluster.run_until(lambda: cluster.nodes[B].leadership.mastership.stage is Stage.SETTLING)
    cluster.sent.clear()
    cluster.run(1_000)
    grants = cluster.messages(Grant, to=C)
    assert grants
    assert not any(grant.serve for grant in grants)
    assert cluster.nodes[B].serving(partition(0), Millis(cluster.now)) is Serving.NONE


def test_master_whose_mandate_is_over_grants_nothing() -> None:
    cluster, node = three()
    cluster.sent.clear()
    cluster.now += 3_000
    beat(cluster, node, b, granted_at=Millis(-1))
    assert cluster.messages(Grant) == []


def uncommitted() -> tuple[Cluster, Node]:
    """C was taken out, and nobody has confirmed that yet."""
    cluster, node = three()
    cluster.drops = [losing(NewView, NotListed, Heartbeat)]
    cluster.confirm_dead(C)
    assert node.view is not None
    assert node.view.base == (a, b, c)
    return cluster, node


@pytest.mark.parametrize(("incarnation", "counts"), [(0, False), (1, True), (2, True)])
def test_whoever_was_taken_out_confirms_that_as_a_voter_of_the_view_before(
    incarnation: int, *, counts: bool
) -> None:
    cluster, node = uncommitted()
    beat(cluster, node, member(C, incarnation))
    assert (C in node.leadership.mastership.confirmed_by) is counts
    assert cluster.messages(NotListed, to=C)[1:] == []


# Silence ------------------------------------------------------------------------------------------


def silent_until(cluster: Cluster, node: Node) -> int:
    """When C, silent from now on, is taken out."""
    cluster.run_until(lambda: node.view is not None and node.view.find(C) is None)
    return cluster.now


def test_silent_member_is_taken_out_when_its_lease_is_surely_over() -> None:
    cluster, node = three()
    granted = cluster.nodes[C].membership.lease_until
    cluster.crash(C)
    at = silent_until(cluster, node)
    assert at >= granted + MARGIN
    assert at <= cluster.now + LEASE + MARGIN + 2 * HEARTBEAT


def test_member_that_is_heard_but_hears_nothing_counts_as_silent() -> None:
    cluster, node = three()
    cluster.drops = [lambda _, to, __: to == address_of(C)]
    silent_until(cluster, node)


def test_dead_member_is_taken_out_at_once() -> None:
    cluster, node = three()
    at = cluster.now
    cluster.crash(C)
    cluster.confirm_dead(C)
    assert silent_until(cluster, node) - at < 10


def test_members_that_fall_silent_together_are_taken_out_one_by_one() -> None:
    cluster = Cluster(A, B, C, D, E)
    node = cluster.form()
    cluster.crash(D, E)
    sizes = {5}
    for _ in range(8_000):
        cluster.run(1)
        assert node.view is not None
        sizes.add(len(node.view.members))
    assert sizes == {5, 4, 3}


def test_whoever_restarted_stays_listed_until_the_silent_one_is_taken_out() -> None:
    """1. C gets no lease any more. 2. B restarts, and asks to be let in. 3. A can't commit a view
    of itself and C: it took B's former stay out all the same, took that back, and so on."""
    cluster = Cluster(A, B, C)
    node = cluster.form(persistent=True)
    cluster.drops = [lambda _, to, m: to == address_of(C) and isinstance(m, Grant)]
    cluster.run(2 * LEASE)
    cluster.crash(B)
    cluster.start(member(B, 2, persistent=True))
    cluster.run_until(lambda: node.view is not None and node.view.has(B, 2))
    assert cluster.noticed(NoticeKind.CHANGE_WITHDRAWN) == []


def test_death_of_a_majority_that_is_a_fact_does_not_stop_the_rest() -> None:
    cluster, node = three()
    cluster.crash(B, C)
    cluster.confirm_dead(B)
    cluster.confirm_dead(C)
    cluster.run(1_000)
    assert node.is_master
    assert node.view is not None
    assert [m.id for m in node.view.members] == [A]


def test_silent_members_of_a_majority_stop_the_rest() -> None:
    cluster, node = three()
    cluster.crash(B, C)
    cluster.run(10_000)
    assert not node.is_master
    for member_id in (D, E):
        cluster.start(member(member_id), initial=(address_of(A),))
    cluster.run(10_000)
    assert not node.is_master


def test_view_that_someone_missed_is_sent_again() -> None:
    cluster, node = three()
    cluster.drops = [lambda _, to, m: to == address_of(C) and isinstance(m, NewView)]
    cluster.start(member(D), initial=(address_of(A),))
    cluster.run_until(lambda: node.view is not None and len(node.view.members) == 4)
    cluster.run(300)
    before = len(cluster.messages(NewView, to=C))
    cluster.drops = [losing(Heartbeat)]
    cluster.run(600)
    assert len(cluster.messages(NewView, to=C)) > before


def test_master_that_was_cut_off_wakes_and_finds_back_although_nobody_speaks_to_it() -> None:
    """1. A is cut off. 2. B and C go on, and let D in. 3. The network heals."""
    cluster, node = three()
    cluster.drops = [cut([A])]
    cluster.run(10_000)
    assert node.wake_at is not None
    cluster.start(member(D), initial=(address_of(B),))
    cluster.run(10_000)
    cluster.drops = []
    master = cluster.settle()
    assert master.view is not None
    assert sorted(m.id for m in master.view.members) == [A, B, C, D]


def test_mastership_without_office_may_do_nothing() -> None:
    cluster, _ = three()
    follower = cluster.nodes[B].leadership.mastership
    assert follower.stage is Stage.NONE
    assert not follower.may_act()
    assert not follower.committed()
    assert not Cluster(A, B).start(a).leadership.mastership.known_to_all()


@pytest.mark.parametrize("lost", [Promise, Fetch])
def test_election_that_stumbles_ends_well(lost: type) -> None:
    cluster, _ = three()
    cluster.crash(A)
    cluster.drops = [losing(lost)]
    cluster.run(8_000)
    assert cluster.master is None
    cluster.drops = []
    cluster.settle()
    assert cluster.step(B, Woke()) is not None


def test_lite_master_decides_nothing_when_the_only_voter_is_dead_and_may_come_back() -> None:
    cluster = Cluster(A, B)
    cluster.start(member(A, kind=Kind.LITE))
    cluster.start(member(B, persistent=True))
    node = cluster.settle()
    assert node.me.id == A
    cluster.crash(B)
    cluster.confirm_dead(B)
    cluster.run(2_000)
    assert not node.is_master
    cluster.start(member(B, 2, persistent=True))
    view = cluster.settle().view
    assert view is not None
    assert sorted(m.id for m in view.members) == [A, B]
