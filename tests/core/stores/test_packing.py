"""Lists of byte strings as one byte string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.packing import pack, unpack
from holdfast.errors import MessageError


@given(st.lists(st.binary(max_size=20)), st.binary(max_size=5))
def test_what_is_packed_comes_back(items: list[bytes], before: bytes) -> None:
    assert unpack(before + pack(items), len(before)) == items


@given(st.binary(max_size=30))
def test_bytes_are_what_their_items_are_packed_to_or_are_refused(body: bytes) -> None:
    try:
        items = unpack(body)
    except MessageError:
        return
    assert pack(items) == body


@pytest.mark.parametrize("body", [b"\x00", b"\x00\x00\x00", b"\x00\x00\x00\x02a", b"\xff" * 5])
def test_what_ends_too_early_is_refused(body: bytes) -> None:
    with pytest.raises(MessageError, match="runs past the end"):
        unpack(body)
