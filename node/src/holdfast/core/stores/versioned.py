"""Strings with their versions: what an application needs to change a value only if it knows it.

    HOLDFAST.GET key                                    version, milliseconds left, value
    HOLDFAST.PUT key value [MATCH version | ABSENT | PRESENT] [PX ms]
                                                        the new version
    HOLDFAST.REMOVE key [MATCH version]                 1, or 0 where nothing is

The version is that of the record (`record`), in hexadecimal: no two values of a key have the same,
also not when the key was gone in between. Milliseconds are -1 for ever. Where nothing is, or the
condition does not hold, the reply is null and nothing has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.core.stores.access import check_lock, live
from holdfast.core.stores.command import SYNTAX, WRONG_TYPE, Call, Command, Trait
from holdfast.core.stores.fragment import expiry_of_value
from holdfast.core.stores.record import ABSENT, body_of
from holdfast.core.stores.replies import ONE, ZERO, array, bulk, integer
from holdfast.core.stores.space import Space
from holdfast.core.stores.strings import set_string
from holdfast.errors import CommandError

FOREVER: Final = -1


@dataclass(slots=True)
class Condition:
    """What has to be so before a key is changed."""

    word: bytes = b""
    version: bytes = b""

    def holds(self, version: bytes) -> bool:
        """Whether it is so of a key with this version; `ABSENT` for none."""
        if self.word == b"MATCH":
            return version != ABSENT and version.hex().encode() == self.version.lower()
        if self.word == b"ABSENT":
            return version == ABSENT
        return not self.word or version != ABSENT


def get(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HOLDFAST.GET key."""
    found = live(space, call, args[1])
    if found is None:
        return call.dialect.null
    record = found[1]
    if not isinstance(record, bytes):
        raise CommandError(WRONG_TYPE)
    expiry = expiry_of_value(record)
    left = max(expiry - call.now, 0) if expiry else FOREVER
    return array([bulk(_version(space, call, args[1])), integer(left), bulk(body_of(record))])


def put(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HOLDFAST.PUT key value [MATCH version | ABSENT | PRESENT] [PX ms]."""
    key = args[1]
    condition, life = _parse(args[3:])
    if not condition.holds(_held(space, call, key)):
        return call.dialect.null
    set_string(space, call, [b"SET", key, args[2], *life])
    return bulk(_version(space, call, key))


def remove(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HOLDFAST.REMOVE key [MATCH version]."""
    key = args[1]
    condition, life = _parse(args[2:])
    if life or condition.word in (b"ABSENT", b"PRESENT"):
        raise CommandError(SYNTAX)
    check_lock(space, call, key)
    found = live(space, call, key)
    if not condition.holds(_held(space, call, key)):
        return call.dialect.null
    if found is None:
        return ZERO
    found[0].remove(key)
    return ONE


def _parse(options: list[bytes]) -> tuple[Condition, list[bytes]]:
    """The condition, and the words for the life of the value."""
    condition, life = Condition(), list[bytes]()
    rest = iter(options)
    for option in rest:
        word = option.upper()
        if word == b"PX" and not life:
            life = [word, next(rest, b"")]
        elif word in (b"MATCH", b"ABSENT", b"PRESENT") and not condition.word:
            version = next(rest, b"") if word == b"MATCH" else b""
            condition = Condition(word, version)
        else:
            raise CommandError(SYNTAX)
    return condition, life


def _held(space: Space, call: Call, key: bytes) -> bytes:
    found = live(space, call, key)
    return ABSENT if found is None else found[0].version_of(key)


def _version(space: Space, call: Call, key: bytes) -> bytes:
    return _held(space, call, key).hex().encode()


_GROW: Final = Trait.WRITE | Trait.GROWS | Trait.FAST

COMMANDS: Final = (
    Command("HOLDFAST.GET", 2, Trait.READ | Trait.FAST, get),
    Command("HOLDFAST.PUT", -3, _GROW, put),
    Command("HOLDFAST.REMOVE", -2, Trait.WRITE | Trait.FAST, remove),
)
