"""Sets against plain ones, at the owner and at a backup."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.core.stores.replies import RESP3
from tests.core.stores.replicas import Replicas, Reply

KEYS = st.sampled_from([b"a", b"users:1", b"users:2"])
MEMBERS = st.sampled_from([b"", b"0", b"1", b"two", b"\xff\r\n"])
SEVERAL = st.lists(MEMBERS, min_size=1, max_size=6)


def as_set(reply: Reply) -> set[bytes]:
    """The members of a reply, none of them twice."""
    assert isinstance(reply, list)
    members = {item for item in reply if isinstance(item, bytes)}
    assert len(members) == len(reply)
    return members


class SetsMachine(RuleBasedStateMachine):
    """Every command does to three keys what Python does to three sets."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = Replicas()
        self.model: dict[bytes, set[bytes]] = {}

    def held(self, key: bytes) -> set[bytes]:
        """The model's set; a key without members is not there."""
        return self.model.setdefault(key, set())

    @rule(key=KEYS, members=SEVERAL)
    def sadd(self, key: bytes, members: list[bytes]) -> None:
        held = self.held(key)
        assert self.replicas.run("SADD", key, *members) == len(set(members) - held)
        held.update(members)

    @rule(key=KEYS, members=SEVERAL)
    def srem(self, key: bytes, members: list[bytes]) -> None:
        held = self.held(key)
        assert self.replicas.run("SREM", key, *members) == len(set(members) & held)
        held.difference_update(members)

    @rule(key=KEYS)
    def spop_one(self, key: bytes) -> None:
        held = self.held(key)
        popped = self.replicas.run("SPOP", key)
        if held:
            assert isinstance(popped, bytes)
            held.remove(popped)
        else:
            assert popped is None

    @rule(key=KEYS, count=st.integers(0, 4))
    def spop_several(self, key: bytes, count: int) -> None:
        held = self.held(key)
        popped = as_set(self.replicas.run("SPOP", key, count))
        assert len(popped) == min(count, len(held))
        assert popped <= held
        held -= popped

    @rule(key=KEYS, count=st.integers(-8, 8))
    def srandmember(self, key: bytes, count: int) -> None:
        held = self.held(key)
        chosen = self.replicas.run("SRANDMEMBER", key, count)
        assert isinstance(chosen, list)
        assert {item for item in chosen if isinstance(item, bytes)} <= held
        if count >= 0:
            assert len(as_set(chosen)) == min(count, len(held))
        else:
            assert len(chosen) == (-count if held else 0)

    @rule(key=KEYS)
    def srandmember_one(self, key: bytes) -> None:
        chosen = self.replicas.run("SRANDMEMBER", key)
        assert chosen in self.held(key) or (chosen is None and not self.held(key))

    @rule(key=KEYS, members=SEVERAL)
    def look(self, key: bytes, members: list[bytes]) -> None:
        held = self.held(key)
        run = self.replicas.run
        assert run("SISMEMBER", key, members[0]) == (members[0] in held)
        assert run("SMISMEMBER", key, *members) == [member in held for member in members]
        assert run("SCARD", key) == len(held)
        assert as_set(run("SMEMBERS", key)) == held

    @rule(one=KEYS, other=KEYS)
    def algebra(self, one: bytes, other: bytes) -> None:
        left, right = self.held(one), self.held(other)
        run = self.replicas.run
        assert as_set(run("SINTER", one, other)) == left & right
        assert as_set(run("SUNION", one, other)) == left | right
        assert as_set(run("SDIFF", one, other)) == left - right

    @invariant()
    def replicas_are_equal(self) -> None:
        self.replicas.check()


TestSets = SetsMachine.TestCase


def test_pops_are_uniform_and_end() -> None:
    replicas = Replicas(random=Random(7))
    members = [b"%d" % index for index in range(200)]
    replicas.run("SADD", "s", *members)
    popped = [replicas.run("SPOP", "s") for _ in members]
    assert sorted(map(str, popped)) == sorted(map(str, members))
    assert popped != members, "in the order in which they came: by no chance"
    replicas.check()


def test_urn_follows_what_comes_and_goes() -> None:
    """A member that came after the first draw is drawn; one that was removed is not."""
    replicas = Replicas()
    replicas.run("SADD", "s", *range(20))
    replicas.run("SPOP", "s", 3)
    replicas.run("SADD", "s", "late", "0", "1")
    replicas.run("SREM", "s", "0")
    left = as_set(replicas.run("SMEMBERS", "s"))
    assert as_set(replicas.run("SPOP", "s", 100)) == left
    assert b"late" in left
    assert b"0" not in left
    replicas.check()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("SPOP s 1 2", "ERR syntax error"),
        ("SPOP s -1", "ERR value is out of range, must be positive"),
        ("SPOP s x", "ERR value is out of range, must be positive"),
        ("SRANDMEMBER s 1 2", "ERR syntax error"),
        ("SRANDMEMBER s x", "ERR value is not an integer or out of range"),
        (
            "SRANDMEMBER s -9223372036854775808",
            "ERR value is out of range, value must between -9223372036854775807"
            " and 9223372036854775807",
        ),
        (
            "SRANDMEMBER s -9223372036854775807",
            "ERR value is out of range, the reply would be longer than 64 MiB",
        ),
        ("SADD l x", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SMEMBERS l", "WRONGTYPE Operation against a key holding the wrong kind of value"),
    ],
)
def test_refusals_are_those_of_redis(words: str, text: str) -> None:
    replicas = Replicas()
    replicas.run("SADD", "s", "a", "b")
    replicas.run("RPUSH", "l", "a")
    replicas.check()
    assert replicas.run(*words.split()) == text
    assert not any(fragment.pending for fragment in replicas.owner), "half applied"


def test_resp3_has_sets() -> None:
    replicas = Replicas(dialect=RESP3)
    replicas.raw("SADD", "s", "a")
    assert replicas.raw("SMEMBERS", "s") == b"~1\r\n$1\r\na\r\n"
    assert replicas.raw("SRANDMEMBER", "s", "5") == b"*1\r\n$1\r\na\r\n"
    assert replicas.raw("SUNION", "s", "t") == b"~1\r\n$1\r\na\r\n"
    assert replicas.raw("SPOP", "s", "5") == b"~1\r\n$1\r\na\r\n"
    assert replicas.raw("SPOP", "s", "5") == b"~0\r\n"
    assert replicas.raw("SPOP", "s") == b"_\r\n"


def test_scan_of_a_set() -> None:
    replicas = Replicas()
    assert replicas.raw("SSCAN", "s", "0", "COUNT", "0") == b"*2\r\n$1\r\n0\r\n*0\r\n"
    replicas.run("SADD", "s", "apple", "bear", "avocado")
    assert replicas.run("SSCAN", "s", "7", "MATCH", "a*") == [b"0", [b"apple", b"avocado"]]
