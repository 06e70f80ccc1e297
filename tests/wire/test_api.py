"""Words of the HTTP interface."""

from __future__ import annotations

import pytest

from holdfast.wire.api import text_of


@pytest.mark.parametrize(
    ("name", "text"), [(b"users", "users"), ("größe".encode(), "größe"), (b"a\xff", "a\\xff")]
)
def test_names_are_told_as_text_whatever_their_bytes(name: bytes, text: str) -> None:
    assert text_of(name) == text
