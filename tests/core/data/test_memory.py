"""What is too much is not taken; names that may lose keys make room; all else goes on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast.core.config import Config
from holdfast.core.data.memory import (
    MEASURE,
    ROUND_BYTES,
    ROUND_MS,
    ROUNDS_APART_MAX,
    SLICE_KEYS,
)
from holdfast.core.data.plane import DISK_FULL
from holdfast.core.effects import NoticeKind
from holdfast.core.events import Room
from holdfast.core.messages import CommitRequest
from holdfast.core.stores.eviction import OUT_OF_MEMORY
from holdfast.core.stores.settings import Eviction, NameSettings
from holdfast.errors import ConfigurationError
from tests.core.data.grid import Grid, grid, moved
from tests.core.harness import A, B, C, losing

OK = b"+OK\r\n"
REFUSED = b"-" + OUT_OF_MEMORY.encode() + b"\r\n"
LIMIT = 10_000
LRU = NameSettings(backups=2, eviction=Eviction.LRU)


def limited(**settings: object) -> Grid:
    return grid(A, None, C, memory_max_bytes=LIMIT, **settings)


def measured(cluster: Grid) -> None:
    """Whatever was written, it is known now how much it is."""
    cluster.run(2 * ROUND_MS)


def fill(cluster: Grid, *, name: str = "default", count: int = 60) -> None:
    """More than the limit, a few at a time."""
    for number in range(count):
        cluster.command(A, f"SET {name}:{number} {'x' * 100}", session=number + 1)
        cluster.run(1)


def used(cluster: Grid) -> int:
    return cluster.nodes[A].data.memory.measure()


def test_commands_that_need_more_are_refused_and_all_others_go_on() -> None:
    cluster = limited()
    assert cluster.reply(A, "SET default:0 v", "RPUSH l 1 2") == OK + b":2\r\n"
    fill(cluster)
    measured(cluster)
    assert cluster.nodes[A].context.memory_full
    assert cluster.reply(A, "SET more v", "APPEND default:1 v", "LPUSH l 0") == REFUSED * 3
    assert cluster.reply(
        A, "STRLEN default:1", "LPOP l", "EXPIRE default:1 9", "DEL default:2"
    ) == (b":100\r\n$1\r\n1\r\n:1\r\n:1\r\n")


def test_transaction_that_needs_more_is_refused_as_a_whole() -> None:
    cluster = limited()
    fill(cluster)
    measured(cluster)
    assert cluster.reply(A, "MULTI", "DEL default:1").endswith(b"+QUEUED\r\n")
    assert cluster.reply(A, "SET more v") == REFUSED
    assert cluster.reply(A, "EXEC").startswith(b"-EXECABORT")
    assert cluster.value(A, "default:1") is not None


def test_room_that_others_delete_is_used_again() -> None:
    cluster = limited()
    fill(cluster)
    measured(cluster)
    assert cluster.reply(A, "SET more v") == REFUSED
    cluster.reply(A, *(f"DEL default:{number}" for number in range(40)))
    measured(cluster)
    assert cluster.reply(A, "SET more v") == OK
    told = [notice.kind for _, notice in cluster.notices]
    assert told.count(NoticeKind.MEMORY_FULL) == 2, "the owner and its backup, once each"
    assert told.count(NoticeKind.MEMORY_FREE) == 2


def test_gate_that_was_open_is_shut_when_there_is_no_more_room() -> None:
    """1. A partition is served without a look. 2. The disk is full, then the memory."""
    cluster = limited()
    assert cluster.reply(A, "SET k v", "SET k v") == OK + OK
    assert cluster.nodes[A].data.plane.opened
    cluster.step(A, Room(full=True))
    assert cluster.reply(A, "SET k v") == b"-" + DISK_FULL.encode() + b"\r\n"
    cluster.step(A, Room(full=False))
    assert cluster.reply(A, "SET k v", f"SET large {'x' * LIMIT}") == OK + OK
    assert cluster.nodes[A].data.plane.opened
    measured(cluster)
    assert not cluster.nodes[A].data.plane.opened
    assert cluster.reply(A, "SET k v") == REFUSED


def test_names_that_may_lose_keys_make_room_before_anything_is_refused() -> None:
    cluster = limited(names={b"cache": LRU})
    assert cluster.reply(A, "SET kept v") == OK
    fill(cluster, name="cache", count=200)
    measured(cluster)
    assert used(cluster) <= LIMIT
    assert not cluster.nodes[A].context.memory_full
    assert cluster.reply(A, "SET more v", "GET kept") == OK + b"$1\r\nv\r\n"
    assert cluster.content(A) == cluster.content(C), "the backup was told"


def test_what_is_evicted_is_what_nobody_used() -> None:
    cluster = limited(names={b"cache": LRU})
    assert cluster.reply(A, "SET cache:used v") == OK
    for number in range(60):
        cluster.command(A, f"SET cache:{number} {'x' * 100}", "GET cache:used", session=number + 1)
        cluster.run(1)
    measured(cluster)
    assert cluster.value(A, "cache:used") == b"v"


def test_only_the_owner_evicts() -> None:
    cluster = limited(names={b"cache": LRU})
    cluster.crash(A)
    fragment = cluster.holding(C).space.named(b"cache")
    for number in range(60):
        fragment.put(b"cache:%d" % number, b"x" * 100)
    measured(cluster)
    assert len(fragment) == 60


def test_nothing_is_evicted_while_writes_are_held_back() -> None:
    cluster = limited(names={b"cache": LRU}, migration_timeout_ms=60_000)
    cluster.drops = [losing(CommitRequest)]
    fill(cluster, name="cache", count=20)
    cluster.migrate(moved(A, 0, B))
    cluster.run(50)
    fragment = cluster.holding(A).space.named(b"cache")
    fragment.used += LIMIT
    measured(cluster)
    assert len(fragment) == 20


def test_eviction_is_sliced_and_its_slices_follow_soon() -> None:
    cluster = grid(A, None, None, memory_max_bytes=300_000, names={b"cache": LRU})
    fragment = cluster.holding(A).space.named(b"cache")
    for number in range(2_000):
        fragment.put(b"cache:%d" % number, b"x" * 100)
    left: list[int] = []
    for _ in range(2 * ROUND_MS):
        cluster.run(1)
        left += [len(fragment)] if not left or len(fragment) != left[-1] else []
    assert used(cluster) <= 300_000
    assert len(left) > 3, "one slice does not suffice"
    assert max(more - less for more, less in pairwise(left)) <= SLICE_KEYS


@pytest.mark.parametrize(
    ("limit", "rounds"),
    [(ROUND_BYTES // 2, 1), (3 * ROUND_BYTES, 3), (1 << 40, ROUNDS_APART_MAX)],
)
def test_the_more_room_there_is_the_more_seldom_it_is_measured(limit: int, rounds: int) -> None:
    cluster = grid(A, B, C, memory_max_bytes=limit)
    memory, now = cluster.nodes[A].data.memory, cluster.now
    cluster.nodes[A].context.timers.set(MEASURE, now)
    cluster.run(1)
    cluster.run(rounds * ROUND_MS - 20)
    memory.used = -1
    cluster.run(10)
    assert memory.used == -1
    cluster.run(20)
    assert memory.used >= 0


def test_member_without_a_limit_measures_nothing() -> None:
    cluster = grid(A, B, C)
    assert not cluster.nodes[A].context.timers.running(MEASURE)
    assert not cluster.nodes[A].context.memory_full


def test_limit_is_no_negative_number() -> None:
    with pytest.raises(ConfigurationError, match="memory_max_bytes must not be negative, it is -1"):
        Config(memory_max_bytes=-1)
