"""Lists, and with them queues: LPUSH to LMOVE. What may wait is in `blocking`.

Lists are not fragmented: those of a partition share its internal fragment (`space`).
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from holdfast.core.stores.access import check_lock, container_for, container_of
from holdfast.core.stores.choosing import parse_count
from holdfast.core.stores.command import SYNTAX, Call, Command, Trait, wrong_arity
from holdfast.core.stores.containers import Change, ListValue, number
from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.replies import OK, ZERO, bulk, bulks, integer
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError

NO_SUCH_KEY: Final = "ERR no such key"
INDEX_OUT_OF_RANGE: Final = "ERR index out of range"
SIDES: Final = {b"LEFT": Change.PUSH_LEFT, b"RIGHT": Change.PUSH_RIGHT}


def parse_side(text: bytes) -> Change:
    """LEFT or RIGHT, as the push on that side."""
    side = SIDES.get(text.upper())
    if side is None:
        raise CommandError(SYNTAX)
    return side


def list_of(space: Space, call: Call, key: bytes) -> tuple[Fragment, ListValue] | None:
    """A list that is here."""
    return container_of(space, call, key, ListValue)


def elements_of(space: Space, call: Call, key: bytes) -> deque[bytes]:
    """The elements of a list, of which a key that is not there has none."""
    found = list_of(space, call, key)
    return deque() if found is None else found[1].elements


# Both ends ----------------------------------------------------------------------------------------


def push(space: Space, call: Call, args: list[bytes], side: Change, *, anew: bool) -> bytes:
    """Elements come to one end, one after the other; `anew`: to a list that is not there yet."""
    key, elements = args[1], args[2:]
    check_lock(space, call, key)
    if not anew and list_of(space, call, key) is None:
        return ZERO
    fragment, held = container_for(space, call, key, ListValue, elements)
    fragment.change(key, held, side, elements)
    return integer(len(held))


def lpush(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LPUSH key element..."""
    return push(space, call, args, Change.PUSH_LEFT, anew=True)


def rpush(space: Space, call: Call, args: list[bytes]) -> bytes:
    """RPUSH key element..."""
    return push(space, call, args, Change.PUSH_RIGHT, anew=True)


def lpushx(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LPUSHX key element..."""
    return push(space, call, args, Change.PUSH_LEFT, anew=False)


def rpushx(space: Space, call: Call, args: list[bytes]) -> bytes:
    """RPUSHX key element..."""
    return push(space, call, args, Change.PUSH_RIGHT, anew=False)


def take(fragment: Fragment, key: bytes, held: ListValue, side: Change, count: int) -> list[bytes]:
    """Elements of one end, the outermost first, which are removed."""
    elements = held.elements
    if side is Change.PUSH_LEFT:
        taken = list(islice(elements, count))
        gone = (len(taken), 0)
    else:
        taken = list(islice(reversed(elements), count))
        gone = (0, len(taken))
    if taken:
        fragment.change(key, held, Change.TRIM, list(map(number, gone)))
    return taken


def pop(space: Space, call: Call, args: list[bytes], side: Change) -> bytes:
    """One element, or as many as are asked for."""
    if len(args) > 3:
        raise wrong_arity(args[0].decode(errors="replace"))
    several = len(args) == 3
    count = parse_count(args[2]) if several else 1
    check_lock(space, call, args[1])
    found = list_of(space, call, args[1])
    if found is None:
        return call.dialect.null_array if several else call.dialect.null
    fragment, held = found
    taken = take(fragment, args[1], held, side, count)
    return bulks(taken) if several else bulk(taken[0])


def lpop(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LPOP key [count]."""
    return pop(space, call, args, Change.PUSH_LEFT)


def rpop(space: Space, call: Call, args: list[bytes]) -> bytes:
    """RPOP key [count]."""
    return pop(space, call, args, Change.PUSH_RIGHT)


def move(
    space: Space, call: Call, keys: tuple[bytes, bytes], sides: tuple[Change, Change]
) -> bytes | None:
    """An element goes from an end of one list to an end of another one, or of the same."""
    source, target = keys
    check_lock(space, call, source)
    check_lock(space, call, target)
    found = list_of(space, call, source)
    if found is None:
        return None
    fragment, held = found
    element = held.elements[0 if sides[0] is Change.PUSH_LEFT else -1]
    if source == target and (sides[0] is sides[1] or len(held) == 1):
        return element
    # Whether the target can take it is found out before the source loses it.
    same = source == target
    onto = found if same else container_for(space, call, target, ListValue, (element,))
    take(fragment, source, held, sides[0], 1)
    onto[0].change(target, onto[1], sides[1], (element,))
    return element


def lmove(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LMOVE source destination LEFT|RIGHT LEFT|RIGHT."""
    sides = parse_side(args[3]), parse_side(args[4])
    element = move(space, call, (args[1], args[2]), sides)
    return call.dialect.null if element is None else bulk(element)


def rpoplpush(space: Space, call: Call, args: list[bytes]) -> bytes:
    """RPOPLPUSH source destination."""
    element = move(space, call, (args[1], args[2]), (Change.PUSH_RIGHT, Change.PUSH_LEFT))
    return call.dialect.null if element is None else bulk(element)


# By index -----------------------------------------------------------------------------------------


def stretch(first: bytes, last: bytes, length: int) -> range:
    """The indexes of a range as LRANGE and LTRIM understand it."""
    start, end = parse_integer(first), parse_integer(last)
    return range(max(0, start + length * (start < 0)), min(length, end + length * (end < 0) + 1))


def lrange(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LRANGE key start stop."""
    stretch(args[2], args[3], 0)
    elements = elements_of(space, call, args[1])
    length = len(elements)
    wanted = stretch(args[2], args[3], length)
    if not wanted:
        return bulks(())
    if wanted.start < length - wanted.stop:
        return bulks(islice(elements, wanted.start, wanted.stop))
    # A deque is walked from the end that is nearer.
    chosen = list(islice(reversed(elements), length - wanted.stop, length - wanted.start))
    return bulks(reversed(chosen))


def llen(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LLEN key."""
    return integer(len(elements_of(space, call, args[1])))


def lindex(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LINDEX key index."""
    elements = elements_of(space, call, args[1])
    if not elements:
        return call.dialect.null
    index = parse_integer(args[2])
    if not -len(elements) <= index < len(elements):
        return call.dialect.null
    return bulk(elements[index])


def lset(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LSET key index element."""
    key, element = args[1], args[3]
    check_lock(space, call, key)
    if list_of(space, call, key) is None:
        raise CommandError(NO_SUCH_KEY)
    index = parse_integer(args[2])
    fragment, held = container_for(space, call, key, ListValue, (element,))
    if not -len(held) <= index < len(held):
        raise CommandError(INDEX_OUT_OF_RANGE)
    fragment.change(key, held, Change.REPLACE, (number(index % len(held)), element))
    return OK


def ltrim(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LTRIM key start stop."""
    key = args[1]
    stretch(args[2], args[3], 0)
    check_lock(space, call, key)
    found = list_of(space, call, key)
    if found is None:
        return OK
    fragment, held = found
    kept = stretch(args[2], args[3], len(held))
    gone = (kept.start, len(held) - kept.stop) if kept else (len(held), 0)
    if any(gone):
        fragment.change(key, held, Change.TRIM, list(map(number, gone)))
    return OK


# By element ---------------------------------------------------------------------------------------


def lrem(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LREM key count element."""
    key, element = args[1], args[3]
    count = parse_integer(args[2])
    check_lock(space, call, key)
    found = list_of(space, call, key)
    if found is None:
        return ZERO
    fragment, held = found
    places = [index for index, one in enumerate(held.elements) if one == element]
    if count:
        places = places[:count] if count > 0 else places[count:]
    if places:
        fragment.change(key, held, Change.DELETE, list(map(number, places)))
    return integer(len(places))


def linsert(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LINSERT key BEFORE|AFTER pivot element."""
    key, where, pivot, element = args[1], args[2].upper(), args[3], args[4]
    if where not in {b"BEFORE", b"AFTER"}:
        raise CommandError(SYNTAX)
    check_lock(space, call, key)
    if list_of(space, call, key) is None:
        return ZERO
    fragment, held = container_for(space, call, key, ListValue, (element,))
    try:
        index = held.elements.index(pivot) + (where == b"AFTER")
    except ValueError:
        return integer(-1)
    fragment.change(key, held, Change.INSERT, (number(index), element))
    return integer(len(held))


KEYS: Final = (1, 2, 1)
READ: Final = Trait.READ
TAKE: Final = Trait.WRITE | Trait.FAST
GROW: Final = Trait.WRITE | Trait.GROWS

COMMANDS: Final = (
    Command("LPUSH", -3, GROW | Trait.FAST, lpush),
    Command("RPUSH", -3, GROW | Trait.FAST, rpush),
    Command("LPUSHX", -3, GROW | Trait.FAST, lpushx),
    Command("RPUSHX", -3, GROW | Trait.FAST, rpushx),
    Command("LPOP", -2, TAKE, lpop),
    Command("RPOP", -2, TAKE, rpop),
    Command("LMOVE", 5, GROW, lmove, KEYS),
    Command("RPOPLPUSH", 3, GROW, rpoplpush, KEYS),
    Command("LRANGE", 4, READ, lrange),
    Command("LLEN", 2, READ | Trait.FAST, llen),
    Command("LINDEX", 3, READ, lindex),
    Command("LSET", 4, GROW, lset),
    Command("LTRIM", 4, Trait.WRITE, ltrim),
    Command("LREM", 4, Trait.WRITE, lrem),
    Command("LINSERT", 5, GROW, linsert),
)
