"""Grids with files that are converted and started again, for tests of `convert` and `audit`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.ids import Address
from holdfast.storage.convert import Newcomer, Shape
from holdfast.storage.format import block, entries
from holdfast.storage.format.block import Block
from holdfast.storage.format.entries import Entry, MutationsEntry
from holdfast_spark.jobs.asking import Cluster
from tests.shell.processes import SECRET, Grid, Process, ask
from tests.shell.test_restart import KEYS


def shape_of(grid: Grid, partitions: int, size: int = 3, copies: int = 2) -> Shape:
    """A new cluster at the same addresses."""
    newcomers = [Newcomer(f"n{n}", Address(grid.initial[n]), f"n{n}") for n in range(size)]
    return Shape(tuple(newcomers), partitions, 3, copies)


def start(grid: Grid, target: Path, shape: Shape) -> list[Process]:
    """A cluster on what was converted."""
    members = [
        grid.start(
            each.name,
            int(each.address.rpartition(":")[2]),
            initial=",".join(one.address for one in shape.newcomers),
            data_dir=str(target / each.name),
            partition_count=str(shape.partition_count),
            replica_count=str(shape.replica_count),
        )
        for each in shape.newcomers
    ]
    for member in members:
        member.wait_ready()
    return members


def fill(members: list[Process]) -> None:
    """Keys of all kinds."""
    for key in KEYS:
        ask(members, "SET", key, f"of {key}")
    ask(members, "RPUSH", "list:1", "a", "b")
    ask(members, "SADD", "set:1", "x", "y")
    ask(members, "HSET", "hash:1", "f", "1")
    ask(members, "SET", "soon:1", "x", "PX", "3000")
    ask(members, "SET", "late:1", "x", "PXAT", "4000000000000")


FILLED = len(KEYS) + 5


def cluster_of(members: list[Process]) -> Cluster:
    """As an audit is told of it."""
    return Cluster(tuple(f"http://{each.told('http')}" for each in members), SECRET)


def tamper(file: Path, change: Callable[[MutationsEntry], MutationsEntry]) -> None:
    """Somebody who knows the format has changed what a base says."""
    data = b""
    for each in block.scan(file.read_bytes(), file.name):
        assert isinstance(each, Block)
        said: list[Entry] = [
            change(entry) if isinstance(entry, MutationsEntry) else entry
            for entry in entries.decode(each.body, file.name, each.offset)
        ]
        body = entries.encode(said)
        data += block.encode(body, count=each.count, sequence=each.sequence, stable=0, control=0)
    assert len(data) == file.stat().st_size, "the manifest says how long it is"
    file.write_bytes(data)
