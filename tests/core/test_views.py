"""Views: their order, who votes, who takes partitions, and the ways one is made of another."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.states import ClusterState
from holdfast.core.views import Drain, Kind
from tests.core.harness import A, B, C, member, view_of

a, b, c = member(A), member(B), member(C)


@given(
    st.tuples(st.integers(0, 9), st.integers(0, 9)), st.tuples(st.integers(0, 9), st.integers(0, 9))
)
def test_views_are_ordered_by_term_before_version(
    one: tuple[int, int], two: tuple[int, int]
) -> None:
    first, second = (view_of(a, term=term, version=version) for term, version in (one, two))
    assert (first.key < second.key) is (one[0] < two[0] or (one[0] == two[0] and one[1] < two[1]))


def test_lite_members_neither_vote_nor_take_partitions() -> None:
    view = view_of(a, replace(b, kind=Kind.LITE), replace(c, drain=Drain.LEAVING))
    assert [m.id for m in view.voters] == [A, C]
    assert [m.id for m in view.candidates] == [A]


def test_stay_is_listed_only_with_its_incarnation() -> None:
    view = view_of(member(A, 3))
    assert view.has(A, 3)
    assert not view.has(A, 2)
    assert not view.has(B, 3)
    assert view.find(A) == member(A, 3)
    assert view.find(B) is None


def test_whoever_comes_back_stands_last_and_is_departed_no_more() -> None:
    view = view_of(a, b, c).without_member(A)
    assert view.members == (b, c)
    assert view.departed == (a,)
    back = view.with_member(member(A, 2))
    assert back.members == (b, c, member(A, 2))
    assert back.departed == ()


def test_a_member_departs_once_whatever_its_stays() -> None:
    view = view_of(a, b).without_member(A)
    again = replace(view, members=(*view.members, member(A, 2))).without_member(A)
    assert again.departed == (member(A, 2),)
    assert again.without_member(C).departed == (member(A, 2),)


def test_changing_a_member_keeps_its_seniority() -> None:
    changed = replace(b, kind=Kind.LITE)
    assert view_of(a, b, c).with_changed(changed).members == (a, changed, c)


def test_everything_is_passive_while_a_cluster_recovers() -> None:
    view = replace(view_of(a, state=ClusterState.ACTIVE), recovering=True)
    assert view.attributes == view_of(a, state=ClusterState.PASSIVE).attributes
    assert replace(view, recovering=False).attributes.accepts_writes
