"""Patterns of KEYS and SCAN: Redis' globs, matched without a search through all possibilities.

    *       any bytes, also none              [abc]   one of these
    ?       one byte                          [^a-z]  one byte that is none of these
    \\x      the byte x, whatever it means     all else stands for itself

Redis tries each star at each place, for each place of the star before it: `a*a*a*a*b` against many
`a` takes time without bound. Between two stars everything has a fixed length, so the *first* place
where a piece fits is as good as any later one, and no star ever has to be tried again. A pattern
becomes one regular expression in which each star and the piece behind it form an atomic group: at
most (length of pattern) x (length of text) steps.

Odd patterns mean what they mean to Redis: a class that is not closed ends with the pattern, a
backslash at the end is itself, and an empty text fits only the empty pattern and the lone star.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holdfast.errors import CommandError

PATTERN_BYTES_MAX: Final = 1024
"""The longest pattern: it is multiplied with the length of each key that it is compared with."""

Matcher = Callable[[bytes], bool]

_BACKSLASH, _CLOSE, _DASH, _OPEN, _QUERY, _STAR = b"\\]-[?*"
_ESCAPED: Final = tuple(b"\\x%02x" % byte for byte in range(256))


def glob(pattern: bytes) -> Matcher:
    """Whether a text fits the pattern."""
    if len(pattern) > PATTERN_BYTES_MAX:
        raise CommandError(f"ERR the pattern is longer than {PATTERN_BYTES_MAX} bytes")
    if pattern == b"*":
        return lambda _: True
    fits = re.compile(_expression(pattern), re.DOTALL).fullmatch

    def matches(text: bytes) -> bool:
        return fits(text) is not None if text else not pattern

    return matches


def _expression(pattern: bytes) -> bytes:
    """The regular expression of a pattern: the pieces between its stars."""
    pieces = [b""]
    at = 0
    while at < len(pattern):
        if pattern[at] == _STAR:
            pieces.append(b"")
            at += 1
        else:
            piece, at = _one(pattern, at)
            pieces[-1] += piece
    first, *others = pieces
    if not others:
        return first
    *middle, last = others
    return b"%b%b.*%b" % (first, b"".join(b"(?>.*?%b)" % piece for piece in middle if piece), last)


def _one(pattern: bytes, at: int) -> tuple[bytes, int]:
    """What stands for one byte of the text, and where the pattern goes on."""
    byte = pattern[at]
    if byte == _QUERY:
        return b".", at + 1
    if byte == _OPEN:
        return _class(pattern, at + 1)
    if byte == _BACKSLASH and at + 1 < len(pattern):
        at += 1
    return _ESCAPED[pattern[at]], at + 1


def _class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """A class, from behind its bracket on."""
    end = len(pattern)
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members = b""
    while at < end and pattern[at] != _CLOSE:
        if pattern[at] == _BACKSLASH and at + 1 < end:
            members += _ESCAPED[pattern[at + 1]]
            at += 2
        elif at + 2 < end and pattern[at + 1] == _DASH:
            low, high = sorted((pattern[at], pattern[at + 2]))
            members += b"%b-%b" % (_ESCAPED[low], _ESCAPED[high])
            at += 3
        else:
            members += _ESCAPED[pattern[at]]
            at += 1
    if not members:
        return (b"." if negated else b"(?!)"), at + 1
    return b"[%b%b]" % (b"^" if negated else b"", members), at + 1
