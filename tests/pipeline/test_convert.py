"""`convert` with Spark: files of real members, and a cluster that starts on what comes out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from holdfast.core.stores.record import Kind, kind_of
from holdfast.errors import StorageError
from holdfast.ids import Address
from holdfast.storage import convert as steps
from holdfast.storage.convert import Newcomer, Shape
from holdfast.storage.files import RealFiles
from holdfast.storage.outline import all_written
from holdfast.storage.recovery import recover
from holdfast.storage.verify import verify
from holdfast_spark.errors import SparkError
from holdfast_spark.jobs.convert import convert
from tests.pipeline.converted import FILLED, fill, shape_of, start
from tests.shell.processes import Grid, ask
from tests.shell.test_restart import KEYS, with_files
from tests.storage.test_backup import Running


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    """Members with files."""
    grid = Grid(tmp_path)
    try:
        yield grid
    finally:
        grid.end()


def test_a_cluster_starts_on_what_a_job_has_converted(
    grid: Grid, spark: SparkSession, tmp_path: Path
) -> None:
    """1. Three members, 64 partitions, killed. 2. Their files become those of three others, with 13
    partitions. 3. Every file is sound, and the new cluster has every key, and its copies."""
    members = with_files(grid, "everysec")
    fill(members)
    for process in members:
        process.kill()
    shape, target = shape_of(grid, 13), tmp_path / "new"
    sources = [str(tmp_path / f"data{number}") for number in range(3)]
    made = convert(spark, sources, target, shape, group_bytes=2_000)
    assert (made.keys, made.missing) == (FILLED, ())
    assert sorted(each.name for each in target.iterdir()) == ["n0", "n1", "n2"]
    assert all(verify(RealFiles(target / name, lock=False)).sound for name in made.members)
    started = start(grid, target, shape)
    assert [ask(started, "GET", key) for key in KEYS] == [f"of {key}".encode() for key in KEYS]
    assert ask(started, "LRANGE", "list:1", "0", "-1") == [b"a", b"b"]
    assert ask(started, "HGET", "hash:1", "f") == b"1"
    started[0].kill()
    assert [ask(started[1:], "GET", key) for key in KEYS] == [
        f"of {key}".encode() for key in KEYS
    ], "each key has its copy"


def test_a_uri_is_read_like_a_directory(grid: Grid, spark: SparkSession, tmp_path: Path) -> None:
    members = with_files(grid, "everysec")
    fill(members)
    for process in members:
        process.kill()
    sources = [f"file://{tmp_path}/data{number}" for number in range(3)]
    made = convert(spark, sources, tmp_path / "new", shape_of(grid, 5))
    assert (made.keys, made.missing) == (FILLED, ())


def test_what_is_broken_is_told_and_leaves_nothing(
    grid: Grid, spark: SparkSession, tmp_path: Path
) -> None:
    members = with_files(grid, "everysec")
    fill(members)
    for process in members:
        process.kill()
    manifest = tmp_path / "data1" / "data" / "MANIFEST"
    content = manifest.read_bytes()
    target, shape = tmp_path / "new", shape_of(grid, 5)
    sources = [str(tmp_path / f"data{number}") for number in range(3)]
    manifest.write_bytes(content.replace(b"1", b"2", 1))
    with pytest.raises(SparkError, match=r"surveying the old files: data/MANIFEST.*checksum"):
        convert(spark, sources, target, shape)
    manifest.write_bytes(content)
    with pytest.raises(SparkError, match="nothing: there are no files of a member"):
        convert(spark, [*sources, str(tmp_path / "nothing")], target, shape)
    with pytest.raises(SparkError, match="nowhere://x: Arrow can't read there"):
        convert(spark, ["nowhere://x"], target, shape)
    assert not target.exists()
    (target / "x").mkdir(parents=True)
    with pytest.raises(StorageError, match="it is not empty"):
        convert(spark, sources, target, shape)
    assert json.loads(content.partition(b"\n")[0])["format"] == 1


@pytest.mark.parametrize("seed", range(max(1, int(os.environ.get("HOLDFAST_SOAK", "1")) // 2)))
def test_a_job_makes_what_one_process_makes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Of files with everything in them that can be, for clusters of any shape; two processes on the
    same sources are told apart by nothing but the new cluster's ids."""
    chance = Random(seed)
    member = Running(tmp_path / "member", seed=seed)
    member.write(200)
    member.stop()
    newcomers = [Newcomer(name, Address(f"{name}:7380"), name) for name in ("a", "b", "c")]
    partitions, copies = chance.randrange(1, 40), chance.randrange(1, 4)
    shape = Shape(tuple(newcomers), partitions, 3, copies)
    made = convert(
        spark,
        [str(member.directory)],
        tmp_path / "job",
        shape,
        missing_allowed=True,
        group_bytes=chance.randrange(100, 5_000),
    )
    alone = steps.convert(
        [member.directory],
        tmp_path / "alone",
        newcomers,
        partition_count=partitions,
        replica_count=3,
        copies=copies,
        missing_allowed=True,
    )
    assert (made.keys, made.locks, made.missing) == (alone.keys, alone.locks, alone.missing)
    assert everything(tmp_path / "job") == everything(tmp_path / "alone")


def everything(target: Path) -> dict[tuple[int, bytes, bytes, bool], list[bytes]]:
    """All records of all members, by where they are."""
    found: dict[tuple[int, bytes, bytes, bool], list[bytes]] = {}
    for directory in sorted(target.iterdir()):
        recovered = recover(RealFiles(directory, lock=False))
        assert recovered is not None
        for partition, written in all_written(recovered.fold.data):
            for key, record in written.entries():
                place = (partition, written.last.name, key, kind_of(record) is Kind.LOCK)
                found.setdefault(place, []).append(record)
    return found
