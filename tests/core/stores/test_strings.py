"""Strings: what Redis can't be asked, as it has no names, limits, locks or backups like ours."""

from __future__ import annotations

import pytest

from holdfast.core.stores.command import LOCKED, TOO_LARGE
from holdfast.core.stores.eviction import KEY_BYTES_MAX, KEY_TOO_LARGE
from holdfast.core.stores.plain import HEADS_MAX, VALUE_BYTES_MAX
from holdfast.core.stores.settings import NameSettings
from tests.core.stores.partition import Partition
from tests.core.stores.replicas import NOW, Reply

LIFE = {b"cache": NameSettings(ttl_ms=1000)}


def named(name: bytes) -> NameSettings:
    """Values of `cache` live for a second."""
    return LIFE.get(name, NameSettings())


@pytest.mark.parametrize("size", [0, 1, HEADS_MAX - 20, HEADS_MAX - 11, HEADS_MAX, 100_000])
def test_a_plain_string_comes_back(size: int) -> None:
    partition = Partition()
    value = b"x" * size
    assert partition.run("SET", "k", value) == "OK"
    assert partition.run("GET", "k") == value
    assert partition.run("GET", "users:k") is None
    partition.check()


@pytest.mark.parametrize(
    "words",
    [
        ("SET", "cache:k", "1"),
        ("SET", "cache:k", "1", "KEEPTTL"),
        ("SETNX", "cache:k", "1"),
        ("GETSET", "cache:k", "1"),
        ("MSET", "cache:k", "1"),
        ("APPEND", "cache:k", "1"),
        ("SETRANGE", "cache:k", "0", "1"),
        ("INCR", "cache:k"),
        ("INCRBYFLOAT", "cache:k", "1"),
    ],
)
def test_a_new_value_lives_as_long_as_its_name_says(words: tuple[str, ...]) -> None:
    partition = Partition(named)
    partition.run(*words)
    assert partition.run("PTTL", "cache:k") == 1000
    partition.now += 999
    assert partition.run("GET", "cache:k") == b"1"
    partition.now += 1
    assert partition.run("GET", "cache:k") is None
    partition.check()
    assert partition.backup.find(b"cache:k") is None


def test_a_command_that_names_a_life_is_obeyed() -> None:
    partition = Partition(named)
    partition.run("SET", "cache:k", "1", "PX", "5")
    assert partition.run("PTTL", "cache:k") == 5
    partition.run("SET", "cache:k", "1", "PXAT", str(NOW + 7))
    assert partition.run("PTTL", "cache:k") == 7
    partition.run("PERSIST", "cache:k")
    assert partition.run("SET", "cache:k", "2", "KEEPTTL") == "OK"
    assert partition.run("PTTL", "cache:k") == -1
    assert partition.run("INCR", "cache:k") == 3
    assert partition.run("PTTL", "cache:k") == -1
    assert partition.run("SET", "cache:k", "2") == "OK"
    assert partition.run("PTTL", "cache:k") == 1000
    assert partition.run("GETEX", "cache:k", "PERSIST") == b"2"
    assert partition.run("PTTL", "cache:k") == -1
    partition.check()


def test_a_moment_that_is_past_removes_the_key() -> None:
    partition = Partition()
    for words in (("SET", "k", "2", "PXAT", str(NOW)), ("GETEX", "k", "PXAT", str(NOW))):
        partition.run("SET", "k", "1")
        assert partition.run(*words) in ("OK", b"1")
        assert partition.owner.find(b"k") is None
        partition.check()
    assert partition.run("SET", "k", "2", "PXAT", "1") == "OK"
    assert partition.run("SET", "k", "2", "PXAT", "1", "GET") is None
    assert partition.owner.find(b"k") is None


def test_a_getex_that_changes_nothing_tells_nobody() -> None:
    partition = Partition()
    partition.run("SET", "k", "1", "PX", "10")
    partition.ship()
    assert partition.run("GETEX", "k") == b"1"
    assert partition.run("GETEX", "k", "PX", "10") == b"1"
    assert not partition.owner.named(b"default").pending


def test_a_string_takes_the_place_of_anything() -> None:
    partition = Partition(named)
    for words in (("RPUSH", "k", "a"), ("SADD", "k", "a"), ("HSET", "k", "f", "v")):
        assert partition.run(*words) == 1
        assert partition.run("SET", "k", "1") == "OK"
        assert partition.run("GET", "k") == b"1"
        partition.check()
        partition.run("DEL", "k")
    partition.run("RPUSH", "cache:k", "a")
    partition.run("PEXPIRE", "cache:k", "50")
    assert partition.run("SET", "cache:k", "1", "KEEPTTL") == "OK"
    assert partition.run("PTTL", "cache:k") == 50
    assert len(partition.owner.internal) == 0
    partition.check()


def wait_for_lock(partition: Partition, *words: str) -> Reply:
    """What another session is told."""
    partition.session = b"two"
    reply = partition.run(*words)
    partition.session = b"one"
    return reply


@pytest.mark.parametrize(
    "words",
    [
        ("SET", "k", "1"),
        ("SET", "k", "1", "NX"),
        ("SETEX", "k", "10", "1"),
        ("PSETEX", "k", "10", "1"),
        ("GETSET", "k", "1"),
        ("GETDEL", "k"),
        ("GETEX", "k", "PERSIST"),
        ("MSET", "a", "1", "k", "1"),
        ("APPEND", "k", "1"),
        ("SETRANGE", "k", "0", "1"),
        ("INCR", "k"),
        ("INCRBYFLOAT", "k", "1"),
        ("DEL", "a", "k"),
        ("EXPIRE", "k", "10"),
        ("PERSIST", "k"),
        ("FLUSHDB",),
    ],
)
def test_another_session_does_not_write_what_is_locked(words: tuple[str, ...]) -> None:
    partition = Partition()
    partition.run("MSET", "k", "5", "a", "5")
    partition.run("HOLDFAST.LOCK", "k", "1000")
    partition.ship()
    assert wait_for_lock(partition, *words) == f"{LOCKED}"
    assert not partition.owner.named(b"default").pending
    assert wait_for_lock(partition, "GET", "k") == b"5"
    assert wait_for_lock(partition, "GETEX", "k") == b"5"
    assert not str(partition.run(*words)).startswith("LOCKED")
    partition.check()


def test_locks_of_keys_that_are_not_there_do_not_keep_the_others() -> None:
    partition = Partition()
    partition.run("SET", "k", "5")
    partition.run("HOLDFAST.LOCK", "absent", "1000")
    assert wait_for_lock(partition, "FLUSHDB") == "OK"
    assert partition.run("DBSIZE") == 0
    assert partition.run("HOLDFAST.LOCKED", "absent") is not None
    partition.check()


def test_too_large_values_are_refused_and_nothing_changes() -> None:
    partition = Partition()
    large = b"x" * (VALUE_BYTES_MAX + 1)
    assert partition.run("SET", "k", large[:-1]) == "OK"
    partition.ship()
    for words in (
        ("SET", "a", large),
        ("SETEX", "a", "10", large),
        ("GETSET", "a", large),
        ("MSET", "b", "1", "a", large),
        ("APPEND", "k", "x"),
        ("SETRANGE", "k", VALUE_BYTES_MAX, "x"),
        ("SETRANGE", "a", (1 << 63) - 1, "x"),
    ):
        assert partition.run(*words) == TOO_LARGE
    assert not partition.owner.named(b"default").pending
    assert partition.run("SETRANGE", "k", VALUE_BYTES_MAX - 1, "y") == VALUE_BYTES_MAX


def test_too_long_keys_are_refused_and_nothing_changes() -> None:
    partition = Partition()
    key = b"k" * (KEY_BYTES_MAX + 1)
    assert partition.run("SET", key[:-1], "1") == "OK"
    for words in (
        ("SET", key, "1"),
        ("MSET", "a", "1", key, "1"),
        ("INCR", key),
        ("APPEND", key, "1"),
        ("SADD", key, "1"),
        ("LPUSH", key, "1"),
        ("HSET", key, "f", "1"),
        ("HOLDFAST.LOCK", key, "1"),
    ):
        assert partition.run(*words) == KEY_TOO_LARGE
    assert partition.run("GET", key) is None
    assert partition.run("DBSIZE") == 1
    partition.check()


def test_a_value_that_has_expired_is_no_value() -> None:
    partition = Partition()
    partition.run("SET", "k", "5", "PX", "10")
    partition.now += 10
    partition.may_write = False
    assert partition.run("GET", "k") is None
    assert partition.run("MGET", "k") == [None]
    assert not partition.owner.named(b"default").take()[1:]
    partition.may_write = True
    assert partition.run("INCR", "k") == 1
    assert partition.run("PTTL", "k") == -1


def test_a_crowded_partition_finds_its_strings() -> None:
    partition = Partition()
    for number in range(300):
        assert partition.run("SET", f"n{number}:k", number) == "OK"
        assert partition.run("SET", f"n{number}:k", number) == "OK"
    assert partition.owner.crowded
    assert [partition.run("GET", f"n{number}:k") for number in range(300)] == [
        b"%d" % number for number in range(300)
    ]
    partition.check()
