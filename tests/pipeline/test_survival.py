"""What may happen in the middle of a job: deaths, members that come, states that change, attempts
that fail or run twice, an abort. Real Spark, real members."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

from holdfast.client.http import HttpClient
from holdfast.core.states import ClusterState
from holdfast.errors import HoldfastError, ProblemReported, Unreachable
from holdfast_spark.options import Options, Use
from holdfast_spark.writing import Laid, Writer, lay_aside
from tests.pipeline.sessions import ask, content, put, read, save, short, some, where
from tests.shell.http.clusters import SECRET, Processes
from tests.shell.waiting import wait_until

HELD_SECONDS = 120.0


class Gate:
    """Holds the tasks of a job until something has happened. Files, as tasks are processes."""

    def __init__(self, place: Path) -> None:
        self.come = place / "come"
        self.go = place / "go"

    def through(self, frame: DataFrame) -> DataFrame:
        """The same rows, the first of which say that they are here, and wait."""
        come, go = self.come, self.go

        def hold(rows: Iterable[Row]) -> Iterator[Row]:
            come.touch()
            wait_until(go.exists, "the gate opens", HELD_SECONDS)
            yield from rows

        held = frame.rdd.mapPartitions(hold)
        return frame.sparkSession.createDataFrame(held, frame.schema)

    def meanwhile(self, job: Callable[[], None], happen: Callable[[], None]) -> None:
        """Run a job, and have something happen while its first tasks are held. The job runs in this
        thread: another one has no session of Spark's."""
        over = Event()
        failed: list[Exception] = []

        def watch() -> None:
            try:
                wait_until(lambda: self.come.exists() or over.is_set(), "a task", HELD_SECONDS)
                happen()
            except (AssertionError, HoldfastError) as error:
                failed.append(error)
            finally:
                self.go.touch()

        thread = Thread(target=watch)
        thread.start()
        try:
            job()
        finally:
            over.set()
            thread.join(HELD_SECONDS)
        assert self.come.exists(), "no task was held"
        assert not failed, failed


def owned(cluster: Processes, name: str) -> int:
    """Entries of a name at the owners of its partitions."""
    names = cluster.living()[0].get("/v1/namespaces").json()["names"]
    return sum(each["owned_entries"] for each in names if each["name"] == name)


def set_state(cluster: Processes, state: ClusterState) -> None:
    """As soon as the members let it: while some come or go, they say that it can't be."""

    async def ask() -> bool:
        async with HttpClient(cluster.living()[0].url, secret=SECRET.encode()) as client:
            try:
                await client.set_state(state, wait_seconds=30)
            except (ProblemReported, Unreachable):
                return False
        return True

    wait_until(lambda: asyncio.run(ask()), f"the state is {state}", HELD_SECONDS)


def trouble(cluster: Processes) -> None:
    """One more member, another state, and a death."""
    cluster.start("four")
    wait_until(lambda: cluster.named("four").is_ready(), "the newcomer is ready", 60)
    set_state(cluster, ClusterState.NO_MIGRATION)
    victim = next(each for each in cluster.others() if each.name in ("one", "two", "three"))
    victim.kill()
    set_state(cluster, ClusterState.ACTIVE)


def test_a_read_and_a_write_survive_trouble(
    spark: SparkSession, own: Processes, tmp_path: Path
) -> None:
    """A map is read, and written elsewhere, while members come and go. Each row is there once."""
    expected = some("from", 3_000, 20)
    put(own, expected)
    gate = Gate(tmp_path)
    frame = gate.through(read(spark, own, "from", tasks="6", batch_bytes="65536"))
    gate.meanwhile(lambda: save(frame, own, "to", "overwrite"), lambda: trouble(own))
    found = {key: bytes(value) for key, value in content(read(spark, own, "to")).items()}
    assert found == short(expected)


def test_an_attempt_that_fails_does_not_count(spark: SparkSession, cluster: Processes) -> None:
    """The first attempt of each task writes rows, and other ones besides, and dies."""

    def fail_once(rows: Iterable[Row]) -> Iterator[Row]:
        context = TaskContext.get()
        assert context is not None
        yield from rows
        if context.attemptNumber() == 0:
            for stray in range(50_000):
                yield Row(f"stray{context.partitionId()}-{stray}", "x" * 500)
            raise RuntimeError("as it is meant")

    frame = spark.range(0, 2_000, 1, 2).selectExpr("string(id) as key", "repeat('v', 50) as value")
    failing = spark.createDataFrame(frame.rdd.mapPartitions(fail_once), frame.schema)
    save(failing, cluster, "tries")
    found = content(read(spark, cluster, "tries"))
    assert found.keys() == {str(n) for n in range(2_000)}


def test_an_abort_leaves_nothing(spark: SparkSession, cluster: Processes) -> None:
    """Every attempt of one task fails after the others are done."""
    put(cluster, some("kept", 10))
    before = owned(cluster, ":staging")
    partitions = len(cluster.living()[0].get("/v1/partitions?health=false").json()["partitions"])
    frame = spark.range(0, 1_000, 1, 2).selectExpr(
        "if(id = 999, raise_error('as it is meant'), string(id)) as key", "'v' as value"
    )
    with pytest.raises(Exception, match="as it is meant"):
        save(frame, cluster, "kept", "overwrite")
    assert content(read(spark, cluster, "kept")).keys() == short(some("kept", 10)).keys()
    left = owned(cluster, ":staging") - before
    assert left == partitions, "a mark in each that refuses what comes late, and no block"


def test_two_attempts_at_a_time_count_once(spark: SparkSession, cluster: Processes) -> None:
    """As Spark does with a slow task: both attempts end, and the driver is told of one."""
    frame = spark.createDataFrame([("1", "a")], "key string, value string")
    options = Options.of(where(cluster, "twice"), Use.WRITE)
    writer = Writer(frame.schema, options, replaces=False)
    laid = []
    for attempt in ("0", "1"):
        rows = pa.table({"key": [f"{n}" for n in range(100)], "value": [attempt] * 100})
        names = (writer.job, "0", attempt)
        laid.append(
            lay_aside(iter(rows.to_batches()), options, writer.layout, writer.owners, names)
        )
    writer.commit([laid[1]])
    assert set(map(bytes, content(read(spark, cluster, "twice")).values())) == {b"1"}
    writer.commit([laid[1]])


def test_a_killed_driver_leaves_nothing(cluster: Processes, tmp_path: Path) -> None:
    """All of it: its JVM and its tasks, in the middle of an overwrite."""
    put(cluster, some("whole", 10))
    before = owned(cluster, ":staging")
    options = where(cluster, "whole", life_seconds="3")
    command = [sys.executable, "-m", "tests.pipeline.driver", str(tmp_path), json.dumps(options)]
    log = (tmp_path / "log").open("wb")
    driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(
            lambda: owned(cluster, ":staging") > before or driver.poll() is not None, "", 120
        )
        assert driver.poll() is None, (tmp_path / "log").read_text()
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        log.close()
    wait_until(lambda: owned(cluster, ":staging") <= before, "it is forgotten", 60)
    assert ask(cluster, "GET", "whole:7") == some("whole", 10)[b"whole:7"]


def test_a_driver_that_dies_is_forgotten(spark: SparkSession, cluster: Processes) -> None:
    """Its tasks have laid everything aside, and nobody commits."""
    frame = spark.createDataFrame([("1", "a")], "key string, value string")
    options = Options.of(where(cluster, "orphan", life_seconds="0.5"), Use.WRITE)
    writer = Writer(frame.schema, options, replaces=False)
    before = owned(cluster, ":staging")
    rows = pa.table({"key": [f"{n}" for n in range(100)], "value": ["x"] * 100})
    names = (writer.job, "0", "0")
    laid = lay_aside(iter(rows.to_batches()), options, writer.layout, writer.owners, names)
    assert isinstance(laid, Laid)
    wait_until(lambda: owned(cluster, ":staging") <= before, "it is forgotten", 30)
    assert content(read(spark, cluster, "orphan")) == {}
