"""The same work for Holdfast and for Hazelcast: three members, one synchronous backup.

SET and GET of 100 bytes with 50 connections, each system by its own client (`redis-benchmark
--cluster`, Hazelcast's client with 50 threads), and a fourth member that joins and leaves while it
holds data and is under a load of 2,000 operations a second. Hazelcast is warm when it is measured:
a first run of each load is thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

from bench import load_tool
from bench.figures.rescale import Change, holdfast
from bench.hazelcast_peer import Hazelcast, Talker, build
from bench.members import Grid
from bench.outcomes import Goal, Outcome, amount, compared
from bench.processes import Stage
from bench.running import Figure, Plan, say
from bench.steady import Seen

MEMBERS: Final = 3
KEYS: Final = 100_000
VALUE_BYTES: Final = 100
DATA_BYTES: Final = 1_000
RATE: Final = 2_000
SECONDS: Final = 5.0
WARM_SECONDS: Final = 15.0
COMMANDS: Final = 60_000 * load_tool.CLUSTER_TIMES
CALM_SECONDS: Final = 3.0
PEER: Final = "Hazelcast 5.7"


def throughput(plan: Plan) -> Iterator[Outcome]:
    """SET and GET in turns."""
    with Stage() as stage:
        peer = Hazelcast(stage, MEMBERS)
        grid = Grid(stage, "beside", backup_count="1").form(MEMBERS)
        port = grid.members[0].cluster
        say("warms up both")
        peer.fill(KEYS, VALUE_BYTES)
        load_tool.run(port, KEYS, tests=["set"], cluster=True)
        for verb, goal in (("SET", Goal(2.0)), ("GET", None)):
            peer_load(peer, verb, WARM_SECONDS / (5 if plan.quick else 1))
            rates: list[list[float]] = [[], []]
            tails: list[list[float]] = [[], []]
            for _ in plan.each_round(f"{verb} beside Hazelcast"):
                count = plan.count(COMMANDS)
                ours = load_tool.run(port, count, tests=[verb.lower()], cluster=True)[verb]
                rate, p99 = peer_load(peer, verb, SECONDS)
                for found, (mine, other) in (
                    (rates, (ours.rate, rate)),
                    (tails, (ours.p99_ms, p99)),
                ):
                    found[0].append(mine)
                    found[1].append(other)
            what = f"{verb} 100 B, 3 members, 1 backup"
            yield compared(what, goal, PEER, rates, "/s", "each with its own client")
            yield compared(f"{what}: p99", Goal(0.5, at_most=True), PEER, tails, "ms")


def peer_load(peer: Hazelcast, verb: str, seconds: float) -> tuple[float, float]:
    """One run."""
    return peer.load(verb.lower(), keys=KEYS, size=VALUE_BYTES, threads=50, seconds=seconds)


def rescaling(plan: Plan) -> Iterator[Outcome]:
    """A fourth member, both ways."""
    build()
    keys = plan.megabytes * 1_000_000 // DATA_BYTES // (5 if plan.quick else 1)
    ours, theirs = [], []
    for _ in plan.each_round(f"{keys // 1_000:,} MB, 3 members to 4 and back, beside Hazelcast"):
        ours.append(holdfast(keys))
        theirs.append(hazelcast(keys))
    for number, direction in enumerate(("3 to 4", "4 to 3")):
        mine, other = ([each[number] for each in found] for found in (ours, theirs))
        speeds = [[each.speed for each in found] for found in (mine, other)]
        note = "p99 " + " : ".join(
            amount(max(e.seen.p99_ms for e in f), "ms") for f in (mine, other)
        )
        note += ", errors " + " : ".join(str(sum(e.seen.errors for e in f)) for f in (mine, other))
        what = f"{keys // 1_000:,} MB, {direction}, beside Hazelcast: net MB/s"
        yield compared(what, Goal(2.0), PEER, speeds, "MB/s", note)


def hazelcast(keys: int) -> tuple[Change, Change]:
    """A member joins, and leaves."""
    with Stage() as stage:
        peer = Hazelcast(stage, MEMBERS)
        say("fills Hazelcast")
        peer.fill(keys, DATA_BYTES)
        peer.wait_safe()
        load = peer.steady(keys=keys, size=DATA_BYTES, rate=RATE)
        calm = calm_of(load)
        newcomer = peer.add()
        began = peer.members[0].wait("moving").at
        peer.wait_safe()
        ended = peer.members[0].wait("moved").at
        megabytes = int(newcomer.ask("held")[0]) * DATA_BYTES / 1e6
        up = Change(megabytes, ended - began, calm, seen_of(load))
        calm, began = calm_of(load), time.monotonic()
        newcomer.tell("leave")
        ended = newcomer.wait("left").at
        down = Change(megabytes, ended - began, calm, seen_of(load))
        say(f"moved {megabytes:.0f} MB in {up.seconds:.1f} s and {down.seconds:.1f} s")
        return up, down


def calm_of(load: Talker) -> Seen:
    """What the client meets while nothing moves."""
    load.ask("mark", "seen")
    time.sleep(CALM_SECONDS)
    return seen_of(load)


def seen_of(load: Talker) -> Seen:
    """What it has met since it was last asked; it does not count its silences."""
    count, errors, p99, longest = load.ask("mark", "seen")
    return Seen(int(count), int(errors), 0.0, float(p99), float(longest), 0.0)


FIGURES: Iterable[Figure] = (
    Figure("hazelcast", "SET and GET with a backup, beside Hazelcast", throughput),
    Figure("hazelcast-rescale", "3 to 4 members and back under load, beside Hazelcast", rescaling),
)
