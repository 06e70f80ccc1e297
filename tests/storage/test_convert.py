"""The steps of a conversion: each again, by anyone, and nothing at its place before the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.stores.record import Kind, kind_of
from holdfast.errors import StorageError
from holdfast.ids import Address
from holdfast.storage import convert as steps
from holdfast.storage.backup import back_up, files_at
from holdfast.storage.convert import Converted, Newcomer, Plan, Shape, convert
from holdfast.storage.files import RealFiles
from holdfast.storage.outline import all_written
from holdfast.storage.past import surveyed, together
from holdfast.storage.recovery import recover
from holdfast.storage.sorting import spill
from holdfast.storage.verify import verify
from tests.storage.test_backup import Running

NAMES = ("a", "b", "c")


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A directory of a member that has ended."""
    member = Running(tmp_path / "member", seed=5)
    member.write(120)
    member.stop()
    return member.directory


def newcomers() -> list[Newcomer]:
    return [Newcomer(name, Address(f"{name}:7380"), name) for name in NAMES]


def converted(source: Path, target: Path, copies: int = 7, group_bytes: int = 1 << 30) -> Converted:
    return convert(
        [source],
        target,
        newcomers(),
        partition_count=16,
        replica_count=3,
        copies=copies,
        missing_allowed=True,
        group_bytes=group_bytes,
    )


def held(directory: Path) -> dict[tuple[int, bytes, bytes, bool], bytes]:
    """Everything that a member finds there."""
    found = recover(RealFiles(directory, lock=False))
    assert found is not None
    assert len(found.fold.data.held) == 16, "whoever stands in a row begins its data"
    return {
        (partition, written.last.name, key, kind_of(record) is Kind.LOCK): record
        for partition, written in all_written(found.fold.data)
        for key, record in written.entries()
    }


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_as_many_holders_get_data_as_are_asked_for(
    stopped: Path, tmp_path: Path, copies: int
) -> None:
    made = converted(stopped, tmp_path / "new", copies)
    found = [held(tmp_path / "new" / name) for name in NAMES]
    assert sum(map(len, found)) == copies * (made.keys + made.locks)
    every = {place: record for each in found for place, record in each.items()}
    assert len(every) == made.keys + made.locks
    assert all(each.items() <= every.items() for each in found)


def test_groups_of_any_size_make_the_same(stopped: Path, tmp_path: Path) -> None:
    converted(stopped, tmp_path / "whole", copies=3)
    converted(stopped, tmp_path / "small", copies=3, group_bytes=300)
    assert held(tmp_path / "whole" / "a") == held(tmp_path / "small" / "a")


def prepared(source: Path, target: Path) -> Plan:
    past = together([surveyed(files_at(source), str(source))])
    shape = Shape(tuple(newcomers()), 16, 3, 2)
    return steps.plan_of(past, target, shape, missing_allowed=True, group_bytes=500)


def test_steps_that_are_done_twice_make_one_result(stopped: Path, tmp_path: Path) -> None:
    """1. A source is spilled twice. 2. A group is written twice. 3. Of both, either is named; what
    is left over is no member's."""
    plan = prepared(stopped, tmp_path / "new")
    with steps.workplace(plan):
        assert not (tmp_path / "new" / "a").exists()
        sizes = spill(plan.sorting, 0, files_at(stopped))
        assert spill(plan.sorting, 0, files_at(stopped)) == sizes
        made = [steps.write(plan, number, [size]) for number, size in enumerate(sizes)]
        assert steps.write(plan, 0, [sizes[0]]) == made[0]
        steps.finish(plan, made)
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == list(NAMES)
    assert len(made) > 1
    converted(stopped, tmp_path / "other", copies=2)
    for name in NAMES:
        assert verify(RealFiles(tmp_path / "new" / name, lock=False)).sound
    both = [tmp_path / folder for folder in ("new", "other")]
    one, other = [{k: v for n in NAMES for k, v in held(each / n).items()} for each in both]
    assert one == other


def test_what_was_spilled_and_is_not_there_is_refused(stopped: Path, tmp_path: Path) -> None:
    plan = prepared(stopped, tmp_path / "new")
    with pytest.raises(StorageError, match="0 bytes of 7 are there"), steps.workplace(plan):
        steps.write(plan, 0, [7])
    assert not (tmp_path / "new").exists()


def test_a_backup_is_read_where_its_files_are(stopped: Path, tmp_path: Path) -> None:
    """The second one has next to nothing of its own."""
    back_up(stopped, tmp_path / "backups" / "one")
    back_up(stopped, tmp_path / "backups" / "two", previous=tmp_path / "backups" / "one")
    converted(stopped, tmp_path / "of-files", copies=3)
    converted(tmp_path / "backups" / "two", tmp_path / "of-backup", copies=3)
    assert held(tmp_path / "of-files" / "a") == held(tmp_path / "of-backup" / "a")
