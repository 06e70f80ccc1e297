"""Files of the partition table, in the two layouts of seed 001 §3.2, with a checksum around.

    legacy (levels 1 and 2)                   current (from level 3 on)
    ┌─────────────────────────────┐           ┌─────────────────────────────┐
    │ Partition Table Version     │           │ Partition Table Length      │
    │ Partition Table Length      │           │ Replicas (Address + UUID)   │
    │ Replicas (Address + UUID)   │           │ Partition-0 Version         │
    │ Partition-0 Replica Indexes │           │ Partition-0 Replica Indexes │
    │ Partition-1 Replica Indexes │           │ Partition-1 Version         │
    │ ...                         │           │ Partition-1 Replica Indexes │
    │ Partition-N Replica Indexes │           │ ...                         │
    └─────────────────────────────┘           └─────────────────────────────┘

Every number has four bytes, signed, big-endian. *Replicas* is their count, then for each the host
and the UUID, each with its length before it, in UTF-8, and the port between them. *Replica Indexes*
are seven numbers: at replica index i stands the place of its member among the replicas, or -1.

Around it:

    offset  size  field
    0       4     magic, "HFTB"
    4       1     version of this envelope, 1
    5       1     layout: 1 legacy, 2 current
    6       2     length of a row, the replica indexes that are in use: 1 to 7
    8       4     length of the layout's part
    12      4     length of the extension
    16      n     the layout's part, as above
    16+n    m     extension: msgpack of what the seed's table has not (`Extension`)
    end-4   4     CRC-32C of everything before it

Rules
-----
* The level chooses the layout ("decided due to cluster version"): below 3 a table has one version.
  A table that was caught half way, with rows of several versions, takes the current one.
* Epochs and reigns of rows are in the extension, so that the layouts are the seed's, byte by byte.
  Who reads a file without them (an empty extension) gets rows whose data begins with them.
* A row that nobody has told is not there when it is read again: its version is -1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import google_crc32c
import msgspec

from holdfast.core.table import UNKNOWN, Row, check_replicas
from holdfast.core.versioning import versions_are_global
from holdfast.errors import CorruptFile, LocalProtocolError, NewerFormat, TableError
from holdfast.ids import (
    NO_INDEX,
    PARTITION_COUNT_MAX,
    REPLICA_COUNT_MAX,
    Address,
    MemberId,
    PartitionId,
    Replicas,
    Version,
)

MAGIC: Final = b"HFTB"
ENVELOPE_VERSION: Final = 1
ENVELOPE: Final = struct.Struct(">4sBBHII")
INTEGER: Final = struct.Struct(">i")
INDEXES: Final = struct.Struct(f">{REPLICA_COUNT_MAX}i")
TEXT_BYTES_MAX: Final = 1024


class Layout(IntEnum):
    """The layouts of seed 001 §3.2."""

    LEGACY = 1
    CURRENT = 2


class Extension(msgspec.Struct, frozen=True):
    """What the seed's layouts have no place for; fields by name, so that more may come."""

    epochs: list[int] = []
    reigns: list[int] = []
    term: int = 0
    """Of a stable table: with its version, the view at which it was taken."""
    version: int = 0


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table as it is kept."""

    partition_count: int
    replica_count: int
    rows: tuple[Row, ...]
    """In order; partitions that nobody has told are missing."""
    addresses: Mapping[MemberId, Address]
    """Where the members were; empty where that was not known."""
    term: int = 0
    version: int = 0


def layout_for(level: int, table: TableFile) -> Layout:
    """The layout for a cluster of this compatibility level."""
    versions = frozenset(row.version for row in table.rows)
    partial = len(table.rows) not in (0, table.partition_count)
    if versions_are_global(level) and len(versions) <= 1 and not partial:
        return Layout.LEGACY
    return Layout.CURRENT


def encode(table: TableFile, layout: Layout) -> bytes:
    """The file of a table."""
    rows = complete(table)
    part = encode_layout(table, rows, layout)
    extension = msgspec.msgpack.encode(
        Extension(
            [row.epoch for row in rows], [row.reign for row in rows], table.term, table.version
        )
    )
    start = ENVELOPE.pack(
        MAGIC, ENVELOPE_VERSION, layout, table.replica_count, len(part), len(extension)
    )
    whole = b"%b%b%b" % (start, part, extension)
    return b"%b%b" % (whole, google_crc32c.value(whole).to_bytes(4, "big"))


def complete(table: TableFile) -> tuple[Row, ...]:
    """A row for each partition."""
    known = {row.partition: row for row in table.rows}
    vacant: Replicas = (None,) * table.replica_count
    return tuple(
        known.get(PartitionId(each), Row(PartitionId(each), UNKNOWN, vacant))
        for each in range(table.partition_count)
    )


def encode_layout(table: TableFile, rows: Sequence[Row], layout: Layout) -> bytes:
    """The seed's part."""
    members = tuple(dict.fromkeys(member for row in rows for member in row.holders))
    places = {member: place for place, member in enumerate(members)}
    parts = []
    if layout is Layout.LEGACY:
        versions = frozenset(row.version for row in rows)
        if len(versions) != 1:
            raise LocalProtocolError(f"the legacy layout has one version, not {sorted(versions)}")
        parts.append(INTEGER.pack(*versions))
    parts.append(INTEGER.pack(len(rows)))
    parts.append(encode_members(members, table.addresses))
    for row in rows:
        if layout is Layout.CURRENT:
            parts.append(INTEGER.pack(row.version))
        indexes = [NO_INDEX if each is None else places[each] for each in row.replicas]
        parts.append(INDEXES.pack(*indexes, *[NO_INDEX] * (REPLICA_COUNT_MAX - len(indexes))))
    return b"".join(parts)


def encode_members(members: Sequence[MemberId], addresses: Mapping[MemberId, Address]) -> bytes:
    """Replicas: address and UUID of each."""
    parts = [INTEGER.pack(len(members))]
    for member in members:
        host, _, port = addresses.get(member, Address("")).rpartition(":")
        number = int(port) if port.isascii() and port.isdigit() else 0
        parts += (encode_text(host), INTEGER.pack(number), encode_text(member))
    return b"".join(parts)


def encode_text(text: str) -> bytes:
    """A text with its length."""
    data = text.encode()
    if len(data) > TEXT_BYTES_MAX:
        raise LocalProtocolError(f"{len(data)} bytes are too long for a host or an id")
    return INTEGER.pack(len(data)) + data


# Reading ------------------------------------------------------------------------------------------


def decode(data: bytes, file: str) -> TableFile:
    """The table of a file."""
    if len(data) < ENVELOPE.size + 4 or data[:4] != MAGIC:
        raise CorruptFile(file, "this is no partition table", offset=0)
    _, envelope, layout, replica_count, length, extra = ENVELOPE.unpack_from(data)
    if envelope > ENVELOPE_VERSION:
        reason = f"version {envelope} of table files; this is version {ENVELOPE_VERSION}"
        raise NewerFormat(file, reason, offset=4)
    if ENVELOPE.size + length + extra + 4 != len(data):
        reason = f"{len(data)} bytes are not a table of {length} and {extra} bytes"
        raise CorruptFile(file, reason, offset=8)
    if google_crc32c.value(data[:-4]) != int.from_bytes(data[-4:], "big"):
        raise CorruptFile(file, "the checksum is wrong", offset=len(data) - 4)
    if layout not in (Layout.LEGACY, Layout.CURRENT):
        raise CorruptFile(file, f"no layout has the number {layout}", offset=5)
    if not 1 <= replica_count <= REPLICA_COUNT_MAX:
        raise CorruptFile(file, f"rows of {replica_count} replicas", offset=6)
    end = ENVELOPE.size + length
    reader = Reader(data[:end], ENVELOPE.size, file)
    extension = decode_extension(data[end : end + extra], file, end)
    return reader.table(Layout(layout), replica_count, extension)


def decode_extension(data: bytes, file: str, offset: int) -> Extension:
    """The extension; one that is empty says nothing."""
    if not data:
        return Extension()
    try:
        return msgspec.msgpack.decode(data, type=Extension)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise CorruptFile(file, f"a malformed extension: {error}", offset=offset) from error


class Reader:
    """Reads the seed's part from front to back."""

    def __init__(self, data: bytes, offset: int, file: str) -> None:
        self.data = data
        self.offset = offset
        self.file = file

    def table(self, layout: Layout, replica_count: int, extension: Extension) -> TableFile:
        """All of it; not a byte may be left."""
        version = self.integer() if layout is Layout.LEGACY else UNKNOWN
        count = self.integer()
        if not 1 <= count <= PARTITION_COUNT_MAX:
            raise self.bad(f"a table of {count} partitions")
        members = self.members()
        rows = []
        for partition in range(count):
            own = self.integer() if layout is Layout.CURRENT else version
            replicas = self.replicas(tuple(members), replica_count)
            row = self.row(PartitionId(partition), Version(own), replicas, extension)
            if own != UNKNOWN:
                rows.append(row)
        if self.offset != len(self.data):
            raise self.bad(f"{len(self.data) - self.offset} bytes are left over")
        return TableFile(
            count, replica_count, tuple(rows), members, extension.term, extension.version
        )

    def row(
        self, partition: PartitionId, version: Version, replicas: Replicas, extension: Extension
    ) -> Row:
        """One row, with what the extension says of it."""
        if version < UNKNOWN:
            raise self.bad(f"partition {partition}: version {version}")
        epoch = extension.epochs[partition] if partition < len(extension.epochs) else 0
        reign = extension.reigns[partition] if partition < len(extension.reigns) else 0
        return Row(partition, version, replicas, Version(epoch), reign)

    def members(self) -> dict[MemberId, Address]:
        """Replicas: address and UUID of each."""
        count = self.integer()
        if not 0 <= count <= PARTITION_COUNT_MAX * REPLICA_COUNT_MAX:
            raise self.bad(f"{count} replicas")
        members: dict[MemberId, Address] = {}
        for _ in range(count):
            host, port, member = self.text(), self.integer(), MemberId(self.text())
            if member in members:
                raise self.bad(f"member {member} twice")
            members[member] = Address(f"{host}:{port}" if host else "")
        return members

    def replicas(self, members: Sequence[MemberId], length: int) -> Replicas:
        """One row's members."""
        if len(self.data) - self.offset < INDEXES.size:
            raise self.bad("the table ends within a row")
        indexes: Iterable[int] = INDEXES.unpack_from(self.data, self.offset)
        if any(not NO_INDEX <= index < len(members) for index in indexes):
            raise self.bad(f"{tuple(indexes)} are not all among {len(members)} replicas")
        found = tuple(None if each == NO_INDEX else members[each] for each in indexes)
        try:
            check_replicas(found)
        except TableError as error:
            raise self.bad(error.message) from error
        if any(found[length:]):
            raise self.bad(f"more than {length} replicas in a row")
        self.offset += INDEXES.size
        return found[:length]

    def integer(self) -> int:
        """The next number."""
        if len(self.data) - self.offset < INTEGER.size:
            raise self.bad("the table ends within a number")
        value: int = INTEGER.unpack_from(self.data, self.offset)[0]
        self.offset += INTEGER.size
        return value

    def text(self) -> str:
        """The next text."""
        length = self.integer()
        if not 0 <= length <= min(TEXT_BYTES_MAX, len(self.data) - self.offset):
            raise self.bad(f"a text of {length} bytes")
        data = self.data[self.offset : self.offset + length]
        self.offset += length
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self.bad("a text that is not UTF-8") from error

    def bad(self, reason: str) -> CorruptFile:
        """What is wrong, here."""
        return CorruptFile(self.file, reason, offset=self.offset)
