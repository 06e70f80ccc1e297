"""Histories of one key for tests: by hand, by clients of a sound key, and judged by trying all.

The judge is too simple to be wrong: it tries every order, and shares the model with the checker and
nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from holdfast.sim.linearizability import UNKNOWN, Failure, Linearizable, Operation
from holdfast.sim.linearizability.model import State, apply, canonical, fits

LINEARIZABLE: Final = Linearizable()
WRONG_TYPE: Final = Failure("WRONGTYPE")


def call(text: str) -> tuple[bytes, ...]:
    """`GET` or `SET 1`; the key is always k."""
    name, *args = text.split()
    return tuple(word.encode() for word in (name, "k", *args))


def op(text: str, reply: object, invoked: int, returned: int | None = None) -> Operation:
    """An operation; without a time of return its outcome is unknown, whatever the reply says."""
    known = UNKNOWN if returned is None else reply
    return Operation(f"c{invoked}", call(text), invoked, returned, known)


def lost(text: str, invoked: int) -> Operation:
    """An operation of unknown outcome."""
    return op(text, UNKNOWN, invoked)


def run_clients(
    rng: random.Random, count: int, calls: Sequence[str], unknown: float
) -> list[Operation]:
    """What five clients see of a sound key; each takes effect at some instant of its time."""
    planned = []
    free_at = [0] * 5
    for number in range(count):
        client = number % 5
        invoked = free_at[client] + rng.randrange(10)
        point = invoked + rng.randrange(20)
        free_at[client] = point + rng.randrange(1, 20)
        words = call(rng.choice(calls).replace("#", str(number)))
        planned.append((point, number, words, invoked, free_at[client]))
    state: State = None
    history = []
    for _, number, words, invoked, returned in sorted(planned):
        is_lost = rng.random() < unknown
        after, reply = apply(state, words)
        if not is_lost or rng.random() < 0.5:
            state = after
        seen = UNKNOWN if is_lost else reply
        history.append(Operation(f"c{number % 5}", words, invoked, returned, seen))
    return history


def brute_force(history: Sequence[Operation]) -> Operation | None:
    """The first operation, in the order of returns, at whose return no order explains all."""
    known = [each for each in history if each.returned is not None and each.is_known]
    known.sort(key=lambda each: each.returned or 0)
    for count, last in enumerate(known, start=1):
        begun = [each for each in history if each.invoked <= (last.returned or 0)]
        if not is_explained(None, begun, known[:count]):
            return last
    return None


def is_explained(state: State, rest: Sequence[Operation], must: Sequence[Operation]) -> bool:
    """Whether some order of some of the rest contains all that must be in it."""
    if not must:
        return True
    for one in rest:
        after, reply = apply(state, one.call)
        if fits(reply, canonical(one.call, one.reply)) and not any(
            precedes(other, one) for other in must
        ):
            left = [other for other in rest if other is not one]
            if is_explained(after, left, [other for other in must if other is not one]):
                return True
    return False


def precedes(one: Operation, other: Operation) -> bool:
    return one.is_known and one.returned is not None and one.returned < other.invoked


LOCKS: Final = (("A", "a", 1), ("A", "b", 2), ("B", "a", 2), ("B", "b", 3))
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "string": (
        *("SET 1", "SET 2", "SET 1 NX", "SET 2 NX", "GET", "GET", "GETDEL", "GETSET 1"),
        *("GETSET 2", "DEL", "INCR", "APPEND 1", "APPEND 2"),
    ),
    "set": ("SADD a", "SADD b", "SADD a b", "SREM a", "SREM b", "SISMEMBER a", "SCARD", "SMEMBERS"),
    "hash": (
        "HSET f 1",
        "HSET f 2",
        "HSET g 1",
        "HDEL f",
        "HDEL f g",
        "HGET f",
        "HGET g",
        "HGETALL",
    ),
    "list": (
        *("LPUSH a", "LPUSH b", "RPUSH a", "RPUSH b", "RPUSH a b", "LPOP", "RPOP", "LLEN"),
        *("LRANGE 0 -1", "LRANGE 0 -1", "LRANGE 0 0"),
    ),
    "deadline": (
        *("SET 1 PX 9 a", "SET 2 PX 9 b", "PEXPIRE 9 a", "PERSIST", "PTTL", "GET", "GET"),
        *("(END) a", "(END) b", "APPEND 1"),
    ),
    "lock": (
        *(f"HOLDFAST.LOCK {who} {tag} {token}" for who, tag, token in LOCKS),
        *("HOLDFAST.UNLOCK 1 1", "HOLDFAST.UNLOCK 2 1", "HOLDFAST.UNLOCK 2 0"),
        *("HOLDFAST.LOCKED 1", "HOLDFAST.LOCKED 2", "(END) a", "(END) b"),
    ),
}
WIPES: Final = ("DEL", "SET 1", "GETDEL", "GETSET 2")
EVERYTHING: Final = tuple(text for texts in FAMILIES.values() for text in texts)
REPLIES: Final = (None, 0, 1, 2, 3, b"1", b"2", b"12", b"a", b"OK", WRONG_TYPE)

CHOICES: Final = [
    *FAMILIES.values(),
    *((*texts, *WIPES) for texts in FAMILIES.values()),
    EVERYTHING,
]
