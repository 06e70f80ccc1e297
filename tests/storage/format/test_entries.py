"""Entries: every record comes back, fixed bytes stay what they are, rubbish is refused."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.data_messages import FragmentStand, Stand
from holdfast.core.effects import FragmentRecord, MutationsRecord
from holdfast.core.messages import Fragment
from holdfast.core.stores.record import CHANGE, Kind, build
from holdfast.errors import CorruptFile
from holdfast.ids import PartitionId
from holdfast.storage.format import entries
from holdfast.storage.format.entries import FileEntry, MutationsEntry
from tests.storage.parts import Author

VERSION = bytes(10)


def mutations(*records: bytes) -> MutationsRecord:
    stand = FragmentStand(b"n", Stand(3, 2, (2, 2, 0, 0, 0, 0)), ((3, 0),))
    pairs = tuple((b"k%d" % number, each) for number, each in enumerate(records))
    return MutationsRecord(PartitionId(4), 1, b"n", pairs, stand, 1, clean=True)


def test_a_body_is_these_bytes() -> None:
    record = mutations(build(VERSION, Kind.STRING, 0, b"v"))
    body = entries.encode((entries.entry_of(record), FileEntry("base", 9, "m", 5, 3)))
    assert msgspec.msgpack.decode(body) == [
        [
            5,
            4,
            1,
            b"n",
            1,
            True,
            [3, 2, [2, 2, 0, 0, 0, 0]],
            [[3, 0]],
            True,
            [b"k0"],
            [VERSION + b"\0v"],
        ],
        [0, "base", 9, "m", 5, 3],
    ]
    dropped = entries.encode((entries.entry_of(FragmentRecord(PartitionId(4), None)),))
    assert msgspec.msgpack.decode(dropped) == [[4, 4, -1, 0]]
    held = entries.encode((entries.entry_of(FragmentRecord(PartitionId(4), Fragment(7, 8))),))
    assert msgspec.msgpack.decode(held) == [[4, 4, 7, 8]]


@given(st.integers(0, 10**6))
def test_every_record_comes_back(seed: int) -> None:
    author = Author(Random(seed))
    records = [each.record for _ in range(5) for each in author.step()]
    body = entries.encode(entries.entry_of(record) for record in records)
    found = [entries.record_of(entry) for entry in entries.decode(body, "f", 0)]
    assert found == records


def test_only_strings_are_plain() -> None:
    string = build(VERSION, Kind.STRING, 0, b"")
    expiring = build(VERSION, Kind.STRING, 99, b"v")
    assert entries.mutations_entry(mutations()).plain
    assert entries.mutations_entry(mutations(string, expiring)).plain
    for flags in (Kind.SET, Kind.GONE, Kind.EMPTIED, Kind.LOCK, Kind.LIST | CHANGE):
        assert not entries.mutations_entry(mutations(string, build(VERSION, flags, 0, b""))).plain


def test_all_but_mutations_is_control() -> None:
    assert not entries.is_control(entries.entry_of(mutations()))
    assert entries.is_control(FileEntry("segment", 1, "m", 5, 3))


def test_a_file_entry_is_no_record() -> None:
    with pytest.raises(AssertionError, match="FileEntry is no record"):
        entries.record_of(FileEntry("segment", 1, "m", 5, 3))


@given(st.binary(max_size=100))
def test_rubbish_is_refused(data: bytes) -> None:
    with suppress(CorruptFile):
        assert isinstance(entries.decode(data, "f", 12), list)


@pytest.mark.parametrize(
    "entry",
    [
        MutationsEntry(PartitionId(1), 1, b"n", 1, True, (1, 1, (1,)), (), True, [b"k"], []),
        MutationsEntry(PartitionId(1), 1, b"n", 1, True, (1, 1, ()), (), True, [], []),
    ],
)
def test_mutations_that_cannot_be_are_refused(entry: MutationsEntry) -> None:
    with pytest.raises(CorruptFile, match="mutations of partition 1 that can't be"):
        entries.decode(entries.encode((entry,)), "f", 0)
