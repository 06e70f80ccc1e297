"""Start and memory of a member that is alone, against redis-server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Final

from bench import peers
from bench.filling import fill_one
from bench.members import Grid, wait_served
from bench.outcomes import Goal, Outcome, compared, measured
from bench.processes import Process, Stage
from bench.running import Figure, Plan

MIB: Final = 2**20
IDLE_SECONDS: Final = 3.0
ENTRIES: Final = 500_000
VALUE_BYTES: Final = 100
REDIS: Final = "redis-server"


def starts(plan: Plan) -> Iterator[Outcome]:
    """From the start of the process until a client's write is done, and its memory then."""
    seconds: list[list[float]] = [[], []]
    sizes: list[list[float]] = [[], []]
    used: list[float] = []
    for _ in plan.each_round("start of a member"):
        with Stage() as stage:
            member = Grid(stage, "alone", backup_count="0").add()
            seconds[0].append(wait_served(member.process, member.plain))
            used.append(member.process.cpu_seconds())
            server = peers.single(stage)
            seconds[1].append(server.started_seconds)
            time.sleep(IDLE_SECONDS)
            for process, size in zip((member.process, server.process), sizes, strict=True):
                size.append(process.resident_bytes() / MIB)
    theirs = f"CPU {statistics.median(used):.2f} s; {REDIS}: {statistics.median(seconds[1]):.2f} s"
    goal = Goal(1.0, "s", at_most=True)
    yield measured("start to the first write, alone", goal, seconds[0], "s", theirs)
    goal = Goal(75, "MiB", at_most=True)
    times = statistics.median(sizes[0]) / statistics.median(sizes[1])
    theirs = f"{REDIS}: {statistics.median(sizes[1]):.1f} MiB, {times:.1f}x"
    yield measured("resident memory, empty", goal, sizes[0], "MiB", theirs)


def entries(plan: Plan) -> Iterator[Outcome]:
    """How much each grows by the same entries."""
    count = plan.count(ENTRIES)
    sizes: list[list[float]] = [[], []]
    for _ in plan.each_round(f"memory of {count:,} entries"):
        with Stage() as stage:
            member = Grid(stage, "alone", backup_count="0").add()
            wait_served(member.process, member.plain)
            server = peers.single(stage)
            pairs = ((member.process, member.plain), (server.process, server.port))
            for (process, port), size in zip(pairs, sizes, strict=True):
                size.append(growth(process, port, count))
    goal = Goal(1.5, at_most=True)
    yield compared("memory per entry of 100 B", goal, REDIS, sizes, "B", f"{count:,} entries")


def growth(process: Process, port: int, count: int) -> float:
    """Resident bytes for each entry."""
    before = process.resident_bytes()
    fill_one(port, count, VALUE_BYTES)
    return (process.resident_bytes() - before) / count


FIGURES: Iterable[Figure] = (
    Figure("start", "start to ready, and empty memory, of one member", starts),
    Figure("memory", "memory per entry of 100 B", entries),
)
