"""Claims and promises: who becomes master, and what a voter refuses."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from holdfast.core.config import Quorum
from holdfast.core.effects import NoticeKind
from holdfast.core.election import Role
from holdfast.core.events import ConfirmedDead
from holdfast.core.messages import (
    Claim,
    Grant,
    Heartbeat,
    JoinRequest,
    NewerTerm,
    NewView,
    Promise,
    Report,
)
from holdfast.core.node import Node
from holdfast.core.views import Kind, Member, View
from holdfast.ids import Millis, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    D,
    E,
    cut,
    follower,
    losing,
    member,
    view_of,
)

LEASE = 2_000
a, b, c = member(A), member(B), member(C)


def claim(
    term: int,
    *,
    view_term: int = 1,
    view_version: int = 1,
    probe: bool = False,
    founding: bool = False,
) -> Claim:
    return Claim(Term(term), Term(view_term), Version(view_version), founding, probe, Millis(3))


def asked(cluster: Cluster, origin: Member, message: Claim) -> Promise:
    """The answer to a claim."""
    cluster.inject(origin, B, message)
    return cluster.messages(Promise)[-1]


# Voting -------------------------------------------------------------------------------------------


def test_each_term_is_promised_once() -> None:
    cluster = follower()
    first = asked(cluster, c, claim(2))
    assert first == Promise(Term(2), True, False, Millis(3), Term(2), None, b, False)
    assert not asked(cluster, a, claim(2)).granted
    assert not asked(cluster, c, claim(2)).granted
    assert asked(cluster, c, claim(3)).granted


def test_probe_changes_nothing() -> None:
    cluster = follower()
    node = cluster.nodes[B]
    assert asked(cluster, c, claim(2, probe=True)).granted
    assert asked(cluster, a, claim(2, probe=True)).granted
    assert node.context.promised == 1
    assert asked(cluster, a, claim(2)).granted


def test_candidate_with_an_older_view_is_refused_and_gets_the_newer_one() -> None:
    cluster = follower()
    newer = view_of(a, b, c, version=2)
    cluster.inject(a, B, NewView(newer))
    answer = asked(cluster, c, claim(9))
    assert not answer.granted
    assert answer.view == newer
    assert asked(cluster, c, claim(9, view_version=2)).view is None


def test_whoever_is_no_voter_promises_nothing() -> None:
    assert not asked(follower(kind=Kind.LITE), c, claim(2)).granted
    cluster = follower()
    cluster.inject(a, B, NewView(view_of(a, c, version=2)))
    assert not asked(cluster, c, claim(2, view_version=2)).granted


def test_where_no_voter_is_left_any_member_promises() -> None:
    """The last voter was taken out; a lite master and a newcomer are what is left. The master comes
    back from its files, and the newcomer needs its promise: without it they never lead again."""
    lite, newcomer = member(B, kind=Kind.LITE), replace(c, newcomer=True)
    cluster = follower(kind=Kind.LITE)
    cluster.inject(a, B, NewView(view_of(lite, newcomer, version=2, master=A)))
    assert asked(cluster, c, claim(2, view_version=2)).granted


def test_founding_is_promised_only_by_someone_who_knows_of_no_cluster() -> None:
    cluster = follower()
    assert not asked(cluster, c, claim(2, founding=True)).granted
    for may_found in (True, False):
        cluster = Cluster(A, B)
        cluster.start(b, may_found=may_found)
        assert asked(cluster, a, claim(1, founding=True)).granted is may_found
        assert not asked(cluster, a, claim(5)).granted


def test_promise_is_kept_over_a_restart() -> None:
    cluster = follower(persistent=True)
    cluster.inject(c, B, claim(2))
    cluster.run(5)
    assert cluster.messages(Promise)[-1].granted
    cluster.crash(B)
    cluster.start(member(B, 2, persistent=True))
    cluster.run(LEASE + 50)
    assert cluster.nodes[B].context.promised == 2
    cluster.inject(a, B, claim(2))
    cluster.run(5)
    answer = cluster.messages(Promise)[-1]
    assert not answer.granted
    assert answer.recovered


def test_promise_to_a_founder_is_kept_over_a_restart() -> None:
    cluster = Cluster(A, B)
    cluster.start(member(B, persistent=True))
    cluster.inject(a, B, claim(3, founding=True))
    cluster.run(5)
    assert cluster.messages(Promise)[-1].granted
    cluster.crash(B)
    node = cluster.start(member(B, 2, persistent=True))
    assert node.view is None
    for term, granted in ((3, False), (4, True)):
        cluster.inject(a, B, claim(term, founding=True))
        cluster.run(5)
        assert cluster.messages(Promise)[-1].granted is granted


def test_promise_does_not_leave_before_it_is_on_disk() -> None:
    cluster = follower(persistent=True)
    cluster.slow_disk = True
    cluster.inject(c, B, claim(2))
    cluster.run(50)
    assert cluster.messages(Promise) == []
    cluster.write(B)
    cluster.run(50)
    assert cluster.messages(Promise)[-1].granted


# Standing -----------------------------------------------------------------------------------------


def stands(cluster: Cluster) -> Node:
    """B has begun a candidacy, after a silence of its master."""
    cluster.run_until(lambda: bool(cluster.messages(Claim)))
    return cluster.nodes[B]


def answer(
    cluster: Cluster,
    voter: Member,
    *,
    granted: bool = True,
    term: int = 1,
    view: View | None = None,
) -> None:
    """A voter answers the last claim of B."""
    last = cluster.messages(Claim)[-1]
    promise = Promise(
        last.term, granted, last.probe, last.sent_at, Term(term), view, voter, recovered=False
    )
    cluster.inject(voter, B, promise)


def test_candidate_probes_then_claims_then_leads() -> None:
    cluster = follower()
    node = stands(cluster)
    assert node.election.role is Role.PROBING
    assert node.context.promised == 1
    answer(cluster, c)
    assert cluster.nodes[B].election.role is Role.CLAIMING
    assert node.context.promised == 2
    answer(cluster, c)
    assert cluster.nodes[B].election.role is Role.MASTER
    assert node.view is not None
    assert node.view.master == B
    assert node.view.term == 2


def test_probe_that_nobody_would_promise_ends_nothing() -> None:
    cluster = follower()
    node = stands(cluster)
    cluster.run(3_000)
    assert node.context.promised == 1
    assert node.election.role is not Role.MASTER


def test_claims_are_repeated_to_whoever_has_not_answered() -> None:
    """A probe often, as what keeps a voter from agreeing ends soon; a claim as messages are."""
    cluster = follower()
    d = member(D)
    cluster.inject(a, B, NewView(view_of(a, b, c, d, member(E), version=2)))
    node = stands(cluster)
    answer(cluster, c)
    before = {voter: len(cluster.messages(Claim, to=voter)) for voter in (C, D, E)}
    cluster.run(310)
    assert len(cluster.messages(Claim, to=C)) == before[C]
    assert len(cluster.messages(Claim, to=D)) == before[D] + 3
    answer(cluster, d)
    assert node.election.role is Role.CLAIMING
    before[E] = len(cluster.messages(Claim, to=E))
    cluster.run(490)
    assert len(cluster.messages(Claim, to=E)) == before[E]
    cluster.run(20)
    assert len(cluster.messages(Claim, to=E)) == before[E] + 1


def test_voter_that_was_at_my_address_before_me_is_not_asked() -> None:
    """D lost its files and B came in its place: what went to D's address would come to B, and B
    would refuse itself the term that it has just claimed. (Seed 3302.)"""
    cluster = follower()
    before = replace(member(D), address=b.address)
    cluster.inject(a, B, NewView(view_of(a, b, c, before, version=2)))
    node = stands(cluster)
    for _ in ("probe", "claim"):
        answer(cluster, a)
        answer(cluster, c)
    assert node.election.role is Role.MASTER


def test_voter_with_a_newer_view_ends_the_candidacy() -> None:
    cluster = follower()
    node = stands(cluster)
    newer = view_of(a, b, c, version=2)
    answer(cluster, c, granted=False, view=newer)
    assert node.view == newer
    assert cluster.messages(Claim)[-1].view_version == 2


def test_voter_with_a_newer_term_is_outbid_next_time() -> None:
    cluster = follower()
    node = stands(cluster)
    answer(cluster, c, granted=False, term=40)
    assert node.election.role is Role.FOLLOWING
    cluster.sent.clear()
    stands(cluster)
    assert cluster.messages(Claim)[-1].term == 41


def test_voter_that_merely_refuses_is_waited_out() -> None:
    cluster = follower()
    node = stands(cluster)
    answer(cluster, c, granted=False)
    assert node.election.role is Role.PROBING


def test_candidate_that_was_granted_something_meanwhile_goes_no_further() -> None:
    """Seed 347: the late grant brought no lease, but a vow on which the master may count."""
    cluster = follower()
    node = stands(cluster)
    cluster.grant(sent_at=cluster.now - LEASE)
    assert not node.membership.has_lease()
    answer(cluster, c)
    assert node.election.role is Role.FOLLOWING
    assert node.context.promised == 1
    cluster.sent.clear()
    stands(cluster)
    answer(cluster, c)
    assert cluster.nodes[B].election.role is Role.CLAIMING


def test_promise_of_another_ballot_is_not_counted() -> None:
    cluster = follower()
    node = stands(cluster)
    last = cluster.messages(Claim)[-1]
    for wrong in (
        Promise(Term(9), True, True, last.sent_at, Term(1), None, c, recovered=False),
        Promise(last.term, True, False, last.sent_at, Term(1), None, c, recovered=False),
        Promise(last.term, True, True, Millis(99), Term(1), None, c, recovered=False),
        Promise(last.term, True, True, last.sent_at, Term(1), None, member(E), recovered=False),
    ):
        cluster.inject(c, B, wrong)
        assert node.election.role is Role.PROBING, wrong


def test_whoever_is_led_does_not_stand() -> None:
    cluster = follower()
    cluster.run_until(lambda: cluster.nodes[B].election.role is Role.FOLLOWING)
    cluster.sent.clear()
    cluster.grant()
    cluster.run(LEASE - 100)
    assert cluster.messages(Claim) == []


def test_the_oldest_stands_first_and_the_next_a_step_later() -> None:
    """Of A, B and C the master is gone; B is the eldest left, C the next."""
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.crash(A)
    cluster.sent.clear()
    cluster.run_until(lambda: cluster.master is not None)
    claimants = [sender for sender, _, message in cluster.sent if isinstance(message, Claim)]
    assert set(claimants) == {B}


def test_lite_member_stands_too_and_needs_the_voters() -> None:
    cluster = follower(kind=Kind.LITE)
    stands(cluster)
    answer(cluster, a)
    assert cluster.nodes[B].election.role is Role.PROBING
    answer(cluster, c)
    answer(cluster, a)
    answer(cluster, c)
    assert cluster.nodes[B].election.role is Role.MASTER


def test_failed_candidacies_come_ever_later() -> None:
    cluster = follower()
    times: list[int] = []
    for _ in range(4):
        cluster.sent.clear()
        stands(cluster)
        times.append(cluster.now)
        cluster.run_until(lambda: cluster.nodes[B].election.role is Role.FOLLOWING)
    gaps = [later - sooner for sooner, later in pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[0] < gaps[-1]


def test_promise_that_comes_after_the_candidacy_is_ignored() -> None:
    cluster = Cluster(A, B)
    node = cluster.start(b, may_found=False)
    cluster.inject(a, B, Promise(Term(0), True, True, Millis(0), Term(1), None, a, False))
    assert node.election.role is Role.FOLLOWING


# Any quorum ---------------------------------------------------------------------------------------


def test_with_any_quorum_whoever_answers_is_enough_after_a_while_of_patience() -> None:
    cluster = follower(quorum=Quorum.ANY)
    node = stands(cluster)
    assert node.election.role is Role.PROBING
    cluster.run_until(lambda: cluster.nodes[B].election.role is Role.MASTER)
    cluster.drops = [losing(NewView)]
    cluster.run_until(lambda: node.is_master)
    assert node.view is not None
    assert [m.id for m in node.view.members] == [B]


def test_with_any_quorum_everyone_who_answers_is_heard() -> None:
    cluster = follower(quorum=Quorum.ANY)
    stands(cluster)
    for _ in range(2):
        answer(cluster, a)
        answer(cluster, c)
    assert cluster.nodes[B].election.role is Role.MASTER


# Stepping down ------------------------------------------------------------------------------------


def test_newer_term_ends_a_mastership_an_older_one_does_not() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    for term, still in ((0, True), (9, False)):
        cluster.inject(b, A, NewerTerm(Term(term), None))
        assert cluster.nodes[A].is_master is still
    assert "term 9 exists" in cluster.noticed(NoticeKind.LOST_MASTERSHIP)[0].detail
    cluster.settle()


def test_master_with_a_mandate_promises_nobody() -> None:
    cluster = Cluster(A, B, C)
    node = cluster.form()
    cluster.inject(c, A, claim(9))
    assert not cluster.messages(Promise)[-1].granted
    assert node.is_master


def test_view_of_another_master_ends_a_candidacy() -> None:
    cluster = follower()
    stands(cluster)
    cluster.inject(c, B, NewView(view_of(a, b, c, term=5, master=C)))
    assert cluster.nodes[B].election.role is Role.FOLLOWING


@pytest.mark.parametrize("side", [(A,), (B,), (A, B)])
def test_cut_cluster_goes_on_where_the_majority_is(side: tuple[str, ...]) -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    inside = [m for m in (A, B, C) if m in side]
    cluster.drops = [cut(inside)]
    majority = inside if len(inside) == 2 else [m for m in (A, B, C) if m not in inside]
    cluster.run(15_000)
    master = cluster.master
    assert master is not None
    assert master.me.id in majority
    assert master.view is not None
    assert sorted(m.id for m in master.view.members) == majority
    cluster.drops = []
    cluster.settle()


def test_master_that_slept_finds_its_mandate_over_and_stands_again() -> None:
    cluster = Cluster(A, B, C)
    node = cluster.form()
    cluster.drops = [losing(Heartbeat, Promise, Report, JoinRequest, Claim, Grant)]
    cluster.run(3_000)
    assert not node.is_master
    assert "my mandate is over" in cluster.noticed(NoticeKind.LOST_MASTERSHIP)[0].detail
    cluster.drops = []
    cluster.settle()


def test_survivor_of_two_goes_on_after_a_confirmed_death_at_once() -> None:
    cluster = Cluster(A, B)
    cluster.form()
    cluster.crash(A)
    cluster.step(B, ConfirmedDead(A, 1, Millis(0)))
    cluster.run_until(lambda: cluster.nodes[B].is_master, 100)
    cluster.settle()
    assert all(row.owner == B for row in cluster.nodes[B].table.rows)


def test_survivor_of_two_without_an_arbiter_stops() -> None:
    cluster = Cluster(A, B)
    cluster.form()
    cluster.crash(A)
    cluster.run(30_000)
    assert not cluster.nodes[B].is_master
    assert not cluster.nodes[B].membership.has_lease()
