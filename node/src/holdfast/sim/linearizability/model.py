"""One key of the grid, as simple as can be: a pure function from state and call to state and reply.

It is an oracle: written for itself, without a look at the stores, by what the commands are
documented to do. A state is None (no such key), bytes, a frozenset (set), a tuple of pairs sorted
by field (hash), or a tuple of bytes (list); no container is ever empty. What ends by itself is a
string with a deadline or a lock (`mortal`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from holdfast.sim.linearizability.history import UNKNOWN, Call
from holdfast.sim.linearizability.mortal import ENDS, Lock, Mortal, granted, released, shown

Items = tuple[bytes, ...]
Pairs = tuple[tuple[bytes, bytes], ...]
State = bytes | frozenset[bytes] | Items | Pairs | Mortal | Lock | None
Args = tuple[bytes, ...]
Step = tuple[State, object]

OK: Final = b"OK"
INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that depends on the state, as a reply: the first word says which."""

    code: str


WRONG_TYPE: Final = Failure("WRONGTYPE")
NOT_AN_INTEGER: Final = Failure("ERR")


class _FailedError(Exception):
    """The call leaves the state as it is and replies with a failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


def apply(state: State, call: Call) -> Step:
    """The state after a call, and its reply."""
    name, _, *args = call
    try:
        return _COMMANDS[name.upper()](state, tuple(args))
    except _FailedError as failed:
        return state, failed.failure


def check_modelled(call: Call) -> None:
    """A call that the model does not know is an error of whoever made the history."""
    name, args = call[0].upper(), len(call) - 2
    arity = _ARITY.get(name)
    if arity is None:
        raise ValueError(f"{call}: no model of this command")
    least, most = arity
    if not least <= args <= most or (name == b"HSET" and args % 2):
        raise ValueError(f"{call}: no model of it with so many arguments")
    if name == b"SET" and args > 1 and (args, call[3].upper()) not in ((2, b"NX"), (4, b"PX")):
        raise ValueError(f"{call}: no model of this option")


def canonical(call: Call, reply: object) -> object:
    """A reply in the form that the model gives: order where it matters, and none elsewhere.

    A status may be str or bytes; members a list or a set; a hash a list of fields and values in
    turn, pairs, or a dict. What lists a member or a field twice stays as it is: it fits nothing.
    """
    name = call[0].upper()
    if name == b"PTTL" and isinstance(reply, int) and reply >= 0:
        return ENDS
    if name == b"HOLDFAST.LOCKED" and isinstance(reply, tuple):
        return reply[-1]
    if isinstance(reply, str):
        return reply.encode()
    if isinstance(reply, dict):
        return tuple(sorted(reply.items()))
    if isinstance(reply, set):
        return frozenset(reply)
    if not isinstance(reply, list | tuple):
        return reply
    if name == b"SMEMBERS" and len(set(reply)) == len(reply):
        return frozenset(reply)
    if name == b"HGETALL":
        return _canonical_pairs(tuple(reply))
    return tuple(reply)


def _canonical_pairs(reply: tuple[object, ...]) -> object:
    if reply and isinstance(reply[0], bytes):
        if len(reply) % 2:
            return reply
        reply = tuple(zip(reply[::2], reply[1::2], strict=True))
    return tuple(sorted(cast("Pairs", reply)))


# What a state is -------------------------------------------------------------------------------


def _text(state: State) -> bytes | None:
    if state is None or isinstance(state, bytes):
        return state
    if isinstance(state, Mortal):
        return state.value
    raise _FailedError(WRONG_TYPE)


def _like(state: State, text: bytes) -> State:
    """Another text with the deadline that there is."""
    return Mortal(text, state.tag) if isinstance(state, Mortal) else text


def _lock(state: State) -> Lock:
    if state is None:
        return Lock(0)
    if isinstance(state, Lock):
        return state
    raise _FailedError(WRONG_TYPE)


def _members(state: State) -> frozenset[bytes]:
    if state is None:
        return frozenset()
    if isinstance(state, frozenset):
        return state
    raise _FailedError(WRONG_TYPE)


def _fields(state: State) -> dict[bytes, bytes]:
    if state is None:
        return {}
    if isinstance(state, tuple) and isinstance(state[0], tuple):
        return dict(state)
    raise _FailedError(WRONG_TYPE)


def _items(state: State) -> Items:
    if state is None:
        return ()
    if isinstance(state, tuple) and isinstance(state[0], bytes):
        return state
    raise _FailedError(WRONG_TYPE)


def _pairs(fields: dict[bytes, bytes]) -> Pairs:
    return tuple(sorted(fields.items()))


# Strings ---------------------------------------------------------------------------------------


def _set(state: State, args: Args) -> Step:
    if len(args) == 1:
        return args[0], OK
    if len(args) > 2:
        return Mortal(args[0], args[3]), OK
    return (args[0], OK) if state is None else (state, None)


def _get(state: State, _: Args) -> Step:
    return state, _text(state)


def _getdel(state: State, _: Args) -> Step:
    return None, _text(state)


def _getset(state: State, args: Args) -> Step:
    return args[0], _text(state)


def _del(state: State, _: Args) -> Step:
    return None, int(state is not None)


def _incr(state: State, _: Args) -> Step:
    text = _text(state)
    number = 0 if text is None else _integer(text)
    if number is None or number == INTEGER_MAX:
        raise _FailedError(NOT_AN_INTEGER)
    return _like(state, str(number + 1).encode()), number + 1


def _integer(text: bytes) -> int | None:
    """Only the one way to write a number counts: no sign +, no leading zeros, no blanks."""
    try:
        number = int(text)
    except ValueError:
        return None
    if str(number).encode() != text or not INTEGER_MIN <= number <= INTEGER_MAX:
        return None
    return number


def _append(state: State, args: Args) -> Step:
    text = (_text(state) or b"") + args[0]
    return _like(state, text), len(text)


# What ends by itself ---------------------------------------------------------------------------


def _pexpire(state: State, args: Args) -> Step:
    text = _text(state)
    return (None, 0) if text is None else (Mortal(text, args[1]), 1)


def _persist(state: State, _: Args) -> Step:
    return (state.value, 1) if isinstance(state, Mortal) else (state, 0)


def _pttl(state: State, _: Args) -> Step:
    if isinstance(state, Mortal):
        return state, ENDS
    return state, -2 if state is None else -1


def _end(state: State, args: Args) -> Step:
    if isinstance(state, Mortal) and state.tag == args[0]:
        return None, None
    if isinstance(state, Lock) and state.session and state.tag == args[0]:
        return Lock(state.last), None
    return state, None


def _grant(state: State, args: Args) -> Step:
    return granted(_lock(state), *args)


def _unlock(state: State, args: Args) -> Step:
    return released(_lock(state), *args)


def _locked(state: State, args: Args) -> Step:
    return shown(_lock(state), *args)


# Sets ------------------------------------------------------------------------------------------


def _sadd(state: State, args: Args) -> Step:
    before = _members(state)
    after = before.union(args)
    return after, len(after) - len(before)


def _srem(state: State, args: Args) -> Step:
    before = _members(state)
    after = before.difference(args)
    return after or None, len(before) - len(after)


def _sismember(state: State, args: Args) -> Step:
    return state, int(args[0] in _members(state))


def _scard(state: State, _: Args) -> Step:
    return state, len(_members(state))


def _smembers(state: State, _: Args) -> Step:
    return state, _members(state)


# Hashes ----------------------------------------------------------------------------------------


def _hset(state: State, args: Args) -> Step:
    before = _fields(state)
    after = before | dict(zip(args[::2], args[1::2], strict=True))
    return _pairs(after), len(after) - len(before)


def _hget(state: State, args: Args) -> Step:
    return state, _fields(state).get(args[0])


def _hdel(state: State, args: Args) -> Step:
    before = _fields(state)
    after = {field: value for field, value in before.items() if field not in args}
    return _pairs(after) or None, len(before) - len(after)


def _hgetall(state: State, _: Args) -> Step:
    return state, _pairs(_fields(state))


# Lists -----------------------------------------------------------------------------------------


def _lpush(state: State, args: Args) -> Step:
    items = args[::-1] + _items(state)
    return items, len(items)


def _rpush(state: State, args: Args) -> Step:
    items = _items(state) + args
    return items, len(items)


def _lpop(state: State, _: Args) -> Step:
    items = _items(state)
    return (items[1:] or None, items[0]) if items else (None, None)


def _rpop(state: State, _: Args) -> Step:
    items = _items(state)
    return (items[:-1] or None, items[-1]) if items else (None, None)


def _llen(state: State, _: Args) -> Step:
    return state, len(_items(state))


def _lrange(state: State, args: Args) -> Step:
    items = _items(state)
    first, last = (int(arg) for arg in args)
    start = max(first + len(items), 0) if first < 0 else first
    end = last + len(items) if last < 0 else last
    return state, items[start : max(end + 1, 0)]


MANY: Final = 2**20

_TABLE: Final[tuple[tuple[bytes, Callable[[State, Args], Step], int, int], ...]] = (
    # name, what it does, how many arguments after the key
    (b"SET", _set, 1, 4),
    (b"GET", _get, 0, 0),
    (b"GETDEL", _getdel, 0, 0),
    (b"GETSET", _getset, 1, 1),
    (b"DEL", _del, 0, 0),
    (b"INCR", _incr, 0, 0),
    (b"APPEND", _append, 1, 1),
    (b"PEXPIRE", _pexpire, 2, 2),
    (b"PERSIST", _persist, 0, 0),
    (b"PTTL", _pttl, 0, 0),
    (b"(END)", _end, 1, 1),
    (b"HOLDFAST.LOCK", _grant, 3, 3),
    (b"HOLDFAST.UNLOCK", _unlock, 2, 2),
    (b"HOLDFAST.LOCKED", _locked, 1, 1),
    (b"SADD", _sadd, 1, MANY),
    (b"SREM", _srem, 1, MANY),
    (b"SISMEMBER", _sismember, 1, 1),
    (b"SCARD", _scard, 0, 0),
    (b"SMEMBERS", _smembers, 0, 0),
    (b"HSET", _hset, 2, MANY),
    (b"HGET", _hget, 1, 1),
    (b"HDEL", _hdel, 1, MANY),
    (b"HGETALL", _hgetall, 0, 0),
    (b"LPUSH", _lpush, 1, MANY),
    (b"RPUSH", _rpush, 1, MANY),
    (b"LPOP", _lpop, 0, 0),
    (b"RPOP", _rpop, 0, 0),
    (b"LLEN", _llen, 0, 0),
    (b"LRANGE", _lrange, 2, 2),
)
_COMMANDS: Final = {name: command for name, command, _, _ in _TABLE}
_ARITY: Final = {name: (least, most) for name, _, least, most in _TABLE}
MODELLED: Final = tuple(_COMMANDS)


def fits(reply: object, expected: object) -> bool:
    """Whether a reply in its canonical form is what the model gives; what is unknown fits all."""
    return expected is UNKNOWN or reply == expected
