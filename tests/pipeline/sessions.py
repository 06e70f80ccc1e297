"""What the tests of the connector say to Spark and to the cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import DataFrame, SparkSession

import holdfast_spark
from tests.shell.http.clusters import SECRET, Processes

PATIENCE = "40"


def begin(place: Path) -> SparkSession:
    """Spark in this process's JVM: two threads, three tries of a task, loopback alone."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={place} -XX:+UseSerialGC",
        "spark.local.dir": str(place),
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.sql.ansi.enabled": "true",
    }
    builder = SparkSession.Builder().master("local[2,3]").appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    holdfast_spark.register(session)
    return session


def where(cluster: Processes, name: str, **options: str) -> dict[str, str]:
    """The options that find a map of a cluster."""
    endpoints = ",".join(member.url for member in cluster.living())
    found = {"endpoints": endpoints, "map": name, "secret": SECRET, "patience_seconds": PATIENCE}
    return found | options


def read(
    spark: SparkSession, cluster: Processes, name: str, schema: str = "", **options: str
) -> DataFrame:
    """A batch read."""
    reader = spark.read.format("holdfast").options(**where(cluster, name, **options))
    return (reader.schema(schema) if schema else reader).load()


def save(
    frame: DataFrame, cluster: Processes, name: str, mode: str = "append", **options: str
) -> None:
    """A batch write."""
    frame.write.format("holdfast").options(**where(cluster, name, **options)).mode(mode).save()


def put(
    cluster: Processes, content: Mapping[bytes, bytes], *commands: tuple[bytes | str, ...]
) -> None:
    """By Redis' protocol, and any commands besides."""
    member = cluster.living()[0]
    client = redis.Redis(port=member.port("plain"), protocol=2, socket_timeout=20)
    with client.pipeline(transaction=False) as pipeline:
        for key, value in content.items():
            pipeline.set(key, value)
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        pipeline.execute()
    client.close()


def ask(cluster: Processes, *command: bytes | str) -> Any:
    """One command by Redis' protocol."""
    member = cluster.living()[0]
    client = redis.Redis(port=member.port("plain"), protocol=2, socket_timeout=20)
    try:
        return client.execute_command(*command)  # type: ignore[no-untyped-call]
    finally:
        client.close()


def some(name: str, count: int, size: int = 10) -> dict[bytes, bytes]:
    """Keys of a map, with values that tell them apart."""
    return {b"%b:%d" % (name.encode(), n): (b"%d " % n) * size for n in range(count)}


def content(frame: DataFrame) -> dict[str, Any]:
    """Keys and values of a frame; no key twice."""
    rows = frame.select("key", "value").collect()
    found = {row.key: row.value for row in rows}
    assert len(found) == len(rows)
    return found


def short(content_: Mapping[bytes, bytes]) -> dict[str, bytes]:
    """As a read shows it by default."""
    return {key.decode().partition(":")[2]: value for key, value in content_.items()}
