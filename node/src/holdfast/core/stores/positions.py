"""LPOS: where an element is in a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from holdfast.core.stores.choosing import parse_sample
from holdfast.core.stores.command import SYNTAX, Call, Command, Trait, options_of
from holdfast.core.stores.lists import elements_of
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.replies import array, integer
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError

RANK_ZERO: Final = (
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ..."
    " or use negative to start from the end of the list"
)


@dataclass(slots=True)
class Wish:
    """What LPOS asks for."""

    rank: int = 1
    """The how manyth match is the first; negative: from the end."""
    count: int | None = None
    """How many matches, 0 for all; None: one, and not as an array."""
    length: int = 0
    """How many elements are compared; 0 for all."""


def lpos(space: Space, call: Call, args: list[bytes]) -> bytes:
    """LPOS key element [RANK rank] [COUNT count] [MAXLEN length]."""
    wish = _parse(args[3:])
    elements = elements_of(space, call, args[1])
    walk: Iterable[tuple[int, bytes]] = enumerate(elements)
    if wish.rank < 0:
        last = len(elements) - 1
        walk = ((last - index, one) for index, one in enumerate(reversed(elements)))
    compared = islice(walk, wish.length or None)
    matches = (index for index, one in compared if one == args[2])
    found = islice(matches, abs(wish.rank) - 1, None)
    if wish.count is None:
        place = next(found, None)
        return call.dialect.null if place is None else integer(place)
    return array(list(map(integer, islice(found, wish.count or None))))


def _parse(options: list[bytes]) -> Wish:
    wish = Wish()
    for word, text in options_of(options):
        if word == b"RANK":
            wish.rank = parse_sample(text)
            if not wish.rank:
                raise CommandError(RANK_ZERO)
        elif word == b"COUNT":
            wish.count = _natural(text, "COUNT")
        elif word == b"MAXLEN":
            wish.length = _natural(text, "MAXLEN")
        else:
            raise CommandError(SYNTAX)
    return wish


def _natural(text: bytes, word: str) -> int:
    refusal = f"ERR {word} can't be negative"
    value = parse_integer(text, refusal)
    if value < 0:
        raise CommandError(refusal)
    return value


COMMANDS: Final = (Command("LPOS", -3, Trait.READ, lpos),)
