"""Which items a command gets that asks for some."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.choosing import TOO_OFTEN, parse_count, parse_sample, sample
from holdfast.errors import CommandError

ITEMS = [b"a", b"b", b"c", b"d"]


@given(st.integers(-9, 9), st.integers())
def test_sample_has_so_many_or_all(count: int, seed: int) -> None:
    chosen = list(sample(Random(seed), ITEMS, count))
    assert set(chosen) <= set(ITEMS)
    assert len(chosen) == (min(count, 4) if count >= 0 else -count)
    assert count < 0 or len(set(chosen)) == len(chosen)


def test_every_item_has_its_turn() -> None:
    rng = Random(1)
    for count in (1, -1):
        seen = [sample(rng, ITEMS, count)[0] for _ in range(400)]
        assert all(60 < seen.count(item) < 140 for item in ITEMS)


def test_repeated_choice_is_bounded_by_what_it_would_take() -> None:
    large = [bytes(1 << 20)]
    assert len(sample(Random(1), large, -63)) == 63
    with pytest.raises(CommandError, match=TOO_OFTEN):
        sample(Random(1), large, -64)


def test_counts() -> None:
    assert parse_count(b"0") == 0
    assert parse_sample(b"-9223372036854775807") == -9223372036854775807
    for text in (b"-1", b"x"):
        with pytest.raises(CommandError, match="must be positive"):
            parse_count(text)
    with pytest.raises(CommandError, match="value must between"):
        parse_sample(b"-9223372036854775808")
