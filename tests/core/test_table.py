"""The partition table against a dumb oracle: a dict of the greatest version that was seen."""

from __future__ import annotations

from collections.abc import Sequence

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.table import STAMP_SEED, UNKNOWN, Row, Table, check_replicas, stamp_of
from holdfast.errors import TableError
from holdfast.ids import NO_INDEX, MemberId, PartitionId, Replicas, Version
from tests.core.harness import A, B, C, row

PARTITIONS = 4
REPLICAS = 2

rows = st.builds(
    lambda partition, version, replicas: Row(PartitionId(partition), Version(version), replicas),
    st.integers(0, PARTITIONS - 1),
    st.integers(0, 5),
    st.sampled_from([(None, None), (A, None), (A, B), (B, A), (None, C)]),
)


def table_of(*held: Row) -> Table:
    table = Table(PARTITIONS, REPLICAS)
    table.apply(held)
    return table


# The stamp ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(-1, 2**31 - 1), max_size=40))
def test_stamp_is_the_first_64_signed_bits_of_murmur3_over_big_endian_versions(
    versions: list[int],
) -> None:
    buffer = b"".join((version % 2**32).to_bytes(4, "big") for version in versions)
    digest = mmh3.hash_bytes(buffer, seed=STAMP_SEED)
    assert stamp_of(versions) == int.from_bytes(digest[:8], "little", signed=True)


def test_stamp_does_not_change_between_releases() -> None:
    assert stamp_of([]) == mmh3.hash64(b"", seed=0x01000193)[0]
    assert stamp_of([1, 2, 3]) == stamp_of((1, 2, 3))
    assert stamp_of([1, 2, 3]) != stamp_of([3, 2, 1])


@given(st.lists(st.lists(rows, max_size=4), max_size=6))
def test_stamp_follows_every_change(batches: list[list[Row]]) -> None:
    table = Table(PARTITIONS, REPLICAS)
    for batch in batches:
        before = table.stamp
        taken = table.apply(batch)
        assert table.stamp == stamp_of(table.versions)
        assert taken or table.stamp == before


# Applying -----------------------------------------------------------------------------------------


@given(st.lists(st.lists(rows, max_size=5), max_size=6))
def test_greater_version_wins_and_the_rest_is_ignored(batches: list[list[Row]]) -> None:
    table = Table(PARTITIONS, REPLICAS)
    greatest: dict[int, Row] = {}
    for batch in batches:
        expected = []
        for received in batch:
            held = greatest.get(received.partition)
            if held is None or received.version > held.version:
                greatest[received.partition] = received
                expected.append(received)
        assert table.apply(batch) == tuple(expected)
    for partition in range(PARTITIONS):
        held = table.row(PartitionId(partition))
        assert held == greatest.get(partition, row(partition, UNKNOWN, None, None))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row(PARTITIONS, 9, A, B), "partition 4 is not in 0..3"),
        (row(-1, 9, A, B), "partition -1 is not in 0..3"),
        (row(1, 9, A), "1 replicas in a table of 2"),
        (row(1, 9, A, A), "a member stands twice"),
    ],
)
@given(before=st.lists(rows, max_size=3), after=st.lists(rows, max_size=3))
def test_malformed_update_changes_nothing_at_all(
    bad: Row, reason: str, before: list[Row], after: list[Row]
) -> None:
    table = table_of(row(0, 2, A, B))
    held, stamp = table.rows, table.stamp
    with pytest.raises(TableError, match=reason):
        table.apply([*before, bad, *after])
    assert (table.rows, table.stamp) == (held, stamp)


def test_masters_own_change_must_raise_the_version() -> None:
    table = table_of(row(1, 3, A, B))
    stamp = table.stamp
    for version in (2, 3):
        with pytest.raises(TableError, match=f"version {version} does not raise 3"):
            table.set(row(1, version, B, A))
    with pytest.raises(TableError, match="twice"):
        table.set(row(1, 4, A, A))
    assert table.row(PartitionId(1)) == row(1, 3, A, B)
    assert table.stamp == stamp
    table.set(row(1, 4, B, A))
    assert table.row(PartitionId(1)) == row(1, 4, B, A)
    assert table.stamp == stamp_of([-1, 4, -1, -1])


def test_reset_takes_whatever_comes_next() -> None:
    table = table_of(row(2, 7, A, B))
    table.reset()
    assert table.versions == (UNKNOWN,) * PARTITIONS
    assert table.stamp == stamp_of([-1] * PARTITIONS)
    assert table.apply([row(2, 0, B, None)]) == (row(2, 0, B, None),)


# Comparing ----------------------------------------------------------------------------------------


@given(
    st.lists(rows, max_size=8),
    st.lists(st.integers(-1, 5), min_size=PARTITIONS, max_size=PARTITIONS),
)
def test_newer_than_is_what_someone_lacks(held: list[Row], versions: Sequence[int]) -> None:
    table = table_of(*held)
    lacking = [r for r in table.rows if r.version > versions[r.partition]]
    assert list(table.newer_than(versions)) == lacking
    assert table.newer_than(table.versions) == ()


def test_newer_than_refuses_versions_of_another_table() -> None:
    with pytest.raises(TableError, match="3 versions for 4 partitions"):
        Table(PARTITIONS, REPLICAS).newer_than([0, 0, 0])


def test_sum_of_versions_orders_tables() -> None:
    assert table_of(row(0, 2, A, B), row(1, 5, A, B)).version_sum == 2 + 5 - 1 - 1


def test_table_knows_its_size() -> None:
    assert len(Table(PARTITIONS, REPLICAS)) == PARTITIONS


@pytest.mark.parametrize(
    ("partitions", "replicas", "reason"),
    [
        (0, 1, "partitions must be 1 to 16384: 0"),
        (16_385, 1, "partitions must be 1 to 16384: 16385"),
        (1, 0, "replicas must be 1 to 7: 0"),
        (1, 8, "replicas must be 1 to 7: 8"),
    ],
)
def test_impossible_shape_is_refused(partitions: int, replicas: int, reason: str) -> None:
    with pytest.raises(TableError, match=reason):
        Table(partitions, replicas)


# Rows ---------------------------------------------------------------------------------------------


def test_row_tells_owner_holders_and_indexes() -> None:
    held = row(3, 1, None, B, None, C)
    assert held.owner is None
    assert held.holders == (B, C)
    assert [held.index_of(who) for who in (A, B, C)] == [NO_INDEX, 1, 3]


@pytest.mark.parametrize(
    ("replicas", "reason"),
    [
        ((), "1 to 7 indexes, not 0"),
        (tuple(MemberId(f"m{n}") for n in range(8)), "1 to 7 indexes, not 8"),
        ((A, None, A), "twice"),
    ],
)
def test_row_that_can_not_be_is_refused(replicas: Replicas, reason: str) -> None:
    with pytest.raises(TableError, match=reason):
        check_replicas(replicas)


def test_vacant_indexes_do_not_count_as_a_member_twice() -> None:
    check_replicas((None, None, A, None))
