"""The table as people read it."""

from __future__ import annotations

from bench.outcomes import Goal, compared, measured
from bench.table import COLUMNS, show
from rich.console import Console


def printed(width: int = 180) -> str:
    console = Console(width=width, record=True, quiet=False, highlight=False)
    with console.capture() as found:
        show(
            [
                compared("SET [1]", Goal(1.0), "redis-server", [[5_000], [10_000]], "/s", "a note"),
                measured("start", Goal(1.0, "s", at_most=True), [0.4], "s"),
                measured("told", None, [3.0], "s"),
            ],
            console,
        )
    return found.get()


def test_a_row_says_goal_result_peer_and_what_is_behind_it() -> None:
    head, _, first, second, third, *_ = [line for line in printed().splitlines() if line.strip()]
    assert all(column in head for column in COLUMNS)
    for text in ("SET [1]", "≥ 1.00x", "0.50x", "short", "redis-server", "5,000 /s", "a note"):
        assert text in first
    assert "ok" in second
    assert "≤ 1.00 s" in second
    assert "≥" not in third
    assert "short" not in third
