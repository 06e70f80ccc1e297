"""Data on a simulated disk: records as bytes, each with its length and a checksum.

    offset  size  field
    0       4     bytes that follow the checksum
    4       4     CRC-32 of them
    8       ...   what the record says of its fragment, then each key with its record

A record that ends before its length says, or whose checksum is wrong, is *half written* if nothing
comes after it: the process ended while it wrote. Anywhere else it is *broken*: the disk has changed
what was written, and was known to be stable.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from holdfast.core.effects import MutationsRecord

HEADER_BYTES: Final = 8
_SIZE_BYTES: Final = 4

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(MutationsRecord)


class BrokenRecordError(Exception):
    """A record that was stable is not what was written."""


def pack(record: MutationsRecord) -> bytes:
    """A record as it is written."""
    body = _sized(_ENCODER.encode(replace(record, mutations=())))
    body += b"".join(_sized(part) for mutation in record.mutations for part in mutation)
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(_SIZE_BYTES, "big") + part


def frames(log: bytes | bytearray) -> list[tuple[int, int]]:
    """Where each record begins, and where it ends by its length."""
    found = []
    at = 0
    while at < len(log):
        end = at + HEADER_BYTES + int.from_bytes(log[at : at + 4], "big")
        found.append((at, end))
        at = end
    return found


def is_intact(log: bytes | bytearray, begin: int, end: int) -> bool:
    """Whether the record is what was written, from its first byte to its last."""
    body = log[begin + HEADER_BYTES : end]
    whole = end <= len(log) and len(log) - begin >= HEADER_BYTES
    return whole and zlib.crc32(body) == int.from_bytes(log[begin + 4 : begin + 8], "big")


def read(log: bytes | bytearray) -> tuple[list[MutationsRecord], int]:
    """All records, and where the last one that is whole ends."""
    found = []
    at = 0
    for begin, end in frames(log):
        if not is_intact(log, begin, end):
            if end < len(log):
                raise BrokenRecordError(f"the record at byte {begin} of {len(log)} is broken")
            break
        found.append(_unpack(bytes(log[begin + HEADER_BYTES : end])))
        at = end
    return found, at


def _unpack(body: bytes) -> MutationsRecord:
    first, *parts = _parts(body)
    pairs = tuple(zip(parts[::2], parts[1::2], strict=False))
    return replace(_DECODER.decode(first), mutations=pairs)


def _parts(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        begin = at + _SIZE_BYTES
        at = begin + int.from_bytes(body[at:begin], "big")
        if at <= len(body):
            yield body[begin:at]
