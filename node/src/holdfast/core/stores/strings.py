"""Strings, GET to SETRANGE; those that count are in `counters`.

The plain case of GET and SET is in `plain`, which must say the same.

A string is written as a whole, so that a lost mutation heals with the next one; APPEND and SETRANGE
copy the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.stores.access import check_lock, live
from holdfast.core.stores.command import (
    TOO_LARGE,
    WRONG_TYPE,
    Call,
    Command,
    Gather,
    Trait,
    wrong_arity,
)
from holdfast.core.stores.eviction import admit
from holdfast.core.stores.fragment import Fragment, expiry_of_value
from holdfast.core.stores.living import Wish, deadline, parse_wish
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.plain import VALUE_BYTES_MAX
from holdfast.core.stores.record import NEVER, body_of, expiry_of
from holdfast.core.stores.replies import OK, ONE, ZERO, array, bulk, integer
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError

OFFSET: Final = "ERR offset is out of range"

SET_WORDS: Final = (b"NX", b"XX", b"GET", b"KEEPTTL")
GETEX_WORDS: Final = (b"PERSIST",)
DEFAULT_LIFE: Final = -1
"""An expiry that says: as the name's settings say."""


# Reading ------------------------------------------------------------------------------------------


def get(space: Space, call: Call, args: list[bytes]) -> bytes:
    """GET key."""
    return _bulk_or_null(call, _find(space, call, args[1]))


def mget(space: Space, call: Call, args: list[bytes]) -> bytes:
    """MGET key...: what is no string is as good as absent."""
    found = (live(space, call, key) for key in args[1:])
    return array(
        [
            bulk(body_of(each[1])) if each and isinstance(each[1], bytes) else call.dialect.null
            for each in found
        ]
    )


def strlen(space: Space, call: Call, args: list[bytes]) -> bytes:
    """STRLEN key."""
    found = _find(space, call, args[1])
    return integer(len(body_of(found[1]))) if found else ZERO


def getrange(space: Space, call: Call, args: list[bytes]) -> bytes:
    """GETRANGE key start end: both ends belong to it, negative ones count from behind."""
    first, last = parse_integer(args[2]), parse_integer(args[3])
    found = _find(space, call, args[1])
    value = body_of(found[1]) if found else b""
    size = len(value)
    if first < 0 and last < first:
        return bulk(b"")
    begin = max(0, first + size if first < 0 else first)
    end = max(0, last + size if last < 0 else last)
    return bulk(value[begin : end + 1])


# Writing ------------------------------------------------------------------------------------------


def set_string(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]."""
    wish = parse_wish(args[3:], SET_WORDS)
    return _set(space, call, args[1], args[2], wish, wish.deadline(call.now, "set"))


def setnx(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SETNX key value."""
    key, value = args[1], args[2]
    reply = _set(space, call, key, value, Wish(condition=b"NX"), NEVER)
    return ONE if reply is OK else ZERO


def setex(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SETEX key seconds value."""
    expiry = deadline(b"EX", args[2], call.now, "setex")
    return _set(space, call, args[1], args[3], Wish(life=b"EX"), expiry)


def psetex(space: Space, call: Call, args: list[bytes]) -> bytes:
    """PSETEX key milliseconds value."""
    expiry = deadline(b"PX", args[2], call.now, "psetex")
    return _set(space, call, args[1], args[3], Wish(life=b"PX"), expiry)


def getset(space: Space, call: Call, args: list[bytes]) -> bytes:
    """GETSET key value."""
    return _set(space, call, args[1], args[2], Wish(get=True), NEVER)


def getdel(space: Space, call: Call, args: list[bytes]) -> bytes:
    """GETDEL key."""
    key = args[1]
    check_lock(space, call, key)
    found = _find(space, call, key)
    if found is not None:
        found[0].remove(key)
    return _bulk_or_null(call, found)


def getex(space: Space, call: Call, args: list[bytes]) -> bytes:
    """GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]."""
    key = args[1]
    wish = parse_wish(args[2:], GETEX_WORDS)
    if wish.life:
        check_lock(space, call, key)
    found = _find(space, call, key)
    if found is not None and wish.life:
        fragment, record = found
        expiry = wish.deadline(call.now, "getex")
        if 0 < expiry <= call.now:
            fragment.remove(key)
        elif expiry != expiry_of(record):
            fragment.put(key, body_of(record), expiry)
    return _bulk_or_null(call, found)


def mset(space: Space, call: Call, args: list[bytes]) -> bytes:
    """MSET key value...: all or, if one of them can't be, none."""
    if len(args) % 2 == 0:
        raise wrong_arity("MSET")
    keys, values = args[1::2], args[2::2]
    for key, value in zip(keys, values, strict=True):
        _check_size(len(value))
        check_lock(space, call, key)
    admit(space, call, keys)
    for key, value in zip(keys, values, strict=True):
        keep_string(space, call, key, value)
    return OK


def append(space: Space, call: Call, args: list[bytes]) -> bytes:
    """APPEND key value."""

    def appended(old: bytes | None) -> bytes:
        return _joined(old or b"", len(old or b""), args[2])

    return integer(len(replace_string(space, call, args[1], appended)))


def setrange(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SETRANGE key offset value: zeros before it, where there was nothing."""
    key, offset, value = args[1], parse_integer(args[2]), args[3]
    if offset < 0:
        raise CommandError(OFFSET)
    if not value:
        return strlen(space, call, args)
    return integer(
        len(replace_string(space, call, key, lambda old: _joined(old or b"", offset, value)))
    )


# What they share ----------------------------------------------------------------------------------


def _find(space: Space, call: Call, key: bytes) -> tuple[Fragment, bytes] | None:
    """Where a string is, and its record; a key of another kind is refused."""
    found = live(space, call, key)
    if found is None:
        return None
    fragment, record = found
    if not isinstance(record, bytes):
        raise CommandError(WRONG_TYPE)
    return fragment, record


def _bulk_or_null(call: Call, found: tuple[Fragment, bytes] | None) -> bytes:
    return call.dialect.null if found is None else bulk(body_of(found[1]))


def _set(space: Space, call: Call, key: bytes, value: bytes, wish: Wish, expiry: int) -> bytes:
    """SET, and what is SET by another name."""
    _check_size(len(value))
    check_lock(space, call, key)
    old = live(space, call, key)
    reply = OK
    if wish.get:
        reply = _bulk_or_null(call, _find(space, call, key))
    if wish.condition and (wish.condition == b"NX") is (old is not None):
        return reply if wish.get else call.dialect.null
    if 0 < expiry <= call.now:
        if old is not None:
            old[0].remove(key)
        return reply
    if old is not None and wish.life == b"KEEPTTL":
        expiry = expiry_of_value(old[1])
    elif not expiry:
        expiry = DEFAULT_LIFE
    admit(space, call, (key,))
    keep_string(space, call, key, value, expiry)
    return reply


def replace_string(
    space: Space, call: Call, key: bytes, change: Callable[[bytes | None], bytes]
) -> bytes:
    """A new value made of the old one, None if there is none; it lives as long as the old one."""
    check_lock(space, call, key)
    found = _find(space, call, key)
    value = change(None if found is None else body_of(found[1]))
    if found is None:
        admit(space, call, (key,))
        keep_string(space, call, key, value)
    else:
        found[0].put(key, value, expiry_of(found[1]))
    return value


def keep_string(
    space: Space, call: Call, key: bytes, value: bytes, expiry: int = DEFAULT_LIFE
) -> None:
    """Put a string where it belongs, whatever was there; all has been checked."""
    fragment = space.home(key)
    internal = space.internal
    if key in internal.records:
        internal.remove(key)
    if expiry == DEFAULT_LIFE:
        life = fragment.settings.ttl_ms
        expiry = call.now + life if life else NEVER
    fragment.put(key, value, expiry)
    if fragment.touched_wanted:
        fragment.touched[key] = call.now


def _joined(old: bytes, offset: int, value: bytes) -> bytes:
    """The old value with the new one from an offset on."""
    _check_size(offset + len(value))
    return b"%b%b%b" % (old[:offset].ljust(offset, b"\0"), value, old[offset + len(value) :])


def _check_size(size: int) -> None:
    if size > VALUE_BYTES_MAX:
        raise CommandError(TOO_LARGE)


# The table ----------------------------------------------------------------------------------------

_READ: Final = Trait.READ | Trait.FAST
_WRITE: Final = Trait.WRITE | Trait.FAST
_GROW: Final = Trait.WRITE | Trait.GROWS | Trait.FAST

COMMANDS: Final = (
    Command("GET", 2, _READ, get),
    Command("SET", -3, _GROW, set_string),
    Command("SETNX", 3, _GROW, setnx),
    Command("SETEX", 4, _GROW, setex),
    Command("PSETEX", 4, _GROW, psetex),
    Command("GETSET", 3, _GROW, getset),
    Command("GETDEL", 2, _WRITE, getdel),
    Command("GETEX", -2, _WRITE, getex),
    Command("MGET", -2, _READ, mget, (1, -1, 1), Gather.ITEMS),
    Command("MSET", -3, _GROW, mset, (1, -1, 2), Gather.OK),
    Command("APPEND", 3, _GROW, append),
    Command("STRLEN", 2, _READ, strlen),
    Command("SETRANGE", 4, _GROW, setrange),
    Command("GETRANGE", 4, _READ, getrange),
)
