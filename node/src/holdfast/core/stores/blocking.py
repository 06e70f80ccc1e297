"""BLPOP, BRPOP, BLMOVE: take an element, or wait for one.

A function here never waits: it says what it waits for (`Blocked`), and is called again when one of
those keys was written. Those who wait for a list are served in the order in which they came by
whoever calls.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from holdfast.core.stores.access import check_lock
from holdfast.core.stores.command import Blocked, Call, Command, Trait
from holdfast.core.stores.containers import Change
from holdfast.core.stores.lists import list_of, move, parse_side, take
from holdfast.core.stores.numbers import INTEGER_MAX, parse_fraction
from holdfast.core.stores.replies import bulk, bulks
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError

NO_TIMEOUT: Final = "ERR timeout is not a float or out of range"
NEGATIVE: Final = "ERR timeout is negative"
"""Redis says so also of one that is too large."""


def parse_until(call: Call, text: bytes) -> int:
    """When a timeout in seconds is up; 0 for never."""
    try:
        seconds = parse_fraction(text)
    except CommandError:
        raise CommandError(NO_TIMEOUT) from None
    wait_ms = -1 if seconds is None else ceil(seconds * 1000)
    if not 0 <= wait_ms <= INTEGER_MAX:
        raise CommandError(NEGATIVE)
    return call.now + wait_ms if wait_ms else 0


def blocking_pop(space: Space, call: Call, args: list[bytes], side: Change) -> bytes | Blocked:
    """An element of the first of these lists that has one."""
    until = parse_until(call, args[-1])
    keys = tuple(args[1:-1])
    for key in keys:
        check_lock(space, call, key)
    for key in keys:
        found = list_of(space, call, key)
        if found is not None:
            fragment, held = found
            return bulks([key, *take(fragment, key, held, side, 1)])
    return Blocked(keys, until, call.dialect.null_array)


def blpop(space: Space, call: Call, args: list[bytes]) -> bytes | Blocked:
    """BLPOP key... timeout."""
    return blocking_pop(space, call, args, Change.PUSH_LEFT)


def brpop(space: Space, call: Call, args: list[bytes]) -> bytes | Blocked:
    """BRPOP key... timeout."""
    return blocking_pop(space, call, args, Change.PUSH_RIGHT)


def blmove(space: Space, call: Call, args: list[bytes]) -> bytes | Blocked:
    """BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout."""
    sides = parse_side(args[3]), parse_side(args[4])
    until = parse_until(call, args[5])
    element = move(space, call, (args[1], args[2]), sides)
    if element is None:
        return Blocked((args[1],), until, call.dialect.null_array)
    return bulk(element)


WAIT: Final = Trait.WRITE | Trait.BLOCKS

COMMANDS: Final = (
    Command("BLPOP", -3, WAIT, blpop, (1, -2, 1)),
    Command("BRPOP", -3, WAIT, brpop, (1, -2, 1)),
    Command("BLMOVE", 6, WAIT | Trait.GROWS, blmove, (1, 2, 1)),
)
