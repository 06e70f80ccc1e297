"""Keys of any kind: DEL to PERSIST.

EXPIRE on a string writes the string anew with its expiry; on a container it is an operation. A
moment that is past removes the key: nobody could ever see it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.stores.access import check_lock, live, present
from holdfast.core.stores.command import Call, Command, Function, Gather, Trait
from holdfast.core.stores.containers import Change, number
from holdfast.core.stores.fragment import Fragment, Value, expiry_of_value, kind_of_value
from holdfast.core.stores.living import invalid_expiry
from holdfast.core.stores.numbers import INTEGER_MAX, INTEGER_MIN, parse_integer
from holdfast.core.stores.record import NEVER, body_of
from holdfast.core.stores.replies import ONE, ZERO, integer, simple
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError

Find = Callable[[Space, Call, bytes], "tuple[Fragment, Value] | None"]

NO_KEY: Final = integer(-2)
NO_EXPIRY: Final = integer(-1)
NX_WITH_OTHERS: Final = "ERR NX and XX, GT or LT options at the same time are not compatible"
GT_WITH_LT: Final = "ERR GT and LT options at the same time are not compatible"


def delete(space: Space, call: Call, args: list[bytes]) -> bytes:
    """DEL key..., UNLINK key...: how many were there."""
    for key in args[1:]:
        check_lock(space, call, key)
    removed = 0
    for key in args[1:]:
        found = present(space, call, key)
        if found is not None:
            found[0].remove(key)
            removed += 1
    return integer(removed)


def exists(space: Space, call: Call, args: list[bytes]) -> bytes:
    """EXISTS key...: how many are there, each as often as it is named."""
    return _count(present, space, call, args)


def touch(space: Space, call: Call, args: list[bytes]) -> bytes:
    """TOUCH key...: the same, and they are used."""
    return _count(live, space, call, args)


def kind(space: Space, call: Call, args: list[bytes]) -> bytes:
    """TYPE key."""
    found = present(space, call, args[1])
    return simple("none" if found is None else kind_of_value(found[1]).name.lower())


def persist(space: Space, call: Call, args: list[bytes]) -> bytes:
    """PERSIST key: it does not expire."""
    key = args[1]
    check_lock(space, call, key)
    found = live(space, call, key)
    if found is None or not expiry_of_value(found[1]):
        return ZERO
    _expire(found, key, NEVER)
    return ONE


def expire(*, unit: int, absolute: bool) -> Function:
    """The commands that say when a key expires; `unit` in milliseconds."""
    name = f"{'p' if unit == 1 else ''}expire{'at' if absolute else ''}"

    def function(space: Space, call: Call, args: list[bytes]) -> bytes:
        key = args[1]
        options = _conditions(args[3:])
        moment = parse_integer(args[2]) * unit
        if not INTEGER_MIN <= moment <= INTEGER_MAX:
            raise invalid_expiry(name)
        moment += 0 if absolute else call.now
        if moment > INTEGER_MAX:
            raise invalid_expiry(name)
        check_lock(space, call, key)
        found = live(space, call, key)
        if found is None or not _applies(options, expiry_of_value(found[1]), moment):
            return ZERO
        if moment <= call.now:
            found[0].remove(key)
        else:
            _expire(found, key, moment)
        return ONE

    function.__doc__ = f"{name.upper()} key {'moment' if absolute else 'time'} [NX | XX | GT | LT]."
    return function


def remaining(*, unit: int, absolute: bool) -> Function:
    """The commands that tell when a key expires; `unit` in milliseconds."""

    def function(space: Space, call: Call, args: list[bytes]) -> bytes:
        found = present(space, call, args[1])
        if found is None:
            return NO_KEY
        expiry = expiry_of_value(found[1])
        if not expiry:
            return NO_EXPIRY
        time = expiry if absolute else expiry - call.now
        return integer((time + unit // 2) // unit)

    function.__doc__ = f"{'P' if unit == 1 else ''}{'EXPIRETIME' if absolute else 'TTL'} key."
    return function


def _count(find: Find, space: Space, call: Call, args: list[bytes]) -> bytes:
    return integer(sum(find(space, call, key) is not None for key in args[1:]))


def _expire(found: tuple[Fragment, Value], key: bytes, expiry: int) -> None:
    fragment, value = found
    if isinstance(value, bytes):
        fragment.put(key, body_of(value), expiry)
    else:
        fragment.change(key, value, Change.EXPIRE, (number(expiry),))


def _conditions(options: list[bytes]) -> dict[bytes, None]:
    """The words after the time; some exclude one another."""
    words = dict.fromkeys(option.upper() for option in options)
    for option in options:
        if option.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            text = option.decode(errors="surrogateescape")
            raise CommandError(f"ERR Unsupported option {text}")
    if b"NX" in words and len(words) > 1:
        raise CommandError(NX_WITH_OTHERS)
    if b"GT" in words and b"LT" in words:
        raise CommandError(GT_WITH_LT)
    return words


def _applies(words: dict[bytes, None], current: int, moment: int) -> bool:
    """Whether the conditions hold; who never expires has the latest expiry of all."""
    if b"NX" in words:
        return not current
    if b"XX" in words and not current:
        return False
    if b"GT" in words:
        return 0 < current < moment
    return b"LT" not in words or not current or moment < current


SECOND: Final = 1000
MILLISECOND: Final = 1
ALL: Final = (1, -1, 1)
READ: Final = Trait.READ | Trait.FAST
WRITE: Final = Trait.WRITE | Trait.FAST

COMMANDS: Final = (
    Command("DEL", -2, Trait.WRITE, delete, ALL, Gather.SUM),
    Command("UNLINK", -2, WRITE, delete, ALL, Gather.SUM),
    Command("EXISTS", -2, READ, exists, ALL, Gather.SUM),
    Command("TOUCH", -2, READ, touch, ALL, Gather.SUM),
    Command("TYPE", 2, READ, kind),
    Command("PERSIST", 2, WRITE, persist),
    Command("EXPIRE", -3, WRITE, expire(unit=SECOND, absolute=False)),
    Command("PEXPIRE", -3, WRITE, expire(unit=MILLISECOND, absolute=False)),
    Command("EXPIREAT", -3, WRITE, expire(unit=SECOND, absolute=True)),
    Command("PEXPIREAT", -3, WRITE, expire(unit=MILLISECOND, absolute=True)),
    Command("TTL", 2, READ, remaining(unit=SECOND, absolute=False)),
    Command("PTTL", 2, READ, remaining(unit=MILLISECOND, absolute=False)),
    Command("EXPIRETIME", 2, READ, remaining(unit=SECOND, absolute=True)),
    Command("PEXPIRETIME", 2, READ, remaining(unit=MILLISECOND, absolute=True)),
)
