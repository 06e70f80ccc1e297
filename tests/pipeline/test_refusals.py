"""What can't work is said before anything runs, with the option, the map and the endpoint."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.sessions import put, read, save, some
from tests.shell.http.clusters import Processes

NOBODY = "http://127.0.0.1:1"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.mark.parametrize(
    ("schema", "more", "complaint"),
    [
        ("", {"endpoints": NOBODY}, "option 'endpoints': map 'users' at http://127.0.0.1:1"),
        ("", {"secret": "wrong"}, "option 'secret': map 'users' at http://127"),
        ("", {"secret": ""}, "option 'secret': map 'users' at http://127"),
        ("", {"mapp": "x"}, "option 'mapp' is unknown; did you mean 'map'?"),
        ("key int", {}, "map 'users': column 'key' can be string or binary, not integer"),
        ("key string, age int", {}, "map 'users': column 'age': values are raw bytes"),
        ("key string, _change string", {}, "column '_change' is for streams"),
    ],
)
def test_reads_that_cannot_work(
    spark: SparkSession, cluster: Processes, schema: str, more: dict[str, str], complaint: str
) -> None:
    with pytest.raises(Exception, match=complaint.replace("?", "[?]")):
        read(spark, cluster, "users", schema, **more).collect()


@pytest.mark.parametrize(
    ("row", "more", "complaint"),
    [
        ("1L as key, 'a' as value", {}, "column 'key' can be string or binary, not long"),
        ("'1' as key, 'a' as value", {"secret": "wrong"}, "option 'secret': map 'users' at http"),
        ("'1' as key, 'a' as value", {"endpoints": NOBODY}, "option 'endpoints': map 'users'"),
        ("'1' as key, 'a' as value", {"ttl_column": "t"}, "option 'ttl_column': map 'users'"),
        ("cast(null as string) as key, 'a' as value", {}, "map 'users': a row has no key"),
        ("'1' as key, cast(null as string) as value", {}, "key b'users:1' has no value"),
        ("'1' as key, 'a' as value", {"keys": "full"}, "b'1' is no key of it; option 'keys'"),
        ("'1' as key, '{' as value", {"format": "json"}, "key '1': the value is no JSON"),
    ],
)
def test_writes_that_cannot_work(
    spark: SparkSession, cluster: Processes, row: str, more: dict[str, str], complaint: str
) -> None:
    frame = spark.sql(f"select {row}")
    with pytest.raises(Exception, match=complaint):
        save(frame, cluster, "users", **more)


def test_values_that_cannot_be_decoded(spark: SparkSession, cluster: Processes) -> None:
    good = {f"odd:{n}".encode(): msgspec.json.encode({"age": n}) for n in range(20)}
    bad = {b"odd:text": b"\xff", b"odd:word": b'{"age": "old"}'}
    put(cluster, good | bad, ("HSET", "odd:hash", "f", "v"))
    schema = "key string, age int, _undecodable string"
    with pytest.raises(Exception, match=r"map 'odd': key b'odd:.*option 'undecodable' says"):
        read(spark, cluster, "odd", schema, format="json").collect()
    skipped = read(spark, cluster, "odd", schema, format="json", undecodable="skip").collect()
    assert {row.key: row.age for row in skipped} == {str(n): n for n in range(20)}
    nulls = read(spark, cluster, "odd", schema, format="json", undecodable="null").collect()
    reasons = {row.key: row._undecodable for row in nulls if row.age is None}
    assert reasons.keys() == {"text", "word", "hash"}
    assert "is a hash, and no string" in reasons["hash"]
    assert "Expected `int" in reasons["word"]
    assert len(nulls) == 23
    with pytest.raises(Exception, match="key b'odd:hash'"):
        read(spark, cluster, "odd").collect()
    texts = read(spark, cluster, "odd", "key string, value string", undecodable="null")
    assert {row.key for row in texts.where("value is null").collect()} == {"text", "hash"}


def test_filters_give_the_same_rows_wherever_they_are_applied(
    spark: SparkSession, cluster: Processes
) -> None:
    """Also where one DataFrame is used again after a filter, and twice in one query."""
    people = {f"people:{n}".encode(): msgspec.json.encode({"age": n % 7}) for n in range(100)}
    put(cluster, people | {b"people:none": b"{}"})
    schema = "key string, age int, version binary"
    conditions = ("key = '7'", "key in ('1', '2', 'x')", "age > 3", "age is null", "not age = 3")
    expected: dict[str, set[str]] = {}
    for on in ("false", "true"):
        spark.conf.set(PUSHDOWN, on)
        try:
            shared = read(spark, cluster, "people", schema, format="json")
            for condition in conditions:
                alone = read(spark, cluster, "people", schema, format="json", pushdown=on)
                rows = {row.key for row in alone.where(condition).collect()}
                assert expected.setdefault(condition, rows) == rows
                assert {row.key for row in shared.where(condition).collect()} == rows
            assert shared.count() == 101
            twice = shared.where("age = 1").union(shared.where("age = 2"))
            assert {row.age for row in twice.collect()} == {1, 2}
        finally:
            spark.conf.unset(PUSHDOWN)
    assert len(expected["key = '7'"]) == 1
    assert expected["age is null"] == {"none"}


def test_filters_are_taken_only_where_both_say_so(spark: SparkSession, cluster: Processes) -> None:
    def filters_itself(on: str, pushdown: str) -> bool:
        """Whether Spark's plan still has the filter."""
        spark.conf.set(PUSHDOWN, on)
        try:
            frame = read(spark, cluster, "people", "key string", pushdown=pushdown)
            inside: Any = frame.where("key = '7'")._jdf
            plan = str(inside.queryExecution().toString())
            return "Filter (" in plan.partition("== Physical Plan ==")[2]
        finally:
            spark.conf.unset(PUSHDOWN)

    assert not filters_itself("true", "true")
    assert filters_itself("true", "false")
    assert filters_itself("false", "true")


def test_ends_and_removals_are_written(spark: SparkSession, cluster: Processes) -> None:
    put(cluster, some("ends", 3))
    frame = spark.sql(
        "select * from values ('0', null, null, true), ('1', 'new', 600.0D, false),"
        " ('5', 'new', null, null) as rows(key, value, ttl, gone)"
    )
    save(frame, cluster, "ends", ttl_column="ttl", delete_column="gone")
    rows = {row.key: row for row in read(spark, cluster, "ends").collect()}
    assert rows.keys() == {"1", "2", "5"}
    assert [rows[key].expires_at is None for key in ("1", "2", "5")] == [False, True, True]
    with pytest.raises(Exception, match=r"'ttl_column': -1.0 is no time to live"):
        save(
            frame.selectExpr("key", "'v' as value", "-1.0D as ttl"),
            cluster,
            "ends",
            ttl_column="ttl",
        )
