"""What has had its time goes from every copy, without anybody asking for it."""

from __future__ import annotations

from holdfast.core.data.rounds import EXPIRY
from holdfast.core.events import Room
from holdfast.core.messages import CommitRequest
from holdfast.core.stores.settings import NameSettings
from tests.core.data.grid import Grid, frames, grid, moved
from tests.core.harness import A, B, C, losing

OK = b"+OK\r\n"
ROUND = 500


def rounds(**settings: object) -> Grid:
    return grid(A, None, C, expiry_round_ms=ROUND, **settings)


def test_value_that_has_had_its_time_goes_from_every_copy_though_nobody_reads_it() -> None:
    cluster = rounds()
    assert cluster.reply(A, "SET k v PX 100", "SET l v") == OK + OK
    cluster.run(90 + 2 * ROUND)
    for each in (A, C):
        assert cluster.value(each, "k") is None
        assert cluster.value(each, "l") == b"v"


def test_what_ends_sooner_is_not_kept_by_what_was_there_before() -> None:
    """A partition is looked at when the first thing in it ends, whenever that was written."""
    cluster = rounds()
    assert cluster.reply(A, "SET later v PX 60000") == OK
    cluster.run(2 * ROUND)
    assert cluster.reply(A, "SET sooner v PX 100", "HOLDFAST.LOCK l 100") == OK + b":3\r\n"
    cluster.run(100 + 2 * ROUND)
    assert [cluster.value(C, key) for key in ("later", "sooner")] == [b"v", None]
    assert not cluster.copy(C).fragment.locks


def test_what_has_had_its_time_goes_though_the_disk_is_nearly_full() -> None:
    cluster = rounds()
    assert cluster.reply(A, "SET k v PX 100") == OK
    cluster.step(A, Room(full=True))
    cluster.run(90 + 2 * ROUND)
    assert cluster.value(C, "k") is None


def test_lock_that_has_had_its_time_goes_from_every_copy() -> None:
    cluster = rounds()
    assert cluster.reply(A, "HOLDFAST.LOCK k 100") == b":1\r\n"
    assert cluster.copy(C).fragment.locks
    cluster.run(100 + 2 * ROUND)
    assert not cluster.copy(A).fragment.locks
    assert not cluster.copy(C).fragment.locks


def test_key_that_nobody_uses_goes() -> None:
    cluster = rounds(unnamed=NameSettings(backups=2, idle_ms=200))
    assert cluster.reply(A, "SET k v") == OK
    assert cluster.reply(A, "SET l v") == OK
    cluster.run(200 + 2 * ROUND)
    assert [cluster.value(C, key) for key in ("k", "l")] == [None, None]


def test_backup_ends_nothing_by_itself() -> None:
    cluster = rounds()
    assert cluster.reply(A, "SET k v PX 100") == OK
    cluster.crash(A)
    cluster.run(1_000)
    assert cluster.value(C, "k") == b"v"


def test_nothing_goes_while_writes_are_held_back() -> None:
    cluster = rounds(migration_timeout_ms=60_000)
    assert cluster.reply(A, "SET k v PX 300") == OK
    cluster.drops = [losing(CommitRequest)]
    cluster.migrate(moved(A, 0, B))
    cluster.run(50)
    before = len(frames(cluster, C))
    cluster.run(3 * ROUND)
    assert cluster.value(A, "k") == b"v"
    assert len(frames(cluster, C)) == before
    cluster.drops = []
    cluster.run(2_000 + 2 * ROUND)
    assert cluster.value(B, "k") is None


def test_nothing_wakes_an_owner_in_whose_data_nothing_ends() -> None:
    cluster = rounds()
    timers = cluster.nodes[A].context.timers
    assert cluster.reply(A, "SET k v") == OK
    assert not timers.running(EXPIRY)
    assert cluster.reply(A, "SET k v PX 100") == OK
    assert timers.running(EXPIRY)
    cluster.run(100 + 2 * ROUND)
    assert not timers.running(EXPIRY)
