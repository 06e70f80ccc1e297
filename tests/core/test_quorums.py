"""How many must agree: any two sets that decide have a member in common."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from itertools import combinations
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.quorums import NO_STAY, Discounted, Electorate, electorates, majority
from holdfast.core.views import Kind, Member, View
from holdfast.ids import MemberId, Millis
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
    assert electorate(view, lambda _: False).majority == needed
    assert electorate(view, lambda m: m.id != "m0").at_least == at_least


def test_dead_voters_without_files_need_not_be_counted() -> None:
    chosen = electorate(view_of(*voters(5, persistent=False)), lambda m: m.id in {"m1", "m2"})
    assert [m.id for m in chosen.living] == ["m0", "m3", "m4"]
    assert (chosen.majority, chosen.at_least) == (2, 2)


def test_lite_members_decide_where_no_voter_is_left() -> None:
    lite = member(B, kind=Kind.LITE)
    assert electorate(view_of(member(A), lite), lambda m: m.id == A).living == (lite,)


def test_nobody_decides_where_a_dead_voter_may_come_back() -> None:
    view = view_of(member(A, persistent=True), member(B, kind=Kind.LITE))
    chosen = electorate(view, lambda m: m.id == A)
    assert (chosen.living, chosen.majority, chosen.at_least) == ((), 1, 1)
    assert not chosen.agree(lambda _: NO_STAY)
    assert chosen.agree(lambda m: 2 if m.id == A else NO_STAY), "when it has come back"


class Fate(Enum):
    """What has become of the stay of a voter that a view lists."""

    LIVES = 1
    GONE = 2
    BACK = 3
    """It died, and a later one votes by its id."""


FATES: Final = st.lists(st.sampled_from(Fate), min_size=1, max_size=6)


@given(FATES, st.integers(0, 63), st.integers(0, 63), st.integers(0, 63))
def test_two_quorums_always_meet(
    fates: list[Fate], files: int, heard_by_one: int, heard_by_two: int
) -> None:
    """Whatever each of two candidates has heard of the dead: no two sets without a common voter."""
    members = [
        member(MemberId(f"m{n}"), persistent=fate is Fate.BACK or bool(files >> n & 1))
        for n, fate in enumerate(fates)
    ]
    view = view_of(*members)
    dead = [fate is not Fate.LIVES for fate in fates]
    votes = {m.id: 1 + (f is Fate.BACK) for m, f in zip(members, fates, strict=True)}
    able = [m.id for m, fate in zip(members, fates, strict=True) if fate is not Fate.GONE]

    def quorums(heard: int) -> list[set[MemberId]]:
        knows = {m.id for n, m in enumerate(members) if dead[n] and heard >> n & 1}
        decide = electorates(view, lambda m: m.id in knows)
        sets = [set(each) for size in range(len(able) + 1) for each in combinations(able, size)]
        return [some for some in sets if decide and all(agree(each, some) for each in decide)]

    def agree(each: Electorate, some: set[MemberId]) -> bool:
        return each.agree(lambda voter: votes[voter.id] if voter.id in some else NO_STAY)

    two = quorums(heard_by_two)
    for one in quorums(heard_by_one):
        assert all(one & other for other in two)


def test_those_that_came_back_decide_where_all_others_are_gone() -> None:
    """Of five voters three had no files, and the other two are back: nobody else may vote."""
    members = [*voters(3, persistent=False), *(member(x, persistent=True) for x in (A, B))]
    chosen = electorate(view_of(*members), lambda m: m.id not in (A, B))
    assert chosen.agree(lambda m: 2 if m.id in (A, B) else NO_STAY)
    assert not chosen.agree(lambda m: 2 if m.id == A else NO_STAY)


def test_time_that_a_quorum_has_come_to() -> None:
    chosen = electorate(view_of(*voters(5)), lambda m: m.id in {"m3", "m4"})
    times = {"m0": 50, "m1": 40, "m2": 30, "m3": 20, "m4": 10}
    never = Millis(-1)
    assert chosen.reached_at(lambda m: Millis(times[m.id]), never) == 30
    silent = electorate(view_of(*voters(3)), lambda m: m.id != "m0")
    assert silent.reached_at(lambda m: Millis(times[m.id]), never) == 40
    alone = electorate(view_of(*voters(2)), lambda m: m.id != "m0")
    assert alone.reached_at(lambda m: Millis(times[m.id]), never) == 50


def test_until_a_change_of_voters_is_committed_the_voters_before_it_must_agree_too() -> None:
    before = voters(3)
    view = replace(view_of(*before[:2]), base=tuple(before))
    now, then = electorates(view, lambda _: False)
    assert [m.id for m in now.living] == ["m0", "m1"]
    assert then.living == tuple(before)
    assert then.agree(lambda m: NO_STAY if m.id == "m2" else 1)
    assert not then.agree(lambda m: 1 if m.id == "m2" else NO_STAY)


def test_cluster_that_is_being_founded_needs_so_many_founders_whoever_is_dead() -> None:
    view = replace(view_of(*voters(3, persistent=False)), founding=3)
    *_, founders = electorates(view, lambda m: m.id == "m0")
    assert len(founders.voters) == 3
    assert founders.majority == 3
    assert not view.sealed
