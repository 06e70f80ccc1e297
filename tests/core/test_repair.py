"""What becomes of rows when members leave."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.repair import give_away, keeping, repair_table, repaired, rests_on
from holdfast.core.table import Row
from holdfast.ids import MemberId, PartitionId, Replicas, Version
from tests.core.harness import A, B, C, D, partition, row

SOME = (A, B, C, D)
rows_of_four = st.permutations([*SOME, None, None]).map(lambda order: tuple(order[:4]))


@pytest.mark.parametrize(
    ("replicas", "gone", "expected"),
    [
        ((A, B, C), {B}, (A, None, C)),
        ((A, B, C), {A}, (B, None, C)),
        ((A, B, C), {A, B}, (C, None, None)),
        ((None, None, C), set(), (C, None, None)),
        ((A, None, None), {A}, (None, None, None)),
    ],
)
def test_hottest_living_replica_becomes_owner_and_the_others_stay(
    replicas: Replicas, gone: set[MemberId], expected: Replicas
) -> None:
    assert repaired(replicas, lambda member: member not in gone) == expected


@given(
    st.lists(rows_of_four, max_size=6),
    st.frozensets(st.sampled_from(SOME)),
    st.frozensets(st.sampled_from(SOME)),
)
def test_every_row_is_whole_repaired_awaited_or_lost(
    replicas: list[Replicas], present: frozenset[MemberId], awaited: frozenset[MemberId]
) -> None:
    rows = [Row(PartitionId(n), Version(1), r) for n, r in enumerate(replicas)]
    repair = repair_table(rows, present.__contains__, awaited.__contains__)
    for held in rows:
        living = [member for member in held.replicas if member in present]
        if living:
            now = repair.changes.get(held.partition, held.replicas)
            assert [member for member in now if member is not None] == living
            assert now[0] == living[0]
            assert held.partition not in repair.lost
        elif any(member in awaited for member in held.holders):
            assert held.partition not in repair.changes
            assert held.partition not in repair.lost
        else:
            indexes = [i for i, member in enumerate(held.replicas) if member is not None]
            assert repair.lost[held.partition] == max(indexes, default=-1)
    assert all(repair.changes[p] != rows[p].replicas for p in repair.changes)


@pytest.mark.parametrize(
    ("replicas", "present", "awaited", "changed"),
    [
        ((A, B, C), {C}, {B}, None),
        ((A, B, C), {C}, {A}, None),
        ((A, B, C), {C}, {D}, (C, None, None)),
        ((A, B, C), {B, C}, {A}, (B, None, C)),
        ((None, None, C), {C}, {A}, (C, None, None)),
    ],
)
def test_a_colder_index_is_not_promoted_while_who_has_everything_may_come_back(
    replicas: Replicas, present: set[MemberId], awaited: set[MemberId], changed: Replicas | None
) -> None:
    """One backup: the third index has nothing."""
    rows = [Row(partition(0), Version(1), replicas)]
    repair = repair_table(rows, present.__contains__, awaited.__contains__, warm=2)
    assert repair.changes == ({} if changed is None else {0: changed})
    assert repair.lost == {}


def test_row_that_never_had_an_owner_loses_nothing() -> None:
    repair = repair_table([row(0, -1, None, None)], lambda _: True, lambda _: True)
    assert repair.lost == {0: -1}
    assert repair.changes == {}


def test_lost_partitions_go_to_whoever_owns_least_the_oldest_first() -> None:
    lost = [partition(n) for n in range(4)]
    rows = give_away(lost, {A: 2, D: 9}, [A, B, C], 3)
    assert [row[0] for row in rows.values()] == [B, C, B, C]
    assert all(row[1:] == (None, None) for row in rows.values())


def test_nobody_is_given_anything_where_nobody_is() -> None:
    assert give_away([partition(0)], {}, [], 3) == {}


@pytest.mark.parametrize(
    ("target", "now", "expected"),
    [
        ((A, B, C), (B, None, D), (A, B, C)),
        ((A, None, C), (B, None, None), (A, B, C)),
        ((A, None, None), (None, B, C), (A, B, C)),
        ((A, None, B), (A, B, None), (A, B, None)),
        ((A, None, B), (B, C, None), (A, C, B)),
        ((None, A, None), (A, B, None), (B, A, None)),
        ((C, None), (A, B), (C, B)),
    ],
)
def test_vacancies_of_a_target_are_kept_by_whoever_has_a_copy(
    target: Replicas, now: Replicas, expected: Replicas
) -> None:
    assert keeping(target, now) == expected


@pytest.mark.parametrize(
    ("replicas", "here", "expected"),
    [
        ((A, B, C), set(), True),
        ((A, B, C), {B}, False),
        ((A, None, C), {C}, True),  # which is cold: it has not every name
        ((None, B, A), {B}, False),
        ((None, C, A), set(), True),  # whoever is cold is better than nobody
        ((B, C, None), set(), False),
    ],
)
def test_a_row_rests_on_who_alone_has_what_it_had(
    replicas: Replicas, here: set[MemberId], expected: bool
) -> None:
    held = Row(PartitionId(0), Version(1), replicas)
    assert rests_on(held, A, here.__contains__, warm=2) is expected
