"""Streams: real Spark, real members."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.pipeline.sessions import content, put, read, short, some, where
from tests.shell.http.clusters import Processes

CHANGES = "key string, value binary, _change string, version binary, _partition int"
WAIT_SECONDS = 120
TRIES = 5
NOT_STARTED = "Python worker failed to connect back"


def follow(spark: SparkSession, cluster: Processes, name: str, **options: str) -> DataFrame:
    """A stream read."""
    reader = spark.readStream.format("holdfast").schema(CHANGES)
    return reader.options(**where(cluster, name, **options)).load()


def finish(start: Callable[[], StreamingQuery]) -> None:
    """Until a query has ended. Spark gives its own worker ten seconds to start, for which a machine
    may be too busy: then the query goes on from its checkpoint."""
    for _ in range(TRIES):
        try:
            assert start().awaitTermination(WAIT_SECONDS), "it does not end"
        except StreamingQueryException as error:
            if NOT_STARTED not in str(error):
                raise
        else:
            return
    raise AssertionError(NOT_STARTED)


class Collected:
    """Rows of all micro-batches, in their order."""

    def __init__(self, frame: DataFrame, place: Path) -> None:
        self.frame = frame
        self.place = place
        self.batches: dict[int, list[Any]] = {}

    def take(self, frame: DataFrame, batch: int) -> None:
        """One micro-batch; the same again takes its place."""
        self.batches[batch] = frame.collect()

    @property
    def rows(self) -> list[Any]:
        """All of them."""
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]

    def run(self) -> list[Any]:
        """All that there is now."""
        finish(lambda: self.start(availableNow=True))
        return self.rows

    def start(self, **trigger: Any) -> StreamingQuery:
        """Begin, or go on."""
        writer = self.frame.writeStream.option("checkpointLocation", str(self.place))
        return writer.foreachBatch(self.take).trigger(**trigger).start()


def last(rows: list[Any]) -> dict[str, bytes]:
    """What a map has after these changes."""
    found: dict[str, bytes] = {}
    for row in rows:
        if row._change == "deleted":
            found.pop(row.key, None)
        else:
            found[row.key] = bytes(row.value)
    return found


def assert_no_doubles(rows: list[Any]) -> None:
    marks = [(row._partition, bytes(row.version)) for row in rows]
    assert len(set(marks)) == len(marks)


def test_a_map_is_followed_over_restarts(
    spark: SparkSession, cluster: Processes, tmp_path: Path
) -> None:
    """1. What is there comes first. 2. Then what changes, in parts of at most 50. 3. Nothing."""
    put(cluster, some("follow", 100))
    collected = Collected(follow(spark, cluster, "follow"), tmp_path)
    assert last(collected.run()) == short(some("follow", 100))
    put(cluster, some("follow", 120, 3), ("DEL", "follow:7"), ("SET", "follow:8", "x"))
    collected.frame = follow(spark, cluster, "follow", max_changes="50")
    before = set(collected.batches)
    rows = collected.run()
    now = short(some("follow", 120, 3))
    del now["7"]
    assert last(rows) == now | {"8": b"x"}
    assert_no_doubles(rows)
    new = [len(collected.batches[batch]) for batch in collected.batches if batch not in before]
    assert sum(new) == 122
    assert len(new) >= 3
    assert max(new) <= 50
    count = len(rows)
    assert len(collected.run()) == count


def test_a_stream_is_written_once(spark: SparkSession, cluster: Processes, tmp_path: Path) -> None:
    """A batch that Spark has forgotten to note is done again, and changes nothing."""
    put(cluster, some("source", 200))
    frame = follow(spark, cluster, "source").select("key", "value")
    place = tmp_path / "sink"

    def run() -> None:
        writer = frame.writeStream.format("holdfast").options(**where(cluster, "sink"))
        writer = writer.option("checkpointLocation", str(place)).trigger(availableNow=True)
        finish(writer.start)

    run()
    found = read(spark, cluster, "sink")
    assert content(found) == short(some("source", 200))
    put(cluster, {b"sink:1": b"changed since"})
    newest = max(int(each.name) for each in (place / "commits").iterdir() if each.name.isdecimal())
    (place / "commits" / str(newest)).unlink()
    (place / "commits" / f".{newest}.crc").unlink()
    run()
    assert content(found) == short(some("source", 200)) | {"1": b"changed since"}
    put(cluster, {b"source:1": b"new"})
    run()
    assert content(found) == short(some("source", 200)) | {"1": b"new"}


@pytest.mark.parametrize("gap", ["fail", "reread"])
def test_a_gap_is_never_silent(
    spark: SparkSession, cluster: Processes, tmp_path: Path, gap: str
) -> None:
    """The checkpoint is of a history that the cluster does not have."""
    name = f"gap{gap}"
    put(cluster, some(name, 64))
    collected = Collected(follow(spark, cluster, name, gap=gap), tmp_path)
    collected.run()
    offsets = sorted((tmp_path / "offsets").iterdir(), key=lambda each: each.name)
    newest = next(each for each in reversed(offsets) if each.name.isdecimal())
    lines = newest.read_text().splitlines()
    lines[-1] = re.sub(r'"\d+-', '"77-', lines[-1])
    newest.write_text("\n".join(lines))
    (newest.parent / f".{newest.name}.crc").unlink()
    put(cluster, {f"{name}:1".encode(): b"later"})
    if gap == "fail":
        with pytest.raises(Exception, match=r"changes after 77-.* are not kept any more") as caught:
            collected.run()
        assert f"map '{name}', partition" in str(caught.value)
        return
    collected.batches.clear()
    rows = collected.run()
    emptied = [row for row in rows if row._change == "emptied"]
    assert {row.key for row in emptied} == {None}
    assert len(emptied) == 32
    written = [row for row in rows if row.key is not None]
    assert last(written) == short(some(name, 64)) | {"1": b"later"}
