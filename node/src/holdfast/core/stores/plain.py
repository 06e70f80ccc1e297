"""GET and SET in the plain case, which is what a grid does all day: a string that does not expire,
in a fragment without limits.

What is said here is what `strings` says of such a string, without looking for anything else first.
None means that there is something else, and nothing has been done: the long way tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.stores.eviction import KEY_BYTES_MAX
from holdfast.core.stores.record import FLAGS_AT, PLAIN_AT
from holdfast.core.stores.replies import OK
from holdfast.core.stores.space import Space

VALUE_BYTES_MAX: Final = 64 << 20
HEADS: Final = tuple(b"$%d\r\n" % (size - PLAIN_AT) for size in range(1 << 12))
"""What stands before a value, by the length of its record."""
HEADS_MAX: Final = len(HEADS)

Plain = Callable[[Space, list[bytes]], bytes | None]


def get(space: Space, args: list[bytes]) -> bytes | None:
    """GET key, of a plain string that is there."""
    key = args[1]
    fragment = space.again(key)
    if fragment is None or fragment.touched_wanted:
        return None
    record = fragment.records.get(key)
    if type(record) is not bytes or record[FLAGS_AT]:
        return None
    size = len(record)
    if size < HEADS_MAX:
        return HEADS[size] + record[PLAIN_AT:] + b"\r\n"
    return b"$%d\r\n%b\r\n" % (size - PLAIN_AT, record[PLAIN_AT:])


def put(space: Space, args: list[bytes]) -> bytes | None:
    """SET key value, where nothing but a string of this name can be there."""
    if len(args) != 3:
        return None
    key, value = args[1], args[2]
    fragment = space.again(key)
    if (
        fragment is None
        or not fragment.unlimited
        or fragment.locks
        or (space.internal.records and key in space.internal.records)
        or len(key) > KEY_BYTES_MAX
        or len(value) > VALUE_BYTES_MAX
    ):
        return None
    fragment.put(key, value)
    return OK


PLAIN: Final[dict[bytes, Plain]] = {b"GET": get, b"SET": put}
