"""The bytes of a record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.record import (
    ABSENT,
    CHANGE,
    NEVER,
    Kind,
    body_of,
    build,
    expiry_of,
    kind_of,
    number_of,
    version_of,
)
from holdfast.errors import MessageError

VERSIONS = st.binary(min_size=10, max_size=10)


@given(VERSIONS, st.sampled_from(Kind), st.integers(0, (1 << 64) - 1), st.binary(max_size=9))
def test_parts_come_back(version: bytes, kind: Kind, expiry: int, body: bytes) -> None:
    for flags in (kind, kind | CHANGE):
        record = build(version, flags, expiry, body)
        assert version_of(record) == version
        assert kind_of(record) is kind
        assert expiry_of(record) == expiry
        assert body_of(record) == body


def test_layout_is_the_documented_one() -> None:
    version = (7).to_bytes(4, "big") + (9).to_bytes(6, "big")
    assert number_of(build(version, Kind.SET, NEVER, b"")) == 9
    assert build(version, Kind.STRING, NEVER, b"x") == version + b"\0x"
    assert build(version, Kind.SET, 5, b"x") == version + b"\x11" + (5).to_bytes(8, "big") + b"x"


@given(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.tuples(st.integers(0, 9), st.integers()))
def test_versions_compare_as_epoch_and_number(one: tuple[int, int], two: tuple[int, int]) -> None:
    other = (two[0], two[1] % (1 << 48))
    first, second = (
        each[0].to_bytes(4, "big") + each[1].to_bytes(6, "big") for each in (one, other)
    )
    assert (first < second) == (one < other)
    assert first >= ABSENT


@pytest.mark.parametrize("record", [b"", bytes(10), bytes(10) + b"\x07", bytes(10) + b"\x0f"])
def test_what_has_no_kind_is_refused(record: bytes) -> None:
    with pytest.raises(MessageError, match="no record begins with"):
        kind_of(record)


def test_record_that_ends_within_its_expiry_is_refused() -> None:
    whole = build(ABSENT, Kind.STRING, 1, b"")
    assert expiry_of(whole) == 1
    with pytest.raises(MessageError, match="ends within its expiry"):
        expiry_of(whole[:-1])
