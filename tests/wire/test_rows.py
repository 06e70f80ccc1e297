"""Blocks of rows: what is written is read, however it is cut, and nothing else gets through."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.fragment import Mutation
from holdfast.core.stores.record import ABSENT, CHANGE, Kind, build
from holdfast.errors import FrameError, LocalProtocolError, MessageError, RemoteProtocolError
from holdfast.ids import PartitionId
from holdfast.wire import rows as wire_rows
from holdfast.wire.rows import (
    BLOCK_BYTES_MAX,
    EXPIRY_MAX,
    HEAD_BYTES,
    About,
    Rows,
    RowStream,
    cut,
    decode,
    encode,
    join,
    length_of,
    partition_of,
)

RECORDS = st.builds(
    build,
    st.binary(min_size=10, max_size=10),
    st.sampled_from([*Kind, *(kind | CHANGE for kind in Kind)]),
    st.sampled_from([0, 1, 1_700_000_000_000, EXPIRY_MAX]),
    st.binary(max_size=40),
)
MUTATIONS = st.lists(st.tuples(st.binary(max_size=20), RECORDS), max_size=8)
ABOUT = About(PartitionId(7), 3, 99)
ONE: list[Mutation] = [(b"key", build(bytes(10), Kind.STRING, 5, b"value"))]


@given(MUTATIONS)
def test_what_is_written_is_read(mutations: list[Mutation]) -> None:
    found = decode(encode(ABOUT, mutations))
    assert found.about == ABOUT
    assert len(found) == len(mutations)
    assert found.mutations() == mutations


def test_columns_are_where_arrow_wants_them() -> None:
    """Offsets of four bytes, data in one piece, each from a multiple of eight on."""
    plain = [(b"a", build(bytes(10), Kind.STRING, 0, b"xx")), (b"bcd", ONE[0][1])]
    data = encode(ABOUT, plain)
    found = decode(data)
    assert all(size % 8 == 0 for size in found.sizes)
    assert struct.unpack("<3i", found.column("key_offsets")) == (0, 1, 4)
    assert struct.unpack("<3i", found.column("value_offsets")) == (0, 2, 7)
    assert struct.unpack("<2q", found.column("expiries")) == (0, 5)
    assert bytes(found.column("keys")) == b"abcd"
    assert bytes(found.column("values")) == b"xxvalue"
    assert bytes(found.column("versions")) == bytes(20)
    assert bytes(found.column("kinds")) == bytes(2)
    assert [row.key for row in found] == [b"a", b"bcd"]


def test_values_may_stay_away() -> None:
    about = About(PartitionId(0), 1, 1, has_values=False)
    found = decode(encode(about, ONE))
    assert not found.about.has_values
    assert [(row.key, row.value, row.expiry) for row in found] == [(b"key", b"", 5)]


@given(st.lists(MUTATIONS, min_size=1, max_size=4), st.data())
def test_any_split_gives_the_same_blocks(blocks: list[list[Mutation]], data: st.DataObject) -> None:
    last = len(blocks) - 1
    stream = b"".join(
        encode(About(PartitionId(1), 1, 1, number, last=number == last), each)
        for number, each in enumerate(blocks)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = RowStream()
    found: list[Rows] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        assert reader.whole is (start == len(stream) and bool(found))
        found += reader.feed(stream[start:end])
    assert reader.whole
    assert [each.mutations() for each in found] == blocks
    assert [each.mutations() for each in reader.feed(stream)] == blocks, "another one"
    assert reader.whole
    assert reader.feed(b"x") == []
    assert not reader.whole


def test_blocks_come_in_their_order() -> None:
    reader = RowStream()
    with pytest.raises(FrameError, match="block 1 where 0 is the next"):
        reader.feed(encode(About(PartitionId(1), 1, 1, 1), ONE))
    with pytest.raises(FrameError, match="block 1 where 0 is the next"):
        reader.feed(b"")


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    for start in (b"", encode(ABOUT, ONE)[:HEAD_BYTES]):
        for read in (decode, RowStream().feed):
            try:
                read(start + data)
            except RemoteProtocolError:
                continue


@given(MUTATIONS, st.data())
def test_any_changed_bit_is_found(mutations: list[Mutation], data: st.DataObject) -> None:
    block = bytearray(encode(ABOUT, mutations))
    place = data.draw(st.integers(0, len(block) - 1))
    block[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(FrameError):
        decode(bytes(block))


@given(MUTATIONS, st.data())
def test_impossible_columns_are_refused_though_the_checksum_is_right(
    mutations: list[Mutation], data: st.DataObject
) -> None:
    """Whatever somebody writes there, nothing but our own errors comes of it."""
    block = bytearray(encode(ABOUT, mutations))
    place = data.draw(st.integers(0, len(block) - 1))
    block[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = decode(sealed(bytes(block)))
    except RemoteProtocolError:
        return
    assert len(found.mutations()) == len(found)


def sealed(block: bytes) -> bytes:
    """With the right checksum."""
    checksum = wire_rows._checksum(block[:40], block[HEAD_BYTES:])
    return block[:40] + struct.pack("<I", checksum) + block[44:]


def changed(place: int, new: bytes) -> bytes:
    block = bytearray(encode(ABOUT, ONE))
    block[place : place + len(new)] = new
    return sealed(bytes(block))


SIZES = decode(encode(ABOUT, ONE)).sizes


@pytest.mark.parametrize(
    ("block", "kind", "told"),
    [
        (changed(0, b"XX"), FrameError, "no block of rows begins with 5858"),
        (changed(2, b"\2"), FrameError, "rows in layout 2"),
        (changed(3, b"\4"), FrameError, "a head of rows that can't be"),
        (changed(4, b"\xff" * 4), FrameError, "a head of rows that can't be"),
        (changed(12, b"\xff" * 4), FrameError, "a head of rows that can't be"),
        (changed(36, b"\xff" * 4), FrameError, "is larger than"),
        (changed(36, b"\xff"), FrameError, "bytes are no block of rows"),
        (b"HR", FrameError, "2 bytes are no block of rows"),
        (changed(SIZES.key_offsets, b"\1"), MessageError, "key_offsets of a block"),
        (changed(SIZES.key_offsets + 4, b"\2"), MessageError, "key_offsets of a block"),
        (changed(SIZES.value_offsets + 4, b"\xff\xff\xff\xff"), MessageError, "value_offsets of"),
        (changed(SIZES.kinds, b"\x10"), MessageError, "a kind in a block of rows"),
        (changed(SIZES.expiries, b"\xff" * 8), MessageError, "an expiry in a block of rows"),
    ],
)
def test_what_can_not_be_is_refused(block: bytes, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        decode(block)


def test_a_head_is_refused_before_its_rest_is_waited_for() -> None:
    with pytest.raises(FrameError, match="is larger than"):
        RowStream().feed(changed(32, b"\xff" * 4)[:HEAD_BYTES])
    assert length_of(encode(ABOUT, ONE)) == len(encode(ABOUT, ONE))


def test_what_nobody_could_read_is_not_written() -> None:
    large = [(b"k", build(bytes(10), Kind.STRING, 0, bytes(BLOCK_BYTES_MAX)))]
    with pytest.raises(LocalProtocolError, match="can't be read"):
        encode(ABOUT, large)


def test_who_has_columns_joins_them() -> None:
    rows = decode(encode(ABOUT, ONE))
    names = ("key_offsets", "value_offsets", "expiries", "versions", "kinds", "keys", "values")
    columns = [rows.column(name) for name in names]
    assert join(ABOUT, columns) == rows.data
    with pytest.raises(LocalProtocolError, match=r"columns of .* bytes, not of"):
        join(ABOUT, [*columns[:3], b"", *columns[4:]])


def test_blocks_that_stand_together_are_cut_apart() -> None:
    blocks = [
        encode(About(PartitionId(at), 0, 0), [(b"k", build(ABSENT, Kind.STRING, 0, b"v" * at))])
        for at in range(3)
    ]
    assert cut(b"".join(blocks)) == blocks
    assert [partition_of(block) for block in blocks] == [0, 1, 2]
    assert cut(b"") == []
    for torn in (blocks[0] + b"HR", blocks[0] + blocks[1][:-1], b"nonsense" * 20):
        with pytest.raises(FrameError):
            cut(torn)
