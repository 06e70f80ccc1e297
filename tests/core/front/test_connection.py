"""Sessions, and what a client says about its connection, where Redis is no measure."""

from __future__ import annotations

import pytest

from holdfast.core.data_messages import BackupFrame
from holdfast.core.front.catalogue import ASIDES, EVERYTHING
from holdfast.core.stores.catalogue import ALL
from tests.core.data.grid import grid, to
from tests.core.front.clients import Client, alone
from tests.core.harness import A, B, C, losing


def test_sessions_have_a_dialect_each() -> None:
    cluster = alone()
    old, new = Client(cluster, number=1), Client(cluster, number=2)
    assert new.ask("HELLO 3", "GET k").endswith(b"_\r\n")
    assert old.call("GET", "k") == b"$-1\r\n"
    assert new.call("GET", "k") == b"_\r\n"
    assert new.ask("RESET", "GET k") == b"+RESET\r\n$-1\r\n"


@pytest.mark.parametrize(("plain", "mode"), [(True, b"standalone"), (False, b"cluster")])
def test_greeting_says_which_port_it_is(plain: bool, mode: bytes) -> None:
    cluster = alone()
    told = Client(cluster, number=9, plain=plain).call("HELLO")
    assert b"mode\r\n$%d\r\n%b\r\n" % (len(mode), mode) in told
    assert b"id\r\n:9\r\n" in told


def test_greeting_may_give_a_name() -> None:
    client = Client(alone())
    assert client.call("HELLO", 2, "SETNAME", "me", "AUTH", "default", "x").startswith(b"*14")
    assert client.call("CLIENT", "GETNAME") == b"$2\r\nme\r\n"


def test_session_of_which_nothing_was_said_is_of_the_cluster_port() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(B, "GET foo") == b"-MOVED 12182 a:1\r\n"
    assert cluster.reply(B, "CLIENT ID", session=12) == b":12\r\n"


def test_who_quits_is_answered_and_then_hung_up_on() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster)
    cluster.drops = [to(C, BackupFrame)]
    client.send("SET k v", "QUIT", "GET k")
    client.send("GET k")
    cluster.run(20)
    assert (client.told, cluster.hung_up) == (b"", [])
    cluster.drops = []
    cluster.run(500)
    assert (client.told, cluster.hung_up) == (b"+OK\r\n+OK\r\n", [1])
    client.close()
    assert cluster.nodes[A].front.around.sessions.open == {}


def test_client_that_goes_before_it_is_hung_up_on_is_forgotten() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster)
    cluster.drops = [losing(BackupFrame)]
    client.send("SET k v", "QUIT")
    client.close()
    cluster.run(100)
    assert cluster.hung_up == []


def test_what_is_known_of_clients_is_listed() -> None:
    cluster = alone()
    client, other = Client(cluster, number=4), Client(cluster, number=5, plain=True)
    assert (
        client.ask(
            "CLIENT SETNAME me", "CLIENT SETINFO lib-name good", "CLIENT SETINFO LIB-VER 1.0"
        )
        == b"+OK\r\n" * 3
    )
    told = client.call("CLIENT", "INFO")
    assert b"id=4 addr=peer:4 name=me age=0 flags=N" in told
    assert told.endswith(b" resp=2 lib-name=good lib-ver=1.0\n\r\n")
    assert [b"id=4 " in told, b"id=5 " in told] == [True, False]
    told = other.call("CLIENT", "LIST")
    assert [b"id=4 " in told, b"id=5 " in told] == [True, True]
    told = other.call("CLIENT", "LIST", "ID", 4)
    assert [b"id=4 " in told, b"id=5 " in told] == [True, False]
    assert other.call("CLIENT", "LIST", "TYPE", "normal").count(b"id=") == 2


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("CLIENT SETINFO nonsense x", b"-ERR Unrecognized option 'nonsense'\r\n"),
        ("CLIENT NO-TOUCH off", b"+OK\r\n"),
        ("CLIENT NO-TOUCH on", b"-ERR every command counts as a use of its keys here\r\n"),
        ("CLIENT NO-TOUCH x", b"-ERR syntax error\r\n"),
        ("READONLY", b"+OK\r\n"),
        ("READWRITE", b"+OK\r\n"),
    ],
)
def test_small_agreements(words: str, reply: bytes) -> None:
    assert Client(alone()).call(*words.split()) == reply


def test_library_is_a_word() -> None:
    refused = Client(alone()).call("CLIENT", "SETINFO", "lib-name", "a b")
    assert refused == b"-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"


def test_commands_of_stores_and_asides_are_told_together() -> None:
    client = Client(alone())
    names = [each.name for each in EVERYTHING.all()]
    assert len(names) == len(set(names))
    assert set(names) == {each.name for each in ALL.all()} | {each.name for each in ASIDES.all()}
    assert client.call("COMMAND", "COUNT") == b":%d\r\n" % len(names)
    assert client.call("COMMAND", "INFO", "ping").startswith(b"*1\r\n*10\r\n$4\r\nping\r\n:-1\r\n")
    assert client.call("COMMAND", "GETKEYS", "ping", "x").startswith(b"-ERR The command has no key")
    assert client.call("COMMAND", "GETKEYS", "watch", "a", "b") == b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"
    assert client.call("COMMAND", "LIST").count(b"$") == len(names)
    assert client.call("COMMAND", "LIST", "FILTERBY", "PATTERN", "PIN*") == b"*1\r\n$4\r\nping\r\n"
    assert client.call("COMMAND", "LIST", "FILTERBY", "MODULE", "x") == b"-ERR syntax error\r\n"
    assert client.call("COMMAND", "LIST", "x") == b"-ERR syntax error\r\n"


def test_every_aside_says_how_it_is_called() -> None:
    for aside in ASIDES.all():
        assert aside.name.encode() in aside.about.encode(), aside.name
        assert aside.name == aside.name.upper()
