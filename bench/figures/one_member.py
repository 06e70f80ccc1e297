"""GET and SET of one member without backups, by redis-benchmark, against redis-server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bench import load_tool, peers
from bench.load_tool import Speed
from bench.members import alone
from bench.outcomes import Goal, Outcome, compared
from bench.processes import Process, Stage
from bench.running import Figure, Plan, say

COMMANDS: Final = {1: 100_000, 16: 400_000}
GOALS: Final = {1: Goal(1.0), 16: Goal(0.6)}
VERBS: Final = ("SET", "GET")

Point = tuple[float, float]
"""Commands a second, and microseconds of the server's processor for each."""


def point(
    process: Process, port: int, verb: str, pipeline: int, count: int, *, cluster: bool = False
) -> Point:
    """One run."""
    before = process.cpu_seconds()
    speeds = load_tool.run(port, count, pipeline=pipeline, tests=[verb.lower()], cluster=cluster)
    speed: Speed = speeds[verb]
    return speed.rate, (process.cpu_seconds() - before) / count * 1e6


def measure(plan: Plan) -> Iterator[Outcome]:
    """Each load in turns."""
    with Stage() as stage:
        member, server = alone(stage), peers.single(stage)
        ends = ((member.process, member.plain), (server.process, server.port))
        say("warms up")
        for _, port in ends:
            load_tool.run(port, load_tool.KEYS, pipeline=16, tests=["set"])
        for pipeline, commands in COMMANDS.items():
            for verb in VERBS:
                runs: list[list[Point]] = [[], []]
                for _ in plan.each_round(f"{verb} at pipeline {pipeline}"):
                    for (process, port), found in zip(ends, runs, strict=True):
                        found.append(point(process, port, verb, pipeline, plan.count(commands)))
                yield row(f"{verb} 100 B, pipeline {pipeline}", GOALS[pipeline], runs)


def row(figure: str, goal: Goal, runs: list[list[Point]]) -> Outcome:
    """Rates compared; the processor's time in the note, which others disturb less."""
    ours, theirs = ([rate for rate, _ in found] for found in runs)
    costs = [sorted(cost for _, cost in found)[len(found) // 2] for found in runs]
    note = f"CPU of the server {costs[0]:.1f} : {costs[1]:.1f} us each"
    return compared(figure, goal, "redis-server", [ours, theirs], "/s", note)


FIGURES: Iterable[Figure] = (
    Figure("one-member", "GET and SET of one member against redis-server", measure),
)
