"""Locks against a plain table of who holds what until when."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.core.stores import locks
from holdfast.core.stores.command import LOCKED, Blocked
from holdfast.core.stores.fragment import DEADLINES_SPARE
from holdfast.core.stores.replies import RESP3, error
from tests.core.stores.replicas import NOW, Replicas

KEYS = st.sampled_from([b"a", b"b", b"users:1"])
SESSIONS = st.sampled_from([b"one", b"two", b"three"])
LIFE = st.integers(1, 50)


class LocksMachine(RuleBasedStateMachine):
    """The model: key -> (token, session, expiry)."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = Replicas()
        self.model: dict[bytes, tuple[int, bytes, int]] = {}
        self.tokens: dict[bytes, int] = {}
        """The greatest token that was given out in each fragment."""

    def held(self, key: bytes) -> tuple[int, bytes, int] | None:
        """The lock, while its time is not over."""
        lock = self.model.get(key)
        return lock if lock is not None and self.replicas.now < lock[2] else None

    @rule(key=KEYS, session=SESSIONS, ttl_ms=LIFE, wait=st.sampled_from([None, 0, 30]))
    def lock(self, key: bytes, session: bytes, ttl_ms: int, wait: int | None) -> None:
        replicas, held = self.replicas, self.held(key)
        replicas.session = session
        words = ("HOLDFAST.LOCK", key, ttl_ms, *(() if wait is None else ("WAIT", wait)))
        reply = replicas.ask(*words)
        if held is not None and held[1] != session:
            until = replicas.now + wait if wait else 0
            null = b"$-1\r\n"
            assert reply == (null if wait is None else Blocked((key,), until, null))
            return
        assert isinstance(reply, bytes)
        token = int(reply[1:])
        if held is None:
            name = key.partition(b":")[0] if b":" in key else b""
            assert token > self.tokens.get(name, 0), "a token that was given before"
            self.tokens[name] = token
        else:
            assert token == held[0]
        self.model[key] = token, session, replicas.now + ttl_ms

    @rule(key=KEYS, session=SESSIONS, ttl_ms=LIFE, off=st.sampled_from([0, 0, 1]))
    def take_over(self, key: bytes, session: bytes, ttl_ms: int, off: int) -> None:
        held = self.held(key)
        token = (held[0] if held else 1) + off
        self.replicas.session = session
        reply = self.replicas.run("HOLDFAST.LOCK", key, ttl_ms, "TOKEN", token)
        if held is None or off:
            assert reply == locks.NOT_HELD
        else:
            assert reply == token
            self.model[key] = token, session, self.replicas.now + ttl_ms

    @rule(key=KEYS, session=SESSIONS, off=st.sampled_from([0, 0, 1]))
    def unlock(self, key: bytes, session: bytes, off: int) -> None:
        held = self.held(key)
        token = (held[0] if held else 1) + off
        self.replicas.session = session
        ended = held is not None and not off
        assert self.replicas.run("HOLDFAST.UNLOCK", key, token) == ended
        if ended:
            del self.model[key]

    @rule(key=KEYS)
    def locked(self, key: bytes) -> None:
        held = self.held(key)
        reply = self.replicas.run("HOLDFAST.LOCKED", key)
        assert reply == (None if held is None else [held[2] - self.replicas.now, held[0]])

    @rule(key=KEYS, session=SESSIONS, name=st.sampled_from(["SADD", "SREM"]))
    def write(self, key: bytes, session: bytes, name: str) -> None:
        held = self.held(key)
        self.replicas.session = session
        refused = held is not None and held[1] != session
        assert (self.replicas.run(name, key, "x") == LOCKED) == refused

    @rule(ms=st.integers(0, 40))
    def time_goes_on(self, ms: int) -> None:
        self.replicas.now += ms

    @rule(budget=st.integers(0, 5))
    def purge(self, budget: int) -> None:
        owner = self.replicas.owner
        left = locks.purge(owner, self.replicas.call(), budget)
        assert 0 <= left <= budget
        if left:
            now = self.replicas.now
            assert all(lock.expiry > now for each in owner for lock in each.locks.values())

    @invariant()
    def replicas_are_equal(self) -> None:
        self.replicas.check()


TestLocks = LocksMachine.TestCase

WRITES = [
    "SADD k x",
    "SREM k x",
    "SPOP k",
    "HSET k f 1",
    "HSETNX k f 1",
    "HDEL k f",
    "HINCRBY k f 1",
    "HINCRBYFLOAT k f 1",
    "LPUSH k x",
    "RPUSHX k x",
    "LPOP k",
    "LSET k 0 x",
    "LTRIM k 0 0",
    "LREM k 0 x",
    "LINSERT k BEFORE x y",
    "LMOVE k other LEFT LEFT",
    "LMOVE other k LEFT LEFT",
    "RPOPLPUSH other k",
    "BLPOP other k 0",
    "BRPOP k 0",
    "BLMOVE other k LEFT LEFT 0",
]


@pytest.mark.parametrize("words", WRITES)
def test_every_write_respects_the_lock_of_another_session(words: str) -> None:
    replicas = Replicas(session=b"holder")
    replicas.run("HOLDFAST.LOCK", "k", 100)
    replicas.ship()
    replicas.session = b"other"
    assert replicas.run(*words.split()) == LOCKED
    assert not any(fragment.pending for fragment in replicas.owner)
    refusal = error(LOCKED)
    replicas.session = b"holder"
    assert replicas.ask(*words.split()) != refusal
    replicas.session = b"other"
    assert replicas.ask(*words.split()) == refusal
    replicas.now += 100
    assert replicas.ask(*words.split()) != refusal


def test_reads_go_on_under_a_lock() -> None:
    replicas = Replicas(session=b"holder")
    replicas.run("RPUSH", "k", "a")
    replicas.run("HOLDFAST.LOCK", "k", 100)
    replicas.session = b"other"
    assert replicas.run("LRANGE", "k", 0, -1) == [b"a"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("HOLDFAST.LOCK k 0", locks.INVALID_TIME),
        ("HOLDFAST.LOCK k -5", locks.INVALID_TIME),
        ("HOLDFAST.LOCK k 9223372036854775807", locks.INVALID_TIME),
        ("HOLDFAST.LOCK k x", "ERR value is not an integer or out of range"),
        ("HOLDFAST.LOCK k 10 WAIT", "ERR syntax error"),
        ("HOLDFAST.LOCK k 10 FOR 5", "ERR syntax error"),
        ("HOLDFAST.LOCK k 10 WAIT -1", "ERR value is out of range, must be positive"),
        ("HOLDFAST.LOCK k 10 TOKEN x", "ERR value is not an integer or out of range"),
        ("HOLDFAST.LOCK k 10 TOKEN 1", locks.NOT_HELD),
        ("HOLDFAST.UNLOCK k x", "ERR value is not an integer or out of range"),
    ],
)
def test_refusals(words: str, text: str) -> None:
    replicas = Replicas()
    assert replicas.run(*words.split()) == text
    assert list(replicas.owner.fragments) == [b""], "a fragment for nothing"


def test_key_of_a_lock_has_a_limit() -> None:
    reply = Replicas().run("HOLDFAST.LOCK", bytes(65537), 10)
    assert reply == "ERR the key has more than 64 KiB, the most that a key may"


def test_tokens_go_on_where_they_were_when_a_backup_becomes_the_owner() -> None:
    """1. a lock; 2. it ends, so no record tells its token; 3. the backup reigns and locks."""
    replicas = Replicas()
    token = replicas.run("HOLDFAST.LOCK", "k", 100)
    assert isinstance(token, int)
    replicas.run("HOLDFAST.UNLOCK", "k", token)
    replicas.ship()
    replicas.owner = replicas.backup
    replicas.owner.reign(2)
    later = replicas.run("HOLDFAST.LOCK", "k", 100)
    assert isinstance(later, int)
    assert later > token


def test_lock_whose_time_is_over_stays_while_writes_are_held_back() -> None:
    replicas = Replicas()
    replicas.run("HOLDFAST.LOCK", "k", 10)
    replicas.ship()
    replicas.now = NOW + 10
    replicas.may_write = False
    assert replicas.run("HOLDFAST.LOCKED", "k") is None
    assert not replicas.owner.named(b"default").pending
    replicas.may_write = True
    assert replicas.run("HOLDFAST.LOCKED", "k") is None
    assert len(replicas.owner.named(b"default").pending) == 1


def test_resp3() -> None:
    replicas = Replicas(dialect=RESP3)
    assert replicas.raw("HOLDFAST.LOCKED", "k") == b"_\r\n"
    replicas.raw("HOLDFAST.LOCK", "k", 10)
    assert replicas.raw("HOLDFAST.LOCKED", "k") == b"*2\r\n:10\r\n:1\r\n"


def test_lock_renewed_again_and_again_does_not_fill_the_memory() -> None:
    replicas = Replicas()
    for _ in range(10 * DEADLINES_SPARE):
        replicas.now += 1
        replicas.run("HOLDFAST.LOCK", "k", 1000)
    replicas.check()
    for space in (replicas.owner, replicas.backup):
        assert len(space.named(b"default").unlocking) <= DEADLINES_SPARE + 2
    replicas.now += 1000
    locks.purge(replicas.owner, replicas.call(), 10 * DEADLINES_SPARE)
    assert replicas.owner.named(b"default").locks == {}


def test_lock_of_a_list_is_in_the_fragment_of_its_name() -> None:
    """The internal fragment holds lists; whether a key is one is not known when it is locked."""
    replicas = Replicas()
    replicas.run("RPUSH", "queue:1", "a")
    replicas.run("HOLDFAST.LOCK", "queue:1", 10)
    assert list(replicas.owner.named(b"queue").locks) == [b"queue:1"]
    assert replicas.owner.internal.locks == {}
