"""Locks: one session at a time may write a key, and each hold has a number to prove it by.

Rules (`design/4` "locks"; `design/3` §5; seed 004 on locks)
------------------------------------------------------------
* `HOLDFAST.LOCK key ttl_ms [WAIT ms] [TOKEN token]` gives the key to the session that asks, until
  the time is over. It returns a *fencing token*: the number of the mutation that granted the lock,
  so it is greater than every token given before for any key of this fragment, by whichever owner.
  A store behind the lock can refuse whoever comes with a smaller one.
* The session that holds it may ask again: the time begins anew, the token stays.
* A client that has lost its connection comes back in a new session. With TOKEN it takes over its
  own lock: the token stays, the session is the new one.
* `HOLDFAST.UNLOCK key token` ends it, for whoever knows the token: 1, or 0 where it is over.
* `HOLDFAST.LOCKED key` says the milliseconds that remain and the token.
* A lock guards what is *written* at this key by others (`access.check_lock`). Reads go on.
* A lock lives in the fragment of its key's name, whether the key exists or not and whatever it is,
  and moves with that.

State
-----
                 LOCK, a new token                          LOCK by its session,
        free ───────────────────────────────▶ held          or with its TOKEN:
          ▲                                    │  ▲──┐       the same token, a new time
          └────────────────────────────────────┘  └──┘
           UNLOCK with its token, or the time is over

A lock whose time is over is free for everybody from that moment on, by the owner's clock. It is
removed by a mutation, when somebody asks for it or in the owner's rounds (`purge`); so those who
wait for it see the key written, and are called again.

What can go wrong
-----------------
*The holder pauses beyond its time, and writes.* Its writes here are refused as soon as another one
has the lock; what it writes elsewhere is what the token is for.
*The owner fails.* A lock that was acknowledged is on the backups that its name asks for, like any
write, with the counter that tokens come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop
from typing import Final

from holdfast.core.stores.choosing import parse_count
from holdfast.core.stores.command import SYNTAX, Blocked, Call, Command, Trait
from holdfast.core.stores.eviction import check_key
from holdfast.core.stores.fragment import Fragment, Lock
from holdfast.core.stores.numbers import INTEGER_MAX, parse_integer
from holdfast.core.stores.record import NEVER
from holdfast.core.stores.replies import ONE, ZERO, array, integer
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError

INVALID_TIME: Final = "ERR invalid expire time in 'holdfast.lock' command"
NOT_HELD: Final = "NOTHELD no lock with this token is on the key; its time may be over"


@dataclass(slots=True)
class Wish:
    """What LOCK asks for."""

    ttl_ms: int
    wait_ms: int | None = None
    """How long to wait for another's lock; 0 for ever, None not at all."""
    token: int | None = None
    """The lock that is taken over."""


def lock_of(space: Space, call: Call, key: bytes) -> tuple[Fragment, Lock] | None:
    """Where a key's lock is, unless its time is over."""
    fragment = space.look(key)
    lock = None if fragment is None else fragment.locks.get(key)
    if fragment is None or lock is None:
        return None
    if lock.expiry <= call.now:
        if call.may_write:
            _release(fragment, key)
        return None
    return fragment, lock


def _release(fragment: Fragment, key: bytes) -> None:
    fragment.lock(key, 0, b"", NEVER)


def lock(space: Space, call: Call, args: list[bytes]) -> bytes | Blocked:
    """HOLDFAST.LOCK key ttl_ms [WAIT ms] [TOKEN token]."""
    key = args[1]
    check_key(key)
    wish = _parse(call, args)
    found = lock_of(space, call, key)
    if wish.token is not None and (found is None or found[1].token != wish.token):
        raise CommandError(NOT_HELD)
    expiry = call.now + wish.ttl_ms
    if found is None:
        fragment = space.home(key)
        token = fragment.counter + 1
    elif wish.token is not None or found[1].session == call.session:
        fragment, token = found[0], found[1].token
    elif wish.wait_ms is None:
        return call.dialect.null
    else:
        until = call.now + wish.wait_ms if wish.wait_ms else 0
        return Blocked((key,), until, call.dialect.null)
    fragment.lock(key, token, call.session, expiry)
    return integer(token)


def _parse(call: Call, args: list[bytes]) -> Wish:
    wish = Wish(parse_integer(args[2]))
    if not 0 < wish.ttl_ms <= INTEGER_MAX - call.now:
        raise CommandError(INVALID_TIME)
    options = args[3:]
    if len(options) % 2:
        raise CommandError(SYNTAX)
    for option, text in zip(options[::2], options[1::2], strict=True):
        word = option.upper()
        if word == b"WAIT":
            wish.wait_ms = parse_count(text)
        elif word == b"TOKEN":
            wish.token = parse_integer(text)
        else:
            raise CommandError(SYNTAX)
    return wish


def unlock(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HOLDFAST.UNLOCK key token."""
    token = parse_integer(args[2])
    found = lock_of(space, call, args[1])
    if found is None or found[1].token != token:
        return ZERO
    _release(found[0], args[1])
    return ONE


def locked(space: Space, call: Call, args: list[bytes]) -> bytes:
    """HOLDFAST.LOCKED key."""
    found = lock_of(space, call, args[1])
    if found is None:
        return call.dialect.null_array
    return array((integer(found[1].expiry - call.now), integer(found[1].token)))


def purge(space: Space, call: Call, budget: int) -> int:
    """Remove locks whose time is over; the owner's rounds. How much of the budget is left."""
    for fragment in space:
        deadlines = fragment.unlocking
        while budget and deadlines and deadlines[0][0] <= call.now:
            expiry, key = heappop(deadlines)
            budget -= 1
            held = fragment.locks.get(key)
            if held is not None and held.expiry == expiry:
                _release(fragment, key)
    return budget


COMMANDS: Final = (
    Command("HOLDFAST.LOCK", -3, Trait.WRITE | Trait.GROWS | Trait.BLOCKS | Trait.FAST, lock),
    Command("HOLDFAST.UNLOCK", 3, Trait.WRITE | Trait.FAST, unlock),
    Command("HOLDFAST.LOCKED", 2, Trait.READ | Trait.FAST, locked),
)
