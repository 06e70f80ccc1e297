"""Scans while the container changes, and what they ask for."""

from __future__ import annotations

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.scanning import (
    CALLS_MAX,
    RING,
    SMALL_MAX,
    parse_cursor,
    parse_wish,
    portion,
)
from holdfast.errors import CommandError

COUNTS = st.sampled_from([b"1", b"10", b"100", b"5000"])


@given(st.integers(0, 600), st.lists(st.tuples(st.integers(0, 900), st.booleans())), COUNTS)
def test_what_stays_is_returned_once_whatever_comes_and_goes(
    size: int, changes: list[tuple[int, bool]], count: bytes
) -> None:
    """Before each call some come or go, members below 100 excepted."""
    items = {b"%d" % index: None for index in range(100 + size)}
    steps = iter(changes)
    seen: list[bytes] = []
    cursor, calls, small = 0, 0, False
    while True:
        small = small or len(items) <= SMALL_MAX
        cursor, chosen = portion(items, parse_wish(cursor, [b"COUNT", count]))
        seen += chosen
        calls += 1
        if not cursor:
            break
        for index, comes in (next(steps, (0, True)), next(steps, (0, True))):
            if comes:
                items[b"%d" % (100 + index)] = None
            else:
                items.pop(b"%d" % (100 + index), None)
    stayed = [seen.count(b"%d" % index) for index in range(100)]
    assert all(stayed)
    assert small or max(stayed) == 1, "twice, though it was never small enough for one go"
    assert calls <= CALLS_MAX + 1


def test_count_is_about_what_a_call_returns() -> None:
    items = [b"%d" % index for index in range(1000)]
    sizes = [len(portion(items, parse_wish(0, [b"COUNT", b"%d" % n]))[1]) for n in (1, 100, 1000)]
    assert 15 < sizes[0] < 50, "at least a 32nd"
    assert 60 < sizes[1] < 140
    assert sizes[2] == 1000


def test_stretches_touch_and_do_not_overlap() -> None:
    """An item exactly where one stretch ends is the first of the next one."""
    items = [b"%d" % index for index in range(1000)]
    width, _ = portion(items, parse_wish(0, []))
    item = next(each for each in items if mmh3.hash(each, signed=False) > width)
    place = mmh3.hash(item, signed=False)
    end, before = portion(items, parse_wish(place - width, []))
    assert end == place
    assert item not in before
    assert item in portion(items, parse_wish(end, []))[1]


def test_cursor_beyond_the_ring_ends_the_scan() -> None:
    items = [b"%d" % index for index in range(1000)]
    assert portion(items, parse_wish(RING, [])) == (0, [])


def test_pattern_chooses_among_what_the_stretch_has() -> None:
    items = [b"%d" % index for index in range(1000)]
    wish = parse_wish(0, [b"match", b"99?", b"count", b"1000"])
    assert portion(items, wish) == (0, items[990:])


@pytest.mark.parametrize("text", [b"x", b"", b"-1", b"18446744073709551616", b"9" * 30, b"1 "])
def test_what_is_no_cursor(text: bytes) -> None:
    with pytest.raises(CommandError, match="ERR invalid cursor"):
        parse_cursor(text)


def test_greatest_cursor() -> None:
    assert parse_cursor(b"18446744073709551615") == (1 << 64) - 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([b"COUNT"], "ERR syntax error"),
        ([b"COUNT", b"0"], "ERR syntax error"),
        ([b"COUNT", b"x"], "ERR value is not an integer or out of range"),
        ([b"TYPE", b"set"], "ERR syntax error"),
    ],
)
def test_what_is_no_option(options: list[bytes], text: str) -> None:
    with pytest.raises(CommandError, match=text):
        parse_wish(0, options)
