"""What the search may believe about a call in every state: each is tested against the model.

All of it is allowed to be weak ("may change anything") and never to be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.sim.linearizability.history import UNKNOWN, Call, Operation
from holdfast.sim.linearizability.model import State, apply, canonical, check_modelled, fits
from holdfast.sim.linearizability.mortal import Mortal

READS: Final = (
    b"GET",
    b"SISMEMBER",
    b"SCARD",
    b"SMEMBERS",
    b"HGET",
    b"HGETALL",
    b"LLEN",
    b"LRANGE",
    b"PTTL",
)
REPLACES: Final = (b"GETSET", b"GETDEL")
FAMILIES: Final = {
    b"SADD": "set",
    b"SREM": "set",
    b"SISMEMBER": "set",
    b"HSET": "hash",
    b"HGET": "hash",
    b"HDEL": "hash",
}
"""Calls that touch the elements that they name and no others."""

KEEPING_SIZE: Final = (
    b"PEXPIRE",
    b"PERSIST",
    b"HOLDFAST.LOCK",
    b"HOLDFAST.UNLOCK",
    b"HOLDFAST.LOCKED",
)

ANY_SIZE: Final = 2**40
"""More than any state has."""


@dataclass(slots=True)
class Task:
    """An operation as the search sees it."""

    operation: Operation
    call: Call
    reply: object
    """In its canonical form, or `UNKNOWN`."""
    reads: bool
    """It never changes the state."""
    erases: bool
    """The state after it is the same whatever was before, and so is its reply, if it is known."""
    replaces: bool
    """It makes the same of every plain state (no key, or a string), and leaves all others alone."""
    family: str
    elements: frozenset[bytes]
    shrinks: int
    grows: int
    """By how much it may change the size of a state, at most."""
    wanted: int | None
    """The size that a state must have for it to reply so; None: any may do."""
    bit: int = 0
    """Its place in the bit sets of the search, while it is under way."""

    @classmethod
    def of(cls, operation: Operation) -> Task:
        """Work out once what will be asked often."""
        check_modelled(operation.call)
        call = (operation.call[0].upper(), *operation.call[1:])
        reply = canonical(call, operation.reply)
        shrinks, grows = growth(call)
        return cls(
            operation=operation,
            call=call,
            reply=reply,
            reads=call[0] in READS,
            erases=erases(call, reply),
            replaces=call[0] in REPLACES,
            family=FAMILIES.get(call[0], ""),
            elements=elements(call),
            shrinks=shrinks,
            grows=grows,
            wanted=wanted(call, reply),
        )

    def fits(self, state: State) -> bool:
        """Whether it would have replied so in this state."""
        return fits(apply(state, self.call)[1], self.reply)

    def is_apart_from(self, other: Task) -> bool:
        """Whether neither can tell, by state or reply, which of the two came first."""
        if not self.family or self.family != other.family:
            return False
        return self.elements.isdisjoint(other.elements)

    def may_change(self, state: State) -> bool:
        """False only if a string stays as it is, whatever comes that leaves strings strings."""
        return not (self.call[0] == b"SET" and not self.erases and isinstance(state, bytes))


def is_plain(state: State) -> bool:
    """Whether every command for strings works on it."""
    return state is None or isinstance(state, bytes | Mortal)


def erases(call: Call, reply: object) -> bool:
    """SET has one outcome; DEL too, where nobody knows how many keys it deleted."""
    return (call[0] == b"SET" and len(call) != 4) or (call[0] == b"DEL" and reply is UNKNOWN)


def elements(call: Call) -> frozenset[bytes]:
    """What the call names, in a family; elsewhere it does not matter."""
    return frozenset(call[2::2] if call[0] == b"HSET" else call[2:])


def size(state: State) -> int:
    """Bytes of a string, elements of anything else."""
    return 0 if state is None else len(state)


def growth(call: Call) -> tuple[int, int]:
    """How much smaller, and how much larger, a state may become by it."""
    name, args = call[0], call[2:]
    if name in READS:
        return 0, 0
    if name in (b"SADD", b"HSET", b"LPUSH", b"RPUSH"):
        return 0, len(args)
    if name in (b"SREM", b"HDEL"):
        return len(args), 0
    if name in (b"LPOP", b"RPOP"):
        return 1, 0
    if name == b"INCR":
        return 1, 1
    if name in KEEPING_SIZE:
        return 0, 0
    if name == b"APPEND" or (name == b"SET" and len(args) == 2):
        return 0, len(args[0])
    return ANY_SIZE, ANY_SIZE


def wanted(call: Call, reply: object) -> int | None:
    """The size that the state must have had."""
    name, args = call[0], call[2:]
    if isinstance(reply, int):
        if name in (b"LLEN", b"SCARD"):
            return reply
        if name in (b"LPUSH", b"RPUSH"):
            return reply - len(args)
        if name == b"APPEND":
            return reply - len(args[0])
    if name in (b"GET", b"GETSET", b"GETDEL", b"SMEMBERS", b"HGETALL"):
        return _size_of_reply(reply)
    if name == b"LRANGE" and args == (b"0", b"-1"):
        return _size_of_reply(reply)
    if name in (b"LPOP", b"RPOP") and reply is None:
        return 0
    return None


def _size_of_reply(reply: object) -> int | None:
    if reply is None:
        return 0
    return len(reply) if isinstance(reply, bytes | frozenset | tuple) else None
