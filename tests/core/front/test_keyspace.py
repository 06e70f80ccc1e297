"""SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHDB over partitions, here and everywhere."""

from __future__ import annotations

import pytest

from holdfast.core.data.tickets import UNKNOWN
from holdfast.core.data_messages import BackupFrame
from holdfast.core.stores.scanning import SMALL_MAX
from tests.core.front.clients import Client, alone
from tests.core.front.test_forwarding import spread
from tests.core.harness import A, B, C, Cluster, losing
from tests.core.stores.redis_peer import parse

OK = b"+OK\r\n"
COUNT = 60


def filled(**settings: object) -> Cluster:
    """Three members with keys everywhere."""
    cluster = spread(**settings)
    client = Client(cluster, A, 99, plain=True)
    client.ask(*(f"SET k{number} v" for number in range(COUNT)))
    cluster.run(50)
    assert client.told == OK * COUNT
    return cluster


def listed(told: bytes) -> list[str]:
    """An array of byte strings."""
    _, items = parse(told)
    assert isinstance(items, list)
    return [item.decode() for _, item in items if isinstance(item, bytes)]


def scanned(client: Client, *options: str) -> tuple[list[str], int]:
    """Everything that a scan returns, and in how many calls."""
    found, cursor, calls = [], "0", 0
    while calls == 0 or cursor != "0":
        _, both = parse(client.call("SCAN", cursor, *options))
        assert isinstance(both, list)
        (_, at), (_, keys) = both
        assert isinstance(at, bytes)
        assert isinstance(keys, list)
        cursor, calls = at.decode(), calls + 1
        found += [key.decode() for _, key in keys if isinstance(key, bytes)]
        assert calls < 1_000
    return found, calls


EVERYTHING = sorted(f"k{number}" for number in range(COUNT))


def test_plain_port_tells_of_the_whole_cluster() -> None:
    client = Client(filled(), B, plain=True)
    assert client.call("DBSIZE") == b":%d\r\n" % COUNT
    assert sorted(listed(client.call("KEYS", "*"))) == EVERYTHING
    assert listed(client.call("KEYS", "k17")) == ["k17"]
    assert sorted(scanned(client)[0]) == EVERYTHING
    assert sorted(scanned(client, "COUNT", "1000", "MATCH", "k1*")[0]) == [
        each for each in EVERYTHING if each.startswith("k1")
    ]
    assert scanned(client, "TYPE", "list")[0] == []
    assert client.call("RANDOMKEY").split(b"\r\n")[1].decode() in EVERYTHING


def test_cluster_port_tells_of_what_is_here() -> None:
    cluster = filled()
    clients = [Client(cluster, each, number) for number, each in enumerate((A, B, C), 1)]
    found = [scanned(client)[0] for client in clients]
    assert all(found)
    assert sorted(key for keys in found for key in keys) == EVERYTHING
    sizes = [client.call("DBSIZE") for client in clients]
    assert sizes == [b":%d\r\n" % len(keys) for keys in found]
    assert sorted(listed(clients[0].call("KEYS", "*"))) == sorted(found[0])
    assert clients[0].call("RANDOMKEY").split(b"\r\n")[1].decode() in found[0]


def test_scan_goes_on_where_a_partition_is_not_done() -> None:
    cluster = spread()
    client = Client(cluster, A, plain=True)
    keys = [f"{{t}}{number}" for number in range(SMALL_MAX + 100)]
    for start in range(0, len(keys), 100):
        client.ask(*(f"SET {key} v" for key in keys[start : start + 100]))
        cluster.run(50)
    found, calls = scanned(client, "COUNT", "50")
    assert sorted(found) == sorted(keys)
    assert calls > 3


@pytest.mark.parametrize("plain", [False, True])
def test_empty_cluster_is_scanned_in_few_calls(plain: bool) -> None:
    client = Client(alone(partition_count=271), plain=plain)
    found, calls = scanned(client)
    assert found == []
    assert calls <= 20
    assert client.call("RANDOMKEY") == b"$-1\r\n"
    assert client.call("SCAN", str(271 << 32)) == b"*2\r\n$1\r\n0\r\n*0\r\n"


def test_random_key_in_the_other_dialect() -> None:
    client = Client(alone(), plain=True)
    client.call("HELLO", 3)
    assert client.call("RANDOMKEY") == b"_\r\n"


@pytest.mark.parametrize("command", ["FLUSHDB", "FLUSHALL", "FLUSHALL ASYNC", "flushdb sync"])
def test_everything_goes_on_the_plain_port(command: str) -> None:
    cluster = filled()
    client = Client(cluster, B, plain=True)
    assert client.ask(command) == OK
    assert client.call("DBSIZE") == b":0\r\n"


def test_own_partitions_go_on_the_cluster_port() -> None:
    cluster = filled()
    client = Client(cluster, B)
    assert client.call("FLUSHDB") == OK
    left = Client(cluster, A, 2, plain=True).call("DBSIZE")
    assert 0 < int(left[1:]) < COUNT
    assert client.call("FLUSHALL", "NOW") == b"-ERR syntax error\r\n"


def test_what_goes_is_gone_when_the_backups_know() -> None:
    cluster = filled(operation_timeout_ms=300)
    client, other = Client(cluster, B), Client(cluster, B, 2)
    (key, *_) = scanned(client)[0]
    cluster.drops = [losing(BackupFrame)]
    client.send("FLUSHDB")
    other.send(f"GET {key}", "DBSIZE")
    cluster.run(20)
    assert (client.told, other.told) == (b"", b"")
    cluster.run(300)
    assert client.told == UNKNOWN
    assert other.told.count(b"-TRYAGAIN") == 2


def test_questions_that_make_no_sense_are_refused() -> None:
    for plain in (False, True):
        client = Client(alone(), plain=plain)
        assert client.call("SCAN", "x") == b"-ERR invalid cursor\r\n"
        assert client.call("SCAN", "0", "COUNT", "0") == b"-ERR syntax error\r\n"
        assert client.call("KEYS").startswith(b"-ERR wrong number")
