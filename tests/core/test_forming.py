"""Finding a cluster, and founding one: simultaneous starts never make two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.config import RecoveryPolicy
from holdfast.core.effects import NoticeKind
from holdfast.core.membership import Phase
from holdfast.core.messages import (
    Ask,
    Claim,
    Fetch,
    Heartbeat,
    Hello,
    JoinRequest,
    NewerTerm,
    NewView,
    NotListed,
    Promise,
    Redirect,
    Refusal,
)
from holdfast.core.views import Kind
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
    follower,
    losing,
    member,
    request_of,
    view_of,
)

a, b, c = member(A), member(B), member(C)


def test_process_alone_founds_its_cluster_at_once() -> None:
    cluster = Cluster(A)
    node = cluster.start(a)
    assert node.is_master
    cluster.settle()
    assert all(row.owner == A for row in node.table.rows)


def test_empty_list_means_alone() -> None:
    cluster = Cluster(A, initial=())
    assert cluster.start(a).is_master


def test_lowest_name_founds_when_everyone_has_met() -> None:
    cluster = Cluster(A, B, C)
    for member_id in (C, B, A):
        cluster.start(member(member_id))
    master = cluster.settle()
    assert master.me.id == A
    assert master.view is not None
    assert [m.id for m in master.view.members] == [A, B, C]
    assert len(cluster.noticed(NoticeKind.FOUNDED)) == 1


def test_majority_founds_after_a_while_of_patience_and_a_minority_never() -> None:
    cluster = Cluster(A, B, C)
    cluster.start(b)
    cluster.run(20_000)
    assert cluster.master is None
    cluster.start(c)
    cluster.run(90)
    assert cluster.nodes[B].view is None
    master = cluster.settle()
    assert master.me.id == B
    cluster.start(a)
    master = cluster.settle()
    assert master.view is not None
    assert [m.id for m in master.view.members] == [B, C, A]


def test_whoever_may_not_found_waits_for_a_cluster() -> None:
    cluster = Cluster(A, B)
    for stay in (a, b):
        cluster.start(stay, may_found=False)
    cluster.run(20_000)
    assert cluster.master is None
    assert cluster.messages(Hello) == []


def test_lite_members_alone_found_nothing() -> None:
    cluster = Cluster(A, B)
    for member_id in (A, B):
        cluster.start(member(member_id, kind=Kind.LITE))
    cluster.run(20_000)
    assert cluster.master is None


def test_whoever_is_not_on_the_list_does_not_found() -> None:
    cluster = Cluster(B, C)
    for stay in (a, b):
        cluster.start(stay)
    cluster.run(20_000)
    assert cluster.nodes[A].view is None


def test_majority_is_forgotten_when_it_falls_silent() -> None:
    cluster = Cluster(A, B, C, forming_patience_ms=4_000)
    cluster.start(a)
    cluster.start(b)
    cluster.run(1_000)
    cluster.crash(B)
    cluster.run(20_000)
    assert cluster.nodes[A].view is None
    assert cluster.messages(Claim) == []


def test_founder_that_dies_in_the_middle_is_replaced_by_the_next_name() -> None:
    """1. A claims, and is promised. 2. It dies before anyone sees its view. 3. B founds."""
    cluster = Cluster(A, B, C)
    cluster.drops = [losing(NewView, Fetch)]
    cluster.start_all()
    cluster.run_until(lambda: cluster.nodes[A].view is not None)
    cluster.crash(A)
    cluster.drops = []
    master = cluster.settle()
    assert master.me.id == B
    assert master.view is not None
    assert [m.id for m in master.view.members] == [B, C]
    assert master.view.cluster == "B.1"


def test_cut_start_makes_one_cluster() -> None:
    cluster = Cluster(A, B, C)
    cluster.drops = [cut([A])]
    cluster.start_all()
    cluster.run(5_000)
    assert cluster.nodes[A].view is None
    cluster.drops = []
    master = cluster.settle()
    assert len(cluster.noticed(NoticeKind.FOUNDED)) == 1
    assert master.me.id == B


def test_founder_goes_on_without_whoever_met_and_did_not_promise_in_time() -> None:
    cluster = Cluster(A, B, C)
    cluster.drops = [lambda sender, _, m: sender == C and isinstance(m, Promise)]
    cluster.start_all()
    cluster.run_until(lambda: bool(cluster.noticed(NoticeKind.FOUNDED)))
    assert cluster.noticed(NoticeKind.FOUNDED)[0].detail == "by 2 members"
    cluster.drops = []
    master = cluster.settle()
    assert master.view is not None
    assert [m.id for m in master.view.members] == [A, B, C]


def test_other_clusters_are_not_greeted_back() -> None:
    cluster = Cluster(A, B)
    cluster.start(a)
    hello = Hello(b, "another", unfounded=True, answer_wanted=True)
    cluster.inject(b, A, hello)
    assert all(message.answer_wanted for message in cluster.messages(Hello))
    cluster.inject(b, A, replace(hello, cluster_name="holdfast"))
    assert not cluster.messages(Hello)[-1].answer_wanted
    cluster.run(5_000)
    assert cluster.nodes[A].view is None or cluster.messages(Claim)


@pytest.mark.parametrize("stranger", [C, D])
def test_only_unfounded_processes_of_the_list_count_as_met(stranger: str) -> None:
    cluster = Cluster(A, B, C)
    cluster.start(a)
    unfounded = stranger != C
    met = D if stranger == D else C
    for _ in range(10):
        cluster.inject(member(met), A, Hello(member(met), "holdfast", unfounded, False))
        cluster.run(500)
    assert cluster.messages(Claim) == []


def test_founded_member_greets_nobody() -> None:
    cluster = Cluster(A)
    cluster.form()
    cluster.inject(b, A, Hello(b, "holdfast", unfounded=True, answer_wanted=True))
    assert cluster.messages(Hello) == []


# Looking ------------------------------------------------------------------------------------------


def test_process_that_looks_asks_everyone_that_it_knows() -> None:
    cluster = follower()
    cluster.inject(a, B, NotListed(view_of(a, member(D), version=2).without_member(D), Millis(0)))
    cluster.sent.clear()
    cluster.run(600)
    asked = [to for _, to, message in cluster.sent if isinstance(message, JoinRequest)]
    assert sorted(asked) == [address_of(A), address_of(D)]
    assert {message.cluster for message in cluster.messages(JoinRequest)} == {"A.1"}


def test_redirection_is_followed_while_looking_only() -> None:
    cluster = Cluster(B, may_found=False)
    cluster.start(b)
    cluster.inject(a, B, Redirect(address_of(C)))
    assert len(cluster.messages(JoinRequest, to=C)) == 1
    cluster.inject(a, B, NewView(view_of(a, b)))
    assert cluster.nodes[B].phase is Phase.MEMBER
    cluster.inject(a, B, Redirect(address_of(C)))
    assert len(cluster.messages(JoinRequest, to=C)) == 1


def test_refusal_is_told_once_for_each_reason_and_asking_goes_on() -> None:
    cluster = Cluster(A, B, may_found=False)
    cluster.start(b)
    for reason in ("no", "no", "never", "never"):
        cluster.inject(a, B, Refusal("join", "IllegalState", reason))
    told = [notice.detail for notice in cluster.noticed(NoticeKind.REFUSED)]
    assert told == ["IllegalState: no", "IllegalState: never"]
    before = len(cluster.messages(JoinRequest, to=A))
    cluster.run(1_100)
    assert len(cluster.messages(JoinRequest, to=A)) == before + 2


def test_candidacy_to_found_gives_up_and_begins_again() -> None:
    cluster = Cluster(A, B)
    cluster.drops = [losing(Promise)]
    cluster.start_all()
    cluster.run(5_000)
    assert cluster.nodes[A].view is None
    cluster.drops = []
    assert cluster.settle().me.id == A


# A cluster exists once a majority of the list has confirmed it ------------------------------------


def test_founder_whose_view_reached_nobody_comes_to_the_cluster_that_the_others_found() -> None:
    """1. A founds, and is cut off. 2. B and C found. 3. A asks them for votes, and hears of it."""
    cluster = Cluster(A, B, C)
    cluster.start_all(persistent=True)
    cluster.run_until(lambda: cluster.nodes[A].view is not None)
    cluster.drops = [cut([A])]
    cluster.run_until(lambda: cluster.nodes[B].is_master)
    held = cluster.nodes[A].view
    assert held is not None
    assert (held.cluster, held.founding) == ("A.1", 2)
    cluster.drops = []
    master = cluster.settle()
    assert master.view is not None
    assert master.view.cluster == "B.1"
    assert sorted(m.id for m in master.view.members) == [A, B, C]
    assert cluster.nodes[A].me.incarnation == 2


def test_lite_founder_that_restarts_with_such_files_is_let_in_elsewhere() -> None:
    """It votes nowhere, so it hears of the other cluster only when it asks to be let in."""
    cluster = Cluster(A, B, C, D, E)
    lite = member(B, kind=Kind.LITE, persistent=True)
    cluster.drops = [cut([A, B])]
    for stay in (member(A), lite):
        cluster.start(stay)
    founded = replace(view_of(member(A), lite, member(C)), founding=3)
    cluster.inject(member(A), B, NewView(founded))
    cluster.crash(A, B)
    for stay in (c, member(D), member(E)):
        cluster.start(stay)
    cluster.run_until(lambda: cluster.nodes[C].is_master)
    cluster.drops = []
    cluster.start(replace(lite, incarnation=2))
    master = cluster.settle()
    assert master.view is not None
    assert sorted(m.id for m in master.view.members) == [B, C, D, E]


def test_minority_of_the_list_leads_nothing_although_it_is_a_majority_of_the_founders() -> None:
    """1. A, B, C of five found. 2. A and B are cut off. 3. C, D, E found; there is one cluster."""
    cluster = Cluster(A, B, C, D, E)
    cluster.drops = [lambda _, to, m: to == address_of(C) and isinstance(m, (NewView, Fetch))]
    for stay in (a, b, c):
        cluster.start(stay)
    cluster.run_until(lambda: cluster.nodes[B].view is not None)
    cluster.drops = [cut([A, B])]
    cluster.start(member(D))
    cluster.start(member(E))
    cluster.run(20_000)
    assert not cluster.nodes[A].is_master
    assert not cluster.nodes[B].is_master
    assert cluster.nodes[C].is_master
    cluster.drops = []
    master = cluster.settle()
    assert master.view is not None
    assert sorted(m.id for m in master.view.members) == [A, B, C, D, E]


def test_whoever_promised_another_founding_learns_late_of_the_first_view_that_lists_it() -> None:
    """It knows of no cluster: it takes the view, and neither follows nor confirms its master."""
    cluster = Cluster(A, B, C)
    node = cluster.start(b)
    promised = Claim(Term(2), Term(0), Version(0), True, False, Millis(0))
    cluster.inject(c, B, promised)
    cluster.sent.clear()
    first = replace(view_of(a, b), founding=2)
    cluster.inject(a, B, NewView(first))
    assert node.view == first
    assert node.context.promised == 2
    assert cluster.messages(NewerTerm, to=A) == [NewerTerm(Term(2), first)]
    cluster.run(1_500)
    assert cluster.messages(Heartbeat) == []
    newer = Claim(Term(3), Term(1), Version(1), False, False, Millis(0))
    cluster.run(2_000)
    cluster.inject(a, B, newer)
    assert cluster.messages(Promise, to=A)[-1].granted


def test_first_view_gives_way_to_a_newer_first_view_of_another_cluster() -> None:
    cluster = Cluster(A, B, C)
    node = cluster.start(b)
    cluster.inject(a, B, NewView(replace(view_of(a, b), founding=2)))
    other = replace(view_of(c, b, term=2), cluster="C.1", founding=2)
    cluster.inject(c, B, NewView(other))
    assert node.view == other
    assert node.me.incarnation == 1, "it is listed there as well"


def test_leaver_that_comes_from_files_takes_its_place_first_as_the_others_wait_for_it() -> None:
    """The policy `full` waits for B; B was asked to leave and looks for no cluster."""
    cluster = Cluster(A, B, C, recovery_policy=RecoveryPolicy.FULL)
    cluster.form(persistent=True)
    cluster.crash(A, B, C)
    for member_id in (A, C):
        cluster.start(member(member_id, 2, persistent=True))
    cluster.run(10_000)
    assert cluster.master is None
    cluster.start(member(B, 2, persistent=True))
    cluster.ask(B, request_of(Ask.LEAVE))
    cluster.run_until(lambda: cluster.stops == [B])
    cluster.crash(B)
    assert cluster.settle().view is not None
    assert cluster.noticed(NoticeKind.PARTITION_LOST) == []
