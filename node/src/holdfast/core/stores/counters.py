"""Strings that are numbers: INCR to INCRBYFLOAT.

The result is replicated, not the increment: it is the same wherever it arrives, and however often.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.stores.command import Call, Command, Trait
from holdfast.core.stores.numbers import (
    INTEGER_MAX,
    INTEGER_MIN,
    extended,
    fraction_text,
    parse_fraction,
    parse_integer,
)
from holdfast.core.stores.replies import bulk
from holdfast.core.stores.space import Space
from holdfast.core.stores.strings import replace_string
from holdfast.errors import CommandError

OVERFLOW: Final = "ERR increment or decrement would overflow"
DECREMENT_OVERFLOW: Final = "ERR decrement would overflow"
NOT_FINITE: Final = "ERR increment would produce NaN or Infinity"


def incr(space: Space, call: Call, args: list[bytes]) -> bytes:
    """INCR key."""
    return _add(space, call, args[1], 1)


def incrby(space: Space, call: Call, args: list[bytes]) -> bytes:
    """INCRBY key increment."""
    return _add(space, call, args[1], parse_integer(args[2]))


def decr(space: Space, call: Call, args: list[bytes]) -> bytes:
    """DECR key."""
    return _add(space, call, args[1], -1)


def decrby(space: Space, call: Call, args: list[bytes]) -> bytes:
    """DECRBY key decrement."""
    decrement = parse_integer(args[2])
    if decrement == INTEGER_MIN:
        raise CommandError(DECREMENT_OVERFLOW)
    return _add(space, call, args[1], -decrement)


def incrbyfloat(space: Space, call: Call, args: list[bytes]) -> bytes:
    """INCRBYFLOAT key increment."""

    def increased(old: bytes | None) -> bytes:
        value = parse_fraction(b"0" if old is None else old)
        increment = parse_fraction(args[2])
        total = None if value is None or increment is None else extended(value + increment)
        if total is None:
            raise CommandError(NOT_FINITE)
        return fraction_text(total)

    return bulk(replace_string(space, call, args[1], increased))


def _add(space: Space, call: Call, key: bytes, increment: int) -> bytes:
    def increased(old: bytes | None) -> bytes:
        value = increment if old is None else parse_integer(old) + increment
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise CommandError(OVERFLOW)
        return b"%d" % value

    return b":%b\r\n" % replace_string(space, call, key, increased)


GROW: Final = Trait.WRITE | Trait.GROWS | Trait.FAST

COMMANDS: Final = (
    Command("INCR", 2, GROW, incr),
    Command("INCRBY", 3, GROW, incrby),
    Command("DECR", 2, GROW, decr),
    Command("DECRBY", 3, GROW, decrby),
    Command("INCRBYFLOAT", 3, GROW, incrbyfloat),
)
