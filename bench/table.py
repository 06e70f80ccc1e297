"""The table that the bench prints."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from bench.outcomes import Outcome, amount

COLUMNS = ("figure", "to reach", "reached", "", "peer", "absolute: ours : peer's", "note")
WIDTH = 180


def table(outcomes: Sequence[Outcome]) -> Table:
    """A row for each."""
    found = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
    for each in outcomes:
        style = {"ok": "green", "short": "red"}.get(each.verdict, "")
        found.add_row(
            each.figure,
            "" if each.goal is None else str(each.goal),
            amount(each.reached, each.unit),
            f"[{style}]{each.verdict}[/]" if style else "",
            each.peer,
            each.absolute,
            each.note,
        )
    return found


def show(outcomes: Sequence[Outcome], console: Console | None = None) -> None:
    """Print it; where nobody looks, in a width that keeps its lines."""
    screen = Console(highlight=False) if console is None else console
    if console is None and not screen.is_terminal:
        screen = Console(highlight=False, width=WIDTH)
    screen.print(table(outcomes))
