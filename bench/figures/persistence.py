"""What files cost while nothing is restarted: the event loop's time, bytes written, a backup.

*The loop.* The processor's time of the thread that serves clients, for a SET, with a log that is
synced each second beside the same without files; `redis-benchmark` at pipeline 16.
*Write amplification.* Bytes of the log and of bases for each byte of a key and a value, while the
same keys are overwritten until the files have been compacted several times.
*A backup.* What a client at a steady rate meets while backups are made one after another, beside
the same without one; and what the second one stores, of what the first one has not.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from bench import load_tool
from bench.figures.durable import persisting
from bench.filling import fill_cluster
from bench.members import Grid, Member, alone
from bench.outcomes import Goal, Outcome, compared, measured
from bench.processes import Stage
from bench.running import Figure, Plan, say
from bench.steady import Seen, Steady, window

COMMANDS: Final = 400_000
OVERWRITTEN_BYTES: Final = 1 << 30
VALUE_BYTES: Final = 1_000
KEYS: Final = 100_000
RATE: Final = 2_000
CALM_SECONDS: Final = 5.0
BACKUPS: Final = 5


def measure_loop(plan: Plan) -> Iterator[Outcome]:
    """In turns, with a log and without."""
    with Stage() as stage:
        members = (persisting(stage, "everysec1", 1, "everysec").members[0], alone(stage))
        kept = members[0]
        costs: list[list[float]] = [[], []]
        shares = []
        count = plan.count(COMMANDS)
        for member in members:
            load_tool.run(member.plain, count, pipeline=16, tests=["set"])
        for _ in plan.each_round("the loop's time for a SET, with a log and without"):
            for member, found in zip(members, costs, strict=True):
                given, used = figures_of(kept)["files_seconds_total"], member.process.loop_seconds()
                load_tool.run(member.plain, count, pipeline=16, tests=["set"])
                used = member.process.loop_seconds() - used
                found.append(used / count * 1e6)
                if member is kept:
                    shares.append((figures_of(kept)["files_seconds_total"] - given) / used)
    note = "what the loop gives to files, of its processor's time, at pipeline 16"
    goal = Goal(0.05, at_most=True)
    yield measured("share of the loop that files take", goal, shares, "x", note)
    peer = "the same without files"
    yield compared("the loop's time for a SET, with a log", None, peer, costs, "us")


def measure_amplification(plan: Plan) -> Iterator[Outcome]:
    """Until a gigabyte is written."""
    rounds = plan.count(OVERWRITTEN_BYTES) // (KEYS * VALUE_BYTES)
    with Stage() as stage:
        grid = persisting(stage, "overwritten", 1, "everysec")
        member = grid.members[0]
        for number in range(1, rounds + 1):
            say(f"every key is overwritten, {number} of {rounds}")
            fill_cluster(member.cluster, KEYS, VALUE_BYTES)
        found = figures_of(member)
    written = found["log_bytes_total"] + found["base_bytes_total"]
    ratio = written / found["persisted_bytes_total"]
    note = f"{found['bases_total']:.0f} bases"
    goal = Goal(2.5, at_most=True)
    yield measured("write amplification, steady overwrites", goal, [ratio], "x", note)


def measure_backup(plan: Plan) -> Iterator[Outcome]:
    """Five of them, and the calm before."""
    keys = plan.count(KEYS)
    with Stage() as stage:
        grid = persisting(stage, "backed-up", 3, "everysec")
        fill_cluster(grid.members[0].cluster, keys, VALUE_BYTES)
        grid.wait_safe()
        ports = [each.cluster for each in grid.members]
        with Steady(stage, ports, keys=keys, rate=RATE, size=VALUE_BYTES, ledger=False) as client:
            time.sleep(CALM_SECONDS)
            calm_until = time.monotonic()
            made = [backed_up(grid, number) for number in range(BACKUPS)]
            ended = time.monotonic()
            client.stop()
        calm = window(client.rows, calm_until - CALM_SECONDS + 1, calm_until)
        during = window(client.rows, calm_until, ended)
    yield from rows(calm, during, made)


def backed_up(grid: Grid, number: int) -> dict[str, Any]:
    """One backup of all members."""
    say(f"backup {number + 1} of {BACKUPS}")
    made: dict[str, Any] = grid.members[0].post("/v1/backups", {"name": f"number-{number}"})
    return made


def rows(calm: Seen, during: Seen, made: list[dict[str, Any]]) -> Iterator[Outcome]:
    """What the client met, and what the backups store."""
    peer = "before the backups"
    tails = [[during.p99_ms], [calm.p99_ms]]
    note = f"errors {during.errors}, longest {during.longest_ms:.0f} ms"
    yield compared("p99 during backups", Goal(2.0, at_most=True), peer, tails, "ms", note)
    own, whole = made[1]["own_bytes"] / 1e6, made[1]["bytes"] / 1e6
    sizes = [[own], [whole]]
    peer, note = "all its files", "what the first one has is not stored again"
    yield compared("the second backup stores", Goal(0.5, at_most=True), peer, sizes, "MB", note)


def figures_of(member: Member) -> dict[str, float]:
    """What it counts, by the names of its metrics."""
    lines = member.http.get("/metrics").text.splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name.removeprefix("holdfast_").partition("{")[0]: float(value) for name, value in pairs}


FIGURES: Iterable[Figure] = (
    Figure("loop", "what a log takes of the event loop", measure_loop),
    Figure(
        "amplification", "bytes written for each byte, steady overwrites", measure_amplification
    ),
    Figure("backing-up", "a backup under load, and what the next one stores", measure_backup),
)
