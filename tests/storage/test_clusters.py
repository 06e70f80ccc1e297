"""Whole clusters on real formats of files: levels, addresses, and formats of a later version.

The nodes are real, the network and the clock are those of the core's tests, and each member's disk
is the file engine, with segments so short that bases and table files are written all the time.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from holdfast.core.effects import Persist, Record
from holdfast.core.events import Image
from holdfast.core.messages import Ask
from holdfast.core.node import Node
from holdfast.core.stores.record import body_of
from holdfast.core.stores.settings import Durability, NameSettings
from holdfast.errors import ForeignFiles, NewerFormat
from holdfast.ids import Address, MemberId
from holdfast.storage import layout
from holdfast.storage.engine import FileEngine
from holdfast.storage.fold import Fold
from holdfast.storage.format import manifest, tables
from holdfast.storage.format.manifest import Identity
from holdfast.storage.format.tables import Layout
from holdfast.storage.writer import Limits, Writer
from tests.core.disk import Disk
from tests.core.harness import A, B, C, Cluster, address_of, member, request_of
from tests.storage.fake_files import FakeFiles

PARTITIONS = 6
REPLICAS = 3
TINY = Limits(segment_bytes=2_000, log_bytes_min=4_000, base_bytes=3_000, reserve_bytes=0)
KEYS = tuple(f"k{number}" for number in range(30))


class OnFiles(Disk):
    """A member's disk that is made of files."""

    def __init__(self, member_id: MemberId) -> None:
        super().__init__()
        self.files = FakeFiles()
        self.identity = Identity(member_id, 0, PARTITIONS, REPLICAS)
        self.sum = Fold()
        self.number = 0
        self.engine: FileEngine | None = None
        self.writer: Writer | None = None

    def image(self) -> Image:
        """What the next process reads."""
        engine = self._engine()
        image = engine.recover()
        assert image is not None
        return image

    def _engine(self) -> FileEngine:
        self.engine = None
        identity = self.identity
        return FileEngine(
            self.files, identity, durability_of=lambda _: Durability.ALWAYS, limits=TINY
        )

    def write(self, record: Record) -> None:
        """One more record, and a slice of a base if one is due."""
        if self.engine is None or self.writer is None:
            self.engine = self._engine()
            self.engine.recover()
            self.writer = self.engine.open(self.engine.last_incarnation + 1)
            self.number = 0
        self.incarnation = max(self.incarnation, 1)
        self.sum.add(record)
        self.number += 1
        self.engine.write([Persist(self.number, record)])
        self.engine.serve(self.sum.data)
        waiting, self.engine._waiting = self.engine._waiting, []
        self.writer.work(waiting, 0.0)

    def layouts(self) -> set[Layout]:
        """Of the table files that count."""
        names = [name for name in self.files.list(layout.CLUSTER) if name.endswith(".table")]
        return {Layout(self.files.read(f"{layout.CLUSTER}/{name}")[5]) for name in names}


def on_files(level: int) -> Cluster:
    """A cluster that is founded at this level."""
    cluster = Cluster(
        A, B, C, level=level, partition_count=PARTITIONS, replica_count=REPLICAS,
        unnamed=NameSettings(backups=1),
    )  # fmt: skip
    for each in (A, B, C):
        cluster.disks[each] = OnFiles(each)
    cluster.form(persistent=True)
    return cluster


def disk(cluster: Cluster, member_id: MemberId) -> OnFiles:
    """Of a member."""
    found = cluster.disks[member_id]
    assert isinstance(found, OnFiles)
    return found


def restart(cluster: Cluster, incarnation: int, **addresses: str) -> Node:
    """All of them end at once, and start from their files."""
    cluster.crash(A, B, C)
    for each in (A, B, C):
        stay = member(each, incarnation, persistent=True)
        cluster.start(replace(stay, address=Address(addresses.get(each, stay.address))))
    return cluster.settle()


def write(cluster: Cluster, text: str) -> None:
    """Every key, at its owner."""
    for key in KEYS:
        for each in (A, B, C):
            if cluster.reply(each, f"SET {key} {text}").startswith(b"+OK"):
                break
        else:
            raise AssertionError(f"nobody takes {key}")


def assert_all(cluster: Cluster, text: str) -> None:
    """Every key has this, at its owner."""
    found = {}
    for node in cluster.nodes.values():
        for holding in node.data.holdings.here.values():
            for copy in holding if holding.reign else ():
                for key, record in copy.fragment.records.items():
                    assert isinstance(record, bytes)
                    found[key.decode()] = body_of(record).decode()
    assert found == dict.fromkeys(KEYS, text)


def raise_level(cluster: Cluster, level: int) -> None:
    """The administrator wants it."""
    master = cluster.settle()
    cluster.ask(master.me.id, request_of(Ask.LEVEL, f"to {level}", level=level, wait_ms=5_000))
    cluster.run_until(
        lambda: all(node.view and node.view.level == level for node in cluster.nodes.values())
    )


def test_files_of_each_level_are_read_by_the_next_one() -> None:
    """1. A cluster at level 1, with tables in the old layout. 2. It comes back, is raised to 2, and
    to 3. 3. It comes back each time, with all that was written."""
    cluster = on_files(1)
    write(cluster, "one")
    assert disk(cluster, A).layouts() == {Layout.LEGACY}
    for level in (2, 3):
        master = restart(cluster, level)
        assert master.view is not None
        assert master.view.level == level - 1
        assert_all(cluster, {2: "one", 3: "two"}[level])
        raise_level(cluster, level)
        write(cluster, {2: "two", 3: "three"}[level])
    master = restart(cluster, 4)
    assert master.view is not None
    assert master.view.level == 3
    write(cluster, "four")
    assert disk(cluster, A).layouts() == {Layout.CURRENT}
    restart(cluster, 5)
    assert_all(cluster, "four")


def test_another_address_at_a_restart_raises_no_version_beside_that_of_a_new_reign() -> None:
    """Rows name members by their ids. What does rise, once for each row, is the reign: its owner
    was killed, and may have written more than its files say."""
    cluster = on_files(3)
    before = cluster.settle().table.rows
    master = restart(cluster, 2, C="elsewhere:9")
    assert master.view is not None
    listed = master.view.find(C)
    assert listed is not None
    assert listed.address == "elsewhere:9"
    assert [row.version for row in master.table.rows] == [row.version + 1 for row in before]
    write(cluster, "there")
    touched = {row.partition for row in before if row.owner == C}
    written = cluster.settle().table.rows
    master = restart(cluster, 3)
    raised = {
        now.partition
        for old, now in zip(written, master.table.rows, strict=True)
        if now.version != old.version
    }
    assert touched <= raised
    assert all(
        now.replicas == old.replicas for old, now in zip(written, master.table.rows, strict=True)
    )
    assert_all(cluster, "there")
    assert master.view is not None
    assert address_of(C) in [each.address for each in master.view.members]


@pytest.mark.parametrize("name", [layout.IDENTITY, layout.MANIFEST])
def test_files_of_a_later_version_are_refused_and_left_as_they_are(name: str) -> None:
    cluster = on_files(3)
    write(cluster, "new")
    files = disk(cluster, B).files
    data = files.read(name)
    found = manifest.decode_manifest if name == layout.MANIFEST else manifest.decode_identity
    later = manifest.encode(replace_format(found(data, name)))
    files.names[name].data[:] = later
    with pytest.raises(NewerFormat, match=f"{name}.*version 2; this is version 1"):
        disk(cluster, B).image()
    assert files.read(name) == later


def replace_format(content: manifest.Manifest | Identity) -> manifest.Manifest | Identity:
    """As the next version of Holdfast would write it."""
    return msgspec.structs.replace(content, format=2)


def test_files_of_another_count_of_partitions_are_refused() -> None:
    cluster = on_files(3)
    write(cluster, "x")
    found = disk(cluster, A)
    found.identity = Identity(A, 0, PARTITIONS + 1, REPLICAS)
    with pytest.raises(ForeignFiles, match="6 partitions of 3 replicas"):
        found.image()
    assert tables.Layout.CURRENT in found.layouts()
