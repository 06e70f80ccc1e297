"""Rows in columns: the block in which whole partitions are read, written and followed.

    offset  size  field, little-endian like all of it
    0       2     magic, "HR"
    2       1     version of the layout, 1
    3       1     flags: 1 the last block of its stream, 2 it has values
    4       4     partition
    8       4     sequence in its stream: 0, 1, 2 ...
    12      4     count of rows, n
    16      8     epoch of the point of the fragment's history that this is about
    24      8     number of that point
    32      4     bytes of all keys
    36      4     bytes of all values
    40      4     CRC-32C of the forty bytes above and of all below
    44      4     zero
    48            columns, each from a multiple of eight on, with zeros in between:
                    key offsets    n + 1 of 4 bytes, the first 0, the last the bytes of all keys
                    value offsets  n + 1 of 4 bytes likewise
                    expiries       n of 8 bytes: milliseconds since 1970; 0 never
                    versions       n of 10 bytes: they compare as bytes
                    kinds          n of 1 byte: a `record.Kind`, with CHANGE for a part of a value
                    keys, values   bytes, one after the other

Rules (`design/7` "Arrow batches straight from blocks"; `design/2` "one block format")
--------------------------------------------------------------------------------------
* Columns are laid out as Arrow lays out its own: offsets and data of two binary columns, numbers,
  a column of fixed size. Who wants Arrow hands over slices of the block; nothing is copied, and no
  object is made for a row. What members send one another and write to disk stays in msgpack: there
  a record is taken as it is, key by key.
* A stream is blocks in the order of their sequence; the last one says that it is. So a stream that
  ends without it is broken, wherever it was cut. After the last block another one may begin.
* The same layout brings rows to a member: the version counts for nothing then.

States
------
Of a stream (`RowStream`): open ◄──► whole (the last block was there); either ──► poisoned.

What can go wrong
-----------------
Whatever comes, it is refused as a `FrameError` (bytes that are no block) or a `MessageError` (a
block with impossible columns), before more than one block is waited for.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from operator import le
from typing import Final, NamedTuple

import google_crc32c

from holdfast.core.stores.fragment import Mutation
from holdfast.core.stores.record import (
    CHANGE,
    EXPIRES,
    EXPIRING_AT,
    FLAGS_AT,
    PLAIN_AT,
    VERSION_BYTES,
    Kind,
    build,
)
from holdfast.errors import FrameError, LocalProtocolError, MessageError, RemoteProtocolError
from holdfast.ids import PARTITION_COUNT_MAX, PartitionId

MAGIC: Final = b"HR"
LAYOUT_VERSION: Final = 1
HEAD: Final = struct.Struct("<2sBBIIIQQIIII")
HEAD_BYTES: Final = HEAD.size
LAST: Final = 1
VALUES: Final = 2
ROWS_MAX: Final = 1 << 20
BLOCK_BYTES_MAX: Final = 96 << 20
"""More than the longest value, with its key; far less than what an offset can say."""
EXPIRY_MAX: Final = (1 << 63) - 1

_CHECKED: Final = struct.Struct("<2sBBIIIQQII")
_SWAPS: Final = sys.byteorder == "big"
_KINDS: Final = bytes(chain(Kind, (kind | CHANGE for kind in Kind)))
"""Every byte that may stand in the column of kinds."""


class Row(NamedTuple):
    """One row, as Python reads it."""

    key: bytes
    value: bytes
    version: bytes
    kind: int
    expiry: int


class Sizes(NamedTuple):
    """Where the columns of a block begin; the last is its end."""

    key_offsets: int
    value_offsets: int
    expiries: int
    versions: int
    kinds: int
    keys: int
    values: int
    end: int


@dataclass(frozen=True, slots=True)
class About:
    """What a block says beside its rows."""

    partition: PartitionId
    epoch: int
    counter: int
    sequence: int = 0
    last: bool = True
    has_values: bool = True


@dataclass(frozen=True, slots=True)
class Rows:
    """A block that was read: its columns are slices of it."""

    about: About
    count: int
    data: bytes
    sizes: Sizes

    def __len__(self) -> int:
        return self.count

    def column(self, name: str) -> memoryview:
        """The bytes of a column, by its name in `Sizes`, as they stand in the block."""
        at = Sizes._fields.index(name)
        begin = self.sizes[at]
        length = _lengths(self.count, *self._totals())[at]
        return memoryview(self.data)[begin : begin + length]

    def _totals(self) -> tuple[int, int]:
        key_bytes, value_bytes = HEAD.unpack_from(self.data)[8:10]
        return key_bytes, value_bytes

    def numbers(self, name: str) -> array[int]:
        """A column of offsets or expiries."""
        return _numbers("q" if name == "expiries" else "i", self.column(name))

    def __iter__(self) -> Iterator[Row]:
        starts, values_at = self.numbers("key_offsets"), self.numbers("value_offsets")
        expiries, kinds = self.numbers("expiries"), self.column("kinds")
        keys, values = bytes(self.column("keys")), bytes(self.column("values"))
        versions = bytes(self.column("versions"))
        for at in range(self.count):
            yield Row(
                keys[starts[at] : starts[at + 1]],
                values[values_at[at] : values_at[at + 1]],
                versions[at * VERSION_BYTES : (at + 1) * VERSION_BYTES],
                kinds[at],
                expiries[at],
            )

    def mutations(self) -> list[Mutation]:
        """Keys and records."""
        if any(self.numbers("expiries")):
            return [(row.key, build(row.version, row.kind, row.expiry, row.value)) for row in self]
        keys, values = bytes(self.column("keys")), bytes(self.column("values"))
        versions = bytes(self.column("versions"))
        heads = zip(
            [versions[at : at + VERSION_BYTES] for at in range(0, len(versions), VERSION_BYTES)],
            self.column("kinds"),
            strict=True,
        )
        return [
            (keys[key:key_end], b"%b%c%b" % (*head, values[value:value_end]))
            for (key, key_end), (value, value_end), head in zip(
                pairwise(self.numbers("key_offsets")),
                pairwise(self.numbers("value_offsets")),
                heads,
                strict=True,
            )
        ]


# Writing ------------------------------------------------------------------------------------------


def encode(about: About, rows: Sequence[Mutation]) -> bytes:
    """The block of these keys and records."""
    records = [record for _, record in rows]
    keys = [key for key, _ in rows]
    expiring = [record[FLAGS_AT] & EXPIRES for record in records]
    expiries, values = array("q", bytes(8 * len(rows))), list[bytes]()
    if any(expiring):
        for at, record in enumerate(records):
            if expiring[at]:
                expiries[at] = int.from_bytes(record[PLAIN_AT:EXPIRING_AT], "big")
        values = [
            record[EXPIRING_AT if expires else PLAIN_AT :]
            for record, expires in zip(records, expiring, strict=True)
        ]
    else:
        values = [record[PLAIN_AT:] for record in records]
    if not about.has_values:
        values = [b""] * len(rows)
    kinds = bytes([record[FLAGS_AT] & ~EXPIRES for record in records])
    versions = b"".join([record[:VERSION_BYTES] for record in records])
    return _assemble(about, keys, values, expiries, versions, kinds)


def _assemble(
    about: About,
    keys: Sequence[bytes],
    values: Sequence[bytes],
    expiries: array[int],
    versions: bytes,
    kinds: bytes,
) -> bytes:
    return join(
        about,
        (
            _bytes(array("i", accumulate(map(len, keys), initial=0))),
            _bytes(array("i", accumulate(map(len, values), initial=0))),
            _bytes(expiries),
            versions,
            kinds,
            b"".join(keys),
            b"".join(values),
        ),
    )


def join(about: About, columns: Sequence[bytes | memoryview]) -> bytes:
    """The block of these columns, in the order of the layout: for who has rows in columns."""
    count, all_keys, all_values = len(columns[4]), columns[5], columns[6]
    sizes = _sizes(count, len(all_keys), len(all_values))
    if sizes.end > BLOCK_BYTES_MAX or count > ROWS_MAX:
        raise LocalProtocolError(f"a block of {count} rows and {sizes.end} bytes can't be read")
    wanted = _lengths(count, len(all_keys), len(all_values))
    if tuple(map(len, columns)) != wanted:
        raise LocalProtocolError(f"columns of {tuple(map(len, columns))} bytes, not of {wanted}")
    body = b"".join(part for each in columns for part in (each, bytes(-len(each) % 8)))
    head = _CHECKED.pack(
        MAGIC,
        LAYOUT_VERSION,
        (LAST if about.last else 0) | (VALUES if about.has_values else 0),
        about.partition,
        about.sequence,
        count,
        about.epoch,
        about.counter,
        len(all_keys),
        len(all_values),
    )
    return b"%b%b%b" % (head, struct.pack("<II", _checksum(head, body), 0), body)


# Reading ------------------------------------------------------------------------------------------


def length_of(head: bytes | bytearray | memoryview) -> int:
    """The length of the block that begins so; refused before its rest is waited for."""
    magic, version, flags, partition, _, count, _, _, keys, values, _, zero = HEAD.unpack_from(head)
    if magic != MAGIC:
        raise FrameError(f"no block of rows begins with {bytes(head[:4]).hex()}")
    if version != LAYOUT_VERSION:
        raise FrameError(f"rows in layout {version}; this is {LAYOUT_VERSION}")
    if flags & ~(LAST | VALUES) or zero or partition >= PARTITION_COUNT_MAX or count > ROWS_MAX:
        raise FrameError(f"a head of rows that can't be: {bytes(head[:HEAD_BYTES]).hex()}")
    end = _sizes(count, keys, values).end
    if end > BLOCK_BYTES_MAX:
        raise FrameError(f"a block of {end} bytes is larger than {BLOCK_BYTES_MAX}")
    return end


def cut(data: bytes) -> list[bytes]:
    """Blocks that stand one after the other, to the end; nothing but their heads is looked at."""
    found, at, view = list[bytes](), 0, memoryview(data)
    while at < len(data):
        left = len(data) - at
        end = length_of(view[at:]) if left >= HEAD_BYTES else HEAD_BYTES
        if end > left:
            raise FrameError(f"{left} bytes of a block of rows of at least {end}")
        found.append(data[at : at + end])
        at += end
    return found


def partition_of(block: bytes) -> PartitionId:
    """Of a block whose head was looked at."""
    return PartitionId(HEAD.unpack_from(block)[3])


def decode(data: bytes) -> Rows:
    """One whole block."""
    if len(data) < HEAD_BYTES or len(data) != length_of(data):
        raise FrameError(f"{len(data)} bytes are no block of rows")
    head, body = memoryview(data)[: _CHECKED.size], memoryview(data)[HEAD_BYTES:]
    _, _, flags, partition, sequence, count, epoch, counter, keys, values, checksum, _ = (
        HEAD.unpack_from(data)
    )
    if _checksum(bytes(head), bytes(body)) != checksum:
        raise FrameError("the checksum of a block of rows is wrong")
    about = About(
        PartitionId(partition), epoch, counter, sequence, bool(flags & LAST), bool(flags & VALUES)
    )
    rows = Rows(about, count, data, _sizes(count, keys, values))
    _check(rows, keys, values)
    return rows


def _check(rows: Rows, keys: int, values: int) -> None:
    """What no column can be."""
    for name, total in (("key_offsets", keys), ("value_offsets", values)):
        offsets = rows.numbers(name)
        rising = all(map(le, offsets, offsets[1:]))
        if offsets[0] != 0 or offsets[-1] != total or not rising:
            raise MessageError(f"{name} of a block of rows that do not rise from 0 to {total}")
    if bytes(rows.column("kinds")).translate(None, _KINDS):
        raise MessageError("a kind in a block of rows that there is not")
    if min(rows.numbers("expiries"), default=0) < 0:
        raise MessageError("an expiry in a block of rows before 1970")


class RowStream:
    """Cuts a stream into blocks, in their order, to the last."""

    __slots__ = ("_buffer", "_expected", "_poison", "whole")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._expected = 0
        self._poison: RemoteProtocolError | None = None
        self.whole = False
        """Whether the last block was there, and nothing after it."""

    def feed(self, data: bytes) -> list[Rows]:
        """The blocks that are whole now."""
        if self._poison is not None:
            raise self._poison
        found = []
        try:
            if not self._buffer and len(data) >= HEAD_BYTES and length_of(data) == len(data):
                return [self._take(data)]  # as it comes where nothing tears or joins blocks
            self._buffer += data
            while self._is_whole():
                found.append(self._next())
        except RemoteProtocolError as error:
            self._poison, self._buffer = error, bytearray()
            raise
        return found

    def _is_whole(self) -> bool:
        self.whole = self.whole and not self._buffer
        return len(self._buffer) >= HEAD_BYTES and len(self._buffer) >= length_of(self._buffer)

    def _next(self) -> Rows:
        end = length_of(self._buffer)
        block = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        return self._take(block)

    def _take(self, block: bytes) -> Rows:
        rows = decode(block)
        if rows.about.sequence != self._expected:
            raise FrameError(f"block {rows.about.sequence} where {self._expected} is the next")
        self._expected = 0 if rows.about.last else self._expected + 1
        self.whole = rows.about.last
        return rows


# Columns ------------------------------------------------------------------------------------------


def _lengths(count: int, keys: int, values: int) -> tuple[int, ...]:
    """Of the columns, in their order."""
    offsets = 4 * (count + 1)
    return (offsets, offsets, 8 * count, VERSION_BYTES * count, count, keys, values)


def _sizes(count: int, keys: int, values: int) -> Sizes:
    padded = ((length + 7) // 8 * 8 for length in _lengths(count, keys, values))
    return Sizes(*accumulate(padded, initial=HEAD_BYTES))


def _numbers(code: str, data: memoryview) -> array[int]:
    found = array(code)
    found.frombytes(data)
    if _SWAPS:  # pragma: no cover - on machines of the other byte order
        found.byteswap()
    return found


def _bytes(numbers: array[int]) -> bytes:
    if _SWAPS:  # pragma: no cover - on machines of the other byte order
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _checksum(head: bytes, body: bytes) -> int:
    found: int = google_crc32c.extend(google_crc32c.value(head), body)
    return found
