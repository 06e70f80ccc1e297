"""MULTI, EXEC, WATCH on either port."""

from __future__ import annotations

import pytest

from holdfast.core.data.plane import CROSS_SLOT
from holdfast.core.data.tickets import UNKNOWN
from holdfast.core.data_messages import BackupFrame, Forward, Forwarded
from holdfast.core.front.errands import COMMAND_BYTES_MAX, TOO_LARGE
from holdfast.core.front.transactions import ABORTED, NOT_INSIDE, pack, unpack
from holdfast.core.stores.replies import error
from tests.core.data.grid import grid, to
from tests.core.data.test_plane import handing_over
from tests.core.front.clients import Client, alone
from tests.core.front.test_forwarding import keys_at, spread
from tests.core.harness import A, B, C, losing

OK = b"+OK\r\n"
QUEUED = b"+QUEUED\r\n"
NULL = b"$-1\r\n"
NOTHING = b"*-1\r\n"


def test_packed_transaction_is_unpacked() -> None:
    watched = {b"a": b"1", b"b": b""}
    commands = [[b"GET", b"a"], [b"PING"], [b"SET", b"b", b"3", b"4"]]
    assert unpack(pack(watched, commands)) == (watched, commands)
    assert unpack(pack({}, [])) == ({}, [])


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("member", [A, B])
def test_commands_of_one_partition_are_done_in_one_go(plain: bool, member: str) -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B if member == B else A, 1)
    client = Client(cluster, A if plain else (B if member == B else A), plain=plain)
    told = client.ask(
        "MULTI",
        f"SET {key} 1",
        f"INCR {key}",
        "PING",
        f"LPUSH {key} x",
        f"BLPOP {{{key}}} 0",
        "EXEC",
    )
    assert told == OK + QUEUED * 5 + (
        b"*5\r\n+OK\r\n:2\r\n+PONG\r\n"
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n*-1\r\n"
    )
    assert client.call("GET", key) == b"$1\r\n2\r\n"


def test_nobody_sees_a_part_and_one_frame_has_all() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster)
    client.ask("MULTI", "SET a 1", "SET b 2")
    assert Client(cluster, number=2).ask("GET a", "GET b") == NULL * 2
    cluster.sent.clear()
    assert client.call("EXEC") == b"*2\r\n+OK\r\n+OK\r\n"
    assert len([frame for frame in cluster.messages(BackupFrame, to=B) if frame.runs]) == 1


def test_transaction_that_is_not_confirmed_is_unknown_as_a_whole() -> None:
    cluster = grid(A, B, C, operation_timeout_ms=300)
    client = Client(cluster)
    cluster.drops = [losing(BackupFrame)]
    client.send("MULTI", "SET a 1", "GET a", "EXEC")
    cluster.run(350)
    assert client.told == OK + QUEUED * 2 + UNKNOWN


@pytest.mark.parametrize("plain", [False, True])
def test_keys_of_several_partitions_are_refused(plain: bool) -> None:
    client = Client(alone(), plain=plain)
    assert client.ask("MULTI", "SET a 1", "SET b 1", "EXEC") == OK + QUEUED * 2 + error(CROSS_SLOT)
    assert client.ask("WATCH a", "WATCH b", "WATCH a b") == OK + error(CROSS_SLOT) * 2
    assert client.ask("MULTI", "SET b 1", "EXEC") == OK + QUEUED + error(CROSS_SLOT)
    told = client.ask("MULTI", "MSET a 1 b 1", "EXEC")
    assert told.endswith(error(ABORTED) if not plain else error(CROSS_SLOT))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("kind", "change", "reply"),
    [
        ("SET {} 1", "SET {} 2", NOTHING),
        ("SADD {} 1", "SADD {} 2", NOTHING),
        ("SET {} 1", "GET {}", b"*1\r\n+PONG\r\n"),
        ("PING", "SET {} 1", NOTHING),
        ("PING", "GET {}", b"*1\r\n+PONG\r\n"),
        ("SET {} 1", "DEL {}", NOTHING),
    ],
)
def test_what_is_watched_must_not_change(plain: bool, kind: str, change: str, reply: bytes) -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A if plain else B, plain=plain)
    other = Client(cluster, B, 2)
    other.ask(kind.format(key))
    assert client.ask(f"WATCH {key} {{{key}}}x", f"WATCH {key}", "MULTI", "PING") == OK * 3 + QUEUED
    other.ask(change.format(key))
    assert client.call("EXEC") == reply
    assert client.ask("MULTI", f"EXISTS {{{key}}}x", "EXEC") == OK + QUEUED + b"*1\r\n:0\r\n"


def test_what_was_watched_is_not_any_more() -> None:
    cluster = alone()
    client, other = Client(cluster), Client(cluster, number=2)
    for undo in (("UNWATCH",), ("MULTI", "DISCARD"), ("RESET",)):
        client.ask("WATCH a", *undo)
        other.ask("SET a 1", "DEL a", "SET a 2")
        assert client.ask("MULTI", "GET a", "EXEC").endswith(b"*1\r\n$1\r\n2\r\n")
        other.call("DEL", "a")


def test_empty_transaction_is_empty() -> None:
    assert Client(alone(), plain=True).ask("MULTI", "EXEC") == OK + b"*0\r\n"


def test_dialect_of_what_has_changed() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client, other = Client(cluster, A, plain=True), Client(cluster, B, 2)
    client.ask("HELLO 3", f"WATCH {key}")
    other.ask(f"SET {key} 1")
    assert client.ask("MULTI", f"GET {key}", "EXEC").endswith(QUEUED + b"_\r\n")


def test_member_that_is_not_the_owner_says_so_when_a_command_is_queued() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster, B)
    moved = b"-MOVED 12182 a:1\r\n"
    assert client.ask("MULTI", "SET foo 1", "EXEC") == OK + moved + error(ABORTED)
    assert client.call("WATCH", "foo") == moved


def test_key_that_has_moved_since_it_was_queued_ends_the_transaction() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster)
    client.ask("MULTI", "SET foo 1")
    cluster.place(B, None, C)
    assert client.ask("EXEC", "PING") == b"-MOVED 12182 b:1\r\n+PONG\r\n"


def test_transaction_waits_while_its_partition_is_handed_over() -> None:
    cluster = grid(A, None, C)
    client = Client(cluster)
    client.ask("MULTI", "SET foo 1")
    cluster = handing_over()
    client = Client(cluster)
    client.send("MULTI", "PING", "EXEC", "MULTI", "SET foo 1")
    cluster.run(50)
    assert client.told == OK + QUEUED + b"*1\r\n+PONG\r\n" + OK
    cluster.drops = []
    cluster.run(1_000)
    assert client.told.endswith(OK + b"-MOVED 12182 b:1\r\n")


def test_commands_that_ask_others_are_not_for_transactions() -> None:
    client = Client(alone(), plain=True)
    assert client.ask("MULTI", "DBSIZE", "EXEC") == OK + error(NOT_INSIDE) + error(ABORTED)


def test_error_of_an_aside_stands_in_its_place() -> None:
    client = Client(alone())
    told = client.ask("MULTI", "SELECT 1", "PING", "EXEC")
    assert told == OK + QUEUED * 2 + b"*2\r\n-ERR DB index is out of range\r\n+PONG\r\n"


def test_transaction_follows_what_is_under_way() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    told = client.ask(f"SET {key} 1", f"WATCH {key}", "MULTI", f"INCR {key}", "EXEC", f"INCR {key}")
    assert told == OK * 3 + QUEUED + b"*1\r\n:2\r\n:3\r\n"
    told = client.ask("MULTI", f"INCR {key}", "EXEC", "MULTI", f"INCR {key}", "EXEC", "PING")
    assert told == (OK + QUEUED + b"*1\r\n:4\r\n") + (OK + QUEUED + b"*1\r\n:5\r\n") + b"+PONG\r\n"


def test_transaction_is_done_once_and_unknown_if_nobody_says() -> None:
    cluster = spread(operation_timeout_ms=400)
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    cluster.drops = [losing(Forwarded)]
    client.send("MULTI", f"INCR {key}", "EXEC", "PING")
    cluster.run(450)
    assert len(cluster.messages(Forward)) > 1
    assert client.told == OK + QUEUED + UNKNOWN + b"+PONG\r\n"
    cluster.drops = []
    assert client.call("GET", key) == b"$1\r\n1\r\n"


def test_transaction_that_is_too_large_is_refused() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    half = "x" * (COMMAND_BYTES_MAX // 2)
    client.ask("MULTI", ("SET", key, half), ("APPEND", key, half))
    assert client.ask("EXEC", f"EXISTS {key}") == error(TOO_LARGE) + b":0\r\n"


def test_transaction_needs_its_backups() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster)
    cluster.drops = [to(C, BackupFrame)]
    client.send("MULTI", "SET k v", "EXEC")
    cluster.run(50)
    assert client.told == b""
    cluster.drops = []
    cluster.run(500)
    assert client.told == OK + QUEUED + b"*1\r\n+OK\r\n"


@pytest.mark.parametrize("name", ["TRANSACTION", "VERSIONS", "PARTITION"])
def test_what_members_ask_one_another_is_not_for_clients(name: str) -> None:
    assert Client(alone()).call(f"HOLDFAST.{name}", "0").startswith(b"-ERR unknown command")
