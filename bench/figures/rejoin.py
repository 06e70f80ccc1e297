"""A member of a stable cluster dies and comes back (seed 003): what `holdfast bench rejoin` says.

As ratios: records that go over the network, and the time until all is safe.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from bench.members import MAIN
from bench.outcomes import Goal, Outcome, amount
from bench.running import Figure, Plan, say

ENTRIES: Final = 100_000
LIMIT_SECONDS: Final = 1_800
PEER: Final = "everything sent again"


def measure(plan: Plan) -> Iterator[Outcome]:
    """Both tables of the seed."""
    entries = plan.count(ENTRIES)
    say(f"a member comes back, {entries:,} entries")
    command = [sys.executable, "-c", MAIN, "bench", "rejoin", "--output", "json"]
    done = subprocess.run(
        [*command, "--entries", str(entries)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=LIMIT_SECONDS,
    )
    tables = msgspec.json.decode(done.stdout)
    full, _, best = tables["read_only"]
    yield records("nothing changed: records sent", Goal(0, "", at_most=True), full, best, 0)
    yield faster("nothing changed: time to safe", Goal(250.0), full, best)
    full, _, best = tables["mutated"]
    share = Goal(0.105, "x", at_most=True)
    changed = entries // 10
    yield records("10 % mutated: records sent", share, full, best, changed)
    yield slower("10 % mutated: time to safe", Goal(0.15, at_most=True), full, best)


Row = dict[str, Any]


def records(figure: str, goal: Goal, full: Row, best: Row, exactly: int) -> Outcome:
    """How many were sent, or which share of all."""
    mine, all_of_them = (float(row["restart_records"]) for row in (best, full))
    reached = mine / all_of_them if exactly else mine
    note = f"exactly {exactly:,} differ" if exactly else "nothing differs"
    told = f"{amount(mine)} : {amount(all_of_them)}"
    return Outcome(figure, goal, reached, goal.unit, PEER, (mine,), (all_of_them,), told, note)


def faster(figure: str, goal: Goal, full: Row, best: Row) -> Outcome:
    """How many times as fast."""
    return _times(figure, goal, full, best, full["restart_seconds"] / best["restart_seconds"])


def slower(figure: str, goal: Goal, full: Row, best: Row) -> Outcome:
    """Which share of the time."""
    return _times(figure, goal, full, best, best["restart_seconds"] / full["restart_seconds"])


def _times(figure: str, goal: Goal, full: Row, best: Row, reached: float) -> Outcome:
    mine, other = best["restart_seconds"], full["restart_seconds"]
    told = f"{amount(mine, 's')} : {amount(other, 's')}"
    note = "from the start of the process; it loads its files meanwhile"
    return Outcome(figure, goal, reached, "x", PEER, (mine,), (other,), told, note)


FIGURES: Iterable[Figure] = (
    Figure("rejoin", "a member comes back to a stable cluster: records and time", measure),
)
