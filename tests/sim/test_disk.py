"""Disks: in order, and a crash keeps a prefix of what was not stable."""

from __future__ import annotations

from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    Persist,
    Record,
    RowsRecord,
    StableRecord,
)
from holdfast.core.messages import Fragment, StableTable
from holdfast.core.table import Row
from holdfast.ids import MemberId, PartitionId, Term, Version
from holdfast.sim.disk import Disk


def row(partition: int, version: int) -> Row:
    return Row(PartitionId(partition), Version(version), (MemberId("a"),))


def written(*records: Record) -> Disk:
    disk = Disk()
    for number, record in enumerate(records, 1):
        disk.write(Persist(number, record))
    return disk


MEMBERSHIP = MembershipRecord(3, Term(7), None)


def test_an_empty_disk_has_no_image() -> None:
    assert Disk().image() is None
    assert written(MEMBERSHIP).image() is None


def test_what_is_synced_is_found_again() -> None:
    stable = StableTable(Term(1), Version(2), (row(0, 5),))
    disk = written(
        MEMBERSHIP,
        RowsRecord((row(1, 1), row(0, 1)), fresh=False),
        RowsRecord((row(1, 2),), fresh=False),
        StableRecord(stable),
        FragmentRecord(PartitionId(1), Fragment(4, 5)),
        FragmentRecord(PartitionId(0), Fragment(6, 7)),
        FragmentRecord(PartitionId(1), None),
    )
    disk.sync(7)
    image = disk.image()
    assert image is not None
    assert (image.incarnation, image.promised, image.view) == (3, 7, None)
    assert image.rows == (row(0, 1), row(1, 2))
    assert image.stable == stable
    assert image.fragments == ((0, 6, 7),)


def test_a_fresh_table_replaces_the_old_rows() -> None:
    disk = written(
        RowsRecord((row(0, 9), row(1, 9)), fresh=False), RowsRecord((row(0, 1),), fresh=True)
    )
    disk.sync(2)
    image = disk.image()
    assert image is not None
    assert image.rows == (row(0, 1),)


def test_a_crash_keeps_a_prefix_of_what_was_not_stable() -> None:
    disk = written(
        MembershipRecord(1, Term(1), None),
        MembershipRecord(1, Term(2), None),
        MembershipRecord(1, Term(3), None),
        MembershipRecord(1, Term(4), None),
    )
    disk.sync(1)
    assert disk.pending == 3
    disk.crash(1)
    assert disk.pending == 0
    assert disk.promised == 2


def test_a_crash_may_lose_everything_that_was_not_stable() -> None:
    disk = written(MEMBERSHIP)
    disk.crash(0)
    assert disk.image() is None
