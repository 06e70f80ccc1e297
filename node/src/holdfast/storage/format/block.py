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
* Zeros up to the end of a file are room for blocks that were not written (`log`).
* `control` tells what damage has cost: if the next good block has counted nothing in between, only
  data was lost, which other members have; promises that were given to them were not.

What can go wrong
-----------------
Whatever is in a file, `read` ends, takes no more memory than about the file, and raises nothing but
`NewerFormat` where the first block is of a later version. A bad block is skipped by looking for the
next good one; what was skipped is reported as a `Damage`.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import google_crc32c
import lz4.block
import zstandard

from holdfast.errors import CorruptFile, LocalProtocolError, NewerFormat
from holdfast.storage.files import Stream

MAGIC: Final = b"HB"
FORMAT_VERSION: Final = 1
HEADER: Final = struct.Struct(">2sBBIIIQQQI")
HEADER_BYTES: Final = HEADER.size
CHECKED_BYTES: Final = HEADER_BYTES - 4
BLOCK_BYTES_MAX: Final = 1 << 30
"""Largest body, decoded. The largest request of a client is half of that (`design/4`)."""

WINDOW_BYTES: Final = 256 << 10
"""How much is read at once: it stays in the cache of the processor until it is taken apart."""

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


class Window:
    """The part of a stream that is looked at: whole blocks, and what has been read of the next one.

    The memory is the same for all of a file, so that it is found in the processor's cache. What has
    no end in it yet makes it longer, up to what is left of the stream.
    """

    def __init__(self, stream: Stream, size: int) -> None:
        self.data = bytearray(size)
        self.start = 0
        """Where it begins, in the stream."""
        self.done = 0
        """How much of it nobody needs any more."""
        self.end = 0
        """How much there is in it."""
        self._stream = stream
        self._ended = False
        self.more()

    @property
    def is_room(self) -> bool:
        """Whether all that is left are zeros."""
        left = self.end - self.done
        return self.data[self.done] == 0 and self.data.count(0, self.done, self.end) == left

    def more(self) -> bool:
        """Drop what is done, and read on; False when there is nothing more."""
        if self._ended:
            return False
        done, left = self.done, self.end - self.done
        target = bytearray(2 * len(self.data)) if 2 * left > len(self.data) else self.data
        with memoryview(self.data) as old, memoryview(target) as new:
            new[:left] = old[done : self.end]
            count = self._stream.readinto(new[left:])
        self.data, self.start, self.done, self.end = target, self.start + done, 0, left + count
        self._ended = count == 0
        return not self._ended


def scan(data: bytes, file: str, *, synced: bool = True) -> Iterator[Block | Damage]:
    """Everything in these bytes of a file, as `read` finds it."""
    return read(io.BytesIO(data), file, synced=synced)


def read(
    stream: Stream, file: str, *, synced: bool = True, window_bytes: int = WINDOW_BYTES
) -> Iterator[Block | Damage]:
    """Everything in a file, in order: good blocks, and what lies between them. What was never
    synced may be torn at its beginning, so that no version can be read from it."""
    window = Window(stream, window_bytes)
    while synced and window.end < len(_START) and window.more():
        pass
    if synced and window.data[:2] == MAGIC and window.end > 2 and window.data[2] > FORMAT_VERSION:
        version = window.data[2]
        reason = f"written in version {version} of the format; this is version {FORMAT_VERSION}"
        raise NewerFormat(file, reason, offset=0)
    while True:
        found = read_block(window, window.done)
        if isinstance(found, Block):
            window.done = found.end - window.start
            yield found
        elif window.more():
            pass
        elif window.done < window.end and not window.is_room:
            window.done = next_good(window, window.done + 1)
            yield Damage(found.offset, window.start + window.done, found.reason)
        else:
            return


def next_good(window: Window, offset: int) -> int:
    """Where the next good block begins in what is left of a file; its end if there is none."""
    offset = window.data.find(_START, offset, window.end)
    while offset >= 0:
        if isinstance(read_block(window, offset), Block):
            return offset
        offset = window.data.find(_START, offset + 1, window.end)
    return window.end


def read_block(window: Window, offset: int) -> Block | Damage:
    """The block that begins here, or why there is none, as far as the window goes."""
    data, size, start = window.data, window.end, window.start
    place = start + offset
    if size - offset < HEADER_BYTES:
        return Damage(place, start + size, "the file ends within a header")
    magic, version, codec, length, raw, count, sequence, stable, control, checksum = (
        HEADER.unpack_from(data, offset)
    )
    if magic != MAGIC or version != FORMAT_VERSION or codec not in _CODECS:
        begins = data[offset : offset + 4].hex()
        return Damage(place, place, f"no block begins with {begins}")
    begin = offset + HEADER_BYTES
    end = begin + length
    if end > size:
        reason = f"a block of {length} bytes runs past the end of the file"
        return Damage(place, start + size, reason)
    with memoryview(data) as view:
        checked, packed = bytes(view[offset : begin - 4]), bytes(view[begin:end])
    if google_crc32c.extend(google_crc32c.value(checked), packed) != checksum:
        return Damage(place, start + end, "the checksum is wrong")
    try:
        body = decompress(packed, codec, raw)
    except (lz4.block.LZ4BlockError, zstandard.ZstdError, MemoryError) as error:
        return Damage(place, start + end, f"the body can't be decompressed: {error}")
    return Block(place, start + end, count, sequence, stable, control, body)


def whole(data: bytes, file: str) -> Block:
    """The only block of a file that was written at once."""
    found = tuple(scan(data, file))
    if len(found) != 1 or isinstance(found[0], Damage):
        bad = next((each for each in found if isinstance(each, Damage)), None)
        if bad is None:
            raise CorruptFile(file, f"it has {len(found)} blocks, not one")
        raise CorruptFile(file, bad.reason, offset=bad.offset)
    return found[0]
