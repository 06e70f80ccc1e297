"""Any commands at the owner, with time, idleness, limits, locks and eviction: backups are equal."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores import locks
from holdfast.core.stores.eviction import evict_bytes
from holdfast.core.stores.expiry import purge
from holdfast.core.stores.settings import Eviction, NameSettings
from tests.core.stores.partition import Partition
from tests.core.stores.redis_calls import call

SETTINGS: Final = (
    NameSettings(),
    NameSettings(ttl_ms=5_000),
    NameSettings(idle_ms=3_000),
    NameSettings(entries_max=2),
    NameSettings(entries_max=2, eviction=Eviction.LRU, ttl_ms=4_000),
    NameSettings(entries_max=1, eviction=Eviction.RANDOM, idle_ms=5_000),
    NameSettings(eviction=Eviction.LRU),
)


def step(partition: Partition, random: Random) -> None:
    """A call, or what an owner does by itself."""
    partition.now += random.choice((0, 1, 10, 500))
    partition.session = random.choice((b"one", b"two"))
    chance = random.random()
    if chance < 0.9:
        partition.answer(call(random))
    elif chance < 0.94:
        key = random.choice((b"a", b"users:1", b"users:2"))
        partition.answer([b"HOLDFAST.LOCK", key, b"%d" % random.choice((1, 200, 2_000))])
    elif chance < 0.96:
        partition.answer([b"EXPIRE", random.choice((b"a", b"users:1", b"b")), b"1"])
    elif chance < 0.98:
        locks.purge(partition.owner, partition.call(), 3)
        purge(partition.owner, partition.call(), 3)
    else:
        evict_bytes(partition.owner, partition.call(), random.choice((1, 500)), 16)


@given(st.integers(0, 2**32))
def test_what_backups_are_told_is_what_the_owner_has(seed: int) -> None:
    random = Random(seed)
    chosen = {name: random.choice(SETTINGS) for name in (b"default", b"users", b"x", b"")}
    partition = Partition(settings_of=lambda name: chosen[name], random=Random(seed))
    for number in range(300):
        step(partition, random)
        for fragment in partition.owner:
            limit = fragment.settings.entries_max
            assert not limit or len(fragment) <= limit
            assert fragment.touched.keys() <= fragment.records.keys()
        if number % 50 == 0:
            partition.check()
    partition.check()


@pytest.mark.parametrize("seed", range(3))
def test_a_partition_that_may_not_write_changes_nothing(seed: int) -> None:
    """Whoever reads then sees neither what has expired nor makes it go."""
    random = Random(seed)
    partition = Partition(settings_of=lambda _: NameSettings(ttl_ms=5_000, idle_ms=3_000))
    for _ in range(300):
        step(partition, random)
    partition.check()
    partition.may_write = False
    partition.now += 2_000
    for _ in range(300):
        args = call(random)
        if args[0].upper() in READING:
            partition.answer(args)
    assert not any(fragment.pending for fragment in partition.owner)


READING: Final = (
    *(b"GET", b"MGET", b"STRLEN", b"GETRANGE", b"EXISTS", b"TOUCH", b"TYPE", b"TTL", b"PTTL"),
    *(b"SCAN", b"KEYS", b"RANDOMKEY", b"SMEMBERS", b"SISMEMBER", b"SCARD", b"SSCAN", b"HGET"),
    *(b"HGETALL", b"HLEN", b"HSCAN", b"LRANGE", b"LLEN", b"LINDEX", b"LPOS", b"DBSIZE"),
)
