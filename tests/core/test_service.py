"""What the master does with requests: promotion, demotion, departures, one change at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from holdfast.core.effects import Answer, NoticeKind
from holdfast.core.membership import Phase
from holdfast.core.messages import (
    Ask,
    CommitAck,
    MigrationReady,
    MigrationRequest,
    NewerTerm,
    NewView,
    NotListed,
    PrepareAck,
    Refusal,
    Request,
    RequestDone,
)
from holdfast.core.service import ASKS_REPEATS, DRAIN_REPEATS, ENDED_MAX, LOOK_MS
from holdfast.core.states import ClusterState
from holdfast.core.views import Drain, Kind
from holdfast.ids import MemberId, Millis, Term, Version
from tests.core.asking import DEMOTE, LEAVE, PROMOTE, held, outcome, view, with_lite
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    D,
    address_of,
    follower,
    losing,
    member,
    request_of,
    view_of,
)

a, b, c = member(A), member(B), member(C)

# Refused by the master ----------------------------------------------------------------------------


def refusal(cluster: Cluster, stay: object, request: Request) -> Refusal | None:
    """What the master says to a request of a member that the test plays."""
    assert isinstance(stay, type(a))
    cluster.inject(stay, A, request)
    refusals = cluster.messages(Refusal, to=stay.id)
    return refusals[-1] if refusals else None


@pytest.mark.parametrize("request_", [PROMOTE, DEMOTE])
def test_whoever_does_not_lead_refuses_a_promotion(request_: Request) -> None:
    cluster = follower()
    cluster.inject(c, B, request_)
    expected = Refusal("q", "IllegalState", "this member is not the master, or not yet")
    assert cluster.messages(Refusal, to=C) == [expected]


@pytest.mark.parametrize("request_", [LEAVE, request_of(Ask.STATE, state=ClusterState.FROZEN)])
def test_whoever_does_not_lead_leaves_other_requests_to_be_repeated(request_: Request) -> None:
    cluster = follower()
    cluster.inject(c, B, request_)
    assert cluster.messages(Refusal) == []


@pytest.mark.parametrize("stay", [member(D), member(C, 7)])
def test_requester_that_is_no_member_is_an_illegal_argument(stay: object) -> None:
    cluster, _ = with_lite()
    answer = refusal(cluster, stay, PROMOTE)
    assert answer is not None
    assert answer.error == "IllegalArgument"
    assert "is not a member of this cluster" in answer.message


def test_master_too_refuses_a_promotion_below_level_two() -> None:
    cluster, _ = with_lite(level=1)
    answer = refusal(cluster, replace(c, kind=Kind.LITE), PROMOTE)
    assert answer is not None
    assert answer.error == "UnsupportedOperation"


@pytest.mark.parametrize("state", ["NO_MIGRATION", "STABLE_CLUSTER", "FROZEN", "PASSIVE"])
def test_promotion_and_demotion_are_refused_where_no_data_moves(state: str) -> None:
    cluster, _ = with_lite()
    cluster.ask(A, request_of(Ask.STATE, "s", state=ClusterState(state)))
    cluster.settle()
    for asker, request in ((C, PROMOTE), (B, request_of(Ask.DEMOTE, "d"))):
        cluster.ask(asker, request)
        answer = outcome(cluster, request.id)
        assert answer.error == "IllegalState"
        assert answer.message == "the cluster's state moves no data; change it first"


def test_whoever_the_stable_table_names_is_promoted_and_gets_back_what_it_had() -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form(persistent=True)
    cluster.ask(A, request_of(Ask.STATE, "s", state=ClusterState.STABLE_CLUSTER))
    cluster.settle()
    before = [row.replicas for row in master.table.rows]
    cluster.crash(C)
    cluster.confirm_dead(C)
    cluster.start(member(C, 2, kind=Kind.LITE, persistent=True))
    cluster.settle()
    assert held(master, C) == 0
    cluster.ask(C, PROMOTE)
    assert outcome(cluster).error == ""
    cluster.settle()
    assert [row.replicas for row in master.table.rows] == before


def test_last_data_member_can_not_be_demoted() -> None:
    cluster = Cluster(A)
    cluster.form()
    cluster.ask(A, DEMOTE)
    expected = Answer("q", "IllegalState", "the last data member can't be demoted")
    assert outcome(cluster) == expected


def test_level_can_not_be_lowered_nor_raised_beyond_what_all_speak() -> None:
    cluster = Cluster(A, B, level=2)
    cluster.start(a)
    cluster.start(member(B, level_max=2))
    cluster.settle()
    cluster.ask(A, request_of(Ask.LEVEL, "down", level=1))
    cluster.ask(A, request_of(Ask.LEVEL, "up", level=3))
    assert outcome(cluster, "down") == Answer(
        "down", "UnsupportedOperation", "the level 2 can't be lowered"
    )
    assert outcome(cluster, "up") == Answer(
        "up", "UnsupportedOperation", "level 3 is not spoken by name-B"
    )


def test_one_change_at_a_time() -> None:
    cluster = Cluster(A, B)
    cluster.form()
    cluster.drops = [lambda sender, to, _: {sender, to} != {A, address_of(A)} and sender == B]
    cluster.ask(A, request_of(Ask.STATE, "first", state=ClusterState.FROZEN))
    cluster.ask(A, request_of(Ask.STATE, "second", state=ClusterState.PASSIVE))
    cluster.drops = []
    second = outcome(cluster, "second")
    assert (second.error, second.message) == (
        "IllegalState",
        "another change of the state is under way",
    )
    assert outcome(cluster, "first").error == ""


# Promotion ----------------------------------------------------------------------------------------


def test_promoted_member_gets_its_share() -> None:
    cluster, master = with_lite()
    assert held(master, C) == 0
    cluster.ask(C, PROMOTE)
    assert outcome(cluster) == Answer("q", "", "")
    cluster.settle()
    assert cluster.nodes[C].me.kind is Kind.DATA
    assert held(master, C) == 6
    owned = [sum(row.owner == m for row in master.table.rows) for m in (A, B, C)]
    assert owned == [2, 2, 2]


def test_promotion_that_was_done_already_is_done() -> None:
    cluster, master = with_lite()
    cluster.drops = [losing(RequestDone)]
    cluster.ask(C, PROMOTE)
    cluster.run(700)
    cluster.drops = []
    assert outcome(cluster) == Answer("q", "", "")
    assert view(master).find(C).kind is Kind.DATA  # type: ignore[union-attr]


def test_promotion_waits_for_its_turn_to_change_the_view() -> None:
    cluster, master = with_lite()
    cluster.drops = [losing(NewView)]
    cluster.start(member(D), initial=(address_of(A),))
    cluster.run_until(lambda: len(view(master).members) == 4)
    cluster.ask(C, PROMOTE)
    cluster.run(20)
    assert view(master).find(C).kind is Kind.LITE  # type: ignore[union-attr]
    cluster.drops = []
    assert outcome(cluster).error == ""


def test_promotion_fails_when_the_master_changes_and_asking_again_is_safe() -> None:
    cluster, _ = with_lite()
    cluster.drops = [losing(Request)]
    cluster.ask(C, PROMOTE)
    cluster.run(10)
    cluster.nodes[A].election.abdicate("tired")
    cluster.run_until(lambda: view(cluster.nodes[C]).term == 2)
    cluster.drops = []
    answer = outcome(cluster)
    assert (answer.error, answer.message) == (
        "IllegalState",
        "the master has changed; ask again",
    )
    cluster.settle()
    cluster.ask(C, request_of(Ask.PROMOTE, "again"))
    assert outcome(cluster, "again").error == ""


def test_list_of_an_older_master_does_not_promote() -> None:
    cluster = follower(kind=Kind.LITE)
    cluster.ask(B, PROMOTE)
    node = cluster.nodes[B]
    lite = member(B, kind=Kind.LITE)
    node.context.view = view_of(a, lite, c, term=2)
    done = RequestDone("q", view_of(a, b, c, version=2))
    cluster.inject(a, B, done)
    assert outcome(cluster).error == "IllegalState"


# Demotion and departure ---------------------------------------------------------------------------


def test_demotion_drains_first() -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form()
    cluster.ask(B, DEMOTE)
    cluster.run_until(lambda: view(master).find(B).drain is Drain.DEMOTING)  # type: ignore[union-attr]
    assert outcome(cluster) == Answer("q", "", "")
    cluster.settle()
    assert held(master, B) == 0
    assert cluster.nodes[B].me.kind is Kind.LITE
    assert cluster.nodes[B].fragments == {}


def test_demotion_that_was_done_already_is_done() -> None:
    cluster, master = with_lite()
    key = view(master).key
    cluster.inject(replace(c, kind=Kind.LITE), A, DEMOTE)
    cluster.run(10)
    assert cluster.messages(RequestDone, to=C)[-1].view.key == key


@pytest.mark.parametrize("request_", [DEMOTE, LEAVE])
def test_drain_takes_as_long_as_its_migrations(request_: Request) -> None:
    cluster = Cluster(A, B, C, replica_count=2)
    master = cluster.form()
    cluster.drops = [losing(CommitAck)]
    cluster.ask(C, request_)
    cluster.run(3_000)
    assert cluster.answers == {}
    assert held(master, C) > 0
    cluster.drops = []
    assert outcome(cluster) == Answer("q", "", "")


def test_departure_drains_first_and_nothing_is_lost() -> None:
    cluster = Cluster(A, B, C, backup_count=0)
    master = cluster.form()
    cluster.ask(C, LEAVE)
    assert outcome(cluster) == Answer("q", "", "")
    assert cluster.stops == [C]
    cluster.crash(C)
    cluster.settle()
    assert [m.id for m in view(master).members] == [A, B]
    assert held(master, C) == 0


def test_who_has_drained_says_for_a_moment_where_its_partitions_are() -> None:
    """1. An application knows C as the owner.  2. C gives away all that it has.  3. It answers the
    application nevertheless.  4. It leaves when that moment is over, and no later."""
    cluster = Cluster(A, B, C, backup_count=0)
    master = cluster.form()
    linger = master.context.config.leave_linger_ms
    cluster.ask(C, LEAVE)
    cluster.run_until(lambda: held(master, C) == 0)
    cluster.run(linger - 10)
    assert cluster.stops == []
    assert cluster.reply(C, "SET a 1").startswith(b"-MOVED ")
    cluster.run(2 * LOOK_MS + 10)
    assert cluster.stops == [C]


def test_who_gets_a_partition_while_it_lingers_has_not_drained() -> None:
    """Its time begins anew when that has gone as well."""
    cluster = Cluster(A, B, C, backup_count=0)
    master = cluster.form()
    linger = master.context.config.leave_linger_ms
    cluster.ask(C, LEAVE)
    cluster.run_until(lambda: held(master, C) == 0)
    cluster.run(linger // 2)
    held_row = master.table.rows[0]
    master.leadership.publisher.change(
        [held_row.changed(Version(held_row.version + 1), (C, None, None), Term(1))]
    )
    cluster.run(linger)
    assert cluster.stops == []


@pytest.mark.parametrize("state", ["NO_MIGRATION", "FROZEN", "PASSIVE"])
def test_departure_does_not_drain_where_nothing_moves(state: str) -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.ask(A, request_of(Ask.STATE, "s", state=ClusterState(state)))
    cluster.settle()
    before = [row.replicas for row in cluster.nodes[A].table.rows]
    cluster.ask(C, LEAVE)
    cluster.run_until(lambda: cluster.stops == [C])
    assert cluster.messages(MigrationRequest) == []
    assert all(C in row for row in before)
    assert outcome(cluster).error == ""


def test_leaving_master_says_farewell_and_the_next_takes_it_out() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.ask(A, LEAVE)
    assert outcome(cluster) == Answer("q", "", "")
    assert cluster.stops == [A]
    cluster.crash(A)
    master = cluster.settle()
    assert master.me.id == B
    assert [m.id for m in view(master).members] == [B, C]


def test_lone_member_may_leave() -> None:
    cluster = Cluster(A)
    cluster.form()
    cluster.ask(A, LEAVE)
    assert outcome(cluster) == Answer("q", "", "")
    assert cluster.stops == [A]


def test_lone_member_that_left_is_its_cluster_when_it_is_back_with_its_files() -> None:
    cluster = Cluster(A)
    cluster.form(persistent=True)
    owners = [row.owner for row in cluster.nodes[A].table.rows]
    cluster.ask(A, LEAVE)
    cluster.run_until(lambda: cluster.stops == [A])
    cluster.crash(A)
    cluster.start(member(A, 2, persistent=True))
    again = cluster.settle()
    assert again.me.id == A
    assert [row.owner for row in again.table.rows] == owners
    assert not cluster.noticed(NoticeKind.PARTITION_LOST)


def test_lite_member_leaves_at_once() -> None:
    cluster, _ = with_lite()
    cluster.ask(C, LEAVE)
    cluster.run_until(lambda: cluster.stops == [C])


def test_departure_outside_a_cluster_is_done_at_once() -> None:
    cluster = Cluster(B, may_found=False)
    cluster.start(b)
    cluster.ask(B, LEAVE)
    assert cluster.answers["q"] == [Answer("q", "", "")]
    assert cluster.stops == [B]


def test_departure_ends_whatever_else_was_asked() -> None:
    cluster = follower()
    cluster.ask(B, LEAVE)
    cluster.ask(B, request_of(Ask.LEAVE, "too"))
    cluster.ask(B, request_of(Ask.STATE, "state", state=ClusterState.FROZEN))
    cluster.inject(a, B, RequestDone("q", view_of(a, c, version=2)))
    errors = {name: [x.error for x in answers] for name, answers in cluster.answers.items()}
    assert errors == {"q": [""], "too": [""], "state": ["IllegalState"]}
    assert cluster.stops == [B]


def test_leaver_that_is_out_of_the_view_asks_around_until_it_is_told() -> None:
    cluster = follower()
    cluster.ask(B, LEAVE)
    cluster.inject(a, B, NewView(view_of(a, c, version=2)))
    cluster.sent.clear()
    cluster.run(600)
    assert cluster.messages(Request, to=A)
    assert cluster.messages(Request, to=C)
    assert cluster.stops == []


def test_departure_that_the_master_knows_is_done() -> None:
    cluster, _ = with_lite()
    for stay in (member(D), member(C, 0)):
        cluster.inject(stay, A, LEAVE)
        cluster.run(10)
        assert len(cluster.messages(RequestDone, to=stay.id)) == 1


def test_concurrent_leavers_leave_one_after_the_other() -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form()
    for leaver in (B, C):
        cluster.ask(leaver, request_of(Ask.LEAVE, f"{leaver} leaves"))
    cluster.run_until(lambda: sorted(cluster.stops) == [B, C])
    cluster.crash(B, C)
    cluster.settle()
    assert held(master, A) == 6


@pytest.mark.parametrize("order", list(permutations((A, B, C))))
def test_all_may_leave_at_the_same_time(order: tuple[MemberId, ...]) -> None:
    """1. One after the other is asked, while the partitions of those before are on their way.
    2. In the end nobody takes partitions any more: the master does, and goes last. 3. The others
    are empty and leave; nothing was lost when it leaves."""
    cluster = Cluster(A, B, C)
    cluster.form()
    for leaver in order:
        cluster.ask(leaver, request_of(Ask.LEAVE, f"{leaver} leaves"))
        cluster.run(5)
    cluster.run_until(lambda: sorted(cluster.stops) == [A, B, C])
    assert not cluster.noticed(NoticeKind.PARTITION_LOST)


@pytest.mark.parametrize("ask", [Ask.LEAVE, Ask.DEMOTE])
def test_whoever_gave_up_leaving_takes_partitions_again(ask: Ask) -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form()
    cluster.drops = [losing(MigrationReady)]
    cluster.inject(b, A, request_of(ask))
    cluster.run(100)
    assert view(master).find(B).drain is not Drain.NONE  # type: ignore[union-attr]
    cluster.run(ASKS_REPEATS * 500)
    cluster.drops = []
    cluster.run(1_000)
    assert held(master, B) == 0
    cluster.run(DRAIN_REPEATS * 500)
    cluster.settle()
    assert view(master).find(B).drain is Drain.NONE  # type: ignore[union-attr]
    assert held(master, B) == 6


def test_whoever_gave_up_leaving_may_still_become_lite() -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form()
    cluster.inject(b, A, LEAVE)
    assert view(master).find(B).drain is Drain.LEAVING  # type: ignore[union-attr]
    cluster.ask(B, request_of(Ask.DEMOTE, "lite"))
    assert outcome(cluster, "lite").error == ""
    assert view(master).find(B).kind is Kind.LITE  # type: ignore[union-attr]


@pytest.mark.parametrize("state", [ClusterState.ACTIVE, ClusterState.NO_MIGRATION])
def test_whoever_is_not_listed_and_not_missed_has_left(state: ClusterState) -> None:
    cluster = Cluster(A, B)
    cluster.form()
    cluster.ask(A, request_of(Ask.STATE, "s", state=state))
    cluster.settle()
    cluster.inject(member(D), A, LEAVE)
    cluster.run(1_000)
    assert [done.id for done in cluster.messages(RequestDone, to=D)] == ["q"]


def test_whoever_does_not_lead_tells_a_leaver_that_it_is_out() -> None:
    cluster = follower()
    view = cluster.nodes[B].view
    assert view is not None
    cluster.inject(member(D), B, LEAVE)
    assert cluster.messages(NotListed, to=D) == [NotListed(view, Millis(-1))]


def test_change_that_was_refused_is_not_opened_again_by_its_repetition() -> None:
    cluster, node = with_lite()
    cluster.drops = [losing(PrepareAck)]
    change = request_of(Ask.STATE, state=ClusterState.FROZEN)
    cluster.ask(B, change)
    cluster.run(10)
    term = node.context.promised
    cluster.inject(c, A, PrepareAck("q", Term(term + 1), "not of this term"))
    assert node.leadership.transition.under_way
    cluster.inject(c, A, PrepareAck("q", term, "no"))
    assert outcome(cluster).message == "C: no"
    told = len(cluster.messages(Refusal, to=B))
    cluster.drops = []
    cluster.inject(b, A, change)
    cluster.run(3_000)
    assert [refusal.message for refusal in cluster.messages(Refusal, to=B)[told:]] == ["C: no"]
    assert node.view is not None
    assert node.view.state is ClusterState.ACTIVE


def test_so_many_refusals_are_remembered_and_not_more() -> None:
    cluster, node = with_lite()
    cluster.drops = [losing(PrepareAck)]
    transition = node.leadership.transition
    for number in range(ENDED_MAX + 1):
        cluster.inject(b, A, request_of(Ask.STATE, f"q{number}", state=ClusterState.FROZEN))
        cluster.inject(c, A, PrepareAck(f"q{number}", node.context.promised, "no"))
        assert not transition.under_way
    cluster.inject(b, A, request_of(Ask.STATE, "q1", state=ClusterState.FROZEN))
    assert not transition.under_way
    cluster.inject(b, A, request_of(Ask.STATE, "q0", state=ClusterState.FROZEN))
    assert transition.under_way


def test_master_that_leaves_and_loses_its_mandate_first_is_no_member_any_more() -> None:
    cluster, node = with_lite()
    cluster.ask(A, LEAVE)
    cluster.run_until(lambda: not node.context.listed)
    phases = [node.phase]
    cluster.inject(b, A, NewerTerm(Term(9), None))
    phases.append(node.phase)
    assert phases == [Phase.MEMBER, Phase.LOOKING]
    assert node.me.incarnation == 2


def test_a_master_that_is_asked_no_more_to_leave_stands_back_and_returns() -> None:
    cluster = Cluster(A, B, C)
    master = cluster.form()
    cluster.ask(A, LEAVE)
    cluster.run_until(lambda: view(master).find(A) is None)
    master.requests.open.clear()
    cluster.run(5_000)
    lost = cluster.noticed(NoticeKind.LOST_MASTERSHIP)
    assert [each.detail for each in lost] == ["I left the view, and was asked no more to leave"]
    cluster.settle()
    assert view(master).find(A) is not None
