"""The owner's round, and what a backup makes of it."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.data_messages import BackupFrame, ReplicaCheck, SyncAsk
from tests.core.data.grid import BOTH, SMALL, Grid, P, grid, miss, to
from tests.core.harness import A, B, C, member

INTERVAL = 2_000


def quiet(**settings: object) -> Grid:
    """A owns a key that B and C have; the next round is a while away."""
    cluster = grid(A, B, C, sync_interval_ms=INTERVAL, **settings)
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    cluster.run_until(lambda: bool(cluster.messages(ReplicaCheck, to=C)))
    cluster.run(5)
    cluster.sent.clear()
    return cluster


def test_owner_tells_every_backup_where_its_fragments_stand_once_an_interval() -> None:
    cluster = quiet()
    cluster.run(INTERVAL + 10)
    for each in (B, C):
        (check,) = cluster.messages(ReplicaCheck, to=each)
        assert (check.partition, check.reign) == (P, cluster.holding(A).reign)
        assert [stand.name for stand in check.fragments] == [b"default"]
        assert check.fragments[0] == cluster.copy(A).standing()
    assert cluster.messages(ReplicaCheck, to=A) == []
    assert cluster.messages(SyncAsk) == [], "nobody lacks anything"


def test_backup_that_has_lost_the_last_mutations_learns_it_from_the_round() -> None:
    """Nothing comes after them that could tell."""
    cluster = quiet(backup_bytes_max=SMALL)
    miss(cluster, C, "lost")
    cluster.drops = [to(C, BackupFrame)]
    assert cluster.in_sync(C)
    cluster.run(INTERVAL + 10)
    assert cluster.messages(SyncAsk, to=A)
    assert cluster.value(C, "lost") == b"v"


def test_round_that_is_lost_comes_again() -> None:
    cluster = quiet(backup_bytes_max=SMALL)
    miss(cluster, C, "lost")
    cluster.drops = [to(C, BackupFrame, ReplicaCheck)]
    cluster.run(INTERVAL + 10)
    assert cluster.messages(SyncAsk) == []
    cluster.drops = [to(C, BackupFrame)]
    cluster.run(INTERVAL + 10)
    assert cluster.value(C, "lost") == b"v"


def test_partition_in_which_nobody_has_written_is_not_told_of() -> None:
    cluster = grid(A, B, C, sync_interval_ms=INTERVAL)
    cluster.run(3 * INTERVAL)
    assert cluster.messages(ReplicaCheck) == []


def test_word_of_somebody_who_does_not_own_the_partition_is_not_taken() -> None:
    cluster = quiet()
    ahead = cluster.copy(A).standing()
    ahead = replace(ahead, stand=replace(ahead.stand, counter=99, entries=(99,) * 6))
    reign = cluster.holding(A).reign
    for origin, check in (
        (member(B), ReplicaCheck(P, reign, (ahead,))),
        (member(A), ReplicaCheck(P, reign - 1, (ahead,))),
    ):
        cluster.inject(origin, C, check)
    cluster.inject(member(A), A, ReplicaCheck(P, reign, (ahead,)))
    assert cluster.in_sync(C)
    cluster.inject(member(A), C, ReplicaCheck(P, reign, (ahead,)))
    assert not cluster.in_sync(C)
    assert cluster.messages(SyncAsk, to=A)


def test_member_that_holds_nothing_takes_no_round() -> None:
    cluster = grid(A, B, None, unnamed=BOTH)
    check = ReplicaCheck(P, cluster.holding(A).reign, ())
    assert cluster.inject(member(A), C, check) == []
