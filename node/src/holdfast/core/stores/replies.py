"""Replies as bytes, in both dialects of the Redis protocol.

A command's function builds its reply here and the shell only writes it out. RESP2 and RESP3 differ
in how they say null, pairs, sets and fractions; a session has one of the two dialects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

OK: Final = b"+OK\r\n"
QUEUED: Final = b"+QUEUED\r\n"
ZERO: Final = b":0\r\n"
ONE: Final = b":1\r\n"
EMPTY: Final = b"*0\r\n"

_SMALL: Final = tuple(b":%d\r\n" % value for value in range(1024))


def integer(value: int) -> bytes:
    """A 64-bit integer."""
    return _SMALL[value] if 0 <= value < len(_SMALL) else b":%d\r\n" % value


def bulk(value: bytes) -> bytes:
    """A byte string."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def simple(text: str) -> bytes:
    """A status."""
    return b"+%b\r\n" % text.encode()


def error(text: str) -> bytes:
    """An error, its code first; line breaks would end it early.

    Bytes of the client's that are no text come back as they were (`surrogateescape`).
    """
    line = text.replace("\r", " ").replace("\n", " ")
    return b"-%b\r\n" % line.encode(errors="surrogateescape")


def array(items: Sequence[bytes]) -> bytes:
    """Encoded items in order."""
    return b"*%d\r\n%b" % (len(items), b"".join(items))


def bulks(values: Iterable[bytes]) -> bytes:
    """An array of byte strings."""
    return array([bulk(value) for value in values])


class Resp2:
    """The dialect that every client speaks until it says HELLO 3."""

    number = 2
    null = b"$-1\r\n"
    null_array = b"*-1\r\n"

    def pairs(self, items: Sequence[bytes]) -> bytes:
        """Encoded keys and values, alternating."""
        return array(items)

    def listed_pairs(self, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Encoded pairs in order, of which some may be the same."""
        return array([part for pair in pairs for part in pair])

    def members(self, items: Sequence[bytes]) -> bytes:
        """Encoded members of a set."""
        return array(items)

    def fraction(self, text: bytes) -> bytes:
        """A floating point number in Redis' notation."""
        return bulk(text)

    def text(self, text: bytes) -> bytes:
        """Lines for people."""
        return bulk(text)


class Resp3(Resp2):
    """The dialect of HELLO 3."""

    number = 3
    null = b"_\r\n"
    null_array = b"_\r\n"

    def pairs(self, items: Sequence[bytes]) -> bytes:
        """Encoded keys and values, alternating."""
        return b"%%%d\r\n%b" % (len(items) // 2, b"".join(items))

    def listed_pairs(self, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Encoded pairs in order, of which some may be the same."""
        return array([array(pair) for pair in pairs])

    def members(self, items: Sequence[bytes]) -> bytes:
        """Encoded members of a set."""
        return b"~%d\r\n%b" % (len(items), b"".join(items))

    def fraction(self, text: bytes) -> bytes:
        """A floating point number in Redis' notation."""
        return b",%b\r\n" % text

    def text(self, text: bytes) -> bytes:
        """Lines for people."""
        return b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text)


RESP2: Final = Resp2()
RESP3: Final = Resp3()
