"""Medians, ratios and the verdicts on them."""

from __future__ import annotations

import pytest
from bench.outcomes import (
    Goal,
    Outcome,
    amount,
    compared,
    longest_silence,
    measured,
    percentile,
    spread,
    worst,
)


@pytest.mark.parametrize(
    ("goal", "good", "bad"),
    [(Goal(1.0), 1.0, 0.99), (Goal(3.0, at_most=True), 3.0, 3.01)],
)
def test_a_goal_includes_its_bound(goal: Goal, good: float, bad: float) -> None:
    assert goal.met_by(good)
    assert not goal.met_by(bad)


def test_a_ratio_is_the_median_of_the_rounds_not_the_ratio_of_medians() -> None:
    """A round on a busy machine is slow for both, and says as much as a fast one."""
    found = compared("f", Goal(0.5), "peer", [[10, 100, 60], [20, 100, 100]], "/s")
    assert found.reached == 0.6
    assert found.verdict == "ok"
    assert found.absolute == "60.0 /s [10.0-100] : 100 /s [20.0-100]"


def test_rounds_that_were_not_run_side_by_side_are_no_ratio() -> None:
    with pytest.raises(ValueError, match="argument"):
        compared("f", None, "peer", [[1, 2], [1]], "/s")


def test_an_absolute_figure_is_its_median() -> None:
    found = measured("f", Goal(1.0, "s", at_most=True), [3.0, 1.5, 0.5], "s")
    assert (found.reached, found.verdict) == (1.5, "short")
    assert str(found.goal) == "≤ 1.00 s"


def test_what_must_hold_each_time_is_judged_by_the_worst() -> None:
    found = worst("f", Goal(1.0, "s", at_most=True), [0.2, 1.1, 0.3], "s")
    assert (found.reached, found.verdict) == (1.1, "short")
    assert found.absolute == "0.30 s [0.20-1.10]"


def test_what_has_no_goal_has_no_verdict() -> None:
    assert measured("f", None, [1.0], "s").verdict == ""


def test_the_record_of_an_outcome_says_goal_and_verdict_in_words() -> None:
    found = Outcome("f", Goal(0.5), 0.4, "x", "p", (0.4,), (1.0,), "0.4 : 1").record()
    assert (found["goal"], found["verdict"], found["ours"]) == ("≥ 0.50x", "short", (0.4,))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "", "0.0"),
        (0.514, "x", "0.51x"),
        (12.34, "ms", "12.3 ms"),
        (24_661.4, "/s", "24,661 /s"),
        (-0.5, "", "-0.50"),
    ],
)
def test_amounts_have_the_digits_that_they_are_worth(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_one_run_has_no_range() -> None:
    assert spread([2.0], "s") == "2.00 s"


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(each) for each in range(100, 0, -1)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values, 1.0) == 100
    assert percentile([7.0], 0.01) == 7


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


def test_silence_counts_the_borders_of_the_window() -> None:
    assert longest_silence([1.0, 2.0, 2.5], 0.0, 3.0) == 1.0
    assert longest_silence([0.1, 0.2], 0.0, 3.0) == pytest.approx(2.8)
    assert longest_silence([5.0], 0.0, 3.0) == 3.0
