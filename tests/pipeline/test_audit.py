"""`audit` with Spark: copies of a real cluster, a cluster and files, two clusters.

`make soak` compares more of them, by HOLDFAST_SOAK.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest
from pyspark.sql import SparkSession

from holdfast.storage.format.entries import MutationsEntry
from holdfast_spark.errors import ClusterError, SparkError
from holdfast_spark.jobs.asking import Cluster
from holdfast_spark.jobs.audit import audit
from holdfast_spark.jobs.comparing import Difference, How
from holdfast_spark.jobs.convert import convert
from holdfast_spark.jobs.sides import FilesOf, OtherCluster, overlapping
from tests.pipeline.converted import cluster_of, fill, shape_of, start, tamper
from tests.pipeline.sessions import put, some
from tests.shell.http.clusters import SECRET, Processes
from tests.shell.processes import Grid, Process, ask
from tests.shell.test_restart import KEYS, with_files

COUNTS: Final = ("5", "16", "271") if "HOLDFAST_SOAK" in os.environ else ("5",)
"""Partitions of a cluster that is compared with one of 16."""


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    """Members with files."""
    grid = Grid(tmp_path)
    try:
        yield grid
    finally:
        grid.end()


def stopped(grid: Grid) -> tuple[str, ...]:
    """Directories of three members that were filled and killed."""
    members = with_files(grid, "everysec")
    fill(members)
    for process in members:
        process.kill()
    return tuple(str(grid.folder / f"data{number}") for number in range(3))


def keys_of(differences: tuple[Difference, ...]) -> set[tuple[bytes, How]]:
    return {(each.key, each.how) for each in differences}


def test_copies_of_a_cluster_are_equal(spark: SparkSession, cluster: Processes) -> None:
    put(cluster, some("audited", 200), ("SADD", "audits:1", "x"), ("RPUSH", "queued:1", "x"))
    cluster.settle()
    found = audit(spark, Cluster((cluster.living()[0].url,), SECRET))
    assert found.equal
    assert not found.differences
    rows = [row for row in found.fragments().collect() if bytes(row.map) == b"audited"]
    assert sum(row.left_keys for row in rows) == sum(row.right_keys for row in rows) == 200
    assert all(row.settled and row.left_weight == row.right_weight for row in rows)
    assert found.keys_that_differ().count() == 0


def test_a_copy_that_is_not_the_same_is_found(
    grid: Grid, spark: SparkSession, tmp_path: Path
) -> None:
    """1. Files are converted. 2. Of one key, whatever its member holds of it as owner or backup,
    the version is changed in one member's base. 3. The cluster starts: nothing it compares by
    itself tells of it. 4. The audit does."""
    sources, target = stopped(grid), tmp_path / "new"
    shape = shape_of(grid, 13)
    convert(spark, sources, target, shape)

    def change(entry: MutationsEntry) -> MutationsEntry:
        records = [
            bytes((*record[:9], record[9] ^ 1, *record[10:])) if key == b"users:42" else record
            for key, record in zip(entry.keys, entry.records, strict=True)
        ]
        return msgspec.structs.replace(entry, records=records)

    holders = [each for each in target.glob("n*/data/*.base") if b"users:42" in each.read_bytes()]
    assert len(holders) == 2
    tamper(holders[0], change)
    members = start(grid, target, shape)
    found = audit(spark, cluster_of(members))
    assert not found.equal
    assert keys_of(found.differences) == {(b"users:42", How.DIFFERENT)}
    (one,) = [each for each in found.comparisons if not each.equal]
    assert (one.map, one.differing, one.settled) == (b"users", 1, True)
    assert one.left_keys == one.right_keys
    (row,) = found.keys_that_differ().collect()
    assert (bytes(row.map), bytes(row.key), row.how) == (b"users", b"users:42", "different")


def test_what_was_converted_is_equal_to_its_files_until_it_is_changed(
    grid: Grid, spark: SparkSession, tmp_path: Path
) -> None:
    sources, target = stopped(grid), tmp_path / "new"
    shape = shape_of(grid, 13)
    convert(spark, sources, target, shape)
    members = start(grid, target, shape)
    cluster, files = cluster_of(members), FilesOf(sources, work=tmp_path)
    same = audit(spark, cluster, files)
    assert same.equal
    assert same.keys == len(KEYS) + 4, "what expires soon is not counted"
    change_some(members)
    changed = audit(spark, cluster, files)
    assert keys_of(changed.differences) == CHANGED
    assert not list(tmp_path.glob("holdfast-audit-*"))


CHANGED = {
    (b"users:1", How.DIFFERENT),
    (b"users:2", How.RIGHT_ONLY),
    (b"list:1", How.DIFFERENT),
    (b"new:1", How.LEFT_ONLY),
}


def change_some(members: list[Process]) -> None:
    """One key of each sort."""
    ask(members, "SET", "users:1", "changed")
    ask(members, "DEL", "users:2")
    ask(members, "RPUSH", "list:1", "c")
    ask(members, "SET", "new:1", "x")
    ask(members, "SREM", "set:1", "x")
    ask(members, "SADD", "set:1", "x")


@pytest.mark.parametrize("partitions", COUNTS)
def test_two_clusters_are_compared_by_content(
    grid: Grid, spark: SparkSession, tmp_path: Path, partitions: str
) -> None:
    """However many partitions each of them has."""
    members = [grid.start("m0", int(grid.initial[0].rpartition(":")[2]), initial=grid.initial[0],
                          partition_count=partitions)]  # fmt: skip
    members[0].wait_ready()
    fill(members)
    (tmp_path / "other").mkdir()
    other = Processes(tmp_path / "other", settings="partition_count = 16\n[unnamed]\nbackups = 0\n")
    try:
        other.start("one")
        other.settle()
        theirs: list[Process] = list(other.living())
        fill(theirs)
        cluster, second = cluster_of(members), OtherCluster(Cluster((other.living()[0].url,)))
        assert audit(spark, cluster, second).equal
        change_some(members)
        found = audit(spark, cluster, second)
    finally:
        other.end()
    assert keys_of(found.differences) == CHANGED
    differing = {each.map for each in found.comparisons if not each.equal}
    assert differing == {b"users", b"", b"new"}


def test_who_does_not_answer_is_named(spark: SparkSession, cluster: Processes) -> None:
    with pytest.raises(ClusterError, match=r"no member tells who holds what: .*127\.0\.0\.1:9"):
        audit(spark, Cluster(("http://127.0.0.1:9",)))
    with pytest.raises(SparkError, match="comparing copies: send it as 'Authorization"):
        audit(spark, Cluster((cluster.living()[0].url,), "wrong"))


@pytest.mark.parametrize(("count", "other"), [(1, 7), (7, 1), (13, 64), (64, 13), (271, 1021)])
def test_partitions_overlap_where_they_share_a_slot(count: int, other: int) -> None:
    shared: dict[int, set[int]] = {}
    for slot in range(1 << 14):
        shared.setdefault(slot * count >> 14, set()).add(slot * other >> 14)
    assert {each: set(overlapping(each, count, other)) for each in range(count)} == shared
