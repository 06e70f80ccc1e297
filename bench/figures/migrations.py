"""Near-empty migrations a second, with as many partitions as may be.

A fourth member joins three, and leaves again, with no data but a few keys: what is measured is the
control plane. The master counts its steps and the time since it made the plan (`/v1/migrations`); a
change that takes too long is cut off, and what was done by then counts.
The peer is `redis-cli --cluster rebalance` of as many keys: the slots that it moves a second.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from bench.filling import fill_cluster, slots
from bench.members import Grid, Member
from bench.outcomes import Goal, Outcome, compared, measured
from bench.peers import RedisCluster, Server
from bench.processes import Stage, wait_for
from bench.running import Figure, Plan, say

PARTITIONS: Final = (271, 2_000, 16_384)
ENTRIES: Final = 100
MEMBERS: Final = 3
LOOK_SECONDS: Final = 0.1
LIMIT_SECONDS: Final = 300.0
PATIENCE_SECONDS: Final = 30.0
SLOTS_MOVED: Final = 16_384 // 4


def measure(plan: Plan) -> Iterator[Outcome]:
    """Slots of Redis Cluster, then each number of partitions."""
    theirs = redis_rates(plan)
    peer = f"redis-cli rebalance: {statistics.median(theirs):,.0f} slots/s"
    joins: list[float] = []
    for partitions in PARTITIONS:
        up, down = cycles(plan, partitions)
        for direction, changes in (("3 to 4", up), ("4 to 3", down)):
            if changes:
                figure = f"migrations per second, {partitions:,} partitions, {direction}"
                rates = [each.rate for each in changes]
                note = "; ".join(filter(None, [changes[-1].remark, peer]))
                yield measured(figure, Goal(1_000, "/s"), rates, "/s", note)
        joins.append(statistics.median(each.rate for each in up))
    figure = f"the same with {PARTITIONS[-1]:,} partitions, 3 to 4"
    peer = f"{PARTITIONS[0]} partitions"
    yield compared(figure, Goal(0.8), peer, [joins[-1:], joins[:1]], "/s", "flat is 1")


@dataclass(frozen=True, slots=True)
class Change:
    """What the master did about one change."""

    steps: int
    """Of its plan."""
    seconds: float
    whole: bool
    """Else it was cut off: there are limits to patience."""

    @property
    def rate(self) -> float:
        """Steps a second."""
        return self.steps / self.seconds

    @property
    def remark(self) -> str:
        """For the table."""
        return "" if self.whole else f"cut off after {self.seconds:.0f} s, {self.steps:,} steps"


def cycles(plan: Plan, partitions: int) -> tuple[list[Change], list[Change]]:
    """Joins and departures; none after one that was cut off."""
    up, down = [], []
    with Stage() as stage:
        grid = Grid(stage, "near-empty", partition_count=str(partitions)).form(MEMBERS)
        fill_cluster(grid.members[0].cluster, ENTRIES, 100)
        for _ in plan.each_round(f"{partitions:,} partitions, a member joins and leaves"):
            up.append(join(grid))
            say(f"joined: {up[-1]}")
            if not up[-1].whole:
                break
            down.append(leave(grid))
            say(f"left: {down[-1]}")
    return up, down


def join(grid: Grid) -> Change:
    """One more member."""
    newcomer = grid.add()
    wait_for(
        lambda: member_holds(grid, newcomer), "the newcomer has some", LIMIT_SECONDS, LOOK_SECONDS
    )
    found = watched(grid)
    if found.whole:
        grid.wait_safe(LIMIT_SECONDS)
    return found


def leave(grid: Grid) -> Change:
    """The newest member goes."""
    newcomer = grid.members[-1]
    grid.members[0].post(f"/v1/members/{newcomer.name}:shutdown")
    newcomer.process.popen.wait(LIMIT_SECONDS)
    grid.remove(newcomer)
    found = watched(grid)
    grid.wait_safe(LIMIT_SECONDS)
    return found


def watched(grid: Grid) -> Change:
    """Until the master is idle, or patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS

    def seen() -> Change | None:
        now = grid.members[0].get("/v1/migrations")
        idle = now["activity"] == "idle" and not now["remaining"]
        if not idle and time.monotonic() < deadline:
            return None
        seconds = now["elapsed_seconds"]
        return Change(round(now["rate_per_second"] * seconds), seconds, idle)

    return wait_for(seen, "the master is idle", LIMIT_SECONDS, LOOK_SECONDS)


def member_holds(grid: Grid, member: Member) -> bool:
    """Whether it has joined and owns something by the table."""
    member.process.check_alive()
    view = grid.view()
    return any(each["name"] == member.name and each["owned_partitions"] for each in view)


def settled(grid: Grid) -> dict[str, Any]:
    """What the master did, once it does no more."""

    def done() -> dict[str, Any] | None:
        seen: dict[str, Any] = grid.members[0].get("/v1/migrations")
        return seen if seen["activity"] == "idle" and not seen["remaining"] else None

    return wait_for(done, "the master is idle", LIMIT_SECONDS, LOOK_SECONDS)


def check_moved(cluster: RedisCluster, newcomer: Server, count: int) -> None:
    """redis-cli takes it for success when it finds nothing to do."""
    found = slots(cluster.servers[0].port).count(newcomer.port)
    if found != count:
        raise RuntimeError(f"redis-cli left {found} slots at the fourth master, not {count}")


def redis_rates(plan: Plan) -> list[float]:
    """Slots that a rebalance moves a second, with as few keys."""
    rates = []
    with Stage() as stage:
        cluster = RedisCluster(stage).form(MEMBERS, 0)
        fill_cluster(cluster.servers[0].port, ENTRIES, 100)
        newcomer = cluster.add()
        name = newcomer.ask("cluster", "myid").strip()
        for _ in plan.each_round("redis-cli rebalances slots"):
            began = time.monotonic()
            cluster.rebalance("--cluster-use-empty-masters")
            rates.append(SLOTS_MOVED / (time.monotonic() - began))
            check_moved(cluster, newcomer, SLOTS_MOVED)
            cluster.rebalance("--cluster-weight", f"{name}=0")
            check_moved(cluster, newcomer, 0)
    return rates


FIGURES: Iterable[Figure] = (
    Figure("migrations", "near-empty migrations a second at 271 to 16,384 partitions", measure),
)
