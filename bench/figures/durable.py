"""What durability costs: SET that is on stable storage before its answer, against redis-server with
`appendfsync always`; and what a log takes of a member's event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from bench import load_tool, peers
from bench.figures.one_member import Point, point
from bench.members import Grid
from bench.outcomes import Goal, Outcome, compared
from bench.processes import Stage
from bench.running import Figure, Plan

COMMANDS: Final = {1: 30_000, 16: 150_000}
CONFIG: Final = '[unnamed]\ndurability = "{}"\n'


def persisting(stage: Stage, name: str, count: int, durability: str) -> Grid:
    """Members with files; each but the first has a backup of everything that the first has not."""
    config = Path(stage.folder) / f"{name}.toml"
    config.write_text(CONFIG.format(durability))
    directory = str(Path(stage.folder) / name)
    grid = Grid(
        stage, name, config=str(config), backup_count=str(min(count - 1, 1)), data_dir=directory
    )
    return grid.form(count)


def measure(plan: Plan) -> Iterator[Outcome]:
    """Each load in turns; a command goes to a member that owns its key."""
    with Stage() as stage:
        server = peers.single(
            stage, "--appendonly", "yes", "--appendfsync", "always", "--dir", str(stage.folder)
        )
        grids = [persisting(stage, f"always{count}", count, "always") for count in (1, 2)]
        ports = [(server.process, server.port, False)]
        alone, pair = (grid.members[0] for grid in grids)
        ports += [(alone.process, alone.plain, False), (pair.process, pair.cluster, True)]
        for pipeline, commands in COMMANDS.items():
            runs: list[list[Point]] = [[] for _ in ports]
            for _ in plan.each_round(f"durable SET at pipeline {pipeline}"):
                for (process, port, cluster), found in zip(ports, runs, strict=True):
                    count = plan.count(commands) * (load_tool.CLUSTER_TIMES if cluster else 1)
                    found.append(point(process, port, "SET", pipeline, count, cluster=cluster))
            theirs = [rate for rate, _ in runs[0]]
            for what, found in (("1 member", runs[1]), ("2 members, 1 backup", runs[2])):
                yield compared(
                    f"durable SET 100 B, {what}, pipeline {pipeline}",
                    Goal(1.0),
                    "redis-server, appendfsync always",
                    [[rate for rate, _ in found], theirs],
                    "/s",
                    "fsync before the answer",
                )


FIGURES: Iterable[Figure] = (Figure("durable", "SET that is synced before its answer", measure),)
