"""Keys and whole partitions: what `test_against_redis` leaves open."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.stores.keyspace import parse_scan, random_key, scan
from holdfast.core.stores.settings import NameSettings
from tests.core.stores.partition import Partition
from tests.core.stores.replicas import NOW

IDLE = NameSettings(idle_ms=100)


def test_an_expiry_is_replicated_for_every_kind() -> None:
    partition = Partition()
    partition.run("SET", "a", "1")
    partition.run("SADD", "b", "1")
    partition.run("RPUSH", "c", "1")
    for key in "abc":
        assert partition.run("PEXPIRE", key, "100") == 1
        assert partition.run("PEXPIRETIME", key) == NOW + 100
        assert partition.run("PEXPIRE", key, "50", "GT") == 0
        assert partition.run("PEXPIRE", key, "200", "XX", "GT") == 1
        partition.check()
    for key in "abc":
        assert partition.run("PERSIST", key) == 1
        assert partition.run("PERSIST", key) == 0
        assert partition.run("TTL", key) == -1
        assert partition.run("PEXPIRE", key, "50", "GT") == 0
        assert partition.run("PEXPIREAT", key, NOW, "LT") == 1
        assert partition.run("TYPE", key) == "none"
        partition.check()


def test_seconds_are_rounded_to_the_nearest() -> None:
    partition = Partition()
    partition.run("SET", "k", "1", "PX", "1499")
    assert partition.run("TTL", "k") == 1
    partition.run("SET", "k", "1", "PX", "1500")
    assert partition.run("TTL", "k") == 2


def test_looking_at_a_key_is_not_using_it() -> None:
    partition = Partition(settings_of=lambda _: IDLE)
    partition.run("MSET", "a", "1", "b", "1")
    partition.now += 60
    for words in (("EXISTS", "a"), ("TTL", "a"), ("TYPE", "a"), ("KEYS", "*"), ("SCAN", "0")):
        partition.run(*words)
    assert partition.run("TOUCH", "b", "b", "c") == 2
    partition.now += 60
    assert partition.run("EXISTS", "a", "b") == 1
    partition.check()


def test_a_random_key_is_one_that_has_not_expired() -> None:
    partition = Partition()
    assert partition.run("RANDOMKEY") is None
    for number in range(9):
        partition.run("SET", f"n{number % 3}:{number}", "1", "PX", "10")
    partition.run("SADD", "set", "1")
    partition.run("RPUSH", "list", "1")
    drawn = {random_key(partition.owner, partition.call()) for _ in range(400)}
    assert len(drawn) == 11
    partition.now += 10
    assert {partition.run("RANDOMKEY") for _ in range(50)} == {b"set", b"list"}
    partition.run("DEL", "set", "list")
    assert partition.run("RANDOMKEY") is None


def test_flushdb_tells_only_of_what_was_there() -> None:
    partition = Partition()
    partition.run("MSET", "a:1", "1", "b:1", "1")
    partition.run("DEL", "b:1")
    partition.run("RPUSH", "list", "1")
    partition.ship()
    assert partition.run("FLUSHDB", "async") == "OK"
    pending = {fragment.name: len(fragment.pending) for fragment in partition.owner}
    assert pending == {b"": 1, b"a": 1, b"b": 0}
    partition.check()
    assert partition.run("DBSIZE") == 0


def test_a_small_partition_is_scanned_in_one_go() -> None:
    partition = Partition()
    for number in range(50):
        partition.run("SET", f"n{number % 7}:{number}", "1")
    reply = partition.run("SCAN", "0", "COUNT", "1")
    assert isinstance(reply, list)
    assert reply[0] == b"0"
    assert isinstance(reply[1], list)
    assert len(reply[1]) == 50


@pytest.mark.parametrize(("kind", "found"), [("string", 1), ("SET", 1), ("list", 1), ("zset", 0)])
def test_a_scan_of_a_type_skips_the_others(kind: str, found: int) -> None:
    partition = Partition()
    partition.run("SET", "a", "1")
    partition.run("SADD", "b", "1")
    partition.run("RPUSH", "c", "1")
    reply = partition.run("SCAN", "0", "TYPE", kind)
    assert isinstance(reply, list)
    assert isinstance(reply[1], list)
    assert len(reply[1]) == found


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([1, 10, 100]))
def test_a_key_that_stays_is_scanned_whatever_comes_and_goes(seed: int, count: int) -> None:
    random = Random(seed)
    partition = Partition()
    lasting = [b"keep:%d" % random.randrange(10**9) for _ in range(random.choice((5, 200, 700)))]
    for key in lasting:
        partition.run("SET", key, "1")
    others = [b"n%d:%d" % (random.randrange(9), number) for number in range(400)]
    seen: list[bytes] = []
    position, calls = 0, 0
    while position or not calls:
        for key in random.sample(others, 40):
            if not partition.run("DEL", key):
                partition.run("SET", key, "1")
        for key in random.sample(lasting, 3):
            partition.run("SET", key, "2")
        asked = parse_scan([b"SCAN", b"0", b"COUNT", b"%d" % count])
        keys, position = scan(partition.owner, partition.call(), position, asked)
        seen += keys
        calls += 1
        assert calls < 100
    assert set(lasting) <= set(seen)
    assert set(seen) <= set(lasting) | set(others)


def test_what_has_expired_is_not_scanned() -> None:
    partition = Partition()
    partition.run("SET", "a", "1", "PX", "10")
    partition.run("SET", "b", "1")
    partition.now += 10
    assert partition.run("SCAN", "0") == [b"0", [b"b"]]
    assert partition.run("KEYS", "*") == [b"b"]
