"""Hashes against plain dictionaries, at the owner and at a backup."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.core.stores.replies import RESP3
from tests.core.stores.replicas import Replicas, Reply

KEYS = st.sampled_from([b"h", b"users:1", b"users:2"])
FIELDS = st.sampled_from([b"", b"a", b"bc", b"\x00"])
VALUES = st.sampled_from([b"", b"1", b"-7", b"text", b"9223372036854775807"])
PAIRS = st.lists(st.tuples(FIELDS, VALUES), min_size=1, max_size=5)
STEPS = st.sampled_from([0, 1, -1, 100, 9223372036854775807, -9223372036854775808])
LIMIT = 1 << 63


def pairs(reply: Reply) -> dict[bytes, bytes]:
    """The fields of a reply, none of them twice."""
    assert isinstance(reply, list)
    items = [item for item in reply if isinstance(item, bytes)]
    fields = dict(zip(items[::2], items[1::2], strict=True))
    assert 2 * len(fields) == len(reply)
    return fields


class HashesMachine(RuleBasedStateMachine):
    """Every command does to three keys what Python does to three dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = Replicas()
        self.model: dict[bytes, dict[bytes, bytes]] = {}

    def held(self, key: bytes) -> dict[bytes, bytes]:
        """The model's dictionary."""
        return self.model.setdefault(key, {})

    @rule(key=KEYS, several=PAIRS)
    def hset(self, key: bytes, several: list[tuple[bytes, bytes]]) -> None:
        held = self.held(key)
        words = [part for pair in several for part in pair]
        assert self.replicas.run("HSET", key, *words) == len(dict(several).keys() - held.keys())
        held.update(several)

    @rule(key=KEYS, name=FIELDS, value=VALUES)
    def hsetnx(self, key: bytes, name: bytes, value: bytes) -> None:
        held = self.held(key)
        assert self.replicas.run("HSETNX", key, name, value) == (name not in held)
        held.setdefault(name, value)

    @rule(key=KEYS, names=st.lists(FIELDS, min_size=1, max_size=4))
    def hdel(self, key: bytes, names: list[bytes]) -> None:
        held = self.held(key)
        removed = {name for name in names if held.pop(name, None) is not None}
        assert self.replicas.run("HDEL", key, *names) == len(removed)

    @rule(key=KEYS, name=FIELDS, step=STEPS)
    def hincrby(self, key: bytes, name: bytes, step: int) -> None:
        held = self.held(key)
        reply = self.replicas.run("HINCRBY", key, name, step)
        text = held.get(name, b"0")
        if text in {b"", b"text"}:
            assert reply == "ERR hash value is not an integer"
        elif not -LIMIT <= int(text) + step < LIMIT:
            assert reply == "ERR increment or decrement would overflow"
        else:
            assert reply == int(text) + step
            held[name] = b"%d" % reply

    @rule(key=KEYS, names=st.lists(FIELDS, min_size=1, max_size=4))
    def look(self, key: bytes, names: list[bytes]) -> None:
        held, name = self.held(key), names[0]
        run = self.replicas.run
        assert run("HGET", key, name) == held.get(name)
        assert run("HMGET", key, *names) == [held.get(each) for each in names]
        assert run("HEXISTS", key, name) == (name in held)
        assert run("HLEN", key) == len(held)
        assert run("HSTRLEN", key, name) == len(held.get(name, b""))
        assert run("HKEYS", key) == list(held)
        assert run("HVALS", key) == list(held.values())
        assert pairs(run("HGETALL", key)) == held
        assert run("HSCAN", key, "0") == [b"0", run("HGETALL", key)]

    @rule(key=KEYS, count=st.integers(-6, 6))
    def hrandfield(self, key: bytes, count: int) -> None:
        held = self.held(key)
        names = self.replicas.run("HRANDFIELD", key, count)
        assert isinstance(names, list)
        assert {name for name in names if isinstance(name, bytes)} <= held.keys()
        if count >= 0:
            assert len(names) == min(count, len(held))
            both = pairs(self.replicas.run("HRANDFIELD", key, count, "withvalues"))
            assert both.items() <= held.items()
        else:
            assert len(names) == (-count if held else 0)

    @rule(key=KEYS)
    def hrandfield_one(self, key: bytes) -> None:
        chosen = self.replicas.run("HRANDFIELD", key)
        assert chosen in self.held(key) or (chosen is None and not self.held(key))

    @invariant()
    def replicas_are_equal(self) -> None:
        self.replicas.check()


TestHashes = HashesMachine.TestCase


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("HSET h a 1 b", "ERR wrong number of arguments for 'hset' command"),
        ("HINCRBY h a x", "ERR value is not an integer or out of range"),
        ("HINCRBYFLOAT h a x", "ERR value is not a valid float"),
        ("HINCRBYFLOAT h a inf", "ERR value is NaN or Infinity"),
        ("HINCRBYFLOAT h t 1", "ERR hash value is not a float"),
        ("HINCRBYFLOAT h i 1", "ERR increment would produce NaN or Infinity"),
        ("HINCRBYFLOAT h m 1e4932", "ERR increment would produce NaN or Infinity"),
        ("HRANDFIELD h x", "ERR value is not an integer or out of range"),
        ("HRANDFIELD h 1 VALUES", "ERR syntax error"),
        ("HRANDFIELD h 1 WITHVALUES 2", "ERR syntax error"),
        ("HRANDFIELD h -9223372036854775807 WITHVALUES", "ERR value is out of range"),
        ("HSCAN h x", "ERR invalid cursor"),
        ("HGET l a", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HSET l a 1", "WRONGTYPE Operation against a key holding the wrong kind of value"),
    ],
)
def test_refusals_are_those_of_redis(words: str, text: str) -> None:
    replicas = Replicas()
    replicas.run("HSET", "h", "t", "text", "a", "1", "i", "inf", "m", "1e4932")
    replicas.run("RPUSH", "l", "a")
    replicas.check()
    assert replicas.run(*words.split()) == text
    assert not any(fragment.pending for fragment in replicas.owner), "half applied"


def test_fractions_are_added_as_redis_adds_them() -> None:
    replicas = Replicas()
    replicas.run("HSET", "h", "f", "0.1")
    assert replicas.run("HINCRBYFLOAT", "h", "f", "0.2") == b"0.3"
    assert replicas.run("HINCRBYFLOAT", "h", "new", "3.0") == b"3"
    assert replicas.run("HGETALL", "h") == [b"f", b"0.3", b"new", b"3"]
    replicas.check()


def test_resp3_has_maps() -> None:
    replicas = Replicas(dialect=RESP3)
    replicas.raw("HSET", "h", "a", "1")
    assert replicas.raw("HGETALL", "h") == b"%1\r\n$1\r\na\r\n$1\r\n1\r\n"
    chosen = replicas.raw("HRANDFIELD", "h", "-2", "WITHVALUES")
    assert chosen == b"*2\r\n" + 2 * b"*2\r\n$1\r\na\r\n$1\r\n1\r\n"
    assert replicas.raw("HGET", "h", "b") == b"_\r\n"


def test_scan_of_a_hash_looks_at_fields() -> None:
    replicas = Replicas()
    assert replicas.raw("HSCAN", "h", "0", "FOO") == b"*2\r\n$1\r\n0\r\n*0\r\n"
    replicas.run("HSET", "h", "ab", "x", "cd", "ab")
    assert replicas.run("HSCAN", "h", "0", "MATCH", "a?") == [b"0", [b"ab", b"x"]]
