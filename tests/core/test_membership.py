"""One member's views, lease, vow and stays; the test plays its master."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.effects import NoticeKind
from holdfast.core.events import ConfirmedDead
from holdfast.core.membership import Phase
from holdfast.core.messages import (
    Ask,
    Claim,
    Farewell,
    Fetch,
    Grant,
    Heartbeat,
    JoinRequest,
    NewerTerm,
    NewView,
    NotListed,
    Promise,
    Publication,
    Report,
)
from holdfast.core.views import Kind, View
from holdfast.ids import MemberId, Millis, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    D,
    address_of,
    follower,
    member,
    partition,
    request_of,
    row,
    view_of,
)

LEASE = 2_000
a, b, c = member(A), member(B), member(C)


def newer(*, term: int = 1, version: int = 2, master: MemberId = A) -> View:
    return view_of(a, b, c, term=term, version=version, master=master)


def claim(
    term: int,
    *,
    view_term: int = 1,
    probe: bool = False,
) -> Claim:
    founding = False
    return Claim(Term(term), Term(view_term), Version(1), founding, probe, Millis(0))


def last_promise(cluster: Cluster) -> Promise:
    return cluster.messages(Promise)[-1]


# Views --------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=8))
def test_the_newest_view_is_held_whatever_the_order(keys: list[tuple[int, int]]) -> None:
    cluster = follower()
    for term, version in keys:
        cluster.inject(a, B, NewView(newer(term=term, version=version)))
    held = cluster.nodes[B].view
    assert held is not None
    assert held.key == max([(1, 1), *keys])


def test_new_view_is_confirmed_at_once() -> None:
    cluster = follower()
    for _ in range(2):
        before = len(cluster.messages(Heartbeat))
        cluster.inject(a, B, NewView(newer()))
        assert len(cluster.messages(Heartbeat)) == before + 1
    assert cluster.messages(Heartbeat)[-1].version == 2
    before = len(cluster.messages(Heartbeat))
    cluster.inject(a, B, NewView(newer(version=1)))
    assert len(cluster.messages(Heartbeat)) == before


def test_whoever_promised_a_term_takes_no_older_view_and_says_so() -> None:
    cluster = follower()
    cluster.run(LEASE)
    cluster.inject(c, B, claim(7))
    assert last_promise(cluster).granted
    cluster.inject(a, B, NewView(newer(term=6)))
    assert cluster.nodes[B].view == newer(version=1)
    assert cluster.messages(NewerTerm, to=A) == [NewerTerm(Term(7), newer(version=1))]


def test_view_arrives_also_as_a_correction() -> None:
    cluster = follower()
    cluster.inject(a, B, NewerTerm(Term(2), newer(term=2)))
    assert cluster.nodes[B].view == newer(term=2)
    cluster.inject(a, B, NewerTerm(Term(3), None))
    assert cluster.nodes[B].view == newer(term=2)
    assert cluster.nodes[B].context.promised == 3


def test_member_does_not_change_its_cluster_and_a_looking_process_may() -> None:
    cluster = follower()
    other = replace(newer(term=9), cluster="other")
    cluster.inject(a, B, NewView(other))
    assert cluster.nodes[B].view == newer(version=1)
    gone = view_of(a, c, version=2)
    cluster.inject(a, B, NotListed(gone, Millis(0)))
    stay = cluster.nodes[B].me
    listing = replace(view_of(member(D), stay, term=9), cluster="other")
    cluster.inject(member(D), B, NewView(listing))
    assert cluster.nodes[B].view == listing
    assert cluster.nodes[B].phase is Phase.MEMBER


def test_process_that_comes_from_files_does_not_change_its_cluster() -> None:
    cluster = follower(persistent=True)
    cluster.crash(B)
    node = cluster.start(member(B, 2, persistent=True))
    held = node.view
    cluster.inject(a, B, NewView(replace(newer(term=9), cluster="other")))
    assert node.view == held
    assert node.membership.recovered


# Stays --------------------------------------------------------------------------------------------


def test_stay_that_is_listed_no_more_is_over_and_the_next_begins_with_an_unknown_table() -> None:
    cluster = follower()
    node = cluster.nodes[B]
    cluster.inject(a, B, Publication(Term(1), 1, (row(0, 5, B, A, None),), ()))
    cluster.grant()
    assert node.membership.has_lease()
    heard = len(cluster.messages(Heartbeat))
    cluster.inject(a, B, NotListed(view_of(a, c, version=2), Millis(7)))
    assert node.phase is Phase.LOOKING
    assert not node.membership.has_lease()
    assert node.me.incarnation == 2
    assert cluster.noticed(NoticeKind.EXCLUDED)
    confirmed = cluster.messages(Heartbeat, to=A)[-1]
    assert (confirmed.version, confirmed.granted_at) == (2, 7)
    cluster.run(1_000)
    assert len(cluster.messages(Heartbeat)) == heard + 1
    assert cluster.messages(JoinRequest)[-1].member.incarnation == 2
    assert node.table.row(partition(0)).version == 5
    cluster.inject(a, B, NewView(view_of(a, c, node.me, version=3)))
    assert cluster.nodes[B].phase is Phase.MEMBER
    assert node.table.row(partition(0)).version == -1
    assert partition(0) in node.fragments


def test_recovered_stay_keeps_the_rows_that_it_had_persisted() -> None:
    cluster = follower(persistent=True)
    cluster.inject(a, B, Publication(Term(1), 1, (row(0, 5, B, A, None),), ()))
    cluster.run(5)
    cluster.crash(B)
    node = cluster.start(member(B, 2, persistent=True))
    back = member(B, 2, persistent=True, recovered=True)
    cluster.inject(a, B, NewView(view_of(a, back, c, term=2)))
    assert cluster.nodes[B].phase is Phase.MEMBER
    assert node.table.row(partition(0)).version == 5


def test_what_was_withheld_is_withheld_in_the_next_stay_too() -> None:
    """It was taken out, and listed again with its rows. It took one for published that nobody had
    told it of, led, and had it in no file [seed 2410 of the simulator]."""
    cluster = follower(persistent=True)
    node, before, mine = cluster.nodes[B], row(0, 5, A, B, None), row(0, 6, B, None, None, reign=6)
    cluster.inject(a, B, Publication(Term(1), 1, (before,), ()))
    node.table.set(mine)
    node.participation.withhold(mine)
    cluster.run(5)
    cluster.inject(a, B, NotListed(view_of(a, c, version=2), Millis(0)))
    view = view_of(a, replace(node.me, recovered=True), c, term=2)
    cluster.inject(a, B, NewView(view))
    cluster.inject(a, B, Fetch(view, 0))
    cluster.run(5)
    assert cluster.messages(Report, to=A)[-1].unpublished == (partition(0),)
    assert cluster.disks[B].rows[partition(0)] == before
    assert not node.data.leads(mine)
    cluster.inject(a, B, Publication(Term(2), 1, (mine,), ()))
    assert not node.withheld()
    assert cluster.disks[B].rows[partition(0)] == mine
    assert node.data.leads(mine)


def test_what_was_withheld_is_forgotten_with_all_rows() -> None:
    cluster = follower(persistent=True)
    node, mine = cluster.nodes[B], row(0, 6, B, None, None)
    node.table.set(mine)
    node.participation.withhold(mine)
    cluster.inject(a, B, NotListed(view_of(a, c, version=2), Millis(0)))
    cluster.inject(a, B, NewView(view_of(a, node.me, c, term=2)))
    cluster.run(5)
    assert not node.withheld()
    assert cluster.disks[B].rows == {}


def test_stay_that_joins_anew_after_a_restart_forgets_its_rows_on_disk_too() -> None:
    cluster = follower(persistent=True)
    cluster.inject(a, B, Publication(Term(1), 1, (row(0, 5, B, A, None),), ()))
    cluster.run(5)
    cluster.crash(B)
    node = cluster.start(member(B, 2, persistent=True))
    cluster.inject(a, B, NewView(view_of(a, c, member(B, 2, persistent=True), term=2)))
    assert node.table.versions == (-1,) * 6
    assert cluster.disks[B].rows == {}


def test_view_that_does_not_list_a_recovered_process_ends_its_recovery() -> None:
    cluster = follower(persistent=True)
    cluster.crash(B)
    node = cluster.start(member(B, 2, persistent=True))
    cluster.inject(a, B, NotListed(view_of(a, c, term=2), Millis(0)))
    assert not node.membership.recovered
    assert node.me.incarnation == 2


def test_view_without_me_is_confirmed_to_the_master_that_sent_it_when_it_is_the_newest() -> None:
    cluster = follower()
    heard = len(cluster.messages(Heartbeat))
    cluster.inject(c, B, NotListed(view_of(a, c, version=2), Millis(-1)))
    assert cluster.nodes[B].phase is Phase.LOOKING
    cluster.inject(a, B, NotListed(view_of(a, c, version=1), Millis(7)))
    assert len(cluster.messages(Heartbeat)) == heard
    cluster.inject(a, B, NotListed(view_of(a, c, version=2), Millis(8)))
    assert len(cluster.messages(Heartbeat)) == heard + 1
    assert cluster.nodes[B].membership.vow_until == cluster.now + LEASE


def test_view_without_me_is_not_confirmed_after_a_promise_of_a_newer_term() -> None:
    cluster = follower()
    gone = NotListed(view_of(a, c, version=2), Millis(7))
    cluster.inject(a, B, gone)
    cluster.inject(a, B, NewerTerm(Term(5), None))
    heard = len(cluster.messages(Heartbeat))
    cluster.inject(a, B, gone)
    assert len(cluster.messages(Heartbeat)) == heard


# Lease --------------------------------------------------------------------------------------------


def test_lease_counts_from_when_it_was_asked_for() -> None:
    cluster = follower()
    node = cluster.nodes[B]
    cluster.run(500)
    cluster.grant(sent_at=cluster.now - 400)
    assert node.membership.lease_until == cluster.now - 400 + LEASE
    cluster.grant(sent_at=cluster.now - 450)
    assert node.membership.lease_until == cluster.now - 400 + LEASE
    cluster.run(LEASE - 401)
    assert node.membership.has_lease()
    cluster.run(1)
    cluster.step(B, ConfirmedDead(D, 1, Millis(0)))
    assert not node.membership.has_lease()


def test_grant_that_is_not_for_now_gives_nothing() -> None:
    cluster = follower()
    node = cluster.nodes[B]
    now = Millis(cluster.now)
    good = Grant(Term(1), Version(1), now, now, serve=True, quiet=False)
    for sender, wrong in (
        (a, replace(good, term=Term(0))),
        (a, replace(good, term=Term(2))),
        (a, replace(good, version=Version(2))),
        (a, replace(good, sent_at=Millis(now + 1))),
        (c, good),
    ):
        cluster.inject(sender, B, wrong)
        assert not node.membership.has_lease()
        assert not node.membership.vow_binds(C)
    cluster.inject(a, B, good)
    assert node.membership.has_lease()


def test_grant_means_nothing_outside_a_cluster() -> None:
    cluster = Cluster(B, may_found=False)
    node = cluster.start(b)
    cluster.inject(a, B, Grant(Term(1), Version(1), Millis(0), Millis(0), serve=True, quiet=True))
    assert not node.membership.has_lease()


def test_settling_master_renews_the_vow_and_not_the_lease() -> None:
    cluster = follower()
    cluster.grant(serve=False)
    assert not cluster.nodes[B].membership.has_lease()
    assert cluster.nodes[B].membership.vow_binds(C)


def test_lease_ends_with_the_term() -> None:
    cluster = follower()
    cluster.grant()
    cluster.inject(c, B, NewView(newer(term=2, master=C)))
    assert not cluster.nodes[B].membership.has_lease()


def test_lease_lasts_through_views_of_the_same_term() -> None:
    cluster = follower()
    cluster.grant()
    cluster.inject(a, B, NewView(newer()))
    assert cluster.nodes[B].membership.has_lease()


def test_promise_ends_the_lease_and_the_heartbeats() -> None:
    cluster = follower()
    cluster.grant()
    cluster.step(B, ConfirmedDead(A, 1, Millis(0)))
    cluster.inject(c, B, claim(2))
    assert last_promise(cluster).granted
    assert not cluster.nodes[B].membership.has_lease()
    before = len(cluster.messages(Heartbeat))
    cluster.run(400)
    assert len(cluster.messages(Heartbeat)) == before


def test_heartbeat_echoes_the_last_grant() -> None:
    cluster = follower()
    cluster.run(500)
    assert cluster.messages(Heartbeat)[-1].granted_at == -1
    cluster.grant()
    granted_at = cluster.now
    cluster.run(500)
    assert cluster.messages(Heartbeat)[-1].granted_at == granted_at


# The vow ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", [True, False])
def test_vow_binds_for_one_lease_from_the_arrival_of_a_grant(*, probe: bool) -> None:
    cluster = follower()
    cluster.run(900)
    cluster.grant(sent_at=cluster.now - 800)
    cluster.run(LEASE - 1)
    cluster.inject(c, B, claim(5, probe=probe))
    assert not last_promise(cluster).granted
    cluster.run(1)
    cluster.inject(c, B, claim(5, probe=probe))
    assert last_promise(cluster).granted


def test_vow_does_not_bind_against_the_master_itself_nor_after_its_death() -> None:
    cluster = follower()
    cluster.grant()
    cluster.inject(a, B, claim(2, probe=True))
    assert last_promise(cluster).granted
    cluster.inject(c, B, claim(2, probe=True))
    assert not last_promise(cluster).granted
    cluster.step(B, ConfirmedDead(A, 1, Millis(0)))
    cluster.inject(c, B, claim(2, probe=True))
    assert last_promise(cluster).granted


def test_vow_to_a_candidate_from_files_outlives_the_death_of_its_former_stay() -> None:
    """Its view lists a stay that is dead; the promise was given to the one that asked."""
    cluster = follower()
    cluster.step(B, ConfirmedDead(A, 1, Millis(0)))
    cluster.inject(member(A, 2), B, claim(2))
    assert last_promise(cluster).granted
    cluster.inject(c, B, claim(3, probe=True))
    assert not last_promise(cluster).granted
    cluster.step(B, ConfirmedDead(A, 2, Millis(0)))
    cluster.inject(c, B, claim(3, probe=True))
    assert last_promise(cluster).granted


def test_vow_to_a_master_that_is_listed_no_more_still_binds() -> None:
    cluster = follower()
    cluster.grant()
    cluster.inject(c, B, NewView(view_of(c, b, term=2)))
    cluster.inject(member(D), B, claim(3, view_term=2, probe=True))
    assert not last_promise(cluster).granted


def test_restart_vows_as_if_a_grant_had_just_arrived() -> None:
    cluster = follower(persistent=True)
    cluster.crash(B)
    cluster.start(member(B, 2, persistent=True))
    cluster.inject(c, B, claim(2))
    cluster.run(2)
    assert not last_promise(cluster).granted
    cluster.run(LEASE)
    cluster.inject(c, B, claim(2))
    cluster.run(2)
    assert last_promise(cluster).granted


# The dead -----------------------------------------------------------------------------------------


def needed(cluster: Cluster) -> int:
    node = cluster.nodes[B]
    assert node.view is not None
    return node.membership.electorates(node.view)[0].majority


def test_death_while_nobody_can_have_removed_me_lowers_the_majority() -> None:
    cluster = follower()
    cluster.inject(a, B, NewView(view_of(a, b, c, member(D), version=2)))
    assert needed(cluster) == 3
    cluster.grant()
    cluster.step(B, ConfirmedDead(D, 1, Millis(0)))
    assert needed(cluster) == 2
    cluster.step(B, ConfirmedDead(D, 1, Millis(0)))
    assert needed(cluster) == 2


def test_death_after_the_lease_does_not() -> None:
    cluster = follower()
    cluster.inject(a, B, NewView(view_of(a, b, c, member(D), version=2)))
    cluster.step(B, ConfirmedDead(D, 1, Millis(0)))
    cluster.grant()
    assert needed(cluster) == 2, "a grant after the death: whoever leads knows me"
    cluster.inject(a, B, NewView(view_of(a, b, c, member(D, 2), version=3)))
    assert needed(cluster) == 3, "another stay is alive"
    cluster.run(LEASE + 1)
    cluster.step(B, ConfirmedDead(D, 2, Millis(0)))
    assert needed(cluster) == 3
    cluster.step(B, ConfirmedDead(C, 1, Millis(LEASE)))
    assert needed(cluster) == 2, "it died in time, and was heard of late"


def test_of_two_voters_neither_goes_on_without_the_other_so_its_death_counts_always() -> None:
    cluster = follower()
    cluster.inject(a, B, NewView(view_of(a, b, member(C, kind=Kind.LITE), version=2)))
    assert needed(cluster) == 2
    cluster.step(B, ConfirmedDead(A, 1, Millis(0)))
    assert needed(cluster) == 1


def test_death_is_kept_in_mind_outside_a_cluster() -> None:
    cluster = Cluster(B, may_found=False)
    node = cluster.start(b)
    cluster.step(B, ConfirmedDead(A, 3, Millis(0)))
    assert node.context.is_dead(member(A, 3))


def test_lease_of_a_dead_master_is_not_renewed() -> None:
    cluster = follower()
    cluster.grant()
    assert cluster.nodes[B].membership.is_led()
    cluster.step(B, ConfirmedDead(A, 1, Millis(0)))
    assert not cluster.nodes[B].membership.is_led()
    assert cluster.nodes[B].membership.has_lease()


# Farewell -----------------------------------------------------------------------------------------


def test_farewell_is_said_to_everyone_and_counts_as_a_fact() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.ask(C, request_of(Ask.LEAVE))
    cluster.run_until(lambda: bool(cluster.stops))
    cluster.run(5)
    farewells = [to for sender, to, m in cluster.sent if sender == C and isinstance(m, Farewell)]
    assert address_of(A) in farewells
    for other in (A, B):
        assert cluster.nodes[other].context.is_dead(c)


def test_while_a_change_is_open_it_is_the_voters_before_it_of_whom_there_are_two() -> None:
    """A alone made B a voter. It may withdraw that and go on alone, so its death proves nothing."""
    cluster = follower()
    change = replace(view_of(a, b, version=2), base=(a,))
    cluster.inject(a, B, NewView(change))
    cluster.step(B, ConfirmedDead(A, 1, Millis(0)))
    assert needed(cluster) == 2
    cluster.inject(a, B, NewView(replace(change, version=Version(3), base=())))
    cluster.step(B, ConfirmedDead(A, 2, Millis(0)))
    assert needed(cluster) == 1
