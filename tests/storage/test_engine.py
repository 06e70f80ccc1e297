"""Both engines do what every engine must, and the one with files what files ask for."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec
import pytest

from holdfast.errors import DirectoryInUse, DiskFailed, ForeignFiles
from holdfast.storage import layout
from holdfast.storage.engine import Engine, FileEngine, MemoryEngine
from holdfast.storage.files import RealFiles
from holdfast.storage.format.block import Codec
from holdfast.storage.format.manifest import Identity
from holdfast.storage.recovery import Progress
from holdfast.storage.writer import Limits
from tests.shell.waiting import wait_until
from tests.storage.conformance import Conformance, Ear
from tests.storage.fake_files import FakeFile, FakeFiles
from tests.storage.parts import IDENTITY, Author, comparable, durability_of, image_of


class TestMemoryEngine(Conformance):
    """Without a disk."""

    @pytest.fixture(autouse=True)
    def _engine(self) -> None:
        self.engine = MemoryEngine()

    def open(self) -> Engine:
        """The same object again."""
        return self.engine


class TestFileEngine(Conformance):
    """On the disk of this machine."""

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.files = RealFiles(tmp_path / "member")

    def open(self) -> Engine:
        """The same directory again."""
        return FileEngine(self.files, IDENTITY, durability_of=durability_of)


class TestFileEngineCompressed(TestFileEngine):
    """With every block compressed, and bases all the time."""

    def open(self) -> Engine:
        """The same directory again."""
        limits = Limits(
            segment_bytes=5_000,
            log_bytes_min=10_000,
            log_codec=Codec.LZ4,
            base_codec=Codec.ZSTD,
        )
        return FileEngine(self.files, IDENTITY, durability_of=durability_of, limits=limits)


def begun(files: FakeFiles, reserve_bytes: int = 0) -> tuple[FileEngine, Ear, Author]:
    """An engine that runs on a disk which can be broken."""
    limits = Limits(reserve_bytes=reserve_bytes)
    engine = FileEngine(files, IDENTITY, durability_of=durability_of, limits=limits)
    engine.recover()
    ear = Ear()
    engine.start(1, ear)
    return engine, ear, Author(Random(1))


def test_a_sync_that_fails_ends_the_engine_and_nothing_more_is_promised() -> None:
    files = FakeFiles()
    engine, ear, author = begun(files)
    engine.write(author.step())
    ear.wait_for(author.number)
    promised = ear.sequences[-1]
    assert engine._writer is not None
    engine._writer.pace.took(9.0, time.monotonic())  # so that the thread syncs
    files.sync_fails = True
    author.control_share = 1.0
    engine.write(author.step())
    assert "fsync failed" in ear.wait_for_failure().message
    assert ear.sequences[-1] == promised
    with pytest.raises(DiskFailed):
        engine.write(author.step())
    with pytest.raises(DiskFailed):
        engine.close()


def test_a_sync_at_once_that_fails_is_said_at_once() -> None:
    files = FakeFiles()
    engine, ear, author = begun(files)
    engine.write(author.step())
    ear.wait_for(author.number)
    promised = ear.sequences[-1]
    files.sync_fails = True
    author.control_share = 1.0
    with pytest.raises(DiskFailed, match="fsync failed"):
        engine.write(author.step())
    assert ear.sequences[-1] == promised
    with pytest.raises(DiskFailed):
        engine.close()


class FailsOnce(FakeFile):
    """A file of which one sync fails."""

    def sync(self) -> None:
        """The next one works."""
        try:
            super().sync()
        finally:
            self.disk.sync_fails = False


def test_the_process_after_a_sync_that_failed_is_in_doubt_on_the_same_machine() -> None:
    """What was written may be gone: the system has dropped it, and the machine is still up."""
    files = FakeFiles()
    engine, ear, author = begun(files)
    engine.write(author.step())
    ear.wait_for(author.number)
    assert engine._writer is not None
    log = engine._writer.log
    log._file = FailsOnce(files, files.names[layout.segment_name(log.segment)])
    author.control_share, files.sync_fails = 1.0, True
    with pytest.raises(DiskFailed):
        engine.write(author.step())
    again = FileEngine(files, IDENTITY, durability_of=durability_of)
    found = again.recover()
    assert found is not None
    assert found.unsure


def test_what_is_small_is_synced_by_whoever_writes_it() -> None:
    """It is persisted when `write` returns, and no thread was woken for it."""
    engine, ear, author = begun(FakeFiles())
    author.control_share = 1.0
    for _ in range(20):
        engine.write(author.step())
        assert ear.sequences[-1] == author.number
    engine.close()


def test_a_full_disk_is_told_before_it_is_full_and_heals_by_itself() -> None:
    """1. There is less room than the reserve, and still some: what is accepted is kept. 2. There is
    none: it waits. 3. There is room again: everything is kept."""
    files = FakeFiles()
    engine, ear, author = begun(files, reserve_bytes=10_000)
    files.capacity = sum(len(each.data) for each in files.names.values()) + 5_000
    persists = author.step()
    engine.write(persists)
    ear.wait_for(author.number)
    wait_until(lambda: ear.fulls == [True], "it is told")
    files.capacity = sum(len(each.data) for each in files.names.values())
    promised = ear.sequences[-1]
    for _ in range(10):
        step = author.step()
        persists += step
        engine.write(step)
    files.capacity = 1 << 40
    wait_until(lambda: ear.fulls == [True, False], "it heals")
    ear.wait_for(author.number)
    assert author.number > promised
    engine.close()
    again = FileEngine(files, IDENTITY, durability_of=durability_of)
    assert comparable(again.recover()) == comparable(image_of(persists))


def test_a_disk_that_stays_full_ends_with_an_error() -> None:
    files = FakeFiles()
    engine, _, author = begun(files)
    files.capacity = sum(len(each.data) for each in files.names.values())
    engine.write(author.step())
    with pytest.raises(DiskFailed, match="the disk is full"):
        engine.close()


def is_unsure(files: FakeFiles, *, lazy: bool = True) -> bool:
    """Whether the next process is told that something may be missing; it ends at once."""
    engine = FileEngine(files, IDENTITY, durability_of=durability_of, lazy=lazy)
    image = engine.recover()
    assert image is not None
    engine.open(engine.last_incarnation + 1)
    return image.unsure


def written(files: FakeFiles) -> FileEngine:
    """An engine that has written, and neither ended nor lost anything so far."""
    engine, ear, author = begun(files)
    engine.write(author.step())
    ear.wait_for(author.number)
    return engine


def test_the_end_of_a_process_loses_nothing_and_the_end_of_the_power_may() -> None:
    files = FakeFiles()
    engine = written(files)
    assert not is_unsure(files.killed())
    assert is_unsure(files.crashed(Random(1)))
    engine.close()


def test_what_ended_in_order_is_whole_on_any_machine() -> None:
    files = FakeFiles()
    written(files).close()
    assert not is_unsure(files.crashed(Random(1)))


def test_doubt_stays_until_it_is_settled() -> None:
    """1. The power is lost. 2. Two processes come and end. 3. One says that others were asked."""
    files = FakeFiles()
    engine = written(files)
    later = files.crashed(Random(1))
    engine.close()
    assert is_unsure(later)
    assert is_unsure(later.killed())
    last = FileEngine(later, IDENTITY, durability_of=durability_of)
    last.recover()
    last.start(9, Ear())
    last.settled()
    last.close()
    assert not is_unsure(later)


def test_without_anything_lazy_nothing_is_ever_in_doubt() -> None:
    files = FakeFiles()
    written(files).close()
    assert not is_unsure(files, lazy=False)
    assert not is_unsure(files.crashed(Random(3)), lazy=False)


def test_an_identity_for_which_there_is_no_room_is_left_as_it_was() -> None:
    files = FakeFiles()
    engine = written(files)
    files.capacity = 0
    engine.settled()
    wait_until(lambda: engine.figures().full, "it notices")
    files.capacity = 1 << 40
    engine.close()
    assert not is_unsure(files)


def test_files_of_another_member_or_another_count_of_partitions_are_refused() -> None:
    files = FakeFiles()
    engine, ear, author = begun(files)
    engine.write(author.step())
    ear.wait_for(author.number)
    engine.close()
    for other in (
        Identity("another", 0, IDENTITY.partition_count, IDENTITY.replica_count),
        msgspec.structs.replace(IDENTITY, partition_count=7),
    ):
        with pytest.raises(ForeignFiles, match="these files are of member"):
            FileEngine(files, other, durability_of=durability_of).recover()
    del files.names["identity.json"]
    with pytest.raises(ForeignFiles, match="it is missing, although there is data"):
        FileEngine(files, IDENTITY, durability_of=durability_of).recover()


def test_a_directory_is_for_one_process(tmp_path: Path) -> None:
    first = RealFiles(tmp_path)
    with pytest.raises(DirectoryInUse, match="another process has it open"):
        RealFiles(tmp_path)
    first.close()
    RealFiles(tmp_path).close()


def test_progress_of_a_recovery_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.recovery.WATCH_BYTES", 100)
    files = FakeFiles()
    engine, ear, author = begun(files)
    for _ in range(20):
        engine.write(author.step())
    ear.wait_for(author.number)
    engine.close()
    seen: list[Progress] = []
    FileEngine(files, IDENTITY, durability_of=durability_of).recover(seen.append)
    assert len(seen) > 3
    assert all(one.done_bytes < other.done_bytes for one, other in pairwise(seen))
    assert replace(seen[-1], records=0).total_bytes >= seen[-1].done_bytes
