"""Lists and queues against plain lists, at the owner and at a backup; and those that wait."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.core.stores.command import Blocked
from holdfast.core.stores.containers import CONTAINER_BYTES_MAX
from holdfast.core.stores.replies import RESP3
from holdfast.core.stores.settings import NameSettings
from tests.core.stores.replicas import NOW, Replicas

KEYS = st.sampled_from([b"l", b"queue:1", b"queue:2"])
ELEMENTS = st.sampled_from([b"", b"a", b"b", b"c"])
SEVERAL = st.lists(ELEMENTS, min_size=1, max_size=5)
SIDES = st.sampled_from(["LEFT", "RIGHT"])
INDEXES = st.integers(-8, 8)
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class ListsMachine(RuleBasedStateMachine):
    """Every command does to three keys what Python does to three lists."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = Replicas()
        self.model: dict[bytes, list[bytes]] = {}

    def held(self, key: bytes) -> list[bytes]:
        """The model's list."""
        return self.model.setdefault(key, [])

    @rule(key=KEYS, side=SIDES, elements=SEVERAL, anew=st.booleans())
    def push(self, key: bytes, side: str, elements: list[bytes], *, anew: bool) -> None:
        held = self.held(key)
        if anew or held:
            if side == "LEFT":
                held[:0] = elements[::-1]
            else:
                held += elements
        name = f"{side[0]}PUSH" + ("" if anew else "X")
        assert self.replicas.run(name, key, *elements) == len(held)

    @rule(key=KEYS, side=SIDES, count=st.integers(0, 4))
    def pop_several(self, key: bytes, side: str, count: int) -> None:
        held = self.held(key)
        expected = list(islice(held if side == "LEFT" else reversed(held), count))
        reply = self.replicas.run(f"{side[0]}POP", key, count)
        assert reply == (expected if held else None)
        if expected:
            del held[slice(len(expected)) if side == "LEFT" else slice(-len(expected), None)]

    @rule(key=KEYS, side=SIDES)
    def pop_one(self, key: bytes, side: str) -> None:
        held = self.held(key)
        expected = held.pop(0 if side == "LEFT" else -1) if held else None
        assert self.replicas.run(f"{side[0]}POP", key) == expected

    @rule(source=KEYS, other=KEYS, out=SIDES, into=SIDES)
    def lmove(self, source: bytes, other: bytes, out: str, into: str) -> None:
        moved = self._move(source, other, out, into)
        assert self.replicas.run("LMOVE", source, other, out, into) == moved

    @rule(source=KEYS, other=KEYS)
    def rpoplpush(self, source: bytes, other: bytes) -> None:
        moved = self._move(source, other, "RIGHT", "LEFT")
        assert self.replicas.run("RPOPLPUSH", source, other) == moved

    def _move(self, source: bytes, other: bytes, out: str, into: str) -> bytes | None:
        if not self.held(source):
            return None
        element = self.held(source).pop(0 if out == "LEFT" else -1)
        self.held(other).insert(0 if into == "LEFT" else len(self.held(other)), element)
        return element

    @rule(one=KEYS, other=KEYS, side=SIDES)
    def blocking_pop(self, one: bytes, other: bytes, side: str) -> None:
        reply = self.replicas.ask(f"B{side[0]}POP", one, other, "1.5")
        key = one if self.held(one) else other
        if not self.held(key):
            assert reply == Blocked((one, other), NOW + 1500, b"*-1\r\n")
            return
        element = self.held(key).pop(0 if side == "LEFT" else -1)
        expected = b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, len(element), element)
        assert reply == expected

    @rule(key=KEYS, index=INDEXES, element=ELEMENTS)
    def lset(self, key: bytes, index: int, element: bytes) -> None:
        held = self.held(key)
        reply = self.replicas.run("LSET", key, index, element)
        if not held:
            assert reply == "ERR no such key"
        elif -len(held) <= index < len(held):
            assert reply == "OK"
            held[index] = element
        else:
            assert reply == "ERR index out of range"

    @rule(key=KEYS, count=st.integers(-3, 3), element=ELEMENTS)
    def lrem(self, key: bytes, count: int, element: bytes) -> None:
        held = self.held(key)
        walk = list(reversed(held)) if count < 0 else list(held)
        kept, removed = [], 0
        for one in walk:
            if one == element and (not count or removed < abs(count)):
                removed += 1
            else:
                kept.append(one)
        assert self.replicas.run("LREM", key, count, element) == removed
        held[:] = reversed(kept) if count < 0 else kept

    @rule(key=KEYS, start=INDEXES, stop=INDEXES)
    def ltrim(self, key: bytes, start: int, stop: int) -> None:
        assert self.replicas.run("LTRIM", key, start, stop) == "OK"
        self.held(key)[:] = stretch(self.held(key), start, stop)

    @rule(key=KEYS, where=st.sampled_from(["BEFORE", "after"]), pivot=ELEMENTS, element=ELEMENTS)
    def linsert(self, key: bytes, where: str, pivot: bytes, element: bytes) -> None:
        held = self.held(key)
        if not held:
            expected = 0
        elif pivot not in held:
            expected = -1
        else:
            held.insert(held.index(pivot) + (where == "after"), element)
            expected = len(held)
        assert self.replicas.run("LINSERT", key, where, pivot, element) == expected

    @rule(key=KEYS, start=INDEXES, stop=INDEXES, index=INDEXES)
    def look(self, key: bytes, start: int, stop: int, index: int) -> None:
        held = self.held(key)
        run = self.replicas.run
        assert run("LRANGE", key, 0, -1) == held
        assert run("LRANGE", key, start, stop) == stretch(held, start, stop)
        assert run("LLEN", key) == len(held)
        there = -len(held) <= index < len(held)
        assert run("LINDEX", key, index) == (held[index] if there else None)

    @rule(
        key=KEYS,
        element=ELEMENTS,
        rank=st.integers(-3, 3).filter(bool),
        count=st.integers(0, 3),
        length=st.integers(0, 6),
    )
    def lpos(self, key: bytes, element: bytes, rank: int, count: int, length: int) -> None:
        places = list(enumerate(self.held(key)))
        if rank < 0:
            places.reverse()
        found = [place for place, one in places[: length or None] if one == element]
        found = found[abs(rank) - 1 :]
        words = ("LPOS", key, element, "RANK", rank, "MAXLEN", length)
        assert self.replicas.run(*words) == (found[0] if found else None)
        assert self.replicas.run(*words, "COUNT", count) == found[: count or None]

    @invariant()
    def replicas_are_equal(self) -> None:
        self.replicas.check()


TestLists = ListsMachine.TestCase


def stretch(held: list[bytes], start: int, stop: int) -> list[bytes]:
    """What LRANGE returns, by trying each index."""
    length = len(held)
    first = start if start >= 0 else start + length
    last = stop if stop >= 0 else stop + length
    return [one for index, one in enumerate(held) if first <= index <= last]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("LPOP l x", "ERR value is out of range, must be positive"),
        ("LPOP l 1 2", "ERR wrong number of arguments for 'lpop' command"),
        ("LRANGE none x 1", "ERR value is not an integer or out of range"),
        ("LTRIM none 0 x", "ERR value is not an integer or out of range"),
        ("LINDEX l x", "ERR value is not an integer or out of range"),
        ("LSET l x a", "ERR value is not an integer or out of range"),
        ("LREM l x a", "ERR value is not an integer or out of range"),
        ("LINSERT l AT a b", "ERR syntax error"),
        ("LMOVE l k UP LEFT", "ERR syntax error"),
        ("LMOVE l s LEFT LEFT", WRONG_TYPE),
        ("BLMOVE l s LEFT LEFT 0", WRONG_TYPE),
        ("BLPOP none s l 0", WRONG_TYPE),
        ("LPUSH s a", WRONG_TYPE),
        ("LPOS l a RANK", "ERR syntax error"),
        ("LPOS l a AT 1", "ERR syntax error"),
        (
            "LPOS l a RANK 0",
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ..."
            " or use negative to start from the end of the list",
        ),
        ("LPOS l a COUNT -1", "ERR COUNT can't be negative"),
        ("LPOS l a MAXLEN x", "ERR MAXLEN can't be negative"),
    ],
)
def test_refusals_are_those_of_redis(words: str, text: str) -> None:
    replicas = Replicas()
    replicas.run("RPUSH", "l", "a", "b")
    replicas.run("SADD", "s", "a")
    replicas.check()
    assert replicas.run(*words.split()) == text
    assert not any(fragment.pending for fragment in replicas.owner), "half applied"


def test_turning_a_list_of_one_element_keeps_its_expiry() -> None:
    replicas = Replicas(lambda _: NameSettings(ttl_ms=1000))
    replicas.run("RPUSH", "l", "a")
    assert replicas.run("LMOVE", "l", "l", "LEFT", "RIGHT") == b"a"
    assert replicas.value(b"l").expiry == NOW + 1000
    replicas.check()


def test_full_list_can_be_turned_but_takes_nothing() -> None:
    replicas = Replicas()
    half = bytes(CONTAINER_BYTES_MAX // 2 - 512)
    replicas.run("RPUSH", "l", half, half + b"z")
    text = "ERR the value would hold more than 64 MiB, the most that a value may"
    assert replicas.run("RPUSH", "l", "a" * 1024) == text
    assert replicas.run("LMOVE", "l", "l", "LEFT", "RIGHT") == half
    assert replicas.run("LLEN", "l") == 2
    assert len(replicas.owner.internal.pending) == 3


# Waiting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "wait_ms"),
    [("0", 0), ("-0.0009", 0), ("0.0001", 1), ("1", 1000), ("+2.5", 2500), ("0x1p-1", 500)],
)
def test_timeout_is_in_seconds(timeout: str, wait_ms: int) -> None:
    waiting = Replicas().waits("BLPOP", "l", timeout)
    assert waiting.until == (NOW + wait_ms if wait_ms else 0)


@pytest.mark.parametrize("timeout", ["-1", "inf", "-inf", "1e300", "9223372036854775.9"])
def test_timeout_is_not_negative_nor_too_long(timeout: str) -> None:
    assert Replicas().run("BRPOP", "l", timeout) == "ERR timeout is negative"


@pytest.mark.parametrize("timeout", ["x", "", "nan", "1e5000", "1 ", "1_0"])
def test_timeout_is_a_number(timeout: str) -> None:
    reply = Replicas().run("BLMOVE", "l", "k", "LEFT", "LEFT", timeout)
    assert reply == "ERR timeout is not a float or out of range"


def test_waiting_command_is_asked_again_and_takes_what_came() -> None:
    replicas = Replicas()
    words = ("BLMOVE", "l", "k", "LEFT", "RIGHT", "0")
    assert replicas.waits(*words) == Blocked((b"l",), 0, b"*-1\r\n")
    replicas.run("RPUSH", "l", "a")
    assert replicas.run(*words) == b"a"
    assert replicas.run("LRANGE", "k", 0, -1) == [b"a"]
    assert replicas.waits(*words).keys == (b"l",)
    replicas.check()


def test_resp3_says_null_in_one_way() -> None:
    replicas = Replicas(dialect=RESP3)
    assert replicas.raw("LPOP", "l", "1") == b"_\r\n"
    assert replicas.waits("BLPOP", "l", "0").otherwise == b"_\r\n"


# Promises of names --------------------------------------------------------------------------------


@given(st.lists(ELEMENTS, max_size=12), INDEXES, INDEXES)
def test_range_of_a_long_list_is_walked_from_the_nearer_end(
    elements: list[bytes], start: int, stop: int
) -> None:
    replicas = Replicas()
    replicas.run("RPUSH", "l", "first", *elements)
    expected = stretch([b"first", *elements], start, stop)
    assert replicas.run("LRANGE", "l", start, stop) == expected
