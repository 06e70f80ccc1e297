"""Batch read: real Spark, real members."""

from __future__ import annotations

import json
import time

import msgspec
from pyspark.sql import SparkSession

from tests.pipeline.sessions import content, put, read, short, some
from tests.shell.http.clusters import Processes

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def test_a_map_is_read_as_it_is(spark: SparkSession, cluster: Processes) -> None:
    expected = some("plain", 500)
    put(cluster, expected, ("SET", "plain:ends", "x", "PX", "600000"), ("SET", "other:1", "x"))
    found = read(spark, cluster, "plain")
    assert found.dtypes == [
        ("key", "string"),
        ("value", "binary"),
        ("version", "binary"),
        ("expires_at", "timestamp"),
    ]
    rows = {row.key: row for row in found.collect()}
    assert {key: bytes(row.value) for key, row in rows.items()} == short(expected) | {"ends": b"x"}
    assert {len(row.version) for row in rows.values()} == {10}
    ends = rows.pop("ends").expires_at.timestamp()
    assert 0 < ends - time.time() < 601
    assert {row.expires_at for row in rows.values()} == {None}
    full = read(spark, cluster, "plain", keys="full", columns="key")
    assert full.columns == ["key"]
    assert {row.key.encode() for row in full.collect()} == {*expected, b"plain:ends"}
    assert read(spark, cluster, "nothing").count() == 0


def test_values_become_columns(spark: SparkSession, cluster: Processes) -> None:
    people = {str(n): {"name": f"n{n}", "age": n, "tags": ["a", str(n)], "x": 1} for n in range(50)}
    schema = "key string, name string, age int, tags array<string>, gone double"
    for format_, encode in (("json", msgspec.json.encode), ("msgpack", msgspec.msgpack.encode)):
        put(cluster, {f"{format_}:{key}".encode(): encode(each) for key, each in people.items()})
        found = read(spark, cluster, format_, schema, format=format_)
        assert {
            row.key: {"name": row.name, "age": row.age, "tags": row.tags, "x": 1}
            for row in found.where("gone is null").collect()
        } == people
        texts = read(spark, cluster, format_, format=format_)
        assert {key: json.loads(text) for key, text in content(texts).items()} == people
        whole = read(
            spark,
            cluster,
            format_,
            "value struct<name: string, more: struct<y: int>>, key string",
            format=format_,
        )
        assert whole.where("value.name = 'n7'").select("key").collect() == [("7",)]
