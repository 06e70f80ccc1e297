"""The distance of two tables, by hand."""

from __future__ import annotations

import pytest

from holdfast.core.distance import Distance, distance
from holdfast.errors import TableError
from holdfast.ids import MemberId, Replicas

A, B, C, D = map(MemberId, "ABCD")


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [
        ((A, B), (A, B), Distance()),
        ((A, B), (A, B, None, None), Distance()),
        ((None, None), (), Distance()),
        ((A, B), (B, A), Distance(partitions=1, owners=1, indexes=2)),
        ((A, B), (A, C), Distance(partitions=1, copies=1)),
        ((A, B, None), (C, A, B), Distance(partitions=1, copies=1, owners=1, indexes=2)),
        ((A, B, C), (B, C), Distance(partitions=1, owners=1, indexes=2)),
        ((None, B), (A, B), Distance(partitions=1, copies=1, owners=1)),
        ((None, None), (A, B), Distance(partitions=1, copies=2, owners=1)),
        ((A, B), (None, None), Distance(partitions=1, owners=1)),
        ((A, B, C, D), (A, D, C, B), Distance(partitions=1, indexes=2)),
    ],
)
def test_rows(now: Replicas, then: Replicas, expected: Distance) -> None:
    assert distance([now], [then]) == expected


def test_tables_add_up() -> None:
    total = distance([(A, B), (B, C), (C, A)], [(B, A), (B, C), (C, D)])
    assert total == Distance(partitions=2, copies=1, owners=1, indexes=2)
    assert distance([], []) == Distance()


def test_tables_of_different_length() -> None:
    with pytest.raises(TableError, match="2 and 1 partitions"):
        distance([(A,), (B,)], [(A,)])
