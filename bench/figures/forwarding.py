"""The plain port: keys of another member, against keys of the member that is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bench import load_tool
from bench.members import Grid, owner_of
from bench.outcomes import Goal, Outcome, compared
from bench.processes import Stage
from bench.running import Figure, Plan
from holdfast.core.data.plane import slot_of

COMMANDS: Final = {1: 60_000, 16: 200_000}
TAG: Final = "{bench}:"
VALUE: Final = "x" * load_tool.VALUE_BYTES


def measure(plan: Plan) -> Iterator[Outcome]:
    """The same keys, asked of their owner and of the other one, in turns."""
    with Stage() as stage:
        grid = Grid(stage, "forwarding", backup_count="0").form(2)
        owner = owner_of(grid, slot_of(TAG.encode()))
        other = next(each for each in grid.members if each is not owner)
        for pipeline, commands in COMMANDS.items():
            for verb, rest in (("SET", [VALUE]), ("GET", [])):
                command = [verb, f"{TAG}__rand_int__", *rest]
                rates: list[list[float]] = [[], []]
                for _ in plan.each_round(f"{verb} of another's key at pipeline {pipeline}"):
                    for member, rate in zip((other, owner), rates, strict=True):
                        found = load_tool.run(
                            member.plain, plan.count(commands), pipeline=pipeline, command=command
                        )
                        rate += [speed.rate for speed in found.values()]
                figure = f"{verb} by the plain port, another's key, pipeline {pipeline}"
                yield compared(figure, Goal(0.5), "the owner's plain port", rates, "/s")


FIGURES: Iterable[Figure] = (
    Figure("forwarding", "the plain port for keys of another member", measure),
)
