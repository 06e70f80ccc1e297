"""How long a value shall live, as commands say it.

    EX seconds   PX ms       from now on
    EXAT s       PXAT ms     until a moment of the wall clock
    KEEPTTL                  as long as the value before
    PERSIST                  for ever

They exclude one another; the same word may be said twice, and the last counts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from holdfast.core.stores.command import SYNTAX
from holdfast.core.stores.numbers import INTEGER_MAX, parse_integer
from holdfast.errors import CommandError

AMOUNTS: Final = (b"EX", b"PX", b"EXAT", b"PXAT")
IN_SECONDS: Final = (b"EX", b"EXAT")
FROM_NOW: Final = (b"EX", b"PX")
CONDITIONS: Final = (b"NX", b"XX")


@dataclass(slots=True)
class Wish:
    """What the options of SET or GETEX say."""

    life: bytes = b""
    """One of the words above; empty: nothing was said."""
    amount: bytes = b""
    condition: bytes = b""
    """NX or XX."""
    get: bool = False

    def deadline(self, now: int, name: str) -> int:
        """When the value expires, if a number says it; 0 otherwise."""
        if self.life not in AMOUNTS:
            return 0
        return deadline(self.life, self.amount, now, name)


def deadline(life: bytes, amount: bytes, now: int, name: str) -> int:
    """The moment that a positive number means."""
    value = parse_integer(amount)
    if life in IN_SECONDS:
        value *= 1000
    if 0 < value <= INTEGER_MAX:
        moment = value + now if life in FROM_NOW else value
        if moment <= INTEGER_MAX:
            return moment
    raise invalid_expiry(name)


def invalid_expiry(name: str) -> CommandError:
    """Redis' text."""
    return CommandError(f"ERR invalid expire time in '{name}' command")


def parse_wish(options: list[bytes], words: Collection[bytes]) -> Wish:
    """The options of a command that knows these words, beside those with a number."""
    wish = Wish()
    rest = iter(options)
    for option in rest:
        word = option.upper()
        if word in AMOUNTS and wish.life in (b"", word):
            amount = next(rest, None)
            if amount is None:
                raise CommandError(SYNTAX)
            wish.life, wish.amount = word, amount
        elif word not in words:
            raise CommandError(SYNTAX)
        elif word == b"GET":
            wish.get = True
        elif word in CONDITIONS and wish.condition in (b"", word):
            wish.condition = word
        elif word not in CONDITIONS and wish.life in (b"", word):
            wish.life = word
        else:
            raise CommandError(SYNTAX)
    return wish
