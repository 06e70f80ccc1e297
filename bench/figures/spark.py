"""Spark's batch read and write against a client of Redis in the same jobs, what clients feel of a
scan, and a stream.

The peer is redis-server with redis-py and hiredis, pipelines of 500, in `mapPartitions` and
`foreachPartition` of the same session.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import load_tool, peers
from bench.filling import Pipe, fill_cluster, fill_one, slots
from bench.members import Grid
from bench.outcomes import Goal, Outcome, compared, measured, percentile, worst
from bench.processes import Stage, wait_for
from bench.running import Figure, Plan, say
from bench.spark_jobs import save, save_redis, scan, scan_redis, session, where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUE_BYTES: Final = 1_000
MEMBERS: Final = 3
PEER: Final = "redis-py in Spark"
LOAD: Final = 60_000
STREAM_SECONDS: Final = 30.0
WARM_SECONDS: Final = 8.0
STREAM_RATE: Final = 55_000
STREAM_BYTES: Final = 20
STREAM_KEYS: Final = 20_000
PACE_SECONDS: Final = 0.02
JOURNALS: Final = "[unnamed]\njournal_entries = 100000\njournal_bytes = 16777216\n"
"""A partition keeps the changes of a minute: Spark's first batch alone takes some seconds."""


def keys_of(plan: Plan) -> int:
    """How many rows."""
    return plan.megabytes * 1_000_000 // VALUE_BYTES // (5 if plan.quick else 1)


def read(plan: Plan) -> Iterator[Outcome]:
    """Both in each round, each alone."""
    keys = keys_of(plan)
    megabytes = keys * VALUE_BYTES / 1e6
    with session() as spark, Stage() as stage:
        grid, server = Grid(stage, "spark", backup_count="1").form(MEMBERS), peers.single(stage)
        say("fills both")
        fill_cluster(grid.members[0].cluster, keys, VALUE_BYTES)
        fill_one(server.port, keys, VALUE_BYTES)
        scan(spark, grid)
        scan_redis(spark, server.port, keys)
        runs: list[list[float]] = [[], []]
        for _ in plan.each_round(f"{megabytes:.0f} MB read"):
            runs[0].append(megabytes / scan(spark, grid))
            runs[1].append(megabytes / scan_redis(spark, server.port, keys))
        what = f"Spark reads {megabytes:.0f} MB"
        yield measured(f"{what}: MB/s", Goal(150, "MB/s"), runs[0], "MB/s")
        yield compared(f"{what}: to the peer", Goal(5.0), PEER, runs, "MB/s")
        yield from felt(plan, spark, grid)


def write(plan: Plan) -> Iterator[Outcome]:
    """Both in each round, each alone."""
    keys = keys_of(plan)
    megabytes = keys * VALUE_BYTES / 1e6
    with session() as spark, Stage() as stage:
        grid, server = Grid(stage, "spark", backup_count="1").form(MEMBERS), peers.single(stage)
        runs: list[list[float]] = [[], []]
        for _ in plan.each_round(f"{megabytes:.0f} MB written"):
            runs[0].append(megabytes / save(spark, grid, keys, VALUE_BYTES))
            runs[1].append(megabytes / save_redis(spark, server.port, keys, VALUE_BYTES))
        what = f"Spark writes {megabytes:.0f} MB"
        note = "one backup; Redis has none"
        yield measured(f"{what}: MB/s", Goal(100, "MB/s"), runs[0], "MB/s", note)
        yield compared(f"{what}: to the peer", Goal(3.0), PEER, runs, "MB/s", note)


def felt(plan: Plan, spark: SparkSession, grid: Grid) -> Iterator[Outcome]:
    """What clients of the grid have left while one scan follows the other."""
    calm: list[load_tool.Speed] = []
    busy: list[load_tool.Speed] = []
    for _ in plan.each_round("clients, alone and during scans"):
        calm.append(clients(plan, grid))
        over = threading.Event()

        def scans(over: threading.Event = over) -> None:
            while not over.is_set():
                scan(spark, grid)

        thread = threading.Thread(target=scans)
        thread.start()
        try:
            time.sleep(1)  # the first tasks are under way
            busy.append(clients(plan, grid))
        finally:
            over.set()
            thread.join()
    rates = [[each.rate for each in found] for found in (busy, calm)]
    yield compared("clients during a scan: rate", Goal(0.5), "alone", rates, "/s")
    p99s = [[each.p99_ms for each in found] for found in (busy, calm)]
    yield compared("clients during a scan: p99", Goal(5.0, at_most=True), "alone", p99s, "ms")


def clients(plan: Plan, grid: Grid) -> load_tool.Speed:
    """Fifty, which read."""
    port, count = grid.members[0].cluster, plan.count(LOAD)
    return load_tool.run(port, count, pipeline=1, tests=["get"], cluster=True)["GET"]


# Streams ------------------------------------------------------------------------------------------


def stream(plan: Plan) -> Iterator[Outcome]:
    """A process changes keys at a steady rate; each value says when. Spark follows and counts."""
    seconds = STREAM_SECONDS / (2 if plan.quick else 1)
    with session() as spark, Stage() as stage, tempfile.TemporaryDirectory() as place:
        config = Path(stage.folder) / "journals.toml"
        config.write_text(JOURNALS)
        settings = {"config": str(config), "backup_count": "1", "partition_count": "32"}
        grid = Grid(stage, "spark", **settings).form(MEMBERS)
        fork = multiprocessing.get_context("spawn")
        over = fork.Event()
        writer = fork.Process(target=change, args=(grid.members[0].cluster, over))
        seen: list[tuple[float, int, float]] = []

        def take(frame: DataFrame, _: int) -> None:
            row: Any = frame.selectExpr(
                "count(*) as count", "min(double(string(value))) as oldest"
            ).collect()[0]
            if row["count"]:
                seen.append((time.time(), row["count"], time.time() - row["oldest"]))

        changes = spark.readStream.format("holdfast").options(**where(grid), start="newest").load()
        query = changes.writeStream.option("checkpointLocation", place).foreachBatch(take).start()
        writer.start()
        try:
            wait_for(lambda: seen, "the first changes are there")
            time.sleep(WARM_SECONDS)
            begin = time.time()
            time.sleep(seconds)
        finally:
            over.set()
            writer.join()
            query.stop()
        found = [each for each in seen if begin < each[0] <= begin + seconds]
        count = sum(each[1] for each in found)
        yield measured("stream: changes/s", Goal(50_000, "/s"), [count / seconds], "/s")
        lags = [each[2] for each in found]
        note = f"p50 {percentile(lags, 0.5):.1f} s; of the oldest change of a batch"
        yield worst("stream: longest lag", Goal(2, "s", at_most=True), [max(lags)], "s", note)


def change(port: int, over: Event) -> None:
    """SET keys at a steady rate, with the time as their value."""
    from bench.filling import key_of
    from holdfast.core.data.plane import slot_of

    owners = slots(port)
    pipes = {owner: Pipe(owner) for owner in sorted(set(owners))}
    keys = [key_of(number) for number in range(STREAM_KEYS)]
    by_owner = {owner: [key for key in keys if owners[slot_of(key)] == owner] for owner in pipes}
    began, sent = time.time(), 0
    while not over.is_set():
        due = int((time.time() - began) * STREAM_RATE) - sent
        now = b"%0*.3f" % (STREAM_BYTES, time.time())
        for owner, pipe in pipes.items():
            mine = by_owner[owner]
            share = due * len(mine) // len(keys)
            start = sent % max(1, len(mine))
            pipe.send((b"SET", key, now) for key in (mine + mine)[start : start + share])
            sent += share
        time.sleep(PACE_SECONDS)


FIGURES: Iterable[Figure] = (
    Figure("spark-read", "Spark's batch read against redis-py, and what clients feel of it", read),
    Figure("spark-write", "Spark's batch write against redis-py", write),
    Figure("spark-stream", "a stream at a steady rate of changes", stream),
)
