"""Who syncs: whoever has written, as long as that is quick."""

from __future__ import annotations

from random import Random

from holdfast.storage.pace import OWED_S, QUICK_S, SHARE, SMALL_BYTES, Pace


def test_what_is_small_is_synced_by_whoever_has_written_it() -> None:
    pace = Pace()
    assert pace.is_near(SMALL_BYTES, 1.0)
    assert not pace.is_near(SMALL_BYTES + 1, 1.0)


def test_after_a_long_one_the_other_thread_syncs_for_a_while() -> None:
    pace = Pace()
    pace.took(QUICK_S + 0.5, 10.0)
    while_away = (0.5 - OWED_S) * SHARE
    assert not pace.is_near(1, 10.0 + 0.99 * while_away)
    assert pace.is_near(1, 10.0 + 1.01 * while_away)


def test_a_slow_moment_now_and_then_changes_nothing() -> None:
    """One in a thousand takes five times as long as a quick one may."""
    pace, chance, now = Pace(), Random(1), 0.0
    for _ in range(20_000):
        assert pace.is_near(1, now)
        took = 5 * QUICK_S if chance.random() < 0.001 else 0.2 * QUICK_S
        pace.took(took, now + took)
        now += took + QUICK_S


def test_a_slow_disk_holds_the_loop_for_a_small_part_of_its_time() -> None:
    pace, now, held = Pace(), 0.0, 0.0
    while now < 100.0:
        if pace.is_near(1, now):
            pace.took(0.01, now + 0.01)
            held += 0.01
        now += 0.01
    assert 0.5 / SHARE < held / now < 1.5 / SHARE
