"""One frame of the members' link: a fixed header, then the message in msgpack.

    offset  size  field
    0       2     magic, "HF"
    2       1     version of the wire, 1
    3       1     number of the message (`numbers`)
    4       4     length of the body, big-endian
    8       4     CRC-32 of the eight bytes above and the body, big-endian
    12      n     body: msgpack of [origin, message], each a map of its fields by name

Rules
-----
* Encoding is a function of the message alone: the same message gives the same bytes.
* The checksum covers the header too, so that a flipped bit can't turn one message into another.
  It is the standard library's `zlib.crc32`: control messages are small and few, so the speed of a
  CRC-32C with hardware support buys nothing here and would be one more thing to install.
* A frame's body has at most `FRAME_BYTES_MAX` bytes: more is refused before it is waited for.
* Fields are sent by name. A decoder skips a field that it doesn't know and fills a missing one
  from its default, so a newer member may add a field; without default it is a `MessageError`.
* What can't be read as a frame is a `FrameError`, a frame whose message is malformed a
  `MessageError`. No other error leaves this module for bytes that came from outside.

States
------
None: two pure functions. `frames.FrameReader` has the state of a stream.

What can go wrong
-----------------
Deeply nested unknown fields exhaust the decoder's recursion: that is a malformed message like any
other. A message that is too large to be sent is the sender's own bug (`LocalProtocolError`), not
the peer's.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

import msgspec

from holdfast.core.messages import Message, Origin
from holdfast.errors import FrameError, LocalProtocolError, MessageError
from holdfast.wire.numbers import MESSAGES, NUMBERS
from holdfast.wire.validation import validate

MAGIC: Final = b"HF"
WIRE_VERSION: Final = 1
HEADER: Final = struct.Struct(">2sBBII")
HEADER_BYTES: Final = HEADER.size
FRAME_BYTES_MAX: Final = 1 << 30
"""Largest body: what one turn of a member may change, as its backup gets it. That is the longest
request of an application, and what came with it (`design/4`). A peer has shown that it is of the
cluster before it can make anybody wait for so much."""

_START: Final = struct.Struct(">2sBBI")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = {
    number: msgspec.msgpack.Decoder(tuple[Origin, kind])  # type: ignore[valid-type]
    for number, kind in MESSAGES.items()
}
"""Built once: compiling a decoder takes a thousand times as long as using it."""


class Header(NamedTuple):
    """What the first twelve bytes of a frame say."""

    number: int
    length: int
    checksum: int


def encode(origin: Origin, message: Message, body_max: int = FRAME_BYTES_MAX) -> bytes:
    """The frame of a message."""
    number = NUMBERS.get(type(message))
    if number is None:
        raise LocalProtocolError(f"{type(message).__name__} is no message: it has no number")
    body = _ENCODER.encode((origin, message))
    if len(body) > body_max:
        raise LocalProtocolError(
            f"{type(message).__name__} takes {len(body)} bytes, a frame has at most {body_max}"
        )
    start = _START.pack(MAGIC, WIRE_VERSION, number, len(body))
    checksum = zlib.crc32(body, zlib.crc32(start))
    return b"".join((start, checksum.to_bytes(4, "big"), body))


def decode(frame: bytes) -> tuple[Origin, Message]:
    """The message of exactly one whole frame."""
    header = read_header(frame)
    if len(frame) != HEADER_BYTES + header.length:
        raise FrameError(
            f"{len(frame)} bytes are not a frame of {HEADER_BYTES} + {header.length} bytes"
        )
    return read_frame(header, memoryview(frame))


def read_header(data: bytes | bytearray | memoryview) -> Header:
    """The header at the start of `data`; refused as soon as anything in it can't be."""
    if len(data) < HEADER_BYTES:
        raise FrameError(f"{len(data)} bytes are too few for a header of {HEADER_BYTES}")
    magic, version, number, length, checksum = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise FrameError(f"a frame begins with {MAGIC!r}, not {magic!r}")
    if version != WIRE_VERSION:
        raise FrameError(f"this member speaks version {WIRE_VERSION} of the wire, not {version}")
    if length > FRAME_BYTES_MAX:
        raise FrameError(f"a body of {length} bytes is larger than {FRAME_BYTES_MAX}")
    return Header(number, length, checksum)


def read_frame(header: Header, frame: memoryview) -> tuple[Origin, Message]:
    """The message of a whole frame whose header was read."""
    body = frame[HEADER_BYTES : HEADER_BYTES + header.length]
    if zlib.crc32(body, zlib.crc32(frame[: _START.size])) != header.checksum:
        raise FrameError(f"the checksum of a frame of {header.length} bytes is wrong")
    decoder = _DECODERS.get(header.number)
    if decoder is None:
        raise MessageError(f"no message has the number {header.number}")
    try:
        origin, message = decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        name = MESSAGES[header.number].__name__
        raise MessageError(f"a malformed {name}: {error}") from error
    validate(origin)
    validate(message)
    return origin, message
