"""Frames: every message comes back as it was, and nothing else comes back at all."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages import Heartbeat, Message, Origin, PublicationAck, Redirect
from holdfast.errors import FrameError, LocalProtocolError, MessageError, RemoteProtocolError
from holdfast.ids import Address, MemberId, Millis, Term, Version
from holdfast.wire.codec import FRAME_BYTES_MAX, HEADER_BYTES, decode, encode, read_header
from holdfast.wire.numbers import NUMBERS
from tests.wire.strategies import MESSAGE_TYPES, MESSAGES, ORIGINS, of_class

ORIGIN = Origin(MemberId("member-a"), 3, Address("a:5701"))
ACK = PublicationAck(Term(4), 17)


def frame_of(number: int, body: bytes, *, version: int = 1, magic: bytes = b"HF") -> bytes:
    """A frame with a right checksum around anything."""
    start = struct.pack(">2sBBI", magic, version, number, len(body))
    return start + struct.pack(">I", zlib.crc32(start + body)) + body


def packed(message: object, **changes: Any) -> bytes:
    """A frame of a message some of whose fields are replaced by something else."""
    fields = msgspec.to_builtins(message)
    body = msgspec.msgpack.encode((ORIGIN, {**fields, **changes}))
    return frame_of(NUMBERS[type(message)], body)  # type: ignore[index]


@pytest.mark.parametrize("kind", MESSAGE_TYPES, ids=lambda kind: kind.__name__)
def test_round_trip(kind: type[Message]) -> None:
    @given(origin=ORIGINS, message=of_class(kind))
    def comes_back(origin: Origin, message: Message) -> None:
        frame = encode(origin, message)
        assert decode(frame) == (origin, message)
        assert encode(origin, message) == frame

    comes_back()


def test_the_layout_of_a_frame_is_as_documented() -> None:
    frame = encode(ORIGIN, ACK)
    body = frame[HEADER_BYTES:]
    assert frame == frame_of(33, body)
    assert msgspec.msgpack.decode(body) == [
        {"id": "member-a", "incarnation": 3, "address": "a:5701"},
        {"term": 4, "sequence": 17},
    ]


def test_a_field_of_a_newer_member_is_skipped() -> None:
    assert decode(packed(ACK, colour="green")) == (ORIGIN, ACK)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_peer_that_breaks_the_rules(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(data)


@given(number=st.integers(0, 255), body=st.binary(max_size=200))
def test_random_bodies_are_malformed_messages(number: int, body: bytes) -> None:
    with pytest.raises(MessageError):
        decode(frame_of(number, body))


@given(message=MESSAGES, data=st.data())
def test_a_flipped_bit_is_noticed(message: Message, data: st.DataObject) -> None:
    frame = bytearray(encode(ORIGIN, message))
    bit = data.draw(st.integers(0, len(frame) * 8 - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError):
        decode(bytes(frame))


@given(message=MESSAGES, data=st.data())
def test_a_flipped_byte_of_a_body_under_a_right_checksum_raises_nothing_else(
    message: Message, data: st.DataObject
) -> None:
    """The sender itself is broken: whatever it sends is a message or a `MessageError`."""
    body = bytearray(encode(ORIGIN, message)[HEADER_BYTES:])
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    try:
        origin, decoded = decode(frame_of(NUMBERS[type(message)], bytes(body)))
    except MessageError:
        return
    assert type(decoded) is type(message)
    assert decode(encode(origin, decoded)) == (origin, decoded)


@given(message=MESSAGES, data=st.data())
def test_a_truncated_frame_is_no_frame(message: Message, data: st.DataObject) -> None:
    frame = encode(ORIGIN, message)
    with pytest.raises(FrameError):
        decode(frame[: data.draw(st.integers(0, len(frame) - 1))])


def test_a_frame_with_something_behind_it_is_no_frame() -> None:
    with pytest.raises(FrameError, match="are not a frame"):
        decode(encode(ORIGIN, ACK) + b"x")


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"HF", "too few"),
        (frame_of(33, b"", magic=b"GF"), "begins with b'HF', not b'GF'"),
        (frame_of(33, b"", version=2), "version 1 of the wire, not 2"),
        (struct.pack(">2sBBII", b"HF", 1, 33, FRAME_BYTES_MAX + 1, 0), "larger than"),
    ],
)
def test_a_bad_header_is_refused(frame: bytes, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        read_header(frame)


def test_a_wrong_checksum_is_refused() -> None:
    frame = bytearray(encode(ORIGIN, ACK))
    frame[8] ^= 1
    with pytest.raises(FrameError, match="checksum"):
        decode(bytes(frame))


def test_an_unknown_number_is_refused() -> None:
    with pytest.raises(MessageError, match="no message has the number 200"):
        decode(frame_of(200, b"\x90"))


def test_deep_nesting_is_a_malformed_message() -> None:
    deep = b"\x92\x84\xa1x" + b"\x91" * 100_000
    with pytest.raises(MessageError, match="malformed PublicationAck"):
        decode(frame_of(33, deep))


def test_a_claimed_length_costs_no_memory() -> None:
    with pytest.raises(MessageError):
        decode(frame_of(NUMBERS[type(ACK)], b"\x92\x80\xdd\xff\xff\xff\xff"))


def test_what_is_no_message_can_not_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="Origin is no message"):
        encode(ORIGIN, ORIGIN)  # type: ignore[arg-type]


def test_a_message_that_is_too_large_is_our_own_bug() -> None:
    with pytest.raises(LocalProtocolError, match="has at most 64"):
        encode(ORIGIN, Redirect(Address("x" * 100)), body_max=64)


@pytest.mark.parametrize("missing", ["term", "sequence"])
def test_a_missing_field_is_malformed(missing: str) -> None:
    fields = msgspec.to_builtins(ACK)
    del fields[missing]
    with pytest.raises(MessageError, match=missing):
        decode(frame_of(33, msgspec.msgpack.encode((ORIGIN, fields))))


@pytest.mark.parametrize("value", [None, "4", 4.0, True, [4], -1, 2**53, 2**63])
def test_a_wrong_number_is_malformed(value: object) -> None:
    with pytest.raises(MessageError):
        decode(packed(ACK, term=value))


def test_a_wrong_origin_is_malformed() -> None:
    body = msgspec.msgpack.encode(({**msgspec.to_builtins(ORIGIN), "incarnation": -1}, ACK))
    with pytest.raises(MessageError, match="incarnation"):
        decode(frame_of(33, body))


def test_a_time_that_never_was_is_allowed() -> None:
    beat = Heartbeat(Term(1), Version(2), Millis(5), Millis(-1), -7, True, Term(0), Version(0), ())
    assert decode(packed(beat)) == (ORIGIN, beat)
    with pytest.raises(MessageError, match="granted_at"):
        decode(packed(beat, granted_at=-2))
