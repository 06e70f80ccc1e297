"""What parallel migrations gain, in virtual time: it follows from the messages alone."""

from __future__ import annotations

from bench.parallel_world import seconds


def test_ten_migrations_at_a_time_are_four_times_as_fast_as_one() -> None:
    assert seconds(1) >= 4 * seconds(10)
