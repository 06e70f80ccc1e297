"""What goes when a name is full."""

from __future__ import annotations

from random import Random

import pytest

from holdfast.core.stores.eviction import OUT_OF_MEMORY, SAMPLE, evict_bytes
from holdfast.core.stores.settings import Eviction, NameSettings
from tests.core.stores.partition import Partition


def limited(eviction: Eviction, entries_max: int = 10) -> Partition:
    """A partition whose names have so many keys at most."""
    return Partition(lambda _: NameSettings(entries_max=entries_max, eviction=eviction))


def fill(partition: Partition, name: str, count: int) -> None:
    """Strings one millisecond apart."""
    for number in range(count):
        partition.now += 1
        assert partition.run("SET", f"{name}:{number}", "x" * 100) == "OK"


GROWING = (
    ("SET", "n:new", "1"),
    ("SETNX", "n:new", "1"),
    ("MSET", "n:0", "1", "n:new", "1"),
    ("APPEND", "n:new", "1"),
    ("INCR", "n:new"),
    ("SETRANGE", "n:new", "1", "x"),
    ("SADD", "n:new", "1"),
    ("HSET", "n:new", "f", "1"),
)


@pytest.mark.parametrize("words", GROWING)
def test_a_full_name_that_evicts_nothing_refuses_new_keys(words: tuple[str, ...]) -> None:
    partition = limited(Eviction.NONE)
    fill(partition, "n", 10)
    partition.ship()
    assert partition.run(*words) == OUT_OF_MEMORY
    assert not partition.owner.named(b"n").pending
    assert partition.run("SET", "n:0", "2") == "OK"
    assert partition.run("APPEND", "n:0", "2") == 2
    assert partition.run("SET", "other:0", "2") == "OK"
    partition.run("DEL", "n:3")
    assert partition.run(*words) != OUT_OF_MEMORY
    partition.check()


def test_lists_are_not_counted() -> None:
    """They are not fragmented: those of all names are together."""
    partition = limited(Eviction.NONE, 1)
    assert [partition.run("RPUSH", f"n:{number}", "1") for number in range(3)] == [1, 1, 1]
    assert partition.run("SET", "n:3", "1") == "OK"
    assert partition.run("SET", "n:4", "1") == OUT_OF_MEMORY


def test_what_has_expired_makes_room_first() -> None:
    partition = limited(Eviction.NONE)
    fill(partition, "n", 8)
    partition.run("SET", "n:a", "1", "PX", "10")
    partition.run("SET", "n:b", "1", "PX", "10")
    assert partition.run("MSET", "n:c", "1", "n:d", "1") == OUT_OF_MEMORY
    partition.now += 10
    assert partition.run("MSET", "n:c", "1", "n:d", "1") == "OK"
    assert partition.run("DBSIZE") == 10
    partition.check()


def test_a_key_that_expires_while_room_is_made_is_a_new_one() -> None:
    partition = limited(Eviction.LRU, 2)
    partition.run("SET", "n:a", "1", "PX", "10")
    fill(partition, "n", 1)
    partition.now += 10
    assert partition.run("MSET", "n:a", "1", "n:b", "1") == "OK"
    assert partition.run("MGET", "n:a", "n:b", "n:0") == [b"1", b"1", None]
    partition.check()


@pytest.mark.parametrize("eviction", [Eviction.LRU, Eviction.RANDOM])
@pytest.mark.parametrize("words", GROWING)
def test_a_full_name_that_evicts_takes_new_keys(eviction: Eviction, words: tuple[str, ...]) -> None:
    partition = limited(eviction)
    fill(partition, "n", 10)
    assert partition.run(*words) != OUT_OF_MEMORY
    assert partition.run("EXISTS", "n:new") == 1
    assert partition.run("DBSIZE") == 10
    partition.check()


def test_the_least_recently_used_of_a_few_goes() -> None:
    """Of a hundred keys ninety are used again; nearly only the others go."""
    partition = limited(Eviction.LRU, 100)
    fill(partition, "n", 100)
    for number in range(10, 100):
        partition.now += 1
        partition.run("GET", f"n:{number}")
    fill(partition, "n:new", 30)
    left = partition.run("EXISTS", *(f"n:{number}" for number in range(10)))
    assert isinstance(left, int)
    assert left <= 1
    partition.check()


def test_as_many_keys_as_are_looked_at_give_the_exact_answer() -> None:
    partition = limited(Eviction.LRU, SAMPLE)
    fill(partition, "n", SAMPLE)
    partition.now += 1
    partition.run("GET", "n:0")
    partition.run("SET", "n:new", "1")
    assert partition.run("EXISTS", "n:0", "n:1", "n:2") == 2
    assert partition.run("GET", "n:1") is None


def test_random_eviction_does_not_look_at_use() -> None:
    gone = set()
    for seed in range(30):
        partition = limited(Eviction.RANDOM)
        partition.random = Random(seed)
        fill(partition, "n", 10)
        partition.run("SET", "n:new", "1")
        gone |= {number for number in range(10) if not partition.run("EXISTS", f"n:{number}")}
    assert len(gone) > 5


def test_locked_keys_and_those_of_the_command_stay() -> None:
    partition = limited(Eviction.RANDOM, 4)
    fill(partition, "n", 4)
    partition.run("HOLDFAST.LOCK", "n:0", "1000")
    assert partition.run("MSET", "n:1", "a", "n:new", "b", "n:2", "c") == "OK"
    assert partition.run("MGET", "n:0", "n:1", "n:2", "n:3", "n:new") == [
        b"x" * 100,
        b"a",
        b"c",
        None,
        b"b",
    ]
    for key in ("n:1", "n:2", "n:new"):
        partition.run("HOLDFAST.LOCK", key, "1000")
    assert partition.run("SET", "n:more", "1") == OUT_OF_MEMORY
    partition.now += 1000
    assert partition.run("SET", "n:more", "1") == "OK"
    partition.check()


def test_more_than_fits_is_refused() -> None:
    partition = limited(Eviction.LRU, 2)
    assert partition.run("MSET", "n:1", "1", "n:2", "1", "n:3", "1") == OUT_OF_MEMORY
    assert partition.run("MSET", "n:1", "1", "n:2", "1", "n:1", "2", "o:1", "1") == "OK"
    assert partition.run("GET", "n:1") == b"2"


def test_bytes_are_freed_where_names_allow_it() -> None:
    kinds = {b"lru": Eviction.LRU, b"any": Eviction.RANDOM}
    partition = Partition(lambda name: NameSettings(eviction=kinds.get(name, Eviction.NONE)))
    for name in ("lru", "any", "kept"):
        fill(partition, name, 50)
    used = sum(fragment.used for fragment in partition.owner)
    freed = evict_bytes(partition.owner, partition.call(), 3000, 1_000)
    assert 3000 <= freed < 3500
    assert used - sum(fragment.used for fragment in partition.owner) == freed
    assert len(partition.owner.named(b"kept")) == 50
    assert len(partition.owner.named(b"lru")) < 50
    assert len(partition.owner.named(b"any")) < 50
    partition.check()
    partition.run("HOLDFAST.LOCK", "lru:49", "1000")
    rest = evict_bytes(partition.owner, partition.call(), 10**9, 1_000)
    assert rest > 0
    assert partition.run("EXISTS", "lru:49") == 1
    assert partition.run("DBSIZE") == 51
    assert evict_bytes(partition.owner, partition.call(), 1, 1_000) == 0
    partition.check()
