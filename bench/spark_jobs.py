"""Spark as the bench uses it: two threads in a JVM of this process; the same work for each peer.

What runs in tasks imports what it needs itself: tasks are processes of Spark's.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from bench.members import Grid
from bench.processes import HOST, ROOT, program

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "users"
BATCH: Final = 500
TASKS: Final = 8
SOURCES: Final = ("node/src", "pipeline/src", "")


@contextmanager
def session() -> Iterator[SparkSession]:
    """One that knows the format."""
    program("java")
    paths = [str(ROOT / each) for each in SOURCES]
    sys.path[:0] = [each for each in paths if each not in sys.path]
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = HOST
    from pyspark.sql import SparkSession as Sessions

    import holdfast_spark

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = Sessions.Builder().master("local[2]").appName("bench")
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    try:
        holdfast_spark.register(found)
        yield found
    finally:
        found.stop()


def where(grid: Grid, name: str = NAME) -> dict[str, str]:
    """The options that find a map."""
    return {"endpoints": ",".join(each.url for each in grid.members), "map": name}


def scan(spark: SparkSession, grid: Grid) -> float:
    """Read every value, and let Spark look at each; the seconds that it took."""
    began = time.monotonic()
    frame = spark.read.format("holdfast").options(**where(grid), columns="key,value").load()
    frame.selectExpr("sum(length(key)) + sum(length(value))").collect()
    return time.monotonic() - began


def scan_redis(spark: SparkSession, port: int, keys: int) -> float:
    """The same with a client of Redis in `mapPartitions`: every task knows its keys."""

    def read(numbers: Iterable[Any]) -> Iterator[int]:
        import redis

        from bench.filling import key_of

        client = redis.Redis(port=port, protocol=2)
        names = [key_of(row.id) for row in numbers]
        for start in range(0, len(names), BATCH):
            with client.pipeline(transaction=False) as pipeline:
                for name in names[start : start + BATCH]:
                    pipeline.get(name)
                values = pipeline.execute()
            for name, value in zip(names[start : start + BATCH], values, strict=True):
                yield len(name) + len(value)

    began = time.monotonic()
    total = spark.range(0, keys, 1, TASKS).rdd.mapPartitions(read).sum()
    assert total >= keys, "each key has a value"
    return time.monotonic() - began


def rows(spark: SparkSession, keys: int, size: int) -> DataFrame:
    """Keys and values of their own, made by Spark."""
    value = f"lpad(string(id), {size}, '0')"
    return spark.range(0, keys, 1, TASKS).selectExpr(
        "lpad(string(id), 8, '0') as key", f"{value} as value"
    )


def save(spark: SparkSession, grid: Grid, keys: int, size: int) -> float:
    """Write a map as one job; the seconds that it took."""
    began = time.monotonic()
    writer = rows(spark, keys, size).write.format("holdfast").options(**where(grid))
    writer.mode("append").save()
    return time.monotonic() - began


def save_redis(spark: SparkSession, port: int, keys: int, size: int) -> float:
    """The same with a client of Redis in `foreachPartition`."""

    def write(some: Iterable[Any]) -> None:
        from itertools import islice

        import redis

        client, left = redis.Redis(port=port, protocol=2), iter(some)
        while batch := list(islice(left, BATCH)):
            with client.pipeline(transaction=False) as pipeline:
                for row in batch:
                    pipeline.set("users:" + row.key, row.value)
                pipeline.execute()

    began = time.monotonic()
    rows(spark, keys, size).foreachPartition(write)
    return time.monotonic() - began
