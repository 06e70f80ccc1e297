"""What applications ask: commands for hot keys of each kind, and how they stand in a history.

A hot key's first letter says what it is. Words stand for what is drawn anew each time:

    *  a value that nobody wrote before         ~  milliseconds until something ends
    ?  one of a few members or fields           #  the token of the last lock that the client got
"""

from __future__ import annotations

import random
from typing import Final

from holdfast.sim.linearizability.history import Call

HOT: Final = (b"s1", b"s2", b"n1", b"h1", b"t1", b"l1", b"s3", b"e1", b"e2", b"k1")

CALLS: Final[dict[bytes, tuple[Call, ...]]] = {
    b"s": ((b"SET", b"*"), (b"SET", b"*"), (b"GET",), (b"GET",), (b"DEL",), (b"GETSET", b"*")),
    b"n": ((b"INCR",), (b"INCR",), (b"GET",)),
    b"h": ((b"HSET", b"?", b"*"), (b"HGET", b"?"), (b"HDEL", b"?"), (b"HGETALL",)),
    b"t": ((b"SADD", b"?"), (b"SREM", b"?"), (b"SMEMBERS",), (b"SCARD",)),
    b"l": ((b"RPUSH", b"*"), (b"LPOP",), (b"LRANGE", b"0", b"-1"), (b"LLEN",)),
    b"e": (
        *((b"SET", b"*", b"PX", b"~"),) * 3,
        *((b"GET",), (b"GET",), (b"PTTL",), (b"SET", b"*"), (b"PEXPIRE", b"~"), (b"PERSIST",)),
        *((b"DEL",), (b"APPEND", b"?")),
    ),
    b"k": (
        (b"HOLDFAST.LOCK", b"~"),
        (b"HOLDFAST.LOCK", b"~"),
        (b"HOLDFAST.LOCK", b"~", b"WAIT", b"400"),
        (b"HOLDFAST.UNLOCK", b"#"),
        (b"HOLDFAST.UNLOCK", b"#"),
        (b"HOLDFAST.LOCKED",),
    ),
}
READ: Final[dict[bytes, Call]] = {
    b"s": (b"GET",),
    b"n": (b"GET",),
    b"h": (b"HGETALL",),
    b"t": (b"SMEMBERS",),
    b"l": (b"LRANGE", b"0", b"-1"),
    b"e": (b"GET",),
    b"k": (b"HOLDFAST.LOCKED",),
}
"""How the whole of a hot key is read."""
LIVES_MS: Final = (100, 600, 2_000, 8_000)
"""Some end while whoever set them waits, some outlive a fail-over."""
ENDING: Final = (b"e", b"k")
"""Kinds of keys that may end by themselves."""


def draw_words(rng: random.Random, hot: bytes, fresh: bytes, token: bytes) -> Call:
    """A command for a hot key: its name, and its words after the key."""
    values = {b"*": fresh, b"?": b"m%d" % rng.randrange(4), b"#": token}
    words = rng.choice(CALLS[hot[:1]])
    if b"~" in words:
        values[b"~"] = b"%d" % int(rng.choice(LIVES_MS) * (0.5 + rng.random()))
    return tuple(values.get(word, word) for word in words)


def life_of(call: Call) -> int | None:
    """In how many milliseconds what it writes is to end."""
    if call[0] == b"SET" and len(call) > 3:
        return int(call[4])
    return int(call[2]) if call[0] in (b"PEXPIRE", b"HOLDFAST.LOCK") else None


def as_noted(call: Call, reply: object, session: int, tag: bytes) -> Call:
    """The call with what its model has to know (`linearizability.mortal`)."""
    if call[0] == b"HOLDFAST.LOCK":
        seen = b"%d" % reply if isinstance(reply, int) else b""
        return (call[0], call[1], b"%d" % session, tag, seen)
    if call[0] == b"HOLDFAST.UNLOCK":
        return (*call, b"%d" % reply if isinstance(reply, int) else b"")
    if call[0] == b"HOLDFAST.LOCKED":
        return (*call, b"%d" % reply[-1] if isinstance(reply, tuple) else b"")
    return call if life_of(call) is None else (*call, tag)
