"""Streams: whatever way the bytes are cut, the same messages come out."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages import Message, Origin, PublicationAck
from holdfast.errors import FrameError, MessageError, RemoteProtocolError
from holdfast.ids import Address, MemberId, Term
from holdfast.wire.codec import FRAME_BYTES_MAX, encode
from holdfast.wire.frames import FrameReader
from tests.wire.strategies import MESSAGES

ORIGIN = Origin(MemberId("member-a"), 3, Address("a:5701"))
ACK = PublicationAck(Term(4), 17)


@given(messages=st.lists(MESSAGES, max_size=5), data=st.data())
def test_any_split_gives_the_same_messages(messages: list[Message], data: st.DataObject) -> None:
    stream = b"".join(encode(ORIGIN, message) for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FrameReader()
    received: list[tuple[Origin, Message]] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += reader.feed(stream[start:end])
    assert received == [(ORIGIN, message) for message in messages]
    assert reader.pending_bytes == 0


def test_single_bytes() -> None:
    reader = FrameReader()
    frame = encode(ORIGIN, ACK)
    for place in range(len(frame) - 1):
        assert reader.feed(frame[place : place + 1]) == []
        assert reader.pending_bytes == place + 1
    assert reader.feed(frame[-1:]) == [(ORIGIN, ACK)]


@given(st.lists(st.binary(max_size=100), max_size=5))
def test_random_bytes_raise_nothing_else(feeds: list[bytes]) -> None:
    reader = FrameReader()
    for data in feeds:
        try:
            assert reader.feed(data) == []
        except RemoteProtocolError:
            break


def test_a_bad_header_is_refused_before_its_body_comes() -> None:
    reader = FrameReader()
    header = struct.pack(">2sBBII", b"HF", 1, 33, FRAME_BYTES_MAX + 1, 0)
    assert reader.feed(header[:-1]) == []
    with pytest.raises(FrameError, match="larger than"):
        reader.feed(header[-1:])
    assert reader.pending_bytes == 0


def test_an_error_poisons_the_stream() -> None:
    """What comes after a bad frame can't be trusted, however good it looks."""
    reader = FrameReader()
    good = encode(ORIGIN, ACK)
    with pytest.raises(FrameError) as first:
        reader.feed(b"nonsense that is long enough" + good)
    with pytest.raises(FrameError) as second:
        reader.feed(good)
    assert second.value is first.value


def test_a_malformed_message_poisons_the_stream_too() -> None:
    reader = FrameReader()
    with pytest.raises(MessageError):
        reader.feed(encode(ORIGIN, PublicationAck(Term(-1), 0)))
    with pytest.raises(MessageError):
        reader.feed(b"")
