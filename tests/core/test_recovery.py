"""The three recovery policies, and the settlement of each partition beyond them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.config import RecoveryPolicy
from holdfast.core.recovery import choose, settle_rows
from holdfast.core.table import Row
from holdfast.errors import RecoveryError
from holdfast.ids import MemberId
from tests.core.harness import A, B, C, D, row

FULL = RecoveryPolicy.FULL
MOST_RECENT = RecoveryPolicy.MOST_RECENT
MOST_COMPLETE = RecoveryPolicy.MOST_COMPLETE


def table(*versions: int) -> tuple[Row, ...]:
    """A table whose content follows from its versions, as with one master a term."""
    return tuple(row(n, version, A, B) for n, version in enumerate(versions))


@pytest.mark.parametrize(
    ("policy", "leaders"),
    [(FULL, (A,)), (MOST_RECENT, (A,)), (MOST_COMPLETE, (B, C))],
)
def test_policy_chooses_the_group_that_leads(
    policy: RecoveryPolicy, leaders: tuple[MemberId, ...]
) -> None:
    tables = {A: table(5, 5), B: table(4, 4), C: table(4, 4)}
    choice = choose(policy, tables, ())
    assert choice.leaders == leaders
    assert choice.behind == tuple(m for m in (A, B, C) if m not in leaders)
    assert choice.rows == table(5, 5)


def test_of_equally_large_groups_the_more_recent_leads() -> None:
    tables = {A: table(1, 1), B: table(2, 2), C: table(1, 1), D: table(2, 2)}
    assert choose(MOST_COMPLETE, tables, ()).leaders == (B, D)


def test_of_equally_recent_groups_the_larger_leads() -> None:
    tables = {A: table(1, 3), B: table(3, 1), C: table(3, 1)}
    assert choose(MOST_RECENT, tables, ()).leaders == (B, C)


def test_each_partition_takes_its_newest_row_and_who_overruled_is_counted() -> None:
    tables = {A: table(9, 1, 1), B: table(2, 2, 2)}
    choice = choose(MOST_RECENT, tables, ())
    assert choice.leaders == (A,)
    assert choice.rows == table(9, 2, 2)
    assert choice.overruled == 2


def test_full_waits_for_everyone() -> None:
    with pytest.raises(RecoveryError, match="policy full: waiting for B, C"):
        choose(FULL, {A: table(1)}, (B, C))


@pytest.mark.parametrize("policy", [MOST_RECENT, MOST_COMPLETE])
def test_partial_policies_start_with_whoever_is_back(policy: RecoveryPolicy) -> None:
    assert choose(policy, {A: table(1)}, (B,)).rows == table(1)


@pytest.mark.parametrize("policy", list(RecoveryPolicy))
def test_without_any_table_there_is_nothing_to_recover(policy: RecoveryPolicy) -> None:
    with pytest.raises(RecoveryError, match="no member has a table"):
        choose(policy, {}, ())


def test_one_version_with_two_contents_is_refused_never_settled_by_chance() -> None:
    tables = {A: (row(0, 3, A, B),), B: (row(0, 3, B, A),)}
    with pytest.raises(RecoveryError, match="partition 0: version 3 means"):
        settle_rows(tables)


def test_old_disagreement_does_not_matter_once_a_newer_row_is_known() -> None:
    tables = {A: (row(0, 3, A, B),), B: (row(0, 3, B, A),), C: (row(0, 4, C, None),)}
    assert settle_rows(tables) == (row(0, 4, C, None),)


@given(
    st.sampled_from(list(RecoveryPolicy)),
    st.lists(st.lists(st.integers(-1, 4), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_settled_table_is_the_maximum_of_each_partition(
    policy: RecoveryPolicy, versions: Sequence[Sequence[int]]
) -> None:
    tables = {MemberId(f"m{n}"): table(*some) for n, some in enumerate(versions)}
    choice = choose(policy, tables, ())
    assert choice.rows == table(*(max(column) for column in zip(*versions, strict=True)))
    assert len(choice.leaders) + len(choice.behind) == len(tables)
    base = tables[choice.leaders[0]]
    assert all(tables[leader] == base for leader in choice.leaders)
