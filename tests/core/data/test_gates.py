"""What lets commands in without a look: as long as it is true, and for no longer."""

from __future__ import annotations

from holdfast.core.data.gates import SLOTS, partitions_of_slots
from holdfast.core.data.plane import NOT_SERVING, slot_of
from holdfast.core.data_messages import BackupAck, BackupFrame, SyncPlan
from holdfast.core.events import Commanded, Received, Woke
from holdfast.core.node import Node
from holdfast.core.participation import Part
from holdfast.core.stores.command import WRONG_TYPE
from holdfast.core.stores.replies import error
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import Millis
from tests.core.data.grid import BOTH, P, grid, moved, to
from tests.core.harness import A, B, C, Cluster, follower, member, origin_of, row
from tests.core.migrating import published

OK = b"+OK\r\n"


def is_quiet(cluster: Cluster, node: Node) -> bool:
    return node.is_quiet(Commanded(()), Millis(cluster.now))


def test_slots_lie_in_partitions_of_the_same_size() -> None:
    for count in (1, 271, 16_384):
        assert len(partitions_of_slots(count)) == SLOTS == 16_384
        for slot in (0, 5_000, slot_of(b"users:1"), slot_of(b"{users}:2"), SLOTS - 1):
            assert partitions_of_slots(count)[slot] == slot * count // SLOTS


def test_gate_opens_with_the_first_command_and_stays_as_long_as_nothing_changes() -> None:
    cluster = grid(A, B, C)
    plane = cluster.nodes[A].data.plane
    assert plane.opened == []
    for _ in range(2):
        assert cluster.reply(A, "SET k v") == OK
        assert plane.opened == [P]
    cluster.step(A, Woke())
    assert plane.opened == [P], "nothing has changed"
    cluster.place(A, C, B)
    assert plane.opened == []


def test_no_gate_is_open_longer_than_the_lease_although_nothing_happens() -> None:
    cluster = follower(partition_count=1)
    published(cluster, row(0, 3, B, None, None, reign=1))
    cluster.grant()
    assert cluster.reply(B, "GET k") == b"$-1\r\n"
    node = cluster.nodes[B]
    assert node.data.plane.opened == [P]
    cluster.now = node.membership.lease_until
    cluster.command(B, "GET k")
    assert cluster.replies[1] == error(NOT_SERVING)


def test_beside_a_migration_that_copies_the_data_steps_alone_with_gates_of_its_own() -> None:
    cluster = grid(A, B, None)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops.append(to(C, SyncPlan))
    cluster.migrate(moved(None, 2, C))
    cluster.run(5)
    plane = cluster.nodes[A].data.plane
    assert plane.opened == [], "who gets what is written is another"
    assert is_quiet(cluster, cluster.nodes[A])
    cluster.sent.clear()
    assert cluster.reply(A, "SET k w", session=2) == OK
    assert plane.opened == [P]
    assert len(cluster.messages(BackupFrame, to=C)) == 1


def test_hand_over_that_waits_for_a_backup_goes_on_with_its_acknowledgement() -> None:
    cluster = grid(A, B, None)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops.append(to(A, BackupAck))
    cluster.command(A, "SET k w", session=2)
    cluster.migrate(moved(A, 0, C))
    cluster.run(50)
    node = cluster.nodes[A]
    assert node.participation.active[P].part is Part.CLOSING
    assert node.data.plane.opened == []
    cluster.drops.clear()
    (frame,) = node.data.replication.streams[B, 1].kept
    ack = BackupAck(frame.frame.number, 1, ())
    assert node.is_quiet(Received(origin_of(member(B)), ack), Millis(cluster.now))
    cluster.inject(member(B), A, ack)
    assert node.participation.active[P].part is Part.HANDED_OVER


def test_command_behind_a_gate_is_refused_with_its_own_words() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SADD s 1", "GET s", "GET", "GET k") == (
        b":1\r\n"
        + error(WRONG_TYPE)
        + error("ERR wrong number of arguments for 'get' command")
        + b"$-1\r\n"
    )


def test_write_waits_for_as_many_backups_as_its_own_name_asks_for() -> None:
    names = {b"two": BOTH, b"one": NameSettings(backups=1), b"none": NameSettings(backups=0)}
    cluster = grid(A, B, C, names=names, unnamed=BOTH)
    assert cluster.reply(A, "SET two:k 1", "SET one:k 1", "SET none:k 1") == OK * 3
    cluster.drops.append(to(C, BackupFrame))
    assert cluster.nodes[A].data.plane.opened == [P]
    assert cluster.reply(A, "SET none:k 2", session=2) == OK
    assert cluster.reply(A, "SET one:k 2", session=3) == OK
    assert cluster.reply(A, "SET two:k 2", session=4) == b""


def test_blocked_command_is_tried_again_when_something_was_written() -> None:
    cluster = grid(A, B, C)
    cluster.reply(A, "SET k v")
    assert cluster.reply(A, "BLPOP list 0", session=2) == b""
    cluster.command(A, "GET k", session=3)
    assert cluster.reply(A, "RPUSH list x", session=4) == b":1\r\n"
    assert cluster.replies[2] == b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n"


def test_what_was_written_to_data_that_is_here_no_more_goes_nowhere() -> None:
    cluster = grid(A, B, C)
    node = cluster.nodes[A]
    fragment = cluster.holding(A).space.named(b"default")
    fragment.put(b"k", b"v")
    node.data.holdings.begin(P, 1)
    cluster.sent.clear()
    node.data.replication.flush()
    assert cluster.messages(BackupFrame) == []
    assert not fragment.pending
    assert not node.data.holdings.written.fragments
