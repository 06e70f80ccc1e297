"""Whether an object is as wanted: the API server's additions are no difference."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from holdfast_operator.differing import covers
from holdfast_operator.quantities import number


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        ({"a": 1, "added": 2}, {"a": 1}),
        ({"a": {"b": 1, "added": 2}}, {"a": {"b": 1}}),
        ([{"name": "x", "added": 1}], [{"name": "x"}]),
        ("1", "1000m"),
        ("1Gi", "1024Mi"),
        (None, {}),
        (None, []),
        (None, ""),
        (None, False),
        ({}, {}),
    ],
)
def test_what_is_there_covers_what_is_wanted(live: Any, wanted: Any) -> None:
    assert covers(live, wanted)


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        ({"a": 1}, {"a": 2}),
        ({}, {"a": 1}),
        (None, {"a": 1}),
        (None, [1]),
        ([1, 2], [1]),
        ([2], [1]),
        ("1", "2000m"),
        ("one", "two"),
        ({"a": 1}, [1]),
        ([1], {"a": 1}),
        (None, True),
        (3, "3"),
    ],
)
def test_what_differs_is_found(live: Any, wanted: Any) -> None:
    assert not covers(live, wanted)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Decimal(0)),
        ("1.5", Decimal("1.5")),
        ("100m", Decimal("0.1")),
        ("2k", Decimal(2_000)),
        ("2Ki", Decimal(2_048)),
        ("1Gi", Decimal(2**30)),
        ("1E", Decimal(10) ** 18),
    ],
)
def test_quantities(text: str, value: Decimal) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "-1", "1.Gi", "1GiB", "one"])
def test_what_is_no_quantity(text: str) -> None:
    assert number(text) is None
