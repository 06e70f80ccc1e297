"""One record: the bytes of a key's value, as they are kept, sent and written to disk.

    offset  size  field
    0       4     epoch of the owner that wrote it, big-endian
    4       6     its number among the mutations of the fragment, big-endian
    10      1     flags: kind in the low four bits, then EXPIRES and CHANGE
    11      8     EXPIRES only: when it expires, in milliseconds of the wall clock
    ...           the body

Rules (`design/2`, "Choices already made"; seed 004)
----------------------------------------------------
* The first ten bytes are the *version*. Versions of one key compare as bytes: a later owner has a
  greater epoch, a later mutation a greater number.
* A string's body is the value itself: the whole record is one `bytes`, which the garbage collector
  does not track and no copy but one is made of. All flags of a plain string are zero.
* Sets, hashes and lists live as containers (`containers`); their record is made when one is sent
  whole, from its items (`packing`).
* A **mutation** is a key and a record: a whole value, a CHANGE of a container, the absence of the
  key (GONE), or of every key of the fragment (EMPTIED). A CHANGE names the version that it changes,
  and is refused by a holder that has another one, so that a lost change can't be papered over by
  the next (`fragment`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from holdfast.errors import MessageError

NUMBER_AT: Final = 4
VERSION_BYTES: Final = 10
FLAGS_AT: Final = 10
PLAIN_AT: Final = 11
"""Where the body of a record that does not expire begins."""
EXPIRING_AT: Final = 19
ABSENT: Final = bytes(VERSION_BYTES)
"""The version of a key that is not there."""

EXPIRES: Final = 0x10
CHANGE: Final = 0x20
KIND_MASK: Final = 0x0F
NO_FLAGS: Final = b"\0"
"""Those of a plain string: what stands from `FLAGS_AT` to `PLAIN_AT`."""

NEVER: Final = 0
"""An expiry that does not come."""


class Kind(IntEnum):
    """What a record says its key is."""

    STRING = 0
    SET = 1
    HASH = 2
    LIST = 3
    LOCK = 4
    GONE = 5
    """The key is not there any more."""
    EMPTIED = 6
    """No key of the fragment is there any more."""


_KINDS: Final = tuple(Kind)


def version_of(record: bytes) -> bytes:
    """Epoch and number."""
    return record[:VERSION_BYTES]


def version_at(epoch: int, number: int) -> bytes:
    """The version of the mutation with this number, in this ownership."""
    return epoch.to_bytes(NUMBER_AT, "big") + number.to_bytes(VERSION_BYTES - NUMBER_AT, "big")


def kind_of(record: bytes) -> Kind:
    """What the record says its key is."""
    try:
        return _KINDS[record[FLAGS_AT] & KIND_MASK]
    except IndexError:
        raise MessageError(f"no record begins with {record[:PLAIN_AT].hex()}") from None


def expiry_of(record: bytes) -> int:
    """When it expires; `NEVER`."""
    if record[FLAGS_AT] & EXPIRES:
        if len(record) < EXPIRING_AT:
            raise MessageError(f"a record ends within its expiry: {record.hex()}")
        return int.from_bytes(record[PLAIN_AT:EXPIRING_AT], "big")
    return NEVER


def number_of(record: bytes) -> int:
    """Its number among the mutations of the fragment."""
    return int.from_bytes(record[NUMBER_AT:VERSION_BYTES], "big")


def body_of(record: bytes) -> bytes:
    """What comes after the header."""
    return record[EXPIRING_AT if record[FLAGS_AT] & EXPIRES else PLAIN_AT :]


def build(version: bytes, flags: int, expiry: int, body: bytes) -> bytes:
    """A record; `flags` without EXPIRES, which follows from the expiry."""
    if expiry:
        return b"%b%c%b%b" % (version, flags | EXPIRES, expiry.to_bytes(8, "big"), body)
    return b"%b%c%b" % (version, flags, body)


_NOBODY: Final = bytes(8)

WENT: Final = build(ABSENT, Kind.GONE, NEVER, b"")
"""Of a key that is not there any more, whenever it went."""
FREE: Final = build(ABSENT, Kind.LOCK, NEVER, _NOBODY)
"""Of a lock that nobody holds."""


def is_free(lock: bytes) -> bool:
    """Whether nobody holds it any more."""
    return body_of(lock).startswith(_NOBODY)
