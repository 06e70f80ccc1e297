"""How many must agree: any two sets that decide have a member in common."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.quorums import Discounted, Electorate, electorates, majority
from holdfast.core.views import Kind, Member, View
from holdfast.ids import MemberId
from tests.core.harness import A, B, member, view_of


def voters(count: int, *, persistent: bool = True) -> list[Member]:
    return [member(MemberId(f"m{n}"), persistent=persistent) for n in range(count)]


def electorate(view: View, is_discounted: Discounted) -> Electorate:
    """The electorate of a view that is committed."""
    (chosen,) = electorates(view, is_discounted)
    return chosen


@pytest.mark.parametrize(
    ("count", "needed", "at_least"),
    [(1, 1, 1), (2, 2, 1), (3, 2, 2), (4, 3, 2), (5, 3, 3), (6, 4, 3), (7, 4, 4)],
)
def test_dead_voters_with_files_lower_the_number_only_so_far(
    count: int, needed: int, at_least: int
) -> None:
    view = view_of(*voters(count))
    assert majority(count) == needed
    assert electorate(view, lambda _: False).needed == needed
    assert electorate(view, lambda m: m.id != "m0").needed == at_least


def test_dead_voters_without_files_need_not_be_counted() -> None:
    chosen = electorate(view_of(*voters(5, persistent=False)), lambda m: m.id in {"m1", "m2"})
    assert [m.id for m in chosen.living] == ["m0", "m3", "m4"]
    assert chosen.needed == 2


def test_lite_members_decide_where_no_voter_is_left() -> None:
    lite = member(B, kind=Kind.LITE)
    assert electorate(view_of(member(A), lite), lambda m: m.id == A).living == (lite,)


def test_nobody_decides_where_a_dead_voter_may_come_back() -> None:
    view = view_of(member(A, persistent=True), member(B, kind=Kind.LITE))
    chosen = electorate(view, lambda m: m.id == A)
    assert (chosen.living, chosen.needed) == ((), 1)


@given(st.integers(1, 6), st.integers(0, 63), st.integers(0, 63))
def test_two_quorums_always_meet(count: int, dead_bits: int, persistent_bits: int) -> None:
    members = [
        member(MemberId(f"m{n}"), persistent=bool(persistent_bits >> n & 1)) for n in range(count)
    ]
    view = view_of(*members)
    dead = [m for n, m in enumerate(members) if dead_bits >> n & 1]
    may_vote = [m for m in members if m not in dead or m.persistent]
    decide = electorates(view, lambda m: m in dead)
    assert len(decide) == bool(may_vote)
    if not decide:
        return
    (chosen,) = decide
    for one in combinations(chosen.living, min(chosen.needed, len(chosen.living))):
        if len(one) < chosen.needed:
            continue
        for two in combinations(chosen.living, chosen.needed):
            assert any(m in two for m in one)
        for two in combinations(may_vote, min(majority(len(members)), len(may_vote))):
            assert len(two) < majority(len(members)) or any(m in two for m in one)


def test_until_a_change_of_voters_is_committed_the_voters_before_it_must_agree_too() -> None:
    before = voters(3)
    view = replace(view_of(*before[:2]), base=tuple(before))
    now, then = electorates(view, lambda _: False)
    assert [m.id for m in now.living] == ["m0", "m1"]
    assert then.living == tuple(before)
    assert then.agree(lambda m: m.id != "m2")
    assert not then.agree(lambda m: m.id == "m2")


def test_cluster_that_is_being_founded_needs_so_many_founders_whoever_is_dead() -> None:
    view = replace(view_of(*voters(3, persistent=False)), founding=3)
    *_, founders = electorates(view, lambda m: m.id == "m0")
    assert len(founders.living) == 3
    assert founders.needed == 3
    assert not view.sealed
