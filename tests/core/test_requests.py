"""What an administrator asks, at the member that is asked: exactly one answer to each."""

from __future__ import annotations

import pytest

from holdfast.core.effects import Answer
from holdfast.core.messages import (
    Ask,
    Fragment,
    JoinRequest,
    NewView,
    Refusal,
    Request,
    RequestDone,
    RequestPending,
)
from holdfast.core.states import ClusterState
from holdfast.ids import Millis
from tests.core.asking import DEMOTE, LEAVE, PROMOTE, outcome, view, with_lite
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    follower,
    member,
    partition,
    request_of,
    view_of,
)

a, b, c = member(A), member(B), member(C)

# Refused at once ----------------------------------------------------------------------------------


def test_internal_state_can_not_be_asked_for() -> None:
    cluster = follower()
    cluster.ask(B, request_of(Ask.STATE, state=ClusterState.IN_TRANSITION))
    assert cluster.answers["q"] == [
        Answer("q", "IllegalArgument", "IN_TRANSITION can't be asked for")
    ]


@pytest.mark.parametrize("request_", [PROMOTE, DEMOTE])
def test_promotion_outside_a_cluster_is_illegal(request_: Request) -> None:
    cluster = Cluster(B, may_found=False)
    cluster.start(b)
    cluster.ask(B, request_)
    assert cluster.answers["q"] == [Answer("q", "IllegalState", "this member is in no cluster")]


@pytest.mark.parametrize("request_", [PROMOTE, DEMOTE])
def test_promotion_by_a_member_that_was_taken_out_is_illegal(request_: Request) -> None:
    cluster = follower()
    cluster.inject(a, B, NewView(view_of(a, c, version=2)))
    cluster.ask(B, request_)
    assert cluster.answers["q"][0].error == "IllegalState"


def test_promotion_is_unsupported_below_level_two() -> None:
    cluster, _ = with_lite(level=1)
    cluster.ask(C, PROMOTE)
    expected = Answer("q", "UnsupportedOperation", "level 1 has no promotion of lite members")
    assert outcome(cluster) == expected


def test_data_member_can_not_be_promoted_nor_a_lite_one_demoted() -> None:
    cluster, _ = with_lite()
    cluster.ask(B, PROMOTE)
    cluster.ask(C, request_of(Ask.DEMOTE, "other"))
    assert outcome(cluster) == Answer("q", "IllegalState", "this is a data member already")
    assert outcome(cluster, "other").message == "this is a lite member already"


def test_request_that_is_asked_twice_is_answered_once() -> None:
    cluster = Cluster(A, B)
    cluster.form()
    for _ in range(2):
        cluster.ask(B, request_of(Ask.STATE, state=ClusterState.FROZEN))
    assert outcome(cluster) == Answer("q", "", "")


# The asker's side ---------------------------------------------------------------------------------


def test_request_is_repeated_until_it_is_answered() -> None:
    cluster = follower()
    cluster.ask(B, request_of(Ask.STATE, state=ClusterState.FROZEN))
    cluster.run(1_100)
    assert len(cluster.messages(Request, to=A)) == 3
    cluster.inject(a, B, RequestDone("q", view_of(a, b, c, version=2)))
    cluster.inject(a, B, RequestDone("q", view_of(a, b, c, version=2)))
    cluster.run(1_100)
    assert len(cluster.messages(Request, to=A)) == 3
    assert outcome(cluster) == Answer("q", "", "")
    assert view(cluster.nodes[B]).version == 2


def test_request_that_nobody_answers_ends_in_time() -> None:
    cluster = Cluster(B, may_found=False, request_timeout_ms=Millis(5_000))
    cluster.start(b)
    cluster.ask(B, request_of(Ask.STATE, state=ClusterState.FROZEN))
    cluster.run(4_900)
    assert cluster.answers == {}
    answer = outcome(cluster)
    assert (answer.error, answer.message) == (
        "OutcomeUnknown",
        "no answer from a master in time; look at what is so, then ask again",
    )


def test_word_of_a_request_that_is_not_open_is_ignored() -> None:
    cluster = follower()
    cluster.inject(a, B, Refusal("q", "IllegalState", "no"))
    cluster.inject(a, B, RequestPending("q", "busy"))
    cluster.inject(a, B, RequestDone("q", view_of(a, b, c, version=2)))
    assert cluster.answers == {}
    assert cluster.pendings == []


def test_refusal_and_pending_reach_the_asker() -> None:
    cluster = follower()
    cluster.ask(B, request_of(Ask.STATE, state=ClusterState.FROZEN))
    cluster.inject(a, B, RequestPending("q", "busy"))
    assert [pending.reason for pending in cluster.pendings] == ["busy"]
    cluster.inject(a, B, Refusal("q", "IllegalState", "no"))
    assert outcome(cluster) == Answer("q", "IllegalState", "no")


# A departure of someone that was taken out --------------------------------------------------------


def taken_out(*, data: bool) -> Cluster:
    """B is told that the view lists it no more, and is asked to leave."""
    cluster = follower()
    if data:
        cluster.nodes[B].context.hold(partition(0), Fragment(0, 1))
    cluster.inject(a, B, NewView(view_of(a, c, version=2)))
    cluster.ask(B, LEAVE)
    cluster.run(2_000)
    return cluster


def test_who_is_listed_no_more_and_has_nothing_is_gone_at_once() -> None:
    cluster = taken_out(data=False)
    assert cluster.nodes[B].stopped
    assert cluster.messages(Request) == []


def test_who_has_data_asks_before_it_goes() -> None:
    cluster = taken_out(data=True)
    assert cluster.messages(Request, to=A)
    assert cluster.answers == {}
    cluster.inject(a, B, RequestDone("q", view_of(a, c, version=2)))
    assert outcome(cluster) == Answer("q", "", "")
    assert cluster.nodes[B].stopped


def test_who_is_to_leave_asks_to_be_let_in_only_when_it_is_called_back() -> None:
    cluster = taken_out(data=True)
    asked = len(cluster.messages(JoinRequest))
    cluster.run(2_000)
    assert len(cluster.messages(JoinRequest)) == asked
    cluster.inject(a, B, RequestPending("q", "come back"))
    cluster.run(2_000)
    assert len(cluster.messages(JoinRequest)) > asked


def test_who_came_back_and_is_taken_out_again_is_not_called_back_any_more() -> None:
    cluster = taken_out(data=True)
    cluster.inject(a, B, RequestPending("q", "come back"))
    cluster.inject(a, B, NewView(view_of(a, cluster.nodes[B].me, c, version=3)))
    cluster.inject(a, B, NewView(view_of(a, c, version=4)))
    asked = len(cluster.messages(JoinRequest))
    cluster.run(2_000)
    assert len(cluster.messages(JoinRequest)) == asked
