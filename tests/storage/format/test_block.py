"""Blocks: fixed bytes, every codec, and whatever a disk may make of them."""

from __future__ import annotations

import io
import itertools

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptFile, LocalProtocolError, NewerFormat
from holdfast.storage.format import block
from holdfast.storage.format.block import Block, Codec, Damage

CODECS = st.sampled_from(Codec)
BODIES = st.lists(st.binary(max_size=200), min_size=1, max_size=6)


def blocks(bodies: list[bytes], codec: Codec = Codec.NONE) -> list[bytes]:
    return [
        block.encode(body, count=1, sequence=number, stable=number - 1, control=7, codec=codec)
        for number, body in enumerate(bodies, 1)
    ]


def test_a_block_is_these_bytes() -> None:
    start = bytes.fromhex(
        "4842 01 00 00000003 00000003 000000020000000000000005 0000000000000004 0000000000000009"
    )
    checksum = google_crc32c.value(start + b"abc").to_bytes(4, "big")
    written = block.encode(b"abc", count=2, sequence=5, stable=4, control=9)
    assert written == start + checksum + b"abc"
    assert len(start) + 4 == block.HEADER_BYTES == 44


@given(BODIES, CODECS)
def test_what_is_written_is_read(bodies: list[bytes], codec: Codec) -> None:
    found = list(block.scan(b"".join(blocks(bodies, codec)), "f"))
    assert [each.body for each in found if isinstance(each, Block)] == bodies
    assert [each.sequence for each in found if isinstance(each, Block)] == list(
        range(1, len(bodies) + 1)
    )


def test_what_repeats_is_compressed() -> None:
    body = b"holdfast" * 1000
    for codec in (Codec.LZ4, Codec.ZSTD):
        assert len(block.compress(body, codec)) < 500


@given(BODIES, CODECS, st.data())
def test_a_flipped_bit_costs_one_block_and_no_more(
    bodies: list[bytes], codec: Codec, data: st.DataObject
) -> None:
    written = blocks(bodies, codec)
    whole = bytearray(b"".join(written))
    place = data.draw(st.integers(3, len(whole) - 1))
    whole[place] ^= 1 << data.draw(st.integers(0, 7))
    found = list(block.scan(bytes(whole), "f"))
    assert sum(isinstance(each, Damage) for each in found) == 1
    lost = next(
        number for number in range(len(bodies)) if place < len(b"".join(written[: number + 1]))
    )
    good = [each.body for each in found if isinstance(each, Block)]
    assert good == bodies[:lost] + bodies[lost + 1 :]
    assert [each.offset for each in found] == sorted(each.offset for each in found)


@given(st.binary(max_size=400), BODIES)
def test_scanning_rubbish_ends_and_covers_it(rubbish: bytes, bodies: list[bytes]) -> None:
    whole = b"HB\x01" + rubbish + blocks(bodies)[0]
    found = list(block.scan(whole, "f"))
    assert found[0].offset == 0
    assert found[-1].end == len(whole)
    assert [one.end for one in found[:-1]] == [each.offset for each in found[1:]]
    assert isinstance(found[-1], Block)


@given(BODIES, st.integers(1, 3 * block.WINDOW_BYTES), st.booleans())
def test_zeros_at_the_end_are_nothing(bodies: list[bytes], size: int, more: bool) -> None:
    """But if anything stands behind them, they are damage."""
    whole = b"".join(blocks(bodies))
    found = list(block.scan(whole + bytes(size) + b"x" * more, "f"))
    assert [each.body for each in found if isinstance(each, Block)] == bodies
    damages = [(each.offset, each.end) for each in found if isinstance(each, Damage)]
    assert damages == [(len(whole), len(whole) + size + 1)] * more


def test_a_length_that_lies_is_damage() -> None:
    whole = bytearray(blocks([b"abc"])[0])
    whole[4:8] = b"\xff\xff\xff\xff"
    (found,) = block.scan(bytes(whole), "f")
    assert isinstance(found, Damage)
    assert "runs past the end" in found.reason


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_a_body_that_is_not_compressed_so_is_damage(codec: Codec) -> None:
    start = block._CHECKED.pack(b"HB", 1, codec, 4, 100, 1, 1, 0, 0)
    checksum = google_crc32c.value(start + b"\xff\xfe\xfd\xfc").to_bytes(4, "big")
    (found,) = block.scan(start + checksum + b"\xff\xfe\xfd\xfc", "f")
    assert isinstance(found, Damage)
    assert "decompressed" in found.reason


def test_a_later_version_is_refused_as_such() -> None:
    whole = bytearray(blocks([b"abc"])[0])
    whole[2] = 2
    with pytest.raises(NewerFormat, match="in version 2 of the format; this is version 1"):
        list(block.scan(bytes(whole), "f"))


def test_a_body_that_could_not_be_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "BLOCK_BYTES_MAX", 3)
    with pytest.raises(LocalProtocolError, match="can't be read again"):
        block.encode(b"abcd", count=1, sequence=1, stable=0, control=0)


def test_a_file_of_one_block() -> None:
    one, two = blocks([b"abc", b"de"])
    assert block.whole(one, "f").body == b"abc"
    with pytest.raises(CorruptFile, match="2 blocks, not one"):
        block.whole(one + two, "f")
    with pytest.raises(CorruptFile, match="0 blocks, not one"):
        block.whole(b"", "f")
    with pytest.raises(CorruptFile, match="f at byte 0: the checksum is wrong"):
        block.whole(one[:-1] + b"?", "f")


class Dripping:
    """A stream that gives little at a time."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data = io.BytesIO(data)
        self.sizes = itertools.cycle(sizes)

    def readinto(self, buffer: memoryview, /) -> int:
        return self.data.readinto(buffer[: next(self.sizes)])

    def close(self) -> None:
        self.data.close()


@given(
    BODIES,
    CODECS,
    st.binary(max_size=20),
    st.integers(0, 2_000),
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
    st.integers(1, 300),
)
def test_what_is_read_in_pieces_is_what_is_read_at_once(
    bodies: list[bytes], codec: Codec, rubbish: bytes, place: int, sizes: list[int], window: int
) -> None:
    whole = b"".join(blocks(bodies, codec))
    whole = whole[:place] + rubbish + whole[place + 3 :]
    at_once = list(block.scan(whole, "f", synced=False))
    stream = Dripping(whole, sizes)
    assert list(block.read(stream, "f", synced=False, window_bytes=window)) == at_once


def test_whole_files_are_read_in_the_memory_of_a_window() -> None:
    """However long a file is, what is kept of it is about as long as its longest block."""
    bodies = [bytes(1_000)] * 100
    stream = io.BytesIO(b"".join(blocks(bodies)))
    window = block.Window(stream, 1_500)
    for _ in bodies:
        while not isinstance(found := block.read_block(window, window.done), Block):
            assert window.more()
        window.done = found.end - window.start
    assert not window.more()
    assert len(window.data) <= 3_000
