"""Patterns, against Redis' own way to match them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.glob import PATTERN_BYTES_MAX, glob
from holdfast.errors import CommandError

TEXTS = st.text(alphabet="abc-]^[\\*?\n", max_size=6).map(str.encode)
PATTERNS = st.text(alphabet="aabc-]^[[\\**?\n", max_size=8).map(str.encode)


def fits(pattern: bytes, text: bytes) -> bool:
    """Step by step as Redis does it, every star tried at every place."""
    while pattern and text:
        head, pattern = pattern[:1], pattern[1:]
        if head == b"*":
            pattern = pattern.lstrip(b"*")
            return not pattern or any(fits(pattern, text[at:]) for at in range(len(text)))
        if head == b"[":
            found, pattern = in_class(pattern, text[0])
            if not found:
                return False
        elif head != b"?":
            if head == b"\\" and pattern:
                head, pattern = pattern[:1], pattern[1:]
            if head != text[:1]:
                return False
        text = text[1:]
        if not text:
            pattern = pattern.lstrip(b"*")
    return not pattern and not text


def in_class(pattern: bytes, byte: int) -> tuple[bool, bytes]:
    """Whether a byte is in the class that begins here, and what comes behind it."""
    negated = pattern[:1] == b"^"
    pattern = pattern[negated:]
    found = False
    while pattern and pattern[:1] != b"]":
        if pattern[:1] == b"\\" and len(pattern) >= 2:
            found |= pattern[1] == byte
            pattern = pattern[2:]
        elif len(pattern) >= 3 and pattern[1:2] == b"-":
            found |= min(pattern[0], pattern[2]) <= byte <= max(pattern[0], pattern[2])
            pattern = pattern[3:]
        else:
            found |= pattern[0] == byte
            pattern = pattern[1:]
    return found != negated, pattern[1:]


@given(PATTERNS, TEXTS)
def test_patterns_mean_what_they_mean_to_redis(pattern: bytes, text: bytes) -> None:
    expected = True if pattern == b"*" else fits(pattern, text)
    assert glob(pattern)(text) == expected


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (b"h?llo", b"hello", b"hllo"),
        (b"h*llo", b"heeeello", b"hell"),
        (b"h[ae]llo", b"hallo", b"hillo"),
        (b"h[^e]llo", b"hbllo", b"hello"),
        (b"h[b-a]llo", b"hallo", b"hcllo"),
        (b"\\*", b"*", b"a"),
        (b"[\\]]", b"]", b"\\"),
        (b"a\\", b"a\\", b"a"),
        (b"[^", b"x", b""),
        (b"\xff*\x00", b"\xff\n\x00", b"\xff"),
        (b"*a*b", b"xaybzb", b"xbya"),
    ],
)
def test_each_sign(pattern: bytes, yes: bytes, no: bytes) -> None:
    assert glob(pattern)(yes)
    assert not glob(pattern)(no)


def test_many_stars_take_no_more_than_a_walk() -> None:
    """With a search through all possibilities this would not end."""
    assert not glob(b"a*" * 60 + b"b")(b"a" * 65_536)
    assert not glob(b"*a?[a-c]" * 60 + b"b")(b"a" * 65_536)


def test_a_pattern_without_bound_is_refused() -> None:
    assert glob(b"a" * PATTERN_BYTES_MAX)(b"a" * PATTERN_BYTES_MAX)
    with pytest.raises(CommandError, match="longer than 1024 bytes"):
        glob(b"a" * (PATTERN_BYTES_MAX + 1))
