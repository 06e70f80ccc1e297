"""Sets, and with them multimaps: SADD to SUNION.

What is random is chosen here by the owner and replicated as the removal of those members. Replies
are in the order in which members were added, where Redis has the order of its hash table; nobody
may count on either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.core.stores.access import check_lock, container_for, container_of
from holdfast.core.stores.choosing import parse_count, parse_sample, sample
from holdfast.core.stores.command import SYNTAX, Call, Command, Trait
from holdfast.core.stores.containers import Change, SetValue
from holdfast.core.stores.replies import ONE, ZERO, array, bulk, bulks, integer
from holdfast.core.stores.scanning import NOTHING, parse_cursor, parse_wish, portion, scanned
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError


def sadd(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SADD key member..."""
    key, members = args[1], args[2:]
    check_lock(space, call, key)
    fragment, held = container_for(space, call, key, SetValue, members)
    added = [member for member in dict.fromkeys(members) if member not in held.members]
    if added:
        fragment.change(key, held, Change.ADD, added)
    return integer(len(added))


def srem(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SREM key member..."""
    key = args[1]
    check_lock(space, call, key)
    found = container_of(space, call, key, SetValue)
    if found is None:
        return ZERO
    fragment, held = found
    removed = [member for member in dict.fromkeys(args[2:]) if member in held.members]
    if removed:
        fragment.change(key, held, Change.REMOVE, removed)
    return integer(len(removed))


def members_of(space: Space, call: Call, key: bytes) -> dict[bytes, None]:
    """The members of a set, of which a key that is not there has none."""
    found = container_of(space, call, key, SetValue)
    return {} if found is None else found[1].members


def smembers(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SMEMBERS key."""
    return _members(call, members_of(space, call, args[1]))


def sismember(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SISMEMBER key member."""
    return ONE if args[2] in members_of(space, call, args[1]) else ZERO


def smismember(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SMISMEMBER key member..."""
    members = members_of(space, call, args[1])
    return array([ONE if member in members else ZERO for member in args[2:]])


def scard(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SCARD key."""
    return integer(len(members_of(space, call, args[1])))


def spop(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SPOP key [count]."""
    if len(args) > 3:
        raise CommandError(SYNTAX)
    key = args[1]
    several = len(args) == 3
    count = parse_count(args[2]) if several else 1
    check_lock(space, call, key)
    found = container_of(space, call, key, SetValue)
    if found is None:
        return _members(call, ()) if several else call.dialect.null
    fragment, held = found
    drawn = held.draw(call.random, count)
    if drawn:
        fragment.change(key, held, Change.REMOVE, drawn)
    return _members(call, drawn) if several else bulk(drawn[0])


def srandmember(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SRANDMEMBER key [count]."""
    if len(args) > 3:
        raise CommandError(SYNTAX)
    several = len(args) == 3
    count = parse_sample(args[2]) if several else 1
    found = container_of(space, call, args[1], SetValue)
    if found is None:
        return bulks(()) if several else call.dialect.null
    chosen = sample(call.random, found[1].urn, count)
    return bulks(chosen) if several else bulk(chosen[0])


def sscan(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SSCAN key cursor [MATCH pattern] [COUNT count]."""
    cursor = parse_cursor(args[2])
    members = members_of(space, call, args[1])
    if not members:
        return NOTHING
    following, chosen = portion(members, parse_wish(cursor, args[3:]))
    return scanned(following, list(map(bulk, chosen)))


def sinter(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SINTER key..."""
    first, *others = sorted((members_of(space, call, key) for key in args[1:]), key=len)
    return _members(call, [one for one in first if all(one in other for other in others)])


def sunion(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SUNION key..."""
    union: dict[bytes, None] = {}
    for key in args[1:]:
        union.update(members_of(space, call, key))
    return _members(call, union)


def sdiff(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SDIFF key..."""
    first, *others = [members_of(space, call, key) for key in args[1:]]
    return _members(call, [one for one in first if not any(one in other for other in others)])


def _members(call: Call, members: Iterable[bytes]) -> bytes:
    return call.dialect.members(list(map(bulk, members)))


ALL: Final = (1, -1, 1)
READ: Final = Trait.READ
GROW: Final = Trait.WRITE | Trait.GROWS

COMMANDS: Final = (
    Command("SADD", -3, GROW | Trait.FAST, sadd),
    Command("SREM", -3, Trait.WRITE | Trait.FAST, srem),
    Command("SMEMBERS", 2, READ, smembers),
    Command("SISMEMBER", 3, READ | Trait.FAST, sismember),
    Command("SMISMEMBER", -3, READ | Trait.FAST, smismember),
    Command("SCARD", 2, READ | Trait.FAST, scard),
    Command("SPOP", -2, Trait.WRITE | Trait.FAST | Trait.RANDOM, spop),
    Command("SRANDMEMBER", -2, READ | Trait.RANDOM, srandmember),
    Command("SSCAN", -3, READ, sscan),
    Command("SINTER", -2, READ, sinter, ALL),
    Command("SUNION", -2, READ, sunion, ALL),
    Command("SDIFF", -2, READ, sdiff, ALL),
)
