"""What concerns all keys: SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHDB, each for one partition.

A layer above asks every partition and puts the replies together; SCAN goes from one partition to
the next, and what `scan` here needs to go on travels in the cursor.

Rules of a scan
---------------
* Nothing is kept between two calls. The position is a place on the ring of hashes, as in
  `scanning`, so a key that is there during the whole scan is returned at least once: its hash, and
  so its turn, never changes, on whichever member the calls are answered.
* A small partition is one portion. Of a large one each call walks through all keys, as there is no
  index, and returns a share of them that is not too small for that.
* What has expired is not returned. Looking for keys does not use them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from holdfast.core.stores.access import check_lock, present
from holdfast.core.stores.command import SYNTAX, Call, Command, Gather, Trait
from holdfast.core.stores.fragment import kind_of_value
from holdfast.core.stores.glob import glob
from holdfast.core.stores.replies import OK, bulk, bulks, integer
from holdfast.core.stores.scanning import Wish, parse_cursor, parse_wish, portion, scanned
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError


@dataclass(frozen=True, slots=True)
class KeyWish:
    """What a scan of keys asks for."""

    wish: Wish
    kind: str
    """TYPE: its name; empty for every kind."""


def parse_scan(args: list[bytes]) -> KeyWish:
    """SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]."""
    cursor = parse_cursor(args[1])
    options = args[2:]
    kind = ""
    others: list[bytes] = []
    for at in range(0, len(options), 2):
        pair = options[at : at + 2]
        if pair[0].upper() == b"TYPE" and len(pair) > 1:
            kind = pair[1].decode(errors="replace").upper()
        else:
            others += pair
    return KeyWish(parse_wish(cursor, others), kind)


def scan(space: Space, call: Call, position: int, asked: KeyWish) -> tuple[list[bytes], int]:
    """Keys from a position on, and the next position; 0 where the partition is done."""
    keys = [key for fragment in space.shown() for key in fragment.records]
    following, chosen = portion(keys, replace(asked.wish, cursor=position))
    return [key for key in chosen if _is_wanted(space, call, key, asked.kind)], following


def scan_command(space: Space, call: Call, args: list[bytes]) -> bytes:
    """SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]."""
    asked = parse_scan(args)
    keys, following = scan(space, call, asked.wish.cursor, asked)
    return scanned(following, [bulk(key) for key in keys])


def keys_command(space: Space, call: Call, args: list[bytes]) -> bytes:
    """KEYS pattern."""
    matches = glob(args[1])
    keys = [key for fragment in space.shown() for key in fragment.records if matches(key)]
    return bulks(key for key in keys if present(space, call, key) is not None)


def dbsize(space: Space, call: Call, args: list[bytes]) -> bytes:  # noqa: ARG001  a command's form
    """DBSIZE: with those that have expired and are not yet removed, as in Redis."""
    return integer(sum(map(len, space.shown())))


def random_key(space: Space, call: Call) -> bytes | None:
    """Any key; None where there is none.

    From a random place on, around the end, until one has not expired.
    """
    keys = [key for fragment in space.shown() for key in fragment.records]
    start = int(call.random.random() * len(keys))
    for key in chain(islice(keys, start, None), islice(keys, start)):
        if present(space, call, key) is not None:
            return key
    return None


def randomkey(space: Space, call: Call, args: list[bytes]) -> bytes:  # noqa: ARG001  a command's form
    """RANDOMKEY."""
    key = random_key(space, call)
    return call.dialect.null if key is None else bulk(key)


def flushdb(space: Space, call: Call, args: list[bytes]) -> bytes:
    """FLUSHDB [ASYNC | SYNC]: all keys go, unless one of them is locked by another session."""
    if len(args) > 2 or (len(args) == 2 and args[1].upper() not in (b"ASYNC", b"SYNC")):
        raise CommandError(SYNTAX)
    for fragment in space:
        for key in fragment.locks:
            if space.find(key) is not None:
                check_lock(space, call, key)
    for fragment in space:
        if fragment.records:
            fragment.clear()
    return OK


def _is_wanted(space: Space, call: Call, key: bytes, kind: str) -> bool:
    found = present(space, call, key)
    return found is not None and kind in ("", kind_of_value(found[1]).name)


READ: Final = Trait.READ | Trait.KEYSPACE
NONE: Final = (0, 0, 0)

COMMANDS: Final = (
    Command("SCAN", -2, READ, scan_command, NONE),
    Command("KEYS", 2, READ, keys_command, NONE, Gather.JOIN),
    Command("DBSIZE", 1, READ | Trait.FAST, dbsize, NONE, Gather.SUM),
    Command("RANDOMKEY", 1, READ | Trait.RANDOM, randomkey, NONE),
    Command("FLUSHDB", -1, Trait.WRITE | Trait.KEYSPACE, flushdb, NONE, Gather.OK),
)
