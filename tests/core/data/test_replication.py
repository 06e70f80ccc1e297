"""The owner's mutations on their way: who gets them, who is waited for, and for how long."""

from __future__ import annotations

from holdfast.core.data.tickets import UNKNOWN
from holdfast.core.data_messages import BackupAck, BackupFrame
from holdfast.core.events import Woke
from holdfast.core.messages import CommitRequest
from holdfast.core.stores.settings import NameSettings
from tests.core.data.grid import BOTH, DEFAULT, SMALL, Grid, P, frames, grid, miss, moved, to
from tests.core.harness import A, B, C, losing, member

OK = b"+OK\r\n"


def test_everything_of_one_tick_for_one_member_goes_in_one_frame() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k 1", "SET name:k 2", "RPUSH list 3", "SET k 4") != b""
    for each in (B, C):
        (frame,) = frames(cluster, each)
        assert [run.name for run in frame.runs] == [b"", DEFAULT, b"name"]
        assert [len(run.mutations) for run in frame.runs] == [1, 2, 1]


def test_member_gets_what_its_index_is_to_have() -> None:
    names = {b"two": BOTH, b"none": NameSettings(backups=0)}
    cluster = grid(A, B, C, names=names, unnamed=NameSettings(backups=1))
    assert cluster.reply(A, "SET two:k 1", "SET none:k 1", "SET k 1") == OK * 3
    received = {each: [run.name for run in frames(cluster, each)[0].runs] for each in (B, C)}
    assert received == {B: [b"two", DEFAULT], C: [b"two"]}


def test_only_those_who_are_synchronous_by_the_name_are_waited_for() -> None:
    cluster = grid(A, B, C, names={b"two": BOTH}, unnamed=NameSettings(backups=1))
    cluster.drops = [to(C, BackupFrame)]
    assert cluster.reply(A, "SET k v") == OK
    assert cluster.reply(A, "SET two:k v", session=2) == b""


def test_lineage_goes_with_the_first_mutation_of_an_ownership_only() -> None:
    cluster = grid(A, B, C)
    for _ in range(2):
        assert cluster.reply(A, "SET k v") == OK
    first, second = frames(cluster, B)
    assert first.runs[0].lineage[-1][0] == cluster.holding(A).reign
    assert second.runs[0].lineage == ()


def test_frames_that_nobody_acknowledges_are_sent_again_and_again() -> None:
    cluster = grid(A, B, C)
    cluster.drops = [losing(BackupAck)]
    cluster.command(A, "SET k v")
    cluster.run(1_000)
    sent = frames(cluster, C)
    assert len(sent) >= 4
    assert all(frame == sent[0] for frame in sent)
    cluster.drops = []
    cluster.run(500)
    assert cluster.replies == {1: OK}
    cluster.sent.clear()
    cluster.run(1_000)
    assert frames(cluster, C) == []


def test_word_of_somebody_to_whom_nothing_goes_acknowledges_nothing() -> None:
    cluster = grid(A, B, C)
    cluster.drops = [to(A, BackupAck)]
    cluster.command(A, "SET k v")
    cluster.inject(member(B, 7), A, BackupAck(99, ()))
    cluster.inject(member(A), A, BackupAck(99, ()))
    cluster.run(10)
    assert cluster.replies == {}


def test_member_that_says_nothing_for_too_long_costs_no_more_than_a_bounded_memory() -> None:
    cluster = grid(A, B, C, backup_bytes_max=SMALL)
    cluster.reply(A, "SET k v")
    miss(cluster, C, *(f"key{number}" for number in range(20)))
    stream = cluster.nodes[A].data.replication.streams[(C, 1)]
    assert stream.kept_bytes <= SMALL
    cluster.drops = []
    cluster.run(1_500)
    assert cluster.in_sync(B, C)
    assert cluster.value(C, "key7") == b"v"


# Rows that change ---------------------------------------------------------------------------------


def waiting() -> Grid:
    """A write waits for C alone."""
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(A, "SET k w")
    cluster.run(5)
    assert cluster.replies == {}
    return cluster


def test_member_that_is_no_backup_any_more_is_waited_for_no_longer() -> None:
    cluster = waiting()
    cluster.place(A, B, None)
    assert cluster.replies == {1: OK}


def test_member_that_has_left_is_waited_for_no_longer() -> None:
    cluster = waiting()
    cluster.crash(C)
    cluster.confirm_dead(C)
    cluster.run_until(lambda: cluster.replies == {1: OK})
    assert list(cluster.nodes[A].data.replication.streams) == [(B, 1)]


def test_owner_that_loses_the_partition_does_not_know_what_becomes_of_a_write() -> None:
    cluster = waiting()
    cluster.place(B, A, C)
    assert cluster.replies == {1: UNKNOWN}


def test_row_that_names_a_member_that_is_not_listed_makes_nobody_wait_for_it() -> None:
    cluster = grid(A, B, C)
    cluster.crash(C)
    cluster.confirm_dead(C)
    cluster.run_until(lambda: cluster.nodes[A].table.row(P).replicas[2] is None)
    cluster.place(A, B, C)
    assert cluster.reply(A, "SET k v") == OK
    cluster.command(A, "SET only:k v")
    assert cluster.nodes[A].data.replication.stream_to(C) is None
    assert cluster.nodes[A].data.replication.stream_to(A) is None


def test_new_stay_gives_up_what_the_last_one_wrote() -> None:
    cluster = waiting()
    replication = cluster.nodes[A].data.replication
    replication.reset()
    cluster.step(A, Woke())
    assert cluster.replies == {1: UNKNOWN}
    assert (replication.streams, replication.barriers) == ({}, {})


# Migrations ---------------------------------------------------------------------------------------


def test_destination_gets_mutations_from_the_start_and_nobody_waits_for_it_before() -> None:
    cluster = grid(A, B, None)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [losing(CommitRequest)]
    cluster.migrate(moved(None, 2, C))
    cluster.run(20)
    replication = cluster.nodes[A].data.replication
    assert replication.takers_of(P) == ((B, 1), (C, 2))
    assert cluster.nodes[A].table.row(P).replicas == (A, B, None)


def test_barrier_of_a_new_owner_ends_when_every_synchronous_backup_stands_where_it_stands() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [to(C, BackupFrame)]
    cluster.place(B, None, C)
    barriers = cluster.nodes[B].data.replication.barriers
    assert P in barriers
    cluster.drops = []
    cluster.run(500)
    assert barriers == {}
    assert cluster.reply(B, "GET k") == b"$1\r\nv\r\n"


def test_owner_that_loses_the_partition_behind_its_barrier_forgets_the_barrier() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [to(C, BackupFrame)]
    cluster.place(B, None, C)
    cluster.place(A, B, None)
    assert cluster.nodes[B].data.replication.barriers == {}


def test_owner_without_backups_has_no_barrier() -> None:
    cluster = grid(A, B, None, unnamed=NameSettings(backups=0))
    assert cluster.reply(A, "SET k v") == OK
    cluster.place(B, None, None)
    assert cluster.nodes[B].data.replication.barriers == {}


def test_row_of_a_new_owner_may_name_somebody_who_has_gone() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k v") == OK
    cluster.crash(C)
    cluster.confirm_dead(C)
    cluster.run_until(lambda: cluster.nodes[A].table.row(P).replicas[2] is None)
    cluster.place(B, A, C)
    cluster.run(20)
    assert cluster.nodes[B].data.replication.barriers == {}
    assert cluster.reply(B, "GET k") == b"$1\r\nv\r\n"
