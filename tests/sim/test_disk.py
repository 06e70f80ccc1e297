"""Disks: in order, and a crash keeps a prefix of what was not stable."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from holdfast.core.data_messages import FragmentStand, Stand
from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    MutationsRecord,
    Persist,
    Record,
    RowsRecord,
    StableRecord,
)
from holdfast.core.messages import Fragment, StableTable
from holdfast.core.stores.record import NEVER, Kind, build
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


# Data as bytes ------------------------------------------------------------------------------------

P = PartitionId(0)


def mutations(number: int, value: bytes = b"v") -> MutationsRecord:
    record = build(number.to_bytes(10, "big"), Kind.STRING, NEVER, value)
    stand = FragmentStand(b"n", Stand(0, number, (number,) * 6), ((0, 0),))
    return MutationsRecord(P, 0, b"n", ((b"k%d" % number, record),), stand, 1, clean=True)


def data_of(disk: Disk) -> list[tuple[int, int]]:
    """Where each fragment stands, and how many keys it has."""
    image = disk.image()
    assert image is not None
    return [(found.stand.stand.counter, len(found.records)) for found in image.data]


def with_data(*numbers: int) -> Disk:
    records = (mutations(number) for number in numbers)
    return written(FragmentRecord(P, Fragment(0, 0)), *records)


def test_data_is_found_again() -> None:
    disk = with_data(1, 2, 3)
    disk.sync(4)
    assert data_of(disk) == [(3, 3)]


@pytest.mark.parametrize("torn", [0.0, 0.05, 0.3, 0.6, 0.99])
def test_a_record_that_is_half_written_is_cut_off(torn: float) -> None:
    disk = with_data(1, 2, 3)
    disk.crash(3, torn)
    assert disk.is_readable()
    assert data_of(disk) == [(2, 2)]
    disk.write(Persist(9, mutations(3)))
    disk.sync(9)
    assert data_of(disk) == [(3, 3)]


def test_a_record_is_cut_off_though_its_partition_is_not_here_any_more() -> None:
    """What the next process writes stands behind it, when the partition is back. (Seed 3471.)"""
    disk = written(mutations(1), mutations(2))
    disk.crash(1, 0.5)
    assert data_of(disk) == []
    disk.write(Persist(3, FragmentRecord(P, Fragment(0, 0))))
    disk.write(Persist(4, mutations(2)))
    disk.sync(4)
    assert disk.is_readable()
    assert data_of(disk) == [(2, 2)]


def test_data_of_another_history_has_no_half_of_a_record() -> None:
    disk = with_data(1)
    disk.write(Persist(3, replace(mutations(2), generation=5)))
    disk.crash(2, 0.5)
    assert data_of(disk) == [(1, 1)]


def test_every_bit_that_changes_is_noticed() -> None:
    for seed in range(200):
        disk = with_data(1, 2, 3)
        disk.sync(4)
        assert disk.is_readable()
        assert disk.rot(random.Random(seed))
        assert not disk.is_readable()


def test_a_disk_of_one_record_does_not_rot() -> None:
    disk = with_data(1)
    disk.sync(2)
    assert not disk.rot(random.Random(1))
    assert disk.is_readable()


def test_a_row_is_being_written_until_it_is_stable() -> None:
    disk = Disk()
    disk.write(Persist(1, MembershipRecord(3, Term(7), None)))
    disk.write(Persist(2, RowsRecord((row(0, 4),), fresh=False)))
    assert [disk.is_writing(row(0, version)) for version in (3, 4, 5)] == [True, True, False]
    assert not disk.is_writing(row(1, 4))
    disk.sync(2)
    assert not disk.is_writing(row(0, 4))
