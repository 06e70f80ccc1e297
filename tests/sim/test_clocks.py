"""Clocks: monotonic, each at its own pace, and the way back from a time is exact."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.sim.clocks import Clock

RATES = st.integers(900_000, 1_100_000)


@given(st.integers(0, 10**10), RATES, st.integers(0, 10**9), st.integers(0, 10**7))
def test_when_is_the_first_moment_that_shows_a_time(
    offset: int, rate: int, base_us: int, ahead_ms: int
) -> None:
    clock = Clock(offset, rate, base_us)
    moment = clock.when(offset + ahead_ms)
    assert clock.read(moment) >= offset + ahead_ms
    assert moment == base_us or clock.read(moment - 1) < offset + ahead_ms


@given(RATES, st.lists(st.tuples(st.integers(0, 10**7), RATES), max_size=8))
def test_a_clock_never_goes_back(rate: int, changes: list[tuple[int, int]]) -> None:
    clock, now = Clock(5, rate, 0), 0
    shown = clock.read(now)
    for span, new_rate in changes:
        now += span
        assert clock.read(now) >= shown
        shown = clock.read(now)
        clock.set_rate(new_rate, now)
        assert clock.read(now) == shown


def test_a_fast_clock_is_ahead_after_a_second() -> None:
    assert Clock(0, 1_020_000, 0).read(1_000_000) == 1_020
    assert Clock(0, 980_000, 0).read(1_000_000) == 980


def test_a_time_that_is_over_is_now() -> None:
    assert Clock(1_000, 1_000_000, 50).when(3) == 50
