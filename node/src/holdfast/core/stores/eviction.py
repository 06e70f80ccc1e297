"""What may come in, and what has to go for it.

Rules (`design/4`, "Keys and structures" and the limits)
--------------------------------------------------------
* A name has at most `entries_max` keys in a partition. Where that is reached, what has expired goes
  first, then what the name's settings say: nothing (the command is refused before it changes
  anything), the least recently used of a few keys, or any key.
* Eviction is a removal by the owner like any other; its backups are told. It is no secret that
  could differ between holders.
* A locked key is not evicted: the lock guards it against everybody else. Neither are the keys that
  the command itself is about to write.
* Which keys are looked at is a matter of chance and costs the same however many there are
  (`expiry.draw`). A key that nobody used since its owner became the owner counts as used longest
  ago.

What can go wrong
-----------------
*All that is looked at is locked, or about to be written.* Then the command is refused, although
another key might have gone; the next one looks at others. *A backup holds more than its own limit
says.* It applies what it is told: limits are the owner's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from holdfast.core.stores.command import Call
from holdfast.core.stores.expiry import draw, expire_due
from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.settings import Eviction
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError

KEY_BYTES_MAX: Final = 64 << 10
SAMPLE: Final = 8
"""Keys that are looked at to find one that may go."""
EXPIRED_AT_ONCE: Final = 64
"""Entries of the heap of expiries that a command looks at to make room."""

OUT_OF_MEMORY: Final = "OOM command not allowed when used memory > 'maxmemory'."
KEY_TOO_LARGE: Final = "ERR the key has more than 64 KiB, the most that a key may"


def admit(space: Space, call: Call, keys: Iterable[bytes]) -> None:
    """Make room for the strings that are not there yet, or refuse them all."""
    together: dict[bytes, dict[bytes, None]] = {}
    for key in dict.fromkeys(keys):
        fragment = space.home(key)
        if key not in fragment.records:
            check_key(key)
        together.setdefault(fragment.name, {})[key] = None
    for name, names in together.items():
        make_room(space.named(name), call, names)


def check_key(key: bytes) -> None:
    """Refuse a key that is too long."""
    if len(key) > KEY_BYTES_MAX:
        raise CommandError(KEY_TOO_LARGE)


def make_room(fragment: Fragment, call: Call, keys: Collection[bytes]) -> None:
    """Room for those of these keys that are new, or none of them comes in."""
    entries_max = fragment.settings.entries_max
    if not entries_max or len(fragment) + _coming(fragment, keys) <= entries_max:
        return
    expire_due(fragment, call.now, EXPIRED_AT_ONCE + len(keys))
    room = entries_max - _coming(fragment, keys)
    while len(fragment) > room:
        if not _evict(fragment, call, keys):
            raise CommandError(OUT_OF_MEMORY)


def _coming(fragment: Fragment, keys: Collection[bytes]) -> int:
    """How many of the keys are new; of those that are there, some may expire meanwhile."""
    return sum(key not in fragment.records for key in keys)


def evict_bytes(fragments: Iterable[Fragment], call: Call, wanted: int, keys_max: int) -> int:
    """Free so many bytes where names allow it, each in proportion to what it holds.

    How many were freed: fewer where nothing is found that may go, or not so many keys suffice.
    """
    names = [each for each in fragments if may_evict(each)]
    weights = [each.used for each in names]
    freed = 0
    for fragment in call.random.choices(names, weights, k=keys_max) if names else ():
        if freed >= wanted:
            break
        before = fragment.used
        _evict(fragment, call, ())
        freed += before - fragment.used
    return freed


def may_evict(fragment: Fragment) -> bool:
    """Whether anything in there may go."""
    return fragment.settings.eviction is not Eviction.NONE and bool(fragment.records)


def _evict(fragment: Fragment, call: Call, spared: Collection[bytes]) -> bool:
    """Remove one key, if one may go."""
    eviction = fragment.settings.eviction
    if eviction is Eviction.NONE:
        return False
    victim, oldest = None, 0
    for _ in range(SAMPLE):
        key = draw(fragment, call.random)
        if key is None or key in spared or _is_locked(fragment, key, call.now):
            continue
        used_at = fragment.touched.get(key, 0)
        if victim is None or used_at < oldest:
            victim, oldest = key, used_at
        if eviction is Eviction.RANDOM:
            break
    if victim is None:
        return False
    fragment.remove(victim)
    return True


def _is_locked(fragment: Fragment, key: bytes, now: int) -> bool:
    lock = fragment.locks.get(key)
    return lock is not None and now < lock.expiry
