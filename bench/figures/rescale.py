"""A member joins three that hold data, and leaves again, under a load of 2,000 operations a second.

The peer is `redis-cli --cluster rebalance` of three masters to four and back, on the same data,
under the same client. Net megabytes are those that the newcomer holds in the end: of Holdfast with
its backups; Redis Cluster has no replicas here, as its rebalance does not move them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bench.figures.migrations import SLOTS_MOVED, check_moved, member_holds, settled
from bench.filling import fill_cluster
from bench.members import Grid
from bench.outcomes import Goal, Outcome, amount, compared
from bench.peers import RedisCluster
from bench.processes import Stage, wait_for
from bench.running import Figure, Plan, say
from bench.steady import Seen, Steady, window

RATE: Final = 2_000
VALUE_BYTES: Final = 1_000
MEMBERS: Final = 3
CALM_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 0.05
LIMIT_SECONDS: Final = 600.0
PEER: Final = "redis-cli --cluster rebalance"


@dataclass(frozen=True, slots=True)
class Change:
    """One direction, once."""

    megabytes: float
    """Net."""
    seconds: float
    calm: Seen
    seen: Seen

    @property
    def speed(self) -> float:
        """Net megabytes a second."""
        return self.megabytes / self.seconds


Marks = tuple[float, float, float]
"""When the change began and ended, and what was moved."""


def measure(plan: Plan) -> Iterator[Outcome]:
    """Both systems in each round, each alone."""
    keys = plan.megabytes * 1_000_000 // VALUE_BYTES // (5 if plan.quick else 1)
    ours: list[tuple[Change, Change]] = []
    theirs: list[tuple[Change, Change]] = []
    for _ in plan.each_round(f"{keys // 1_000:,} MB, 3 members to 4 and back"):
        ours.append(holdfast(keys))
        theirs.append(redis_cluster(keys))
    for number, direction in enumerate(("3 to 4", "4 to 3")):
        changes = ([each[number] for each in found] for found in (ours, theirs))
        yield from rows(f"{keys // 1_000:,} MB, {direction}", *changes)


def rows(what: str, ours: list[Change], theirs: list[Change]) -> Iterator[Outcome]:
    """Speed, errors, p99, longest operation."""
    speeds = [[each.speed for each in found] for found in (ours, theirs)]
    took = " : ".join(amount(found[0].seconds, "s") for found in (ours, theirs))
    note = f"the first took {took}"
    yield compared(f"{what}: net MB/s", Goal(8.0), PEER, speeds, "MB/s", note)
    goals = (Goal(0, "", at_most=True), Goal(10, "ms", at_most=True), Goal(100, "ms", at_most=True))
    for name, goal, values, others, calm in (
        ("errors", goals[0], [float(each.seen.errors) for each in ours],
         [float(each.seen.errors) for each in theirs], ""),
        ("p99", goals[1], [each.seen.p99_ms for each in ours],
         [each.seen.p99_ms for each in theirs], f"before it {ours[0].calm.p99_ms:.1f} ms"),
        ("longest", goals[2], [each.seen.longest_ms for each in ours],
         [each.seen.longest_ms for each in theirs], f"before it {ours[0].calm.longest_ms:.0f} ms; "
         f"nothing at all for {max(each.seen.silence_ms for each in ours):.0f} ms"),
    ):  # fmt: skip
        yield worst(f"{what}: {name}", goal, values, others, calm)


def worst(figure: str, goal: Goal, ours: list[float], theirs: list[float], note: str) -> Outcome:
    """What a client must not meet is judged by the worst round."""
    absolute = f"{amount(max(ours), goal.unit)} : {amount(max(theirs), goal.unit)}"
    return Outcome(
        figure, goal, max(ours), goal.unit, PEER, tuple(ours), tuple(theirs), absolute, note
    )


def holdfast(keys: int) -> tuple[Change, Change]:
    """A member joins, and leaves."""
    with Stage() as stage:
        grid = Grid(stage, "rescale", backup_count="1").form(MEMBERS)
        say("fills Holdfast")
        fill_cluster(grid.members[0].cluster, keys, VALUE_BYTES)
        grid.wait_safe()
        with load(stage, [each.cluster for each in grid.members], keys) as client:
            began, up = time.monotonic(), join(grid, keys)
            time.sleep(CALM_SECONDS)
            middle, down = time.monotonic() - CALM_SECONDS, leave(grid, up[2])
            client.stop()
        say(f"moved {up[2]:.0f} MB in {up[1] - up[0]:.1f} s and {down[1] - down[0]:.1f} s")
        return change(client, began, up), change(client, middle, down)


def join(grid: Grid, keys: int) -> Marks:
    """Start a fourth; from the plan until every copy is in place."""
    time.sleep(CALM_SECONDS)
    asked, newcomer = time.time(), grid.add()
    wait_for(newcomer.ready, "the newcomer serves", LIMIT_SECONDS, LOOK_SECONDS)
    wait_for(lambda: member_holds(grid, newcomer), "it holds partitions", LIMIT_SECONDS,
             LOOK_SECONDS)  # fmt: skip
    grid.wait_safe(LIMIT_SECONDS)
    ended = time.monotonic()
    planned = min(
        at
        for each in settled(grid)["history"]
        if each["kind"] == "migrations planned"
        and (at := datetime.fromisoformat(each["at"]).timestamp()) > asked
    )
    began = planned - time.time() + time.monotonic()
    return began, ended, grid.copies(newcomer.name) * keys * VALUE_BYTES / 1e6


def leave(grid: Grid, megabytes: float) -> Marks:
    """Have it leave; until it says that it has nothing more."""
    newcomer, began = grid.members[-1], time.monotonic()
    grid.members[0].post(f"/v1/members/{newcomer.name}:shutdown")
    ended = time.monotonic()
    newcomer.process.popen.wait(LIMIT_SECONDS)
    grid.remove(newcomer)
    grid.wait_safe(LIMIT_SECONDS)
    return began, ended, megabytes


def redis_cluster(keys: int) -> tuple[Change, Change]:
    """Slots move to a fourth master, and back."""
    with Stage() as stage:
        cluster = RedisCluster(stage).form(MEMBERS, 0)
        say("fills Redis Cluster")
        fill_cluster(cluster.servers[0].port, keys, VALUE_BYTES)
        newcomer = cluster.add()
        name = newcomer.ask("cluster", "myid").strip()
        with load(stage, [each.port for each in cluster.servers[:MEMBERS]], keys) as client:
            began = time.monotonic()
            time.sleep(CALM_SECONDS)
            up = rebalanced(cluster, "--cluster-use-empty-masters")
            megabytes = int(newcomer.ask("dbsize")) * VALUE_BYTES / 1e6
            check_moved(cluster, newcomer, SLOTS_MOVED)
            time.sleep(CALM_SECONDS)
            middle = time.monotonic() - CALM_SECONDS
            down = rebalanced(cluster, "--cluster-weight", f"{name}=0")
            check_moved(cluster, newcomer, 0)
            client.stop()
        say(f"moved {megabytes:.0f} MB in {up[1] - up[0]:.1f} s and {down[1] - down[0]:.1f} s")
        return change(client, began, (*up, megabytes)), change(client, middle, (*down, megabytes))


def rebalanced(cluster: RedisCluster, *options: str) -> tuple[float, float]:
    """When it began, and ended."""
    began = time.monotonic()
    cluster.rebalance(*options)
    return began, time.monotonic()


def load(stage: Stage, ports: list[int], keys: int) -> Steady:
    """The same client for both."""
    return Steady(stage, ports, keys=keys, rate=RATE, size=VALUE_BYTES, ledger=False)


def change(client: Steady, calm_from: float, marks: Marks) -> Change:
    """What was moved, and what the client saw."""
    began, ended, megabytes = marks
    calm = window(client.rows, calm_from + 1, calm_from + CALM_SECONDS)
    return Change(megabytes, ended - began, calm, window(client.rows, began, ended))


FIGURES: Iterable[Figure] = (
    Figure("rescale", "3 to 4 members and back with data, under load", measure),
)
