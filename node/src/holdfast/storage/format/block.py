"""A block: the unit of every log, base and record file. A header of 44 bytes, then the body.

    offset  size  field
    0       2     magic, "HB"
    2       1     version of the format, 1
    3       1     codec of the body: 0 none, 1 lz4, 2 zstd (level 1)
    4       4     length of the body as it stands here, big-endian like all that follows
    8       4     length of the body once it is decoded
    12      4     count of the entries in it
    16      8     sequence: 1, 2, 3, ... from block to block of a log, over all its segments
    24      8     stable: up to this sequence the log was on stable storage when this was written
    32      8     control: how many entries other than mutations came before, this block's included
    40      4     CRC-32C of the forty bytes above and the body
    44      n     body: entries in msgpack (`entries`)

Rules (`design/5`)
------------------
* One block is what one tick has changed, or a piece of that.
* Sequences have no gaps, so a block or a whole segment that is missing is noticed.
* `stable` tells a torn tail from damage. A bad block that a later, good block of the same log calls
  stable was whole once: that is damage. Else it was never promised to anyone, nor was anything
  after it: that is a torn tail.
* `control` tells what damage has cost: if the next good block has counted nothing in between, only
  data was lost, which other members have; promises that were given to them were not.

What can go wrong
-----------------
Whatever is in a file, `scan` ends, takes no more memory than the file, and raises nothing but
`NewerFormat` where the first block is of a later version. A bad block is skipped by looking for the
next good one; what was skipped is reported as a `Damage`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import google_crc32c
import lz4.block
import zstandard

from holdfast.errors import CorruptFile, LocalProtocolError, NewerFormat

MAGIC: Final = b"HB"
FORMAT_VERSION: Final = 1
HEADER: Final = struct.Struct(">2sBBIIIQQQI")
HEADER_BYTES: Final = HEADER.size
CHECKED_BYTES: Final = HEADER_BYTES - 4
BLOCK_BYTES_MAX: Final = 1 << 30
"""Largest body, decoded. The largest request of a client is half of that (`design/4`)."""

_CHECKED: Final = struct.Struct(">2sBBIIIQQQ")
_START: Final = MAGIC + bytes((FORMAT_VERSION,))


class Codec(IntEnum):
    """How a body is compressed."""

    NONE = 0
    LZ4 = 1
    ZSTD = 2


_CODECS: Final = frozenset(Codec)


@dataclass(frozen=True, slots=True)
class Block:
    """A block whose checksum is right."""

    offset: int
    end: int
    count: int
    sequence: int
    stable: int
    control: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no block."""

    offset: int
    end: int
    reason: str


def encode(
    body: bytes, *, count: int, sequence: int, stable: int, control: int, codec: Codec = Codec.NONE
) -> bytes:
    """The block of a body."""
    if len(body) > BLOCK_BYTES_MAX:
        raise LocalProtocolError(
            f"a block of {len(body)} bytes can't be read again: the most is {BLOCK_BYTES_MAX}"
        )
    packed = compress(body, codec)
    start = _CHECKED.pack(
        MAGIC,
        FORMAT_VERSION,
        codec,
        len(packed),
        len(body),
        count,
        sequence,
        stable,
        control,
    )
    checksum = google_crc32c.extend(google_crc32c.value(start), packed)
    return b"%b%b%b" % (start, checksum.to_bytes(4, "big"), packed)


def compress(body: bytes, codec: Codec) -> bytes:
    """The body as it stands in the file."""
    if codec is Codec.LZ4:
        packed: bytes = lz4.block.compress(body, store_size=False)
        return packed
    if codec is Codec.ZSTD:
        return zstandard.ZstdCompressor(level=1).compress(body)
    return body


def decompress(packed: bytes, codec: int, raw: int) -> bytes:
    """The body again; the checksum has shown that it is what was written."""
    if codec == Codec.LZ4:
        body: bytes = lz4.block.decompress(packed, uncompressed_size=raw)
        return body
    if codec == Codec.ZSTD:
        return zstandard.ZstdDecompressor().decompress(packed, max_output_size=raw)
    return packed


def scan(data: bytes, file: str, *, synced: bool = True) -> Iterator[Block | Damage]:
    """Everything in a file, in order: good blocks, and what lies between them. What was never
    synced may be torn at its beginning, so that no version can be read from it."""
    if synced and data[:2] == MAGIC and len(data) > 2 and data[2] > FORMAT_VERSION:
        reason = f"written in version {data[2]} of the format; this is version {FORMAT_VERSION}"
        raise NewerFormat(file, reason, offset=0)
    offset, end = 0, len(data)
    while offset < end:
        found = read_block(data, offset)
        if isinstance(found, Block):
            yield found
            offset = found.end
        else:
            offset = next_good(data, offset + 1)
            yield Damage(found.offset, offset, found.reason)


def next_good(data: bytes, start: int) -> int:
    """Where the next good block begins; the end of the file if there is none."""
    offset = data.find(_START, start)
    while offset >= 0:
        if isinstance(read_block(data, offset), Block):
            return offset
        offset = data.find(_START, offset + 1)
    return len(data)


def read_block(data: bytes, offset: int) -> Block | Damage:
    """The block that begins here, or why there is none."""
    if len(data) - offset < HEADER_BYTES:
        return Damage(offset, len(data), "the file ends within a header")
    magic, version, codec, length, raw, count, sequence, stable, control, checksum = (
        HEADER.unpack_from(data, offset)
    )
    if magic != MAGIC or version != FORMAT_VERSION or codec not in _CODECS:
        return Damage(offset, offset, f"no block begins with {data[offset : offset + 4].hex()}")
    begin = offset + HEADER_BYTES
    end = begin + length
    if end > len(data):
        return Damage(offset, len(data), f"a block of {length} bytes runs past the end of the file")
    packed = data[begin:end]
    if google_crc32c.extend(google_crc32c.value(data[offset : begin - 4]), packed) != checksum:
        return Damage(offset, end, "the checksum is wrong")
    try:
        body = decompress(packed, codec, raw)
    except (lz4.block.LZ4BlockError, zstandard.ZstdError, MemoryError) as error:
        return Damage(offset, end, f"the body can't be decompressed: {error}")
    return Block(offset, end, count, sequence, stable, control, body)


def whole(data: bytes, file: str) -> Block:
    """The only block of a file that was written at once."""
    found = tuple(scan(data, file))
    if len(found) != 1 or isinstance(found[0], Damage):
        bad = next((each for each in found if isinstance(each, Damage)), None)
        if bad is None:
            raise CorruptFile(file, f"it has {len(found)} blocks, not one")
        raise CorruptFile(file, bad.reason, offset=bad.offset)
    return found[0]
