"""What one synchronous backup costs: SET of 3 members with it, against 3 members without.

The load is `redis-benchmark --cluster`, each of whose 50 connections keeps to one owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bench import load_tool
from bench.members import Grid
from bench.outcomes import Goal, Outcome, compared
from bench.processes import Stage
from bench.running import Figure, Plan

COMMANDS: Final = 60_000 * load_tool.CLUSTER_TIMES
MEMBERS: Final = 3
PEER: Final = "the same without backups"


def measure(plan: Plan) -> Iterator[Outcome]:
    """Both clusters stand throughout, and are loaded in turns."""
    with Stage() as stage:
        grids = [
            Grid(stage, f"backups{backups}", backup_count=str(backups)).form(MEMBERS)
            for backups in (1, 0)
        ]
        rates: list[list[float]] = [[], []]
        tails: list[list[float]] = [[], []]
        count = plan.count(COMMANDS)
        for grid in grids:
            load_tool.run(grid.members[0].cluster, count, tests=["set"], cluster=True)
        for _ in plan.each_round("SET with and without a backup"):
            for grid, rate, tail in zip(grids, rates, tails, strict=True):
                port = grid.members[0].cluster
                speed = load_tool.run(port, count, tests=["set"], cluster=True)["SET"]
                rate.append(speed.rate)
                tail.append(speed.p99_ms)
    load = "redis-benchmark --cluster -c 50"
    yield compared("SET, 3 members, 1 backup", Goal(0.6), PEER, rates, "/s", load)
    goal = Goal(3.0, at_most=True)
    yield compared("SET, 3 members, 1 backup: p99", goal, PEER, tails, "ms", load)


FIGURES: Iterable[Figure] = (Figure("backup", "SET with one synchronous backup", measure),)
