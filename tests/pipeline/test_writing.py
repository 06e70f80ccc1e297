"""Batch write: real Spark, real members."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.pipeline.sessions import content, put, read, save, short, some
from tests.shell.http.clusters import Processes


def test_append_writes_over_and_overwrite_replaces(spark: SparkSession, cluster: Processes) -> None:
    put(cluster, some("write", 20) | {b"writes:1": b"other"})
    frame = spark.range(10, 500).selectExpr("string(id) as key", "repeat('v', 100) as value")
    save(frame, cluster, "write")
    found = {key: bytes(value) for key, value in content(read(spark, cluster, "write")).items()}
    new = {str(n): b"v" * 100 for n in range(10, 500)}
    assert found == short(some("write", 20)) | new
    save(frame.where("key < '2'"), cluster, "write", "overwrite")
    assert content(read(spark, cluster, "write")) == {
        key: value for key, value in new.items() if key < "2"
    }
    assert content(read(spark, cluster, "writes")) == {"1": b"other"}
