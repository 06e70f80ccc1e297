"""The model of a key, command by command, and what the search believes of calls in every state."""

from __future__ import annotations

from typing import Final

import pytest

from holdfast.sim.linearizability import UNKNOWN, Failure, Operation, check
from holdfast.sim.linearizability.model import MODELLED, State, apply
from holdfast.sim.linearizability.mortal import GRANTED, TOKEN_TOO_SMALL, Lock, Mortal
from holdfast.sim.linearizability.traits import READS, Task, growth, is_plain, size
from tests.sim.histories import EVERYTHING, LINEARIZABLE, WRONG_TYPE, call, op

STATES: Final[dict[str, State]] = {
    "nothing": None,
    "empty": b"",
    "number": b"9",
    "largest": str(2**63 - 1).encode(),
    "text": b"ab",
    "set": frozenset([b"a", b"b"]),
    "hash": ((b"f", b"1"), (b"g", b"2")),
    "list": (b"a", b"b", b"c"),
    "mortal": Mortal(b"9", b"t"),
    "held": Lock(5, b"A", 5, b"t"),
    "free": Lock(5),
    "held by whoever": Lock(5, b"A", 0, b"t"),
}


@pytest.mark.parametrize(
    ("name", "text", "state", "reply"),
    [
        ("nothing", "SET 1", b"1", b"OK"),
        ("list", "SET 1", b"1", b"OK"),
        ("nothing", "SET 1 NX", b"1", b"OK"),
        ("list", "SET 1 NX", STATES["list"], None),
        ("text", "GET", b"ab", b"ab"),
        ("list", "GET", STATES["list"], WRONG_TYPE),
        ("text", "GETDEL", None, b"ab"),
        ("nothing", "GETDEL", None, None),
        ("set", "GETDEL", STATES["set"], WRONG_TYPE),
        ("text", "GETSET 1", b"1", b"ab"),
        ("hash", "GETSET 1", STATES["hash"], WRONG_TYPE),
        ("hash", "DEL", None, 1),
        ("nothing", "DEL", None, 0),
        ("nothing", "INCR", b"1", 1),
        ("number", "INCR", b"10", 10),
        ("empty", "INCR", b"", Failure("ERR")),
        ("text", "INCR", b"ab", Failure("ERR")),
        ("largest", "INCR", STATES["largest"], Failure("ERR")),
        ("set", "INCR", STATES["set"], WRONG_TYPE),
        ("nothing", "APPEND 1", b"1", 1),
        ("text", "APPEND 1", b"ab1", 3),
        ("set", "SADD b c", frozenset([b"a", b"b", b"c"]), 1),
        ("text", "SADD a", b"ab", WRONG_TYPE),
        ("set", "SREM b c", frozenset([b"a"]), 1),
        ("set", "SREM b a", None, 2),
        ("set", "SISMEMBER b", STATES["set"], 1),
        ("nothing", "SISMEMBER b", None, 0),
        ("set", "SCARD", STATES["set"], 2),
        ("nothing", "SMEMBERS", None, frozenset()),
        ("set", "SMEMBERS", STATES["set"], STATES["set"]),
        ("hash", "HSET f 3 a 4", ((b"a", b"4"), (b"f", b"3"), (b"g", b"2")), 1),
        ("list", "HSET f 3", STATES["list"], WRONG_TYPE),
        ("hash", "HGET g", STATES["hash"], b"2"),
        ("hash", "HGET a", STATES["hash"], None),
        ("hash", "HDEL f a", ((b"g", b"2"),), 1),
        ("hash", "HDEL f g", None, 2),
        ("hash", "HGETALL", STATES["hash"], STATES["hash"]),
        ("nothing", "HGETALL", None, ()),
        ("list", "LPUSH x y", (b"y", b"x", b"a", b"b", b"c"), 5),
        ("nothing", "RPUSH x y", (b"x", b"y"), 2),
        ("hash", "RPUSH x", STATES["hash"], WRONG_TYPE),
        ("list", "LPOP", (b"b", b"c"), b"a"),
        ("list", "RPOP", (b"a", b"b"), b"c"),
        ("nothing", "LPOP", None, None),
        ("nothing", "RPOP", None, None),
        ("list", "LLEN", STATES["list"], 3),
        ("list", "LRANGE 0 -1", STATES["list"], (b"a", b"b", b"c")),
        ("list", "LRANGE -2 1", STATES["list"], (b"b",)),
        ("list", "LRANGE -9 9", STATES["list"], (b"a", b"b", b"c")),
        ("list", "LRANGE 2 1", STATES["list"], ()),
        ("list", "LRANGE 0 -9", STATES["list"], ()),
        ("text", "SET 1 PX 9 t", Mortal(b"1", b"t"), b"OK"),
        ("mortal", "SET 1", b"1", b"OK"),
        ("mortal", "GET", STATES["mortal"], b"9"),
        ("mortal", "INCR", Mortal(b"10", b"t"), 10),
        ("mortal", "APPEND 1", Mortal(b"91", b"t"), 2),
        ("mortal", "GETSET 1", b"1", b"9"),
        ("mortal", "SADD a", STATES["mortal"], WRONG_TYPE),
        ("nothing", "PEXPIRE 9 u", None, 0),
        ("text", "PEXPIRE 9 u", Mortal(b"ab", b"u"), 1),
        ("mortal", "PEXPIRE 9 u", Mortal(b"9", b"u"), 1),
        ("set", "PEXPIRE 9 u", STATES["set"], WRONG_TYPE),
        ("mortal", "PERSIST", b"9", 1),
        ("text", "PERSIST", b"ab", 0),
        ("nothing", "PTTL", None, -2),
        ("text", "PTTL", b"ab", -1),
        ("mortal", "PTTL", STATES["mortal"], 0),
        ("mortal", "(END) t", None, None),
        ("mortal", "(END) u", STATES["mortal"], None),
        ("text", "(END) t", b"ab", None),
        ("held", "(END) t", Lock(5), None),
        ("held", "(END) u", STATES["held"], None),
        ("nothing", "HOLDFAST.LOCK A t 5", STATES["held"], 5),
        ("free", "HOLDFAST.LOCK B u 6", Lock(6, b"B", 6, b"u"), 6),
        ("free", "HOLDFAST.LOCK B u 5", Lock(5), TOKEN_TOO_SMALL),
        ("free", "HOLDFAST.LOCK B u 0", Lock(5, b"B", 0, b"u"), GRANTED),
        ("held", "HOLDFAST.LOCK B u 6", STATES["held"], None),
        ("held", "HOLDFAST.LOCK A u 5", Lock(5, b"A", 5, b"u"), 5),
        ("held by whoever", "HOLDFAST.LOCK A u 6", Lock(6, b"A", 6, b"u"), 6),
        ("held", "HOLDFAST.UNLOCK 5 1", Lock(5), 1),
        ("held", "HOLDFAST.UNLOCK 4 0", STATES["held"], 0),
        ("free", "HOLDFAST.UNLOCK 5 0", Lock(5), 0),
        ("held by whoever", "HOLDFAST.UNLOCK 5 1", STATES["held by whoever"], 0),
        ("held by whoever", "HOLDFAST.UNLOCK 6 0", STATES["held by whoever"], 0),
        ("held by whoever", "HOLDFAST.UNLOCK 6 1", Lock(6), 1),
        ("free", "HOLDFAST.LOCKED 0", Lock(5), None),
        ("held", "HOLDFAST.LOCKED 5", STATES["held"], 5),
        ("held by whoever", "HOLDFAST.LOCKED 6", Lock(6, b"A", 6, b"t"), 6),
        ("held by whoever", "HOLDFAST.LOCKED 5", STATES["held by whoever"], TOKEN_TOO_SMALL),
        ("held by whoever", "HOLDFAST.LOCKED 0", STATES["held by whoever"], GRANTED),
        ("text", "HOLDFAST.LOCKED 0", b"ab", WRONG_TYPE),
    ],
)
def test_model(name: str, text: str, state: State, reply: object) -> None:
    assert apply(STATES[name], call(text)) == (state, reply)


def test_last_element_takes_its_container_along() -> None:
    assert apply((b"a",), call("LPOP")) == (None, b"a")
    assert apply((b"a",), call("RPOP")) == (None, b"a")


@pytest.mark.parametrize("text", [b"01", b"+1", b" 1", b"1_0", b"-0", b"9223372036854775808"])
def test_number_is_written_in_one_way(text: bytes) -> None:
    assert apply(text, call("INCR")) == (text, Failure("ERR"))


@pytest.mark.parametrize(
    "text", ["PING", "SET", "SET 1 XX", "SET 1 NX 2", "SET 1 EX 2 3", "DEL k2", "HSET f 1 g"]
)
def test_call_without_a_model_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no model"):
        check([op(text, None, 0, 1)])


def test_names_of_commands_are_of_any_case() -> None:
    assert check([op("set 1 nx", "OK", 0, 1), op("get", b"1", 2, 3)]) == LINEARIZABLE


MORE: Final = ("LRANGE 1 1", "HSET f 1 g 2", "SREM a b", "APPEND abc", "HDEL g", "SET 123 NX")
CALLS: Final = [call(text) for text in dict.fromkeys((*EVERYTHING, *MORE))]


def after_one_more_call() -> list[State]:
    """Whatever a call makes of a state that was thought of."""
    first = [*STATES.values(), b"-1", b"-10", b"99"]
    return list(
        dict.fromkeys([*first, *(apply(each, words)[0] for each in first for words in CALLS)])
    )


ALL: Final = after_one_more_call()


def task(words: tuple[bytes, ...], reply: object) -> Task:
    return Task.of(Operation("c", words, 0, 1, reply))


@pytest.mark.parametrize("words", CALLS)
def test_traits_of_a_call_hold_in_every_state(words: tuple[bytes, ...]) -> None:
    shrinks, grows = growth(words)
    unknown = task(words, UNKNOWN)
    for state in ALL:
        after, reply = apply(state, words)
        known = task(words, reply)
        assert size(state) - shrinks <= size(after) <= size(state) + grows
        assert known.wanted in (None, size(state))
        assert known.fits(state)
        assert unknown.fits(state)
        assert after == state or (unknown.may_change(state) and words[0] not in READS)


@pytest.mark.parametrize("words", CALLS)
def test_what_overwrites_makes_the_same_of_every_state(words: tuple[bytes, ...]) -> None:
    steps = [apply(state, words) for state in ALL]
    if task(words, UNKNOWN).erases:
        assert len({after for after, _ in steps}) == 1
    if task(words, steps[0][1]).erases:
        assert len(set(steps)) == 1
    if task(words, UNKNOWN).replaces:
        pairs = list(zip(ALL, steps, strict=True))
        assert len({after for state, (after, _) in pairs if is_plain(state)}) == 1
        assert all(after == state for state, (after, _) in pairs if not is_plain(state))


@pytest.mark.parametrize("one", CALLS)
def test_calls_that_are_apart_commute(one: tuple[bytes, ...]) -> None:
    for other in CALLS:
        if not task(one, UNKNOWN).is_apart_from(task(other, UNKNOWN)):
            continue
        for state in ALL:
            first, first_reply = apply(state, one)
            second, second_reply = apply(state, other)
            last, second_reply_then = apply(first, other)
            assert apply(second, one) == (last, first_reply)
            assert second_reply_then == second_reply


def test_every_modelled_call_is_among_those_that_are_drawn() -> None:
    drawn = {text.split()[0] for text in EVERYTHING}
    for name in drawn:
        assert name.encode() in MODELLED
    assert len(drawn) == len(MODELLED)
