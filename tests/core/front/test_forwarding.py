"""Any member answers any key on the plain port."""

from __future__ import annotations

import pytest

from holdfast.core.data.plane import NO_OWNER, slot_of
from holdfast.core.data.tickets import AGAIN, UNKNOWN
from holdfast.core.data_messages import BackupFrame, Forward, Forwarded
from holdfast.core.events import Commanded
from holdfast.core.front.errands import COMMAND_BYTES_MAX, TOO_LARGE
from holdfast.core.stores.replies import error
from holdfast.ids import MemberId, PartitionId
from holdfast.wire.codec import FRAME_BYTES_MAX
from tests.core.data.grid import Grid, P, grid, moved, to
from tests.core.front.clients import Client
from tests.core.harness import A, B, C, Cluster, address_of, losing

OK = b"+OK\r\n"
NULL = b"$-1\r\n"


def spread(**settings: object) -> Cluster:
    """A, B and C each own some of 6 partitions."""
    cluster = Cluster(A, B, C, **settings)
    cluster.form()
    cluster.sent.clear()
    return cluster


def keys_at(cluster: Cluster, member_id: MemberId, count: int = 2) -> list[str]:
    """Keys of partitions that a member owns, each in another one."""
    node, found = cluster.nodes[A], []
    seen: dict[PartitionId, None] = {}
    for number in range(1_000):
        key = f"k{number}"
        partition = PartitionId(slot_of(key.encode()) * 6 >> 14)
        if node.table.row(partition).owner == member_id and partition not in seen:
            seen[partition] = None
            found.append(key)
    return found[:count]


def test_key_of_another_member_is_answered_on_the_plain_port() -> None:
    cluster = spread()
    client = Client(cluster, A, plain=True)
    for member_id in (A, B, C):
        (key,) = keys_at(cluster, member_id, 1)
        assert client.call("SET", key, "v") == OK
        assert client.call("GET", key) == b"$1\r\nv\r\n"
        assert Client(cluster, member_id, 2).call("GET", key) == b"$1\r\nv\r\n"
    assert cluster.nodes[A].front.errands.count == 4


def test_replies_of_a_batch_come_in_order_whoever_gave_them() -> None:
    cluster = spread()
    here, there, far = (keys_at(cluster, each, 1)[0] for each in (A, B, C))
    client = Client(cluster, A, plain=True)
    told = client.ask(
        f"SET {there} 1", f"SET {here} 2", f"INCR {far}", f"INCR {there}", "PING", f"GET {here}"
    )
    assert told == OK + OK + b":1\r\n:2\r\n+PONG\r\n$1\r\n2\r\n"
    assert len(cluster.messages(Forward)) == 2, "one message for each member"


def test_next_batch_waits_for_what_is_under_way() -> None:
    cluster = spread()
    here, there = (keys_at(cluster, each, 1)[0] for each in (A, B))
    client = Client(cluster, A, plain=True)
    client.send(f"SET {there} 1")
    again = ((1, [[b"SET", here.encode(), b"1"], [b"GET", there.encode()]]),)
    cluster.step(A, Commanded(again))
    cluster.run(30)
    assert client.told == OK + OK + b"$1\r\n1\r\n"


def test_errors_of_the_owner_are_told_as_they_are() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    assert client.ask(f"SET {key} x", f"INCR {key}", f"GET {key} y").count(b"-ERR") == 2


def test_dialect_of_the_client_is_spoken_by_the_owner() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    client.call("HELLO", 3)
    assert client.call("GET", key) == b"_\r\n"


def test_commands_over_several_members_are_split_and_put_together() -> None:
    cluster = spread()
    keys = [key for each in (A, B, C) for key in keys_at(cluster, each)]
    client = Client(cluster, B, plain=True)
    pairs = [word for number, key in enumerate(keys) for word in (key, str(number))]
    assert client.call("MSET", *pairs) == OK
    values = b"".join(b"$1\r\n%d\r\n" % number for number in range(len(keys)))
    assert client.call("MGET", *keys, "none") == b"*%d\r\n%b$-1\r\n" % (len(keys) + 1, values)
    assert client.call("EXISTS", *keys, "none") == b":%d\r\n" % len(keys)
    assert (
        client.ask(f"SET {keys[2]} x", f"DEL {' '.join(keys)} none", f"GET {keys[2]}")
        == OK + b":%d\r\n" % len(keys) + NULL
    )
    assert client.call("SINTER", *keys).startswith(b"-CROSSSLOT ")


def test_error_of_one_part_is_the_reply() -> None:
    cluster = spread()
    ((here,), (there,)) = (keys_at(cluster, each, 1) for each in (A, B))
    client = Client(cluster, A, plain=True)
    owner = Client(cluster, B, 2)
    owner.call("HOLDFAST.LOCK", there, 60_000)
    assert client.call("MSET", here, "1", there, "2").startswith(b"-LOCKED ")


def test_several_keys_in_one_partition_go_as_one() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    told = client.ask(f"SADD {{{key}}}a 1 2", f"SADD {{{key}}}b 2", f"SINTER {{{key}}}a {{{key}}}b")
    assert told == b":2\r\n:1\r\n*1\r\n$1\r\n2\r\n"


# What waits ---------------------------------------------------------------------------------------


def test_element_is_waited_for_at_its_owner() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client, other = Client(cluster, A, plain=True), Client(cluster, C, 2, plain=True)
    client.send(f"BLPOP {key} 0", "PING")
    cluster.run(20_000)
    assert client.told == b""
    assert other.call("RPUSH", key, "x") == b":1\r\n"
    cluster.run(50)
    length = len(key)
    assert client.told == b"*2\r\n$%d\r\n%b\r\n$1\r\nx\r\n+PONG\r\n" % (length, key.encode())
    assert other.call("LLEN", key) == b":0\r\n"


@pytest.mark.parametrize("wait", ["BLPOP {} 0.5", "HOLDFAST.LOCK {} 100 WAIT 500"])
def test_waiting_ends_in_time(wait: str) -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    Client(cluster, B, 2).call("HOLDFAST.LOCK", f"{{{key}}}", "60000")
    client = Client(cluster, A, plain=True)
    client.send(wait.format(f"{{{key}}}" if "LOCK" in wait else key))
    cluster.run(400)
    assert client.told == b""
    cluster.run(250)
    assert client.told in (b"*-1\r\n", NULL)


def test_who_has_gone_takes_no_element() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client, other = Client(cluster, A, plain=True), Client(cluster, C, 2, plain=True)
    client.send(f"BLPOP {key} 0")
    cluster.run(20)
    assert cluster.nodes[B].data.plane.waiting
    client.close()
    cluster.run(500)
    assert not cluster.nodes[B].data.plane.waiting
    other.call("RPUSH", key, "x")
    assert other.call("LLEN", key) == b":1\r\n"


def test_lock_is_the_clients_wherever_it_asks() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client, other = Client(cluster, A, plain=True), Client(cluster, B, 2, plain=True)
    client.call("HOLDFAST.LOCK", key, "60000")
    assert client.call("SET", key, "mine") == OK
    assert other.call("SET", key, "other").startswith(b"-LOCKED ")


# What goes wrong ----------------------------------------------------------------------------------


def test_outcome_of_what_is_not_answered_is_unknown() -> None:
    cluster = spread(operation_timeout_ms=500)
    ((here,), (there,)) = (keys_at(cluster, each, 1) for each in (A, B))
    client = Client(cluster, A, plain=True)
    cluster.drops = [losing(Forwarded)]
    client.send(f"SET {there} v", f"GET {there}", f"SET {here} v")
    client.send(f"GET {here}")
    cluster.run(520)
    assert client.told == UNKNOWN + AGAIN + OK + b"$1\r\nv\r\n"
    cluster.drops = []
    assert client.call("GET", there) == b"$1\r\nv\r\n"


def test_what_is_lost_is_sent_again_and_done_once() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    cluster.drops = [losing(Forward)]
    client.send(f"INCR {key}")
    cluster.run(50)
    cluster.drops = [losing(Forwarded)]
    cluster.run(1_000)
    assert client.told == b""
    assert len(cluster.messages(Forward)) > 3
    cluster.drops = []
    cluster.run(300)
    assert client.told == b":1\r\n"


def test_write_under_way_at_a_member_that_dies_is_unknown_and_a_read_goes_on() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client, reader = Client(cluster, A, plain=True), Client(cluster, A, 2, plain=True)
    assert client.call("SET", key, "v") == OK
    cluster.drops = [losing(Forwarded)]
    client.send(f"SET {key} w")
    reader.send(f"GET {key}")
    cluster.run(5)
    cluster.drops = []
    cluster.crash(B)
    cluster.confirm_dead(B)
    cluster.run_until(lambda: bool(client.told and reader.told))
    assert client.told == UNKNOWN
    assert reader.told in (b"$1\r\nv\r\n", b"$1\r\nw\r\n")


def test_command_goes_to_whoever_owns_the_key_then() -> None:
    cluster = grid(A, None, None)
    client = Client(cluster, C, plain=True)
    assert client.call("SET", "k", "v") == OK
    cluster.drops = [
        lambda _, address, message: address == address_of(C) and not isinstance(message, Forwarded)
    ]
    cluster.migrate(moved(A, 0, B))
    cluster.run(100)
    assert cluster.nodes[A].table.row(P).owner == B
    assert cluster.nodes[C].table.row(P).owner == A
    client.send("GET k", "SET k w", "GET k")
    cluster.run(100)
    assert client.told == b""
    cluster.drops = []
    cluster.run(2_000)
    assert client.told == b"$1\r\nv\r\n" + OK + b"$1\r\nw\r\n"


def test_partition_that_comes_here_while_asked_elsewhere_is_asked_here() -> None:
    cluster = grid(A, None, None)
    client = Client(cluster, B, plain=True)
    cluster.drops = [losing(Forward)]
    client.send("SET k v")
    cluster.migrate(moved(A, 0, B))
    cluster.run(100)
    cluster.drops = []
    cluster.run(500)
    assert client.told == OK
    assert cluster.value(B, "k") == b"v"


def test_partition_without_an_owner_is_waited_for() -> None:
    cluster: Grid = grid(A, B, C, operation_timeout_ms=300)
    client = Client(cluster, C, plain=True)
    cluster.place(None, B, C)
    client.send("GET k")
    cluster.run(200)
    assert client.told == b""
    cluster.run(200)
    assert client.told == error(NO_OWNER)
    client.send("SET k v", "PING")
    cluster.place(B, None, C)
    cluster.run(100)
    assert client.told == OK + b"+PONG\r\n"


def test_message_fits_a_frame_and_what_does_not_is_refused() -> None:
    assert COMMAND_BYTES_MAX < FRAME_BYTES_MAX
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    assert client.call("SET", key, "x" * COMMAND_BYTES_MAX) == error(TOO_LARGE)
    large = "x" * (3 << 20)
    assert client.ask(*[("SET", key, large)] * 3, f"STRLEN {key}") == OK * 3 + b":%d\r\n" % (
        3 << 20
    )
    assert client.ask(("APPEND", key, large), *[f"GET {key}"] * 3).count(b"-ERR the reply") == 3


def test_backups_are_waited_for_as_by_the_owners_own_clients() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster, C, plain=True)
    cluster.drops = [to(C, BackupFrame)]
    client.send("SET k v")
    cluster.run(100)
    assert client.told == b""
    cluster.drops = []
    cluster.run(500)
    assert client.told == OK
