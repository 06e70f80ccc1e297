"""Lists of byte strings as one byte string: each with its length in four bytes before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.errors import MessageError

LENGTH_BYTES: Final = 4


def pack(items: Iterable[bytes]) -> bytes:
    """All of them, one after the other."""
    return b"".join(
        [part for item in items for part in (len(item).to_bytes(LENGTH_BYTES, "big"), item)]
    )


def unpack(body: bytes, start: int = 0) -> list[bytes]:
    """What `pack` was given; anything else is refused with the offset where it went wrong."""
    items = []
    at, end = start, len(body)
    while at < end:
        begin = at + LENGTH_BYTES
        at = begin + int.from_bytes(body[at:begin], "big")
        if begin > end or at > end:
            raise MessageError(f"an item at offset {begin} runs past the end, {end}")
        items.append(body[begin:at])
    return items
