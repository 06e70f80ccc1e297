"""Hashes: maps whose values have fields. HSET to HSCAN."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from holdfast.core.stores.access import check_lock, container_for, container_of
from holdfast.core.stores.choosing import parse_sample, sample
from holdfast.core.stores.command import SYNTAX, Call, Command, Trait, wrong_arity
from holdfast.core.stores.containers import Change, HashValue
from holdfast.core.stores.numbers import (
    INTEGER_MAX,
    INTEGER_MIN,
    extended,
    fraction_text,
    parse_fraction,
    parse_integer,
)
from holdfast.core.stores.replies import EMPTY, ONE, ZERO, array, bulk, bulks, integer
from holdfast.core.stores.scanning import NOTHING, parse_cursor, parse_wish, portion, scanned
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError

NO_INTEGER: Final = "ERR hash value is not an integer"
NO_FRACTION: Final = "ERR hash value is not a float"
INFINITE: Final = "ERR value is NaN or Infinity"
INFINITE_SUM: Final = "ERR increment would produce NaN or Infinity"
OVERFLOW: Final = "ERR increment or decrement would overflow"
OUT_OF_RANGE: Final = "ERR value is out of range"
WITH_VALUES: Final = b"WITHVALUES"


def fields_of(space: Space, call: Call, key: bytes) -> dict[bytes, bytes]:
    """The fields of a hash, of which a key that is not there has none."""
    found = container_of(space, call, key, HashValue)
    return {} if found is None else found[1].fields


def _set(space: Space, call: Call, key: bytes, pairs: list[bytes]) -> None:
    fragment, held = container_for(space, call, key, HashValue, pairs)
    fragment.change(key, held, Change.SET, pairs)


def hset(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HSET key field value [field value]..."""
    if len(args) % 2:
        raise wrong_arity(args[0].decode(errors="replace"))
    key, pairs = args[1], args[2:]
    check_lock(space, call, key)
    before = len(fields_of(space, call, key))
    _set(space, call, key, pairs)
    return integer(len(fields_of(space, call, key)) - before)


def hsetnx(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HSETNX key field value."""
    check_lock(space, call, args[1])
    if args[2] in fields_of(space, call, args[1]):
        return ZERO
    _set(space, call, args[1], args[2:])
    return ONE


def hdel(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HDEL key field..."""
    key = args[1]
    check_lock(space, call, key)
    found = container_of(space, call, key, HashValue)
    if found is None:
        return ZERO
    fragment, held = found
    removed = [name for name in dict.fromkeys(args[2:]) if name in held.fields]
    if removed:
        fragment.change(key, held, Change.REMOVE, removed)
    return integer(len(removed))


def hincrby(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HINCRBY key field increment."""
    key, name = args[1], args[2]
    increment = parse_integer(args[3])
    check_lock(space, call, key)
    held = fields_of(space, call, key).get(name)
    value = (0 if held is None else parse_integer(held, NO_INTEGER)) + increment
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise CommandError(OVERFLOW)
    _set(space, call, key, [name, b"%d" % value])
    return integer(value)


def hincrbyfloat(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HINCRBYFLOAT key field increment. The result is what is replicated."""
    key, name = args[1], args[2]
    increment = parse_fraction(args[3])
    if increment is None:
        raise CommandError(INFINITE)
    check_lock(space, call, key)
    held = _fraction(fields_of(space, call, key).get(name, b"0"))
    value = None if held is None else extended(held + increment)
    if value is None:
        raise CommandError(INFINITE_SUM)
    text = fraction_text(value)
    _set(space, call, key, [name, text])
    return bulk(text)


def _fraction(text: bytes) -> Fraction | None:
    try:
        return parse_fraction(text)
    except CommandError:
        raise CommandError(NO_FRACTION) from None


# Reading ------------------------------------------------------------------------------------------


def _or_null(call: Call, value: bytes | None) -> bytes:
    return call.dialect.null if value is None else bulk(value)


def hget(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HGET key field."""
    return _or_null(call, fields_of(space, call, args[1]).get(args[2]))


def hmget(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HMGET key field..."""
    fields = fields_of(space, call, args[1])
    return array([_or_null(call, fields.get(name)) for name in args[2:]])


def hgetall(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HGETALL key."""
    return call.dialect.pairs(_pairs(fields_of(space, call, args[1])))


def hexists(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HEXISTS key field."""
    return ONE if args[2] in fields_of(space, call, args[1]) else ZERO


def hlen(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HLEN key."""
    return integer(len(fields_of(space, call, args[1])))


def hstrlen(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HSTRLEN key field."""
    return integer(len(fields_of(space, call, args[1]).get(args[2], b"")))


def hkeys(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HKEYS key."""
    return bulks(fields_of(space, call, args[1]))


def hvals(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HVALS key."""
    return bulks(fields_of(space, call, args[1]).values())


def hrandfield(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HRANDFIELD key [count [WITHVALUES]]."""
    if len(args) == 2:
        fields = fields_of(space, call, args[1])
        return bulk(call.random.choice(list(fields))) if fields else call.dialect.null
    count = parse_sample(args[2])
    with_values = len(args) > 3
    if with_values and (len(args) > 4 or args[3].upper() != WITH_VALUES):
        raise CommandError(SYNTAX)
    if with_values and abs(count) > INTEGER_MAX // 2:
        raise CommandError(OUT_OF_RANGE)
    fields = fields_of(space, call, args[1])
    if not fields:
        return EMPTY
    chosen = sample(call.random, list(fields), count)
    if not with_values:
        return bulks(chosen)
    return call.dialect.listed_pairs([(bulk(name), bulk(fields[name])) for name in chosen])


def hscan(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HSCAN key cursor [MATCH pattern] [COUNT count]."""
    cursor = parse_cursor(args[2])
    fields = fields_of(space, call, args[1])
    if not fields:
        return NOTHING
    following, chosen = portion(fields, parse_wish(cursor, args[3:]))
    return scanned(following, _pairs({name: fields[name] for name in chosen}))


def _pairs(fields: dict[bytes, bytes]) -> list[bytes]:
    return [bulk(part) for pair in fields.items() for part in pair]


READ: Final = Trait.READ
GROW: Final = Trait.WRITE | Trait.GROWS | Trait.FAST

COMMANDS: Final = (
    Command("HSET", -4, GROW, hset),
    Command("HSETNX", 4, GROW, hsetnx),
    Command("HDEL", -3, Trait.WRITE | Trait.FAST, hdel),
    Command("HINCRBY", 4, GROW, hincrby),
    Command("HINCRBYFLOAT", 4, GROW, hincrbyfloat),
    Command("HGET", 3, READ | Trait.FAST, hget),
    Command("HMGET", -3, READ | Trait.FAST, hmget),
    Command("HGETALL", 2, READ, hgetall),
    Command("HEXISTS", 3, READ | Trait.FAST, hexists),
    Command("HLEN", 2, READ | Trait.FAST, hlen),
    Command("HSTRLEN", 3, READ | Trait.FAST, hstrlen),
    Command("HKEYS", 2, READ, hkeys),
    Command("HVALS", 2, READ, hvals),
    Command("HRANDFIELD", -2, READ | Trait.RANDOM, hrandfield),
    Command("HSCAN", -3, READ, hscan),
)
