"""One version for all rows below level 3, one for each row from there on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.table import Row, Table
from holdfast.core.versioning import (
    decided,
    levelled,
    one_at_a_time,
    parallel_max,
    raised,
    resumed,
    versions_are_global,
)
from holdfast.ids import Term, Version
from tests.core.harness import A, B, partition, row

TERM = Term(0)


def table_of(*rows: Row) -> Table:
    table = Table(3, 2)
    table.apply(rows)
    return table


@pytest.mark.parametrize(
    ("level", "is_global", "parallel"), [(1, True, 1), (2, True, 1), (3, False, 10)]
)
def test_levels_below_three_have_one_version_and_one_migration(
    level: int, *, is_global: bool, parallel: int
) -> None:
    assert versions_are_global(level) is is_global
    assert one_at_a_time(level) is is_global
    assert parallel_max(level, 10, 0) == parallel


def test_what_moves_nothing_raises_the_bound_step_by_step_to_some_times_as_much() -> None:
    assert [parallel_max(3, 10, light) for light in (0, 10, 13, 20, 1_000)] == [10, 10, 12, 40, 160]
    assert parallel_max(2, 10, 1_000) == 1
    assert parallel_max(3, 1, 1_000) == 1


def test_level_three_raises_only_the_rows_that_change() -> None:
    table = table_of(row(0, 4, A, B, reign=3), row(1, 7, A, B))
    changes = {partition(0): (B, None), partition(2): (A, None)}
    assert raised(table, 3, TERM, changes) == (
        row(0, 5, B, None, reign=4),
        row(2, 1, A, None, reign=1),
    )


def test_lower_levels_raise_every_row_to_one_version() -> None:
    table = table_of(row(0, 4, A, B, reign=3), row(1, 7, A, B, reign=3))
    assert raised(table, 2, TERM, {partition(0): (B, None)}) == (
        row(0, 8, B, None, reign=4),
        row(1, 8, A, B, reign=3),
        row(2, 8, None, None),
    )
    assert raised(Table(3, 2), 1, TERM, {})[0].version == 1


def test_one_version_is_made_of_several_where_there_should_be_one() -> None:
    """And none is lowered."""
    table = table_of(row(0, 4, A, B), row(1, 7, B, A), row(2, 4, A, None))
    assert levelled(table, 3) == ()
    assert levelled(table, 2) == (row(0, 7, A, B), row(2, 7, A, None))
    table.apply(levelled(table, 2))
    assert levelled(table, 2) == ()


@given(st.integers(1, 3), st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_every_change_is_newer_than_what_it_replaces(level: int, versions: list[int]) -> None:
    table = table_of(*(row(n, version, A, B) for n, version in enumerate(versions)))
    for change in raised(table, level, TERM, {partition(1): (B, A)}):
        assert change.version > table.row(change.partition).version
    assert frozenset(table.apply(raised(table, level, TERM, {partition(1): (B, A)})))


def test_decided_row_takes_the_others_along_only_where_versions_are_global() -> None:
    table = table_of(row(0, 4, A, B), row(1, 4, A, B), row(2, 4, B, A))
    end = Row(partition(1), Version(6), (B, None))
    assert decided(table, 3, end) == (end,)
    assert decided(table, 2, end) == (row(0, 6, A, B), end, row(2, 6, B, A))


@pytest.mark.parametrize("level", [2, 3])
def test_data_that_begins_anew_begins_with_the_reign_of_its_owner(level: int) -> None:
    table = table_of(row(0, 4, A, B, reign=3, epoch=3), row(1, 4, A, B, reign=3, epoch=2))
    first, *others = raised(table, level, TERM, {partition(0): (B, None)}, anew=True)
    assert first == row(0, 5, B, None, reign=4, epoch=4)
    assert [(each.epoch, each.reign) for each in others] == ([] if level == 3 else [(2, 3), (0, 0)])


@pytest.mark.parametrize("level", [2, 3])
def test_owner_that_resumes_gets_a_reign_of_its_own_and_no_other_row_does(level: int) -> None:
    table = table_of(row(0, 4, A, B, reign=3, epoch=1), row(1, 4, A, B, reign=3, epoch=1))
    rows = resumed(table, level, TERM, [partition(0)])
    assert rows[0] == row(0, 5, A, B, reign=4, epoch=1)
    assert [each.reign for each in rows[1:]] == ([] if level == 3 else [3, 0])
