"""What every engine of storage must do, whatever it keeps records in."""

from __future__ import annotations

import threading
from random import Random

import pytest

from holdfast.core.effects import Persist
from holdfast.errors import DiskFailed
from holdfast.storage.engine import Engine
from tests.storage.parts import Author, comparable, image_of

DEADLINE_S = 20.0


class Ear:
    """A listener that can be waited for."""

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.failure: DiskFailed | None = None
        self.fulls: list[bool] = []
        self._changed = threading.Condition()

    def persisted(self, sequence: int) -> None:
        """Note it."""
        with self._changed:
            self.sequences.append(sequence)
            self._changed.notify_all()

    def failed(self, error: DiskFailed) -> None:
        """Note it."""
        with self._changed:
            self.failure = error
            self._changed.notify_all()

    def full(self, full: bool) -> None:
        """Note it."""
        with self._changed:
            self.fulls.append(full)
            self._changed.notify_all()

    def wait_for(self, sequence: int) -> None:
        """Until everything up to this number is persisted."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: self.failure is not None or self.sequences[-1:] >= [sequence], DEADLINE_S
            )
        assert self.failure is None

    def wait_for_failure(self) -> DiskFailed:
        """Until it has failed."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.failure is not None, DEADLINE_S)
        assert self.failure is not None
        return self.failure


class Conformance:
    """Each engine has a class of tests that inherits these, and says how to open one again."""

    def open(self) -> Engine:
        """An engine on the same disk each time."""
        raise AssertionError("each engine says how it is opened")

    def test_nothing_was_ever_written(self) -> None:
        engine = self.open()
        assert engine.recover() is None
        assert engine.last_incarnation == 0

    @pytest.mark.parametrize("seed", range(12))
    def test_what_was_written_is_found_again(self, seed: int) -> None:
        author = Author(Random(seed))
        persists: list[Persist] = []
        for incarnation in range(1, 4):
            engine, ear = self.open(), Ear()
            assert comparable(engine.recover()) == comparable(image_of(persists))
            assert engine.last_incarnation == incarnation - 1
            engine.start(incarnation, ear)
            author.number = 0
            for _ in range(30):
                step = author.step()
                persists += step
                engine.write(step)
                engine.serve(author)
            ear.wait_for(author.number)
            engine.close()
        image = self.open().recover()
        assert image is not None
        assert image.incarnation == 3
        assert comparable(image) == comparable(image_of(persists))

    def test_numbers_are_told_once_and_in_order(self) -> None:
        engine, ear = self.open(), Ear()
        engine.recover()
        engine.start(1, ear)
        author = Author(Random(1))
        for _ in range(50):
            engine.write(author.step())
        ear.wait_for(author.number)
        engine.close()
        assert ear.sequences == sorted(set(ear.sequences))
        assert ear.sequences[-1] == author.number

    def test_nothing_to_write_is_nothing(self) -> None:
        engine, ear = self.open(), Ear()
        engine.recover()
        engine.start(1, ear)
        engine.write(())
        engine.close()
        assert ear.sequences == []

    def test_bytes_are_counted(self) -> None:
        engine, ear = self.open(), Ear()
        engine.recover()
        engine.start(1, ear)
        author = Author(Random(2))
        for _ in range(50):
            engine.write(author.step())
        ear.wait_for(author.number)
        figures = engine.figures()
        engine.close()
        assert figures.user_bytes > 0
        assert figures.amplification >= 1

    def test_what_is_settled_is_as_it_was(self) -> None:
        engine, ear = self.open(), Ear()
        engine.recover()
        engine.start(1, ear)
        author = Author(Random(4))
        persists = author.step()
        engine.write(persists)
        engine.settled()
        ear.wait_for(author.number)
        engine.close()
        image = self.open().recover()
        assert image is not None
        assert not image.unsure
        assert comparable(image) == comparable(image_of(persists))

    def test_seal_returns_when_everything_is_kept(self) -> None:
        engine, ear = self.open(), Ear()
        engine.recover()
        engine.start(1, ear)
        author = Author(Random(3))
        persists = author.step() + author.step()
        engine.write(persists)
        engine.seal()
        engine.close()
        assert comparable(self.open().recover()) == comparable(image_of(persists))
