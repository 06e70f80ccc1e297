"""Zeros are written behind what is synced in short pieces, and are never taken for blocks."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from random import Random

import pytest

from holdfast.core.effects import Persist
from holdfast.errors import DiskFailed
from holdfast.storage import layout
from holdfast.storage.engine import FileEngine
from holdfast.storage.files import RealFiles
from holdfast.storage.log import ROOM_BYTES, ROOM_FOR_BYTES
from holdfast.storage.recovery import recover
from holdfast.storage.verify import verify
from holdfast.storage.writer import Limits
from tests.storage.conformance import Ear
from tests.storage.fake_files import FakeFile, FakeFiles
from tests.storage.parts import IDENTITY, Author, comparable, durability_of, image_of


class Life:
    """A member that is asked for a sync by each step."""

    def __init__(self, files: FakeFiles | RealFiles) -> None:
        self.files = files
        self.engine = FileEngine(files, IDENTITY, durability_of=durability_of)
        self.engine.recover()
        self.ear = Ear()
        self.engine.start(1, self.ear)
        assert self.engine._writer is not None
        self.log = self.engine._writer.log
        self.author = Author(Random(1))
        self.author.control_share = 1.0
        self.steps: list[Persist] = []

    @property
    def name(self) -> str:
        """Of the open segment."""
        return layout.segment_name(self.log.segment)

    def write(self, count: int) -> None:
        """Some steps, one after the other."""
        for _ in range(count):
            step = self.author.step()
            self.steps += step
            self.engine.write(step)
            self.ear.wait_for(self.author.number)


def test_the_next_pieces_go_over_the_zeros_behind_the_last_one(tmp_path: Path) -> None:
    """1. A member writes short pieces: its segment becomes longer once, not each time. 2. It is
    killed: all that it wrote is found, nothing is torn. 3. It ends in order: no zeros are left."""
    life = Life(RealFiles(tmp_path / "member", lock=False))
    lengths = set()
    for _ in range(40):
        life.write(1)
        lengths.add(life.files.size(life.name))
    assert len(lengths) == 1
    assert lengths.pop() - ROOM_BYTES < life.log.size < ROOM_BYTES
    shutil.copytree(tmp_path / "member", tmp_path / "killed")
    killed = RealFiles(tmp_path / "killed", lock=False)
    found = recover(killed)
    assert found is not None
    assert (found.torn_bytes, found.end) == (0, life.log.size)
    assert comparable(found.image()) == comparable(image_of(life.steps))
    assert verify(killed).sound
    life.engine.close()
    assert life.files.size(life.name) == life.log.size


def test_a_segment_that_ends_keeps_none() -> None:
    life = Life(FakeFiles())
    life.write(3)
    name, size = life.name, life.log.size
    assert life.files.size(name) > size
    assert life.log.roll()
    assert life.files.size(name) == size


def test_what_is_long_gets_none() -> None:
    life = Life(FakeFiles())
    life.author.control_share = 0.0
    life.author.names = (b"always",)
    life.steps = [each for _ in range(ROOM_FOR_BYTES // 20) for each in life.author.step()]
    life.engine.write(life.steps)
    life.ear.wait_for(life.author.number)
    assert life.log.size > ROOM_FOR_BYTES
    assert life.files.size(life.name) == life.log.size


def test_a_disk_that_has_no_room_for_zeros_takes_what_is_written() -> None:
    files = FakeFiles()
    life = Life(files)
    files.capacity = files.capacity - files.free_bytes() + ROOM_BYTES
    assert life.engine._writer is not None
    life.engine._writer.limits = Limits(reserve_bytes=0)
    life.write(5)
    assert files.size(life.name) == life.log.size
    life.engine.close()
    found = recover(files)
    assert found is not None
    assert comparable(found.image()) == comparable(image_of(life.steps))


class Broken(FakeFile):
    """A file that can't be made longer."""

    def make_room(self, size: int) -> None:
        """The disk fails."""
        raise OSError(errno.EIO, f"Input/output error in {size} bytes")


def test_a_disk_that_fails_meanwhile_has_failed() -> None:
    files = FakeFiles()
    life = Life(files)
    life.log._file = Broken(files, files.names[life.name])
    life.log._room_end = 0
    with pytest.raises(DiskFailed, match="a write failed"):
        life.engine.write(life.author.step())
