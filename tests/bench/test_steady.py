"""What is read from the operations of a load."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from bench.figures.failover import until_written
from bench.steady import Row, rows_of, window


def row(sent: float, ended: float, *, key: int = 1, write: bool = True, done: bool = True) -> Row:
    return Row(key, write, sent, sent, ended, done)


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "operations"
    with file.open("wb") as target:
        array("d", [7, True, 1.0, 1.5, 2.0, True, 8, False, 3.0, 3.0, 4.0, False]).tofile(target)
    assert rows_of(file) == [
        Row(7, True, 1.0, 1.5, 2.0, True),
        Row(8, False, 3.0, 3.0, 4.0, False),
    ]


def test_a_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "operations"
    file.write_bytes(array("d", [7, True, 1.0]).tobytes())
    with pytest.raises(ValueError, match="argument"):
        rows_of(file)


def test_a_window_has_every_operation_that_was_under_way_in_it() -> None:
    """One that began before, and one that ends behind: both were slow because of it, perhaps."""
    rows = [row(0.0, 0.5), row(0.9, 1.2), row(1.5, 1.6), row(1.9, 3.0, done=False), row(2.5, 2.6)]
    seen = window(rows, 1.0, 2.0)
    assert (seen.operations, seen.errors) == (3, 1)
    assert seen.longest_ms == pytest.approx(1_100)
    assert seen.p50_ms == pytest.approx(300)
    assert seen.silence_ms == pytest.approx(400)


def test_a_key_is_writable_with_its_first_acknowledged_write_after_the_kill() -> None:
    rows = [
        row(9.0, 9.1, key=1),
        row(9.9, 10.4, key=1),
        row(10.5, 10.6, key=1),
        row(10.1, 10.2, key=2, done=False),
        row(10.1, 10.2, key=2, write=False),
        row(10.7, 10.8, key=2),
        row(10.0, 12.0, key=3),
    ]
    assert until_written(rows, [1, 2], 10.0) == pytest.approx([0.4, 0.8])


def test_a_key_that_was_never_written_again_is_no_zero() -> None:
    with pytest.raises(LookupError, match="1 of 2 keys"):
        until_written([row(10.1, 10.2, key=1)], [1, 2], 10.0)
