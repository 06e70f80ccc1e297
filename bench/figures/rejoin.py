"""A member of a stable cluster dies and comes back (seed 003): what `holdfast bench rejoin` says.

As ratios: records that go over the network, and the time until all is safe. That is told twice: the
whole, since the member's process was started, and the sync alone, since it has what its files say.
The documents measure the whole, with so much data that all else vanishes in it; at this size an
interpreter that starts and files that are read are most of it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from bench import machine
from bench.members import MAIN
from bench.outcomes import Goal, Outcome, amount
from bench.running import Figure, Plan, say

ENTRIES: Final = 3_000_000
MEMORY_EACH: Final = 8_000
"""Bytes of the machine for each entry: four members have it, and the system keeps their files."""
LIMIT_SECONDS: Final = 1_800
PEER: Final = "everything sent again"
PARTS: Final = (
    (
        "time to safe",
        "restart_seconds",
        "from the start of the process; it loads its files meanwhile",
    ),
    (
        "the sync of it",
        "sync_seconds",
        "from when it has what its files say, and looks for its cluster",
    ),
)
"""What is told of the time: its name, where it stands, and what it is."""


def measure(plan: Plan) -> Iterator[Outcome]:
    """Both tables of the seed."""
    entries = plan.count(min(ENTRIES, machine.memory_bytes() // MEMORY_EACH))
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
    for figure, part, note in PARTS:
        told = f"nothing changed: {figure}"
        yield compared(told, Goal(250.0), full, best, part, note, faster=True)
    full, _, best = tables["mutated"]
    share = Goal(0.105, "x", at_most=True)
    changed = entries // 10
    yield records("10 % mutated: records sent", share, full, best, changed)
    for figure, part, note in PARTS:
        told = f"10 % mutated: {figure}"
        yield compared(told, Goal(0.15, at_most=True), full, best, part, note, faster=False)


Row = dict[str, Any]


def records(figure: str, goal: Goal, full: Row, best: Row, exactly: int) -> Outcome:
    """How many were sent, or which share of all."""
    mine, all_of_them = (float(row["restart_records"]) for row in (best, full))
    reached = mine / all_of_them if exactly else mine
    note = f"exactly {exactly:,} differ" if exactly else "nothing differs"
    told = f"{amount(mine)} : {amount(all_of_them)}"
    return Outcome(figure, goal, reached, goal.unit, PEER, (mine,), (all_of_them,), told, note)


def compared(
    figure: str, goal: Goal, full: Row, best: Row, part: str, note: str, *, faster: bool
) -> Outcome:
    """How many times as fast, or which share of the time."""
    mine, other = best[part], full[part]
    reached = other / mine if faster else mine / other
    told = f"{amount(mine, 's')} : {amount(other, 's')}"
    return Outcome(figure, goal, reached, "x", PEER, (mine,), (other,), told, note)


FIGURES: Iterable[Figure] = (
    Figure("rejoin", "a member comes back to a stable cluster: records and time", measure),
)
