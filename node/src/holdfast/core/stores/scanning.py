"""SSCAN and HSCAN: through a container in portions, with nothing kept between two calls.

Rules
-----
* A cursor is a place on a ring of hashes. Each call returns the items whose hash lies on the next
  stretch of the ring, and the place where that ends; at the end of the ring it is 0 again.
* An item's hash never changes. So what is there all the time is returned exactly once, whatever
  comes and goes meanwhile, on whichever member the calls are answered.
* Each call walks through the whole container, as there is no index. Hence a scan takes at most
  `CALLS_MAX` calls of about equal size, however small its COUNT: COUNT is a hint, as it is to
  Redis. Containers of up to `SMALL_MAX` items are returned in one go, whatever the cursor.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import mmh3

from holdfast.core.stores.command import SYNTAX, options_of
from holdfast.core.stores.glob import Matcher, glob
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.replies import array, bulk
from holdfast.errors import CommandError

INVALID_CURSOR: Final = "ERR invalid cursor"
RING: Final = 1 << 32
CALLS_MAX: Final = 32
SMALL_MAX: Final = 128
COUNT_DEFAULT: Final = 10
CURSOR_MAX: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Wish:
    """What a scan asks for."""

    cursor: int
    count: int
    matches: Matcher


def parse_cursor(text: bytes) -> int:
    """A cursor; those that no scan returned are places as good as any."""
    if not text.isdigit() or len(text) > len(str(CURSOR_MAX)) or int(text) > CURSOR_MAX:
        raise CommandError(INVALID_CURSOR)
    return int(text)


def parse_wish(cursor: int, options: list[bytes]) -> Wish:
    """What comes after the cursor: MATCH pattern, COUNT count."""
    count, matches = COUNT_DEFAULT, glob(b"*")
    for word, text in options_of(options):
        if word == b"COUNT":
            count = parse_integer(text)
            if count < 1:
                raise CommandError(SYNTAX)
        elif word == b"MATCH":
            matches = glob(text)
        else:
            raise CommandError(SYNTAX)
    return Wish(cursor, count, matches)


def portion(items: Collection[bytes], wish: Wish) -> tuple[int, list[bytes]]:
    """The next cursor, and the items of this stretch of the ring that match."""
    total = len(items)
    if total <= SMALL_MAX:
        return 0, list(filter(wish.matches, items))
    wanted = max(wish.count, -(-total // CALLS_MAX))
    end = wish.cursor + -(-RING * wanted // total)
    chosen = [item for item in items if wish.cursor <= mmh3.hash(item, signed=False) < end]
    return (end if end < RING else 0), list(filter(wish.matches, chosen))


def scanned(cursor: int, elements: list[bytes]) -> bytes:
    """The reply: the next cursor, and encoded elements."""
    return array((bulk(b"%d" % cursor), array(elements)))


NOTHING: Final = scanned(0, [])
"""The reply where there is no such key."""
