"""The owner's mutations on their way: who gets them, who is waited for, and for how long."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.data.tickets import UNKNOWN
from holdfast.core.data_messages import BackupAck, BackupFrame
from holdfast.core.effects import Send
from holdfast.core.events import Woke
from holdfast.core.messages import CommitRequest, NewView, NotListed
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import Version
from tests.core.data.grid import BOTH, DEFAULT, SMALL, Grid, P, frames, grid, miss, moved, to
from tests.core.harness import A, B, C, address_of, losing, member

OK = b"+OK\r\n"


def test_everything_of_one_tick_for_one_member_goes_in_one_frame() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k 1", "SET name:k 2", "RPUSH list 3", "SET k 4") != b""
    for each in (B, C):
        (frame,) = frames(cluster, each)
        assert [run.name for run in frame.runs] == [DEFAULT, b"name", b""]
        assert [len(run.mutations) for run in frame.runs] == [2, 1, 1]


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
    cluster.inject(member(B, 7), A, BackupAck(99, 1, ()))
    cluster.inject(member(A), A, BackupAck(99, 1, ()))
    cluster.run(10)
    assert cluster.replies == {}


def test_word_about_an_earlier_stay_of_mine_acknowledges_nothing() -> None:
    """It was long on its way, and its number is higher than any that this stay has sent."""
    cluster = grid(A, B, None)
    cluster.drops = [to(A, BackupAck)]
    cluster.command(A, "SET k v")
    cluster.inject(member(B), A, BackupAck(99, 0, ()))
    cluster.run(10)
    assert cluster.replies == {}
    cluster.drops = []
    cluster.run(500)
    assert cluster.replies == {1: OK}


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


def test_member_that_is_listed_again_in_the_same_stay_does_not_take_new_frames_for_old() -> None:
    """It remembers the numbers of the frames before, and would acknowledge what it never took.
    (Seed 1079.)"""
    cluster = grid(B, None, C, sync_interval_ms=100)
    for value in "uv":
        assert cluster.reply(B, f"SET k {value}") == b"+OK\r\n"
    view = cluster.nodes[B].view
    assert view is not None
    rest = tuple(each for each in view.members if each.id != C)
    out = replace(view, version=Version(view.version + 1), members=rest)
    again = replace(view, version=Version(view.version + 2))
    for each in (out, again):
        cluster.inject(member(A), B, NewView(each))
    told = cluster.reply(B, "SET k w")
    assert told == b"" or cluster.value(C, "k") == b"w"
    cluster.run(2_000)
    assert cluster.value(C, "k") == b"w"


def test_member_is_waited_for_until_it_is_certain_that_it_was_taken_out() -> None:
    """Seed 3952: the view without it is not committed, and another master may not know of it."""
    cluster = grid(A, C, B)
    cluster.drops = [to(B, NewView)]
    cluster.crash(C)
    cluster.confirm_dead(C)
    cluster.run(300)
    view = cluster.term.view
    assert view is not None
    assert (view.find(C), view.sealed) == (None, False)
    assert cluster.reply(A, "SET k v") == b""
    cluster.drops = []
    cluster.run_until(lambda: cluster.replies.get(1) == b"+OK\r\n", limit=1_000)
    view = cluster.term.view
    assert view is not None
    assert view.sealed


def test_owner_that_loses_the_partition_does_not_know_what_becomes_of_a_write() -> None:
    cluster = waiting()
    cluster.place(B, A, C)
    assert cluster.replies == {1: UNKNOWN}


def test_owner_that_was_taken_out_with_its_backup_does_not_know_what_becomes_of_a_write() -> None:
    """1. B, the owner, sleeps; its partition is given to C 2. C starts anew 3. B wakes, and learns
    at once that neither is listed: nobody has the write, and nobody is waited for. (Seed 12.)"""
    cluster = grid(B, C, None)
    assert cluster.reply(B, "SET k v") == OK
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(B, "SET k w")
    cluster.run(5)
    assert cluster.replies == {}
    view = cluster.nodes[B].view
    assert view is not None
    rest = tuple(each for each in view.members if each.id == A)
    for version in (1, 2):  # the second one seals the first
        later = replace(view, version=Version(view.version + version), members=rest)
        cluster.inject(member(A), B, NotListed(later, cluster.nodes[B].context.now))
    cluster.step(B, Woke())
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


def test_command_that_waits_for_a_key_behind_a_barrier_has_no_reply_yet_that_may_fail() -> None:
    """Seed 527: the barrier fails, and only what was told can be taken back."""
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [to(C, BackupFrame)]
    cluster.place(B, None, C)
    assert P in cluster.nodes[B].data.replication.barriers
    cluster.command(B, "GET k", "BLPOP list 0")
    cluster.place(A, B, C)
    cluster.run(50)
    assert cluster.nodes[B].data.replication.barriers == {}
    assert cluster.replies[1].startswith(b"-TRYAGAIN")


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


def test_reign_that_is_over_before_its_first_frame_is_not_told_of() -> None:
    cluster = grid(A, B, None)
    node, holding = cluster.nodes[A], cluster.holding(A)
    assert cluster.reply(A, "SET k v") == OK
    node.data.replication.begin_reign(holding)
    holding.follow(1)
    cluster.sent.clear()
    node.data.replication.flush()
    assert node.context.outbox.take() == []


def test_reign_is_told_to_backups_and_not_to_who_is_to_be_the_next_owner() -> None:
    cluster = grid(A, B, None)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [losing(CommitRequest)]
    cluster.migrate(moved(A, 0, C))
    cluster.run(20)
    node = cluster.nodes[A]
    assert (C, 0) in node.data.replication.takers_of(P)
    node.data.replication.begin_reign(cluster.holding(A))
    node.data.replication.flush()
    sent = [each for each in node.context.outbox.take() if isinstance(each, Send)]
    assert [each.to for each in sent] == [address_of(B)]


def test_what_is_long_is_given_time_before_it_is_sent_again() -> None:
    """It is what a link carries in a third of a second; twice under way it takes twice that."""
    cluster = grid(A, None, C, resend_ms=200)
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(A, f"SET long {'x' * (10 << 20)}")
    cluster.run(450)
    assert len(frames(cluster, C)) == 1
    cluster.run(200)
    assert len(frames(cluster, C)) == 2
    cluster.drops = []
    cluster.run(600)
    assert cluster.value(C, "long") == b"x" * (10 << 20)


# What waits where an owner changes ----------------------------------------------------------------


def moving_unanswered() -> Grid:
    """A gives the partition to C while B does not confirm a write."""
    cluster = grid(A, B, unnamed=NameSettings(backups=1))
    cluster.drops = [losing(BackupAck)]
    cluster.command(A, "SET k v", session=7)
    cluster.migrate(moved(A, 0, C))
    cluster.run(100)
    assert 7 not in cluster.replies
    assert cluster.term.table.row(P).owner == A
    return cluster


def test_a_write_that_waits_for_a_backup_is_answered_before_its_partition_goes() -> None:
    cluster = moving_unanswered()
    cluster.drops = []
    cluster.run(2_000)
    assert cluster.replies[7] == b"+OK\r\n"
    assert cluster.term.table.row(P).owner == C


def test_it_is_not_waited_for_as_long_as_that_takes() -> None:
    cluster = moving_unanswered()
    cluster.run(2_000)
    assert cluster.replies[7].startswith(b"-UNKNOWNOUTCOME")
    assert cluster.term.table.row(P).owner == C
