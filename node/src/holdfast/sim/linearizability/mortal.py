"""What ends by itself: strings with a deadline, locks; and the instant at which one ends.

A key has no clock. So whoever makes a history adds the end of each deadline as an operation of its
own: `(END) key tag`, which begins where the deadline may be reached at the earliest, by the clock
that is most ahead, and returns where it must be over, by the one that is most behind. It takes the
value or the lock away whose deadline has that tag, and leaves everything else alone. So until the
one instant a value may be seen, after the other it must not, and once it is gone it stays so.

Calls are as they were sent, with what the model can't know at their end: the tag of the deadline
that they set, the session that sent them, the token that the reply names, if one came, and
whether UNLOCK was told to have ended a lock, which shows what a token is that nobody was told of.

    SET key value PX ms tag         HOLDFAST.LOCK key session tag token
    PEXPIRE key ms tag              HOLDFAST.UNLOCK key token ended
    PERSIST key                     HOLDFAST.LOCKED key token
    PTTL key

Locks are modelled on keys that have no value beside them, and deadlines on strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GRANTED: Final = b"granted"
"""What LOCK and LOCKED reply where no token is known: it fits no reply that came."""
TOKEN_TOO_SMALL: Final = b"no greater token"
ENDS: Final = 0
"""What PTTL replies for any deadline."""


@dataclass(frozen=True, slots=True)
class Mortal:
    """A string with a deadline."""

    value: bytes
    tag: bytes

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True, slots=True)
class Lock:
    """A key's lock: the greatest token that is known to have been given, and who holds it."""

    last: int
    session: bytes = b""
    """Empty: nobody."""
    token: int = 0
    """0: nobody knows, as its outcome is unknown."""
    tag: bytes = b""

    def __len__(self) -> int:
        return 0


def granted(lock: Lock, session: bytes, tag: bytes, seen: bytes) -> tuple[Lock, object]:
    """LOCK: it is free, or mine, or another's. Tokens grow."""
    if lock.session not in (b"", session):
        return lock, None
    token = int(seen or b"0")
    if lock.session and lock.token:
        return Lock(lock.last, session, lock.token, tag), lock.token
    if token and token <= lock.last:
        return lock, TOKEN_TOO_SMALL
    return Lock(max(lock.last, token), session, token, tag), token or GRANTED


def released(lock: Lock, token: bytes, ended: bytes) -> tuple[Lock, object]:
    """UNLOCK: only with its token; one that nobody was told of may be any that is greater."""
    guess = int(token)
    may_fit = lock.token == guess if lock.token else guess > lock.last and ended != b"0"
    if lock.session and may_fit:
        return Lock(max(lock.last, guess)), 1
    return lock, 0


def shown(lock: Lock, seen: bytes) -> tuple[Lock, object]:
    """LOCKED: nobody, or the token; whoever sees one that was unknown knows it from then on."""
    if not lock.session:
        return lock, None
    token = int(seen or b"0")
    if lock.token or not token:
        return lock, lock.token or GRANTED
    if token <= lock.last:
        return lock, TOKEN_TOO_SMALL
    return Lock(token, lock.session, token, lock.tag), token
