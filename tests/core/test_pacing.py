"""Slices rest while applications are busy, for so long that these keep most of the member."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.pacing import PAUSE_NS_MAX, REST, Pace

MS = 1_000_000


def test_time_that_nobody_wants_is_free() -> None:
    pace = Pace()
    assert pace.pause_ns(5 * MS, 0) == 0
    assert pace.pause_ns(5 * MS, 0) == 0


def test_a_slice_beside_applications_is_followed_by_a_rest() -> None:
    pace = Pace()
    assert pace.pause_ns(5 * MS, 1) == REST * 5 * MS
    assert pace.pause_ns(5 * MS, 1) == 0, "they are quiet again"
    assert pace.pause_ns(500 * MS, 2) == PAUSE_NS_MAX


@given(st.lists(st.integers(0, PAUSE_NS_MAX // REST), min_size=1))
def test_busy_applications_keep_their_share(slices: list[int]) -> None:
    pace = Pace()
    rests = [pace.pause_ns(took, number) for number, took in enumerate(slices, 1)]
    assert sum(slices) * REST == sum(rests)
