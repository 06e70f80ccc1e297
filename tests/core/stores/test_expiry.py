"""The owner's rounds."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.expiry import draw, next_expiry, purge
from holdfast.core.stores.fragment import DEADLINES_SPARE
from holdfast.core.stores.record import NEVER
from holdfast.core.stores.settings import NameSettings
from tests.core.stores.partition import Partition
from tests.core.stores.replicas import NOW

IDLE = {b"idle": NameSettings(idle_ms=100), b"also": NameSettings(idle_ms=100)}


def with_idle(name: bytes) -> NameSettings:
    """Two names have an idle time."""
    return IDLE.get(name, NameSettings())


def round_of(partition: Partition, budget: int = 1000) -> int:
    """One round, its mutations at the backup."""
    removed = purge(partition.owner, partition.call(), budget)
    partition.check()
    return removed


def test_a_round_removes_what_is_due_and_tells_the_backup() -> None:
    partition = Partition()
    partition.run("SET", "a:1", "1", "PX", "10")
    partition.run("SADD", "b:1", "1")
    partition.run("PEXPIRE", "b:1", "20")
    partition.run("RPUSH", "c:1", "1")
    partition.run("PEXPIRE", "c:1", "20")
    partition.run("SET", "d", "1")
    assert next_expiry(partition.owner) == NOW + 10
    assert round_of(partition) == 0
    partition.now += 10
    assert round_of(partition) == 1
    assert next_expiry(partition.owner) == NOW + 20
    partition.now += 10
    assert round_of(partition) == 2
    assert partition.backup.find(b"c:1") is None
    assert next_expiry(partition.owner) == NEVER
    assert partition.run("KEYS", "*") == [b"d"]


def test_a_round_is_bounded() -> None:
    partition = Partition()
    for number in range(10):
        partition.run("SET", f"n{number % 2}:{number}", "1", "PX", "10")
    partition.now += 10
    assert [round_of(partition, 4) for _ in range(4)] == [4, 4, 2, 0]


def test_entries_of_values_that_were_written_anew_do_not_count() -> None:
    partition = Partition()
    partition.run("SET", "later", "1", "PX", "10")
    partition.run("PEXPIRE", "later", "30")
    partition.run("SET", "never", "1", "PX", "10")
    partition.run("PERSIST", "never")
    partition.run("SET", "gone", "1", "PX", "10")
    partition.run("DEL", "gone")
    partition.run("SET", "again", "1", "PX", "10")
    partition.run("SADD", "other", "1")
    partition.run("DEL", "again")
    partition.run("SADD", "again", "1")
    partition.now += 10
    assert round_of(partition) == 0
    assert partition.run("EXISTS", "later", "never", "again", "other") == 4
    partition.now += 20
    assert round_of(partition) == 1


def test_the_next_moment_may_be_the_end_of_a_lock() -> None:
    partition = Partition()
    partition.run("SET", "a", "1", "PX", "10")
    partition.run("HOLDFAST.LOCK", "b", "5")
    assert next_expiry(partition.owner) == NOW + 5


def test_a_value_that_is_refreshed_for_ever_takes_no_more_memory() -> None:
    partition = Partition()
    for number in range(3_000):
        partition.now += 1
        partition.run("SET", f"k{number % 3}", "1", "PX", "1000000")
        partition.run("PEXPIRE", "k0", "2000000")
    partition.check()
    for space in (partition.owner, partition.backup):
        assert len(space.named(b"default").expiring) <= 2 * 3 + DEADLINES_SPARE
    partition.now += 2_000_000
    assert round_of(partition) == 3


def test_values_that_are_removed_leave_no_memory_behind() -> None:
    partition = Partition()
    for number in range(500):
        partition.run("SET", f"k{number}", "1", "PX", "1000000")
        partition.run("SADD", f"s{number}", "1")
        partition.run("PEXPIRE", f"s{number}", "1000000")
    for number in range(500):
        partition.run("DEL", f"k{number}")
        partition.run("SREM", f"s{number}", "1")
        assert len(partition.owner.named(b"default").expiring) <= 2_000 - 4 * number + 64
    partition.check()
    assert len(partition.backup.named(b"default").expiring) <= DEADLINES_SPARE


def test_a_backup_that_becomes_the_owner_lets_values_expire() -> None:
    """Whether they came as mutations, one by one, or as whole records in blocks."""
    partition = Partition()
    partition.run("SET", "a", "1", "PX", "10")
    partition.run("SADD", "b", "1", "2")
    partition.run("PEXPIRE", "b", "10")
    partition.run("RPUSH", "c", "1")
    partition.run("PEXPIRE", "c", "10")
    partition.check()
    moved = Partition()
    for fragment in partition.owner:
        for block in fragment.entries(1):
            for key, record in block:
                moved.owner.named(fragment.name).apply(key, record)
    for space in (partition.backup, moved.owner):
        space.reign(2)
        call = partition.call()
        call.now += 9
        assert purge(space, call, 100) == 0
        call.now += 1
        assert purge(space, call, 100) == 3


def test_idle_keys_go_and_used_ones_stay() -> None:
    partition = Partition(with_idle)
    for number in range(40):
        partition.run("SET", f"idle:{number}", "1")
        partition.run("SADD", f"also:{number}", "1")
        partition.run("SET", f"other:{number}", "1")
    partition.now += 99
    assert round_of(partition) == 0
    assert partition.run("GET", "idle:7") == b"1"
    assert partition.run("SADD", "also:7", "2") == 1
    partition.now += 1
    removed = [round_of(partition, 20) for _ in range(8)]
    assert max(removed) <= 20
    assert sum(removed) == 78
    assert partition.run("DBSIZE") == 42
    partition.now += 100
    assert partition.run("GET", "idle:7") is None


def test_each_name_gets_its_share_of_a_small_round() -> None:
    partition = Partition(with_idle)
    partition.run("MSET", "idle:1", "1", "also:1", "1")
    partition.now += 100
    assert round_of(partition, 1) == 2


def test_a_new_owner_counts_idle_time_from_its_first_look() -> None:
    partition = Partition(with_idle)
    partition.run("SET", "idle:1", "1")
    partition.check()
    partition.owner, partition.backup = partition.backup, partition.owner
    partition.owner.reign(2)
    partition.now += 1_000
    assert purge(partition.owner, partition.call(), 10) == 0
    partition.now += 99
    assert purge(partition.owner, partition.call(), 10) == 0
    partition.now += 1
    assert purge(partition.owner, partition.call(), 10) == 1


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_each_key_is_drawn_once_before_any_is_drawn_twice(seed: int, count: int) -> None:
    partition = Partition()
    for number in range(count):
        partition.run("SET", number, "1")
    fragment, random = partition.owner.named(b"default"), Random(seed)
    for turn in range(1, 4):
        drawn = Counter(draw(fragment, random) for _ in range(count))
        assert len(drawn) == count, f"turn {turn}"


def test_only_keys_that_are_there_are_drawn() -> None:
    partition = Partition()
    fragment, random = partition.owner.named(b"default"), Random(1)
    assert draw(fragment, random) is None
    partition.run("MSET", "a", "1", "b", "1", "c", "1")
    assert draw(fragment, random) is not None
    partition.run("DEL", "a", "b", "c")
    assert draw(fragment, random) is None
    partition.run("SET", "d", "1")
    assert draw(fragment, random) == b"d"
