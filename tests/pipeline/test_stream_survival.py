"""A stream over a death: nothing is left out, and nothing comes twice. Real Spark, real members.

`make test` has one death; `make soak` says with HOLDFAST_SOAK how many, each in its own cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import redis
from pyspark.sql import SparkSession

from tests.pipeline.sessions import content, put, read, short, some, where
from tests.pipeline.test_streams import Collected, assert_no_doubles, follow, last
from tests.pipeline.test_survival import trouble
from tests.shell.http import clusters
from tests.shell.http.clusters import Processes
from tests.shell.waiting import wait_until

DEATHS: Final = max(1, int(os.environ.get("HOLDFAST_SOAK", "1")) // 5)


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Processes]:
    """Nothing moves after a death: those who had the partitions as backups go on."""
    yield from clusters.several(tmp_path, clusters.PATIENT)


@pytest.mark.parametrize("death", range(DEATHS))
def test_a_stream_goes_on_over_a_death(
    spark: SparkSession, patient: Processes, tmp_path: Path, death: int
) -> None:
    """1. The stream has read all 2. more is written 3. an owner dies, its backups go on with its
    history 4. more is written, and a key is removed 5. the stream goes on where it was."""
    put(patient, some("live", 100))
    collected = Collected(follow(spark, patient, "live"), tmp_path / "checkpoint")
    collected.run()
    before = some("live", 150, 2 + death)
    put(patient, before)
    next(each for each in patient.others() if each.name != "light").kill()
    after = {b"live:after%d" % n: b"x" for n in range(50)}
    wait_until(lambda: is_put(patient, after), "its backups have taken over")
    put(patient, {}, ("DEL", "live:7"))
    expected = some("live", 100) | before | after
    del expected[b"live:7"]
    collected.frame = follow(spark, patient, "live")
    rows = collected.run()
    assert last(rows) == short(expected)
    assert_no_doubles(rows)


def test_a_stream_goes_on_where_partitions_move(
    spark: SparkSession, own: Processes, tmp_path: Path
) -> None:
    """1. The stream has read all 2. more is written 3. a member joins, and gets partitions with
    their journals 4. more is written 5. the stream goes on where it was."""
    put(own, some("moves", 200))
    collected = Collected(follow(spark, own, "moves"), tmp_path / "checkpoint")
    collected.run()
    before = some("moves", 300, 2)
    put(own, before)
    own.start("four")
    own.settle()
    wait_until(lambda: owns(own, "four") > 0 and own.living()[0].is_safe(), "it has its share", 60)
    after = {b"moves:after%d" % n: b"x" for n in range(100)}
    put(own, after)
    collected.frame = follow(spark, own, "moves")
    rows = collected.run()
    assert last(rows) == short(some("moves", 200) | before | after)
    assert_no_doubles(rows)


def owns(cluster: Processes, name: str) -> int:
    """How many partitions a member owns."""
    members = cluster.living()[0].get("/v1/members").json()["members"]
    return next((each["owned_partitions"] for each in members if each["name"] == name), 0)


def test_a_stream_survives_trouble(spark: SparkSession, own: Processes, tmp_path: Path) -> None:
    """A map is followed into another one, while members come and go and the state changes. Whoever
    leads next after a death may not know what became of the last writes, so a partition may be
    read again; nothing is left out."""
    put(own, some("from", 500))
    rows = follow(spark, own, "from", gap="reread").where("key is not null").select("key", "value")
    writer = rows.writeStream.format("holdfast").options(**where(own, "to"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def has(expected: dict[bytes, bytes]) -> bool:
        assert query.isActive, query.exception()
        return content(read(spark, own, "to")) == short(expected)

    try:
        wait_until(lambda: has(some("from", 500)), "the first rows are there", 120)
        trouble(own)
        later = some("from", 600, 5)
        wait_until(lambda: is_put(own, later), "its backups have taken over")
        wait_until(lambda: has(later), "what was written since is there", 120)
    finally:
        query.stop()


def is_put(cluster: Processes, content: dict[bytes, bytes]) -> bool:
    """Whether all of it could be written; nobody may own a partition for a moment."""
    try:
        put(cluster, content)
    except redis.RedisError:
        return False
    return True
