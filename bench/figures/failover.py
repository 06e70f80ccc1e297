"""kill -9 of an owner under load: how long its keys can't be written, and what was lost.

A client writes numbers at a steady rate and remembers what was acknowledged. A member is killed; of
each key that it owned, the first write that was begun after the kill and acknowledged counts, and
the slowest key is the figure. A key's turn comes every tenth of a second, so that the figure is by
so much too long at most. With an arbiter, the bench says that the process is gone as the
supervisor does: over HTTP, when the kernel has told it. Redis Cluster, one replica each, gets the
same client and the same kill.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.filling import key_of, slots
from bench.members import Grid, Member
from bench.outcomes import Goal, Outcome, amount, measured, worst
from bench.peers import RedisCluster, Server
from bench.processes import Process, Stage, wait_for
from bench.running import Figure, Plan, say
from bench.steady import Row, Steady
from holdfast.core.data.plane import slot_of

RATE: Final = 1_000
KEYS: Final = 100
VALUE_BYTES: Final = 100
MEMBERS: Final = 4
LIMIT_SECONDS: Final = 60.0
BEFORE_SECONDS: Final = 1.0
AFTER_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Death:
    """One kill."""

    seconds: float
    """Until every key of the dead one was written again."""
    first_seconds: float
    lost: int
    errors: int


def until_written(rows: Sequence[Row], keys: Sequence[int], killed_at: float) -> list[float]:
    """Seconds from the kill to the first acknowledged write of each key that was sent after it, or
    was under way then; raises if a key was never written."""
    first: dict[int, float] = {}
    for row in rows:
        if row.write and row.done and row.ended > killed_at:
            first[row.key] = min(row.ended, first.get(row.key, row.ended))
    missing = [key for key in keys if key not in first]
    if missing:
        raise LookupError(f"{len(missing)} of {len(keys)} keys were not written again")
    return [first[key] - killed_at for key in keys]


def measure(plan: Plan) -> Iterator[Outcome]:
    """Kills with an arbiter, and without, and of a master of Redis Cluster."""
    theirs = [redis_death(number) for number in range(1, min(plan.rounds, plan.repeats) + 1)]
    waits = sorted(death.seconds for death in theirs)
    peer = f"Redis Cluster, default timeout: {amount(waits[len(waits) // 2], 's')}"
    peer += f", lost {sum(death.lost for death in theirs)}"
    for arbiter, bound in ((True, 1.0), (False, 4.5)):
        deaths = holdfast_deaths(plan, arbiter=arbiter)
        how = "with" if arbiter else "without"
        seconds = [death.seconds for death in deaths]
        goal = Goal(bound, "s", at_most=True)
        note = f"slowest of {len(deaths)}; {peer}"
        yield worst(f"kill -9 to every key written, {how} arbiter", goal, seconds, "s", note)
        for name, total, bounded in (
            ("lost acknowledged writes", sum(death.lost for death in deaths), True),
            ("errors", sum(death.errors for death in deaths), False),
        ):
            goal_here = Goal(0, "", at_most=True) if bounded else None
            yield measured(f"{name}, {how} arbiter", goal_here, [float(total)], "",
                           f"over {len(deaths)} kills")  # fmt: skip


def holdfast_deaths(plan: Plan, *, arbiter: bool) -> list[Death]:
    """One cluster, each of whose members is killed in its turn; another takes its place."""
    deaths = []
    with Stage() as stage:
        grid = Grid(stage, "failover", backup_count="1").form(MEMBERS)
        for number in range(1, plan.repeats + 1):
            victim = grid.members[number % MEMBERS]
            deaths.append(holdfast_death(stage, grid, victim, arbiter=arbiter))
            how = "with" if arbiter else "without"
            say(f"kill {number} of {plan.repeats} {how} an arbiter: {deaths[-1]}")
            grid.remove(victim)
            newcomer = grid.add()
            wait_for(newcomer.ready, "the newcomer serves", LIMIT_SECONDS, LOOK_SECONDS)
            wait_for(lambda: len(grid.view()) == MEMBERS, "four members", LIMIT_SECONDS,
                     LOOK_SECONDS)  # fmt: skip
            grid.wait_safe()
    return deaths


def holdfast_death(stage: Stage, grid: Grid, victim: Member, *, arbiter: bool) -> Death:
    """Under load."""
    survivors = [each for each in grid.members if each is not victim]
    known = next(each for each in survivors[0].get("/v1/members")["members"]
                 if each["name"] == victim.name)  # fmt: skip
    keys = keys_of(victim.cluster, survivors[0].cluster)
    with load(stage, [each.cluster for each in survivors]) as client:
        time.sleep(BEFORE_SECONDS)
        killed_at = kill(victim.process)
        if arbiter:
            ago = time.monotonic() - killed_at
            survivors[0].post(
                f"/v1/members/{known['id']}:confirm-dead",
                {"incarnation": known["incarnation"], "ago": ago},
            )
        wait_for(lambda: not owns(survivors[0].cluster, victim.cluster), "its slots are others'",
                 LIMIT_SECONDS, LOOK_SECONDS)  # fmt: skip
        time.sleep(AFTER_SECONDS)
        return death(client, keys, killed_at)


def redis_death(number: int) -> Death:
    """A master of a new Redis Cluster."""
    with Stage() as stage:
        cluster = RedisCluster(stage).form(3, 1)
        owners = set(slots(cluster.servers[0].port))
        victim = next(each for each in cluster.servers if each.port in owners)
        survivors = [each for each in cluster.servers if each is not victim]
        wait_for(lambda: all(_in_step(each) for each in survivors), "replicas are in step",
                 LIMIT_SECONDS, LOOK_SECONDS)  # fmt: skip
        keys = keys_of(victim.port, survivors[0].port)
        with load(stage, [each.port for each in survivors]) as client:
            time.sleep(BEFORE_SECONDS)
            killed_at = kill(victim.process)
            wait_for(lambda: not owns(survivors[0].port, victim.port), "its slots are others'",
                     LIMIT_SECONDS, LOOK_SECONDS)  # fmt: skip
            time.sleep(AFTER_SECONDS)
            found = death(client, keys, killed_at)
    say(f"kill {number} of a master of Redis Cluster: {found}")
    return found


def _in_step(server: Server) -> bool:
    told = server.ask("info", "replication")
    return "role:master" in told or "master_link_status:up" in told


def kill(process: Process) -> float:
    """At once, and reaped; when it was."""
    at = time.monotonic()
    process.kill()
    return at


def keys_of(port: int, asked: int) -> list[int]:
    """Numbers of the keys that a member owns, as another one says."""
    owners = slots(asked)
    return [number for number in range(KEYS) if owners[slot_of(key_of(number))] == port]


def owns(asked: int, port: int) -> bool:
    """Whether a member owns any slot, or a slot has nobody, as another one says."""
    try:
        return port in slots(asked)
    except LookupError:
        return True


def load(stage: Stage, ports: Sequence[int]) -> Steady:
    """The same client for all."""
    return Steady(stage, ports, keys=KEYS, rate=RATE, size=VALUE_BYTES, ledger=True)


def death(client: Steady, keys: Sequence[int], killed_at: float) -> Death:
    """What the client saw."""
    client.stop()
    waits = until_written(client.rows, keys, killed_at)
    return Death(max(waits), min(waits), client.told["lost"], client.told["error_count"])


FIGURES: Iterable[Figure] = (
    Figure("failover", "kill -9 of an owner under load, with and without an arbiter", measure),
)
