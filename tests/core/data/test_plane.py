"""Commands in, replies out, against a small cluster of real nodes."""

from __future__ import annotations

import pytest

from holdfast.core.data.plane import (
    BACKUP_FULL,
    CROSS_SLOT,
    DISK_FULL,
    HANDING_OVER,
    NO_OWNER,
    NO_WRITES,
    NOT_SERVING,
    slot_of,
)
from holdfast.core.data.tickets import AGAIN, UNKNOWN
from holdfast.core.data_messages import BackupAck, BackupFrame
from holdfast.core.events import Disconnected, Room
from holdfast.core.messages import CommitRequest, Grant, NewView
from holdfast.core.states import ClusterState
from holdfast.core.stores.replies import error
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import MemberId
from tests.core.data.grid import Grid, P, grid, moved, to
from tests.core.harness import A, B, C, Cluster, D, follower, losing, member, row, view_of
from tests.core.migrating import published

OK = b"+OK\r\n"
NULL = b"$-1\r\n"


def refused(text: str) -> bytes:
    return error(text)


def alone(**settings: object) -> Cluster:
    """A owns every partition."""
    cluster = Cluster(A, partition_count=64, **settings)
    cluster.form()
    return cluster


# Slots and partitions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "same"),
    [
        (b"{user}.name", b"user"),
        (b"a{user}b{other}", b"user"),
        (b"{{user}}", b"{user"),
        (b"{}user", None),
        (b"user}{", None),
        (b"{user", None),
    ],
)
def test_slot_is_that_of_what_stands_in_the_first_braces(key: bytes, same: bytes | None) -> None:
    assert slot_of(b"foo") == 12_182
    assert slot_of(b"123456789") == 0x31C3 % 16_384
    whole = slot_of(key.replace(b"{", b"(").replace(b"}", b")"))
    assert slot_of(key) == (slot_of(same) if same is not None else slot_of(key))
    assert (slot_of(key) == whole) is False


def test_keys_of_one_command_have_to_be_in_one_partition_where_replies_can_not_be_joined() -> None:
    cluster = alone()
    assert cluster.reply(A, "SADD {x}a 1", "SADD {x}b 1 2") == b":1\r\n:2\r\n"
    assert cluster.reply(A, "SINTER {x}a {x}b") == b"*1\r\n$1\r\n1\r\n"
    assert cluster.reply(A, "SINTER a b") == refused(CROSS_SLOT)


def test_replies_of_several_partitions_become_one_in_the_order_of_the_keys() -> None:
    cluster = alone()
    assert cluster.reply(A, "MSET a 1 b 2 c 3") == OK
    assert cluster.reply(A, "MGET c x a b") == b"*4\r\n$1\r\n3\r\n$-1\r\n$1\r\n1\r\n$1\r\n2\r\n"
    assert cluster.reply(A, "DEL a x b") == b":2\r\n"
    assert cluster.reply(A, "EXISTS a b c") == b":1\r\n"


def test_errors_of_commands_are_replies_and_the_next_command_runs() -> None:
    cluster = alone()
    replies = cluster.reply(A, "NONSENSE", "SET a", "SET a 1", "INCR a").split(b"\r\n")
    assert [line[:1] for line in replies] == [b"-", b"-", b"+", b":", b""]


# Who answers --------------------------------------------------------------------------------------


def test_who_is_not_the_owner_says_who_is() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(B, "GET foo") == b"-MOVED 12182 a:1\r\n"
    assert cluster.reply(C, "SET foo 1") == b"-MOVED 12182 a:1\r\n"


@pytest.mark.parametrize("owner", [None, D])
def test_partition_without_an_owner_that_is_listed_can_not_be_asked(
    owner: MemberId | None,
) -> None:
    cluster = follower(partition_count=1)
    published(cluster, row(0, 3, owner, None, None, reign=1))
    assert cluster.reply(B, "GET k") == refused(NO_OWNER)


def test_owner_without_a_lease_answers_nothing() -> None:
    cluster = follower(partition_count=1)
    published(cluster, row(0, 3, B, None, None, reign=1))
    assert cluster.reply(B, "GET k") == refused(NOT_SERVING)
    cluster.grant()
    assert cluster.reply(B, "GET k") == NULL
    cluster.run(5_000)
    assert cluster.reply(B, "GET k") == refused(NOT_SERVING)


def test_member_of_no_cluster_names_nobody() -> None:
    cluster = Cluster(B, may_found=False, partition_count=1)
    cluster.start(member(B))
    assert cluster.reply(B, "GET k") == refused(NO_OWNER)


def test_state_without_writes_refuses_them_and_goes_on_to_answer_reads() -> None:
    cluster = follower(partition_count=1)
    published(cluster, row(0, 3, B, None, None, reign=1))
    passive = view_of(
        member(A), cluster.nodes[B].me, member(C), version=2, state=ClusterState.PASSIVE
    )
    cluster.inject(member(A), B, NewView(passive))
    cluster.grant()
    assert cluster.reply(B, "GET k", "SET k v") == NULL + refused(NO_WRITES)


def test_full_disk_refuses_writes_and_goes_on_to_answer_reads_until_there_is_room() -> None:
    cluster = follower(partition_count=1)
    published(cluster, row(0, 3, B, None, None, reign=1))
    cluster.grant()
    cluster.step(B, Room(full=True))
    assert cluster.reply(B, "GET k", "SET k v") == NULL + refused(DISK_FULL)
    cluster.step(B, Room(full=False))
    assert cluster.reply(B, "SET k v", "GET k") == b"+OK\r\n$1\r\nv\r\n"
    cluster.step(B, Room(full=True))
    assert cluster.reply(B, "SET k w") == refused(DISK_FULL), "it was open to writes until now"


def test_what_a_backup_has_no_room_for_is_refused_by_the_owner_until_it_has() -> None:
    """1. B's disk is full: A refuses writes, and goes on to read. 2. It has room again."""
    cluster = grid(A, B, None, unnamed=NameSettings(backups=1))
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    cluster.step(B, Room(full=True))
    cluster.run(10)
    assert cluster.reply(A, "SET k w", "GET k") == refused(BACKUP_FULL) + b"$1\r\nv\r\n"
    cluster.step(B, Room(full=False))
    cluster.run(10)
    assert cluster.reply(A, "SET k w") == b"+OK\r\n"


def test_an_owner_that_did_not_hear_of_the_room_asks_for_it() -> None:
    cluster = grid(A, B, None, unnamed=NameSettings(backups=1))
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    cluster.step(B, Room(full=True))
    cluster.run(10)
    cluster.drops.append(to(A, BackupAck))
    cluster.step(B, Room(full=False))
    cluster.run(10)
    cluster.drops.clear()
    assert cluster.reply(A, "SET k w") == refused(BACKUP_FULL)
    cluster.run(2 * cluster.nodes[A].context.config.resend_ms)
    assert cluster.reply(A, "SET k w") == b"+OK\r\n"


# What waits ---------------------------------------------------------------------------------------


def test_write_is_answered_when_every_synchronous_backup_has_it() -> None:
    cluster = grid(A, B, C)
    cluster.command(A, "SET k v")
    assert cluster.replies == {}
    cluster.run(3)
    assert cluster.replies == {1: OK}
    assert [cluster.value(each, "k") for each in (A, B, C)] == [b"v"] * 3


def test_asynchronous_backup_gets_a_write_and_is_not_waited_for() -> None:
    cluster = grid(A, B, C, unnamed=NameSettings(backups=1, async_backups=1))
    cluster.drops = [to(C, BackupFrame)]
    assert cluster.reply(A, "SET k v") == OK
    assert cluster.value(B, "k") == b"v"
    cluster.drops = []
    cluster.run(500)
    assert cluster.value(C, "k") == b"v"


def test_write_that_needs_no_backup_is_answered_at_once() -> None:
    cluster = grid(A, B, C, unnamed=NameSettings(backups=0))
    cluster.command(A, "SET k v")
    assert cluster.replies == {1: OK}


def test_read_of_what_is_being_written_waits_for_its_writer_and_others_do_not() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k old", "SET other 1") == OK + OK
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(A, "SET k new")
    assert cluster.reply(A, "GET k", session=2) == b""
    assert cluster.reply(A, "SETNX k newer", session=3) == b"", "it saw the key, and wrote nothing"
    assert cluster.reply(A, "GET other", session=4) == b"$1\r\n1\r\n"
    cluster.drops = []
    cluster.run(500)
    assert [cluster.replies[session] for session in (1, 2, 3)] == [
        OK,
        b"$3\r\nnew\r\n",
        b":0\r\n",
    ]


def test_replies_come_in_the_order_of_the_commands() -> None:
    cluster = grid(A, B, C)
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(A, "SET k new")
    cluster.command(A, "GET other")
    cluster.run(50)
    assert cluster.replies == {}
    cluster.drops = []
    cluster.run(500)
    assert cluster.replies == {1: OK + NULL}


def test_outcome_that_is_not_known_in_time_is_neither_ok_nor_failed() -> None:
    cluster = grid(A, B, C, operation_timeout_ms=500)
    cluster.drops = [losing(BackupFrame)]
    cluster.command(A, "GET other", "SET k v")
    cluster.command(A, "GET k", session=2)
    cluster.run(520)
    assert cluster.replies == {1: NULL + UNKNOWN, 2: AGAIN}
    cluster.command(A, "GET k", session=2)
    cluster.run(520)
    assert cluster.replies[2] == AGAIN, "nobody may read it until it is safe"
    cluster.drops = []
    cluster.run(400)
    assert cluster.reply(A, "GET k", session=2) == b"$1\r\nv\r\n"


def test_client_that_has_gone_is_answered_nothing_and_its_write_becomes_safe() -> None:
    cluster = grid(A, B, C)
    cluster.command(A, "SET k v", "BLPOP list 0")
    cluster.step(A, Disconnected(1))
    cluster.run(100)
    assert cluster.replies == {}
    assert cluster.nodes[A].data.plane.waiting == {}
    assert cluster.reply(A, "GET k", session=2) == b"$1\r\nv\r\n"


def test_expired_key_that_a_read_has_removed_is_gone_for_all_when_it_is_answered() -> None:
    cluster = grid(A, B, C, expiry_round_ms=60_000)
    assert cluster.reply(A, "SET k v PX 50") == OK
    cluster.run(100)
    cluster.drops = [to(C, BackupFrame)]
    assert cluster.reply(A, "GET k") == b""
    cluster.drops = []
    cluster.run(500)
    assert cluster.replies[1] == NULL
    assert cluster.value(C, "k") is None


# A command that waits for a key -------------------------------------------------------------------


def test_key_that_has_expired_by_itself_is_gone_for_all_when_that_is_told() -> None:
    """1. A round removes a key whose time is up, and a backup does not hear of it. 2. Who asks for
    it waits: the backup may own it next, and its clock may be behind (seed 1093 of starved
    backups)."""
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k v PX 50") == OK
    cluster.drops = [to(B, BackupFrame)]
    cluster.run_until(lambda: cluster.value(A, "k") is None)
    assert cluster.reply(A, "GET k", session=2) == b""
    cluster.drops = []
    cluster.run(500)
    assert cluster.replies[2] == NULL
    assert cluster.value(B, "k") is None


def test_command_waits_for_a_key_and_everything_behind_it_waits() -> None:
    cluster = grid(A, B, C)
    cluster.command(A, "BLPOP list 0")
    cluster.command(A, "GET k")
    cluster.run(500)
    assert cluster.replies == {}
    assert cluster.reply(A, "RPUSH list x", session=2) == b":1\r\n"
    cluster.run(50)
    assert cluster.replies[1] == b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n" + NULL


def test_command_that_waits_for_a_key_says_so_when_its_time_is_up() -> None:
    cluster = grid(A, B, C)
    cluster.command(A, "BLPOP list 0.2", "BLPOP list 0.1", "GET k")
    cluster.run(190)
    assert cluster.replies == {}
    cluster.run(40)
    assert cluster.replies[1] == b"*-1\r\n"
    cluster.run(120)
    assert cluster.replies[1] == b"*-1\r\n" * 2 + NULL


# Hand-over ----------------------------------------------------------------------------------------


def test_who_has_waited_in_vain_is_not_told_before_what_kept_it_is_safe() -> None:
    """1. A locks a key, and no backup has that yet. 2. Another session waits for the lock, and its
    time is up: the lock may be gone with its owner (seed 1047 of starved backups)."""
    cluster = grid(A, B, C)
    cluster.drops = [to(B, BackupFrame)]
    cluster.command(A, "HOLDFAST.LOCK k 60000", session=1)
    cluster.command(A, "HOLDFAST.LOCK k 60000 WAIT 100", session=2)
    cluster.run(300)
    assert 2 not in cluster.replies
    cluster.drops = []
    cluster.run(1_000)
    assert cluster.replies[2] == b"$-1\r\n"


def handing_over(**settings: object) -> Grid:
    """A has handed the partition over to B, and nobody has committed."""
    cluster = grid(A, None, C, **settings)
    cluster.drops = [losing(CommitRequest)]
    cluster.migrate(moved(A, 0, B))
    cluster.run(20)
    assert cluster.nodes[A].participation.is_handing_over(P)
    return cluster


def test_command_waits_while_its_partition_is_handed_over_and_learns_where_it_is_then() -> None:
    cluster = handing_over()
    cluster.command(A, "SET foo v", "GET foo")
    cluster.command(A, "GET foo")
    cluster.run(100)
    assert cluster.replies == {}
    cluster.drops = []
    cluster.run(1_000)
    assert cluster.replies == {1: b"-MOVED 12182 b:1\r\n" * 3}
    assert cluster.reply(B, "SET foo v") == OK


def test_command_that_waits_for_a_hand_over_in_vain_is_told_to_try_again() -> None:
    cluster = handing_over(operation_timeout_ms=300, migration_timeout_ms=60_000)
    cluster.command(A, "SET foo v", "GET foo")
    cluster.run(200)
    assert cluster.replies == {}
    cluster.run(150)
    assert cluster.replies == {1: refused(HANDING_OVER)}
    cluster.run(350)
    assert cluster.replies == {1: refused(HANDING_OVER) * 2}


def test_new_owner_answers_nothing_before_its_backups_have_what_it_has() -> None:
    """The owner before it may have died with a write that only its heir has."""
    cluster = grid(A, B, C, operation_timeout_ms=400)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [to(C, BackupFrame), to(A, BackupAck)]
    cluster.place(B, None, C)
    cluster.command(B, "GET k")
    cluster.command(B, "SET k w", session=2)
    cluster.run(200)
    assert cluster.replies == {}
    cluster.run(250)
    assert cluster.replies == {1: AGAIN, 2: UNKNOWN}
    cluster.drops = []
    cluster.run(500)
    assert cluster.reply(B, "GET k") == b"$1\r\nw\r\n"


def test_grant_is_not_needed_to_say_where_a_key_is() -> None:
    cluster = follower(partition_count=1)
    published(cluster, row(0, 3, C, None, None, reign=1))
    assert cluster.messages(Grant) == []
    assert cluster.reply(B, "GET foo") == b"-MOVED 12182 c:1\r\n"
