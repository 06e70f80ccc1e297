"""Backups, restores, verification and conversion of real directories."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from holdfast.core.data.plane import slot_of
from holdfast.core.effects import Persist
from holdfast.core.stores.record import Kind, kind_of
from holdfast.errors import CorruptFile, RecoveryError, StorageError
from holdfast.ids import Address, PartitionId
from holdfast.storage import backup, layout
from holdfast.storage.convert import Newcomer, convert
from holdfast.storage.engine import FileEngine
from holdfast.storage.files import RealFiles
from holdfast.storage.outline import GROUP_BYTES, all_written, groups_of
from holdfast.storage.recovery import Recovered, recover
from holdfast.storage.verify import verify
from holdfast.storage.writer import Limits, Writer
from tests.storage.parts import (
    IDENTITY,
    PARTITIONS,
    Author,
    comparable,
    durability_of,
    image_of,
)

SMALL = Limits(segment_bytes=4_000, log_bytes_min=8_000, base_bytes=3_000, reserve_bytes=0)


class Running:
    """A member that writes into a directory, step by step."""

    def __init__(self, directory: Path, seed: int = 1) -> None:
        self.directory = directory
        self.files = RealFiles(directory)
        self.engine = FileEngine(self.files, IDENTITY, durability_of=durability_of, limits=SMALL)
        self.engine.recover()
        self.writer: Writer = self.engine.open(1)
        self.author = Author(Random(seed))
        self.persists: list[Persist] = []

    def write(self, steps: int) -> None:
        """So many steps, and slices of bases between them."""
        for _ in range(steps):
            step = self.author.step()
            self.persists += step
            self.engine.write(step)
            self.engine.serve(self.author)
            waiting, self.engine._waiting = self.engine._waiting, []
            self.writer.work(waiting, 0.0)

    def stop(self) -> None:
        """In good order."""
        self.writer.close(0.0)
        self.end()

    def end(self) -> None:
        """At once."""
        self.writer.log.close()
        if self.writer._base is not None and self.writer._base.file is not None:
            self.writer._base.file.close()
        self.files.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A member that has written for a while."""
    member = Running(tmp_path / "member")
    member.write(70)
    yield member
    member.end()


def image_at(directory: Path) -> object:
    engine = FileEngine(RealFiles(directory, lock=False), IDENTITY, durability_of=durability_of)
    return comparable(engine.recover())


def test_a_running_member_is_backed_up_as_of_that_moment(running: Running, tmp_path: Path) -> None:
    backup.back_up(running.directory, tmp_path / "one")
    expected = comparable(image_of(running.persists))
    running.write(60)
    assert image_at(tmp_path / "one") == expected
    assert verify(RealFiles(tmp_path / "one", lock=False)).sound


def test_what_was_written_before_its_segment_is_named_is_backed_up(
    running: Running, tmp_path: Path
) -> None:
    """1. A segment is begun, and written to. 2. A backup is made, and files are looked at, before
    the manifest names it."""
    assert running.writer.log.roll()
    step = running.author.step()
    running.persists += step
    running.writer.write_now(running.engine.packer.bodies_of(step), 0.0)
    found = verify(RealFiles(running.directory, lock=False))
    assert (found.sound, found.torn_bytes) == (True, 0)
    backup.back_up(running.directory, tmp_path / "backup")
    backup.restore(tmp_path / "backup", tmp_path / "again")
    for directory in (running.directory, tmp_path / "again"):
        assert image_at(directory) == comparable(image_of(running.persists))


def test_a_member_writes_and_compacts_while_its_backup_rests(
    running: Running, tmp_path: Path
) -> None:
    """1. A backup rests between pieces of it. 2. In the rests the member writes on, and removes
    files. 3. The backup has them by links of its own, and is whole, as of its beginning."""
    written = comparable(image_of(running.persists))
    before = frozenset(running.directory.glob("data/*"))
    index = backup.back_up(running.directory, tmp_path / "one", rest=lambda: running.write(20))
    assert not all(each.exists() for each in before)
    assert image_at(tmp_path / "one") == written
    assert verify(RealFiles(tmp_path / "one", lock=False)).sound
    assert index.own_bytes == index.total_bytes


def test_a_segment_that_grows_is_copied_as_it_was_when_that_began(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"before" * backup.CHUNK_BYTES)

    def rest() -> None:
        with source.open("ab") as file:
            file.write(b"later")

    size, checksum = backup.copied(source, tmp_path / "copy", rest)
    assert (size, checksum) == backup.measured(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"before" * backup.CHUNK_BYTES


def test_a_backup_works_for_a_tenth_of_the_time() -> None:
    now, rested = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        rested.append(seconds)

    rest = backup.Rests(lambda: now, sleep)
    for worked in (0.0005, 0.0015, 0.01, 5.0):
        now += worked
        rest()
    assert rested == pytest.approx([0.018, 0.09, backup.REST_MAX_S])


def test_it_can_be_restored_any_number_of_times(running: Running, tmp_path: Path) -> None:
    """And what runs on the copy changes nothing in the backup."""
    backup.back_up(running.directory, tmp_path / "one")
    expected = comparable(image_of(running.persists))
    for name in ("a", "b"):
        backup.restore(tmp_path / "one", tmp_path / name)
        assert image_at(tmp_path / name) == expected
        again = Running(tmp_path / name, seed=2)
        again.write(10)
        again.stop()


def test_an_incremental_backup_has_only_what_is_new(running: Running, tmp_path: Path) -> None:
    first = backup.back_up(running.directory, tmp_path / "one")
    running.write(4)
    second = backup.back_up(running.directory, tmp_path / "two", previous=tmp_path / "one")
    running.write(2)
    third = backup.back_up(running.directory, tmp_path / "three", previous=tmp_path / "two")
    assert first.own_bytes == first.total_bytes
    assert 0 < second.own_bytes < second.total_bytes
    assert {each.directory for each in third.files} >= {"", "one"}
    assert not any(
        (tmp_path / "three" / each.name).exists() for each in third.files if each.directory
    )
    expected = comparable(image_of(running.persists))
    backup.restore(tmp_path / "three", tmp_path / "back")
    assert image_at(tmp_path / "back") == expected


def test_a_restore_without_what_it_builds_on_writes_nothing(
    running: Running, tmp_path: Path
) -> None:
    backup.back_up(running.directory, tmp_path / "one")
    backup.back_up(running.directory, tmp_path / "two", previous=tmp_path / "one")
    shutil.rmtree(tmp_path / "one")
    with pytest.raises(CorruptFile, match=r"one/.* builds on it, and it is missing"):
        backup.restore(tmp_path / "two", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_rotten_backup_is_not_restored(running: Running, tmp_path: Path) -> None:
    index = backup.back_up(running.directory, tmp_path / "one")
    path = tmp_path / "one" / index.files[-1].name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFile, match="not what was backed up"):
        backup.restore(tmp_path / "one", tmp_path / "back")


def test_what_is_there_is_never_overwritten(running: Running, tmp_path: Path) -> None:
    backup.back_up(running.directory, tmp_path / "one")
    with pytest.raises(StorageError, match="it is not empty"):
        backup.back_up(running.directory, tmp_path / "one")
    with pytest.raises(StorageError, match="nothing is overwritten"):
        backup.restore(tmp_path / "one", running.directory)


def test_what_is_no_backup_is_refused(running: Running, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no finished backup"):
        backup.restore(running.directory, tmp_path / "back")
    with pytest.raises(StorageError, match="no files of a member"):
        backup.back_up(tmp_path / "nothing", tmp_path / "one")
    with pytest.raises(StorageError, match="in the same folder"):
        backup.back_up(running.directory, tmp_path / "x" / "one", previous=tmp_path)


# Verification -------------------------------------------------------------------------------------


def test_sound_files_are_counted(running: Running) -> None:
    running.stop()
    found = verify(RealFiles(running.directory, lock=False))
    assert found.sound
    assert found.files > 3
    assert found.records > 0
    assert found.size > 0


@pytest.mark.parametrize("seed", range(10))
def test_everything_that_is_broken_is_named(running: Running, seed: int) -> None:
    """Two files are damaged; both are named, with a place in each."""
    running.stop()
    rng = Random(seed)
    data_files = sorted((running.directory / layout.DATA).glob("*.*"))[:-1]
    data_files += sorted((running.directory / layout.CLUSTER).iterdir())
    broken = rng.sample(data_files, 2)
    for path in broken:
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    found = verify(RealFiles(running.directory, lock=False))
    assert not found.sound
    named = {each.file for each in found.problems}
    assert named == {str(path.relative_to(running.directory)) for path in broken}
    assert all(each.offset is not None for each in found.problems)


def test_what_is_missing_is_named(running: Running, tmp_path: Path) -> None:
    running.stop()
    gone = min((running.directory / layout.DATA).glob("*.log"))
    gone.unlink()
    (problem,) = verify(RealFiles(running.directory, lock=False)).problems
    assert problem.file == f"data/{gone.name}"
    (nothing,) = verify(RealFiles(tmp_path / "nothing", lock=False)).problems
    assert "no files of a member" in nothing.message


# Conversion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("group_bytes", [1, 2_000, GROUP_BYTES])
def test_files_become_those_of_other_members_and_partitions(
    running: Running, tmp_path: Path, group_bytes: int
) -> None:
    """Every key is found in the partition of its slot, on as many members as there are replicas;
    and converting back gives the same keys and values."""
    running.stop()
    newcomers = [Newcomer(name, Address(f"{name}:7380"), name) for name in ("a", "b", "c")]
    made = convert(
        [running.directory],
        tmp_path / "new",
        newcomers,
        partition_count=16,
        replica_count=2,
        missing_allowed=True,
        group_bytes=group_bytes,
    )
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == ["a", "b", "c"]
    seen: dict[tuple[bytes, bytes, bool], list[bytes]] = {}
    for each in newcomers:
        found = recover(RealFiles(tmp_path / "new" / each.name, lock=False))
        assert found is not None
        view = found.fold.control.view
        assert view is not None
        assert [member.name for member in view.members] == ["a", "b", "c"]
        assert view.find(made.members[each.name]) is not None
        assert len(found.fold.control.rows) == 16
        image = found.image()
        assert image is not None
        for fragment in image.data:
            assert fragment.clean
            for key, record in (*fragment.records.items(), *fragment.locks):
                assert slot_of(key) * 16 >> 14 == fragment.partition
                place = (key, fragment.stand.name, kind_of(record) is Kind.LOCK)
                seen.setdefault(place, []).append(record)
    expected = comparable_keys(recover(RealFiles(running.directory, lock=False)))
    assert {(key, lock) for key, _, lock in seen} == set(expected)
    for (key, _, lock), records in seen.items():
        assert records[0] in expected[key, lock], "this author writes a key in several partitions"
    assert all(len(records) == 2 and len(set(records)) == 1 for records in seen.values())
    assert made.keys + made.locks >= len(seen)
    back = convert(
        [tmp_path / "new" / each.name for each in newcomers],
        tmp_path / "back",
        newcomers[:1],
        partition_count=PARTITIONS,
        replica_count=1,
    )
    assert (back.keys + back.locks, back.missing) == (len(seen), ())


def comparable_keys(found: Recovered | None) -> dict[tuple[bytes, bool], list[bytes]]:
    """Every key and lock of what counts, with its records."""
    assert found is not None
    data, rows = found.fold.data, found.fold.control.rows
    kept: dict[tuple[bytes, bool], list[bytes]] = {}
    for partition, written in all_written(data):
        held = data.held.get(partition)
        if held is None or (partition in rows and rows[partition].epoch != held.epoch):
            continue
        for key, record in written.entries():
            kept.setdefault((key, kind_of(record) is Kind.LOCK), []).append(record)
    return kept


def test_groups_have_about_a_size_and_at_least_one_partition() -> None:
    sizes = {PartitionId(number): size for number, size in enumerate((5, 5, 9, 100, 1, 1, 0))}
    assert groups_of(sizes, 10) == [(0, 1), (2,), (3,), (4, 5, 6)]
    assert groups_of({}, 10) == []


def test_partitions_that_nobody_has_are_refused(tmp_path: Path) -> None:
    member = Running(tmp_path / "member")
    member.write(1)
    member.stop()
    newcomers = [Newcomer("a", Address("a:7380"), "a")]
    with pytest.raises(RecoveryError, match="of 5 partitions are in none of these directories"):
        convert([member.directory], tmp_path / "new", newcomers, partition_count=3, replica_count=1)
    assert not (tmp_path / "new").exists()
