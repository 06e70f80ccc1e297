"""INFO and CONFIG GET tell what is so, and nothing that nobody has said."""

from __future__ import annotations

from holdfast.core.stores.settings import NameSettings
from tests.core.data.grid import grid
from tests.core.front.clients import Client, alone
from tests.core.harness import A, B, C


def lines(told: bytes) -> dict[str, str]:
    """What is told, by name."""
    text = told.split(b"\r\n", 1)[1].decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def test_sections_are_chosen_by_name() -> None:
    client = Client(alone())
    whole = client.call("INFO")
    assert whole == client.call("INFO", "nonsense", "everything").replace(
        b"total_commands_processed:2", b"total_commands_processed:1"
    )
    titles = [line for line in whole.decode().split("\r\n") if line.startswith("#")]
    assert len(titles) == 9
    some = client.call("INFO", "cluster", "CPU").split(b"\r\n", 1)[1]
    assert some == b"# CPU\r\n\r\n# Cluster\r\ncluster_enabled:1\r\n\r\n"


def test_what_the_shell_has_not_said_is_not_told() -> None:
    cluster = alone()
    client = Client(cluster, plain=True)
    told = lines(client.call("INFO"))
    assert not {"process_id", "used_memory", "os", "maxclients", "tcp_port"} & set(told)
    facts = cluster.nodes[A].facts
    facts.process_id, facts.os, facts.version, facts.plain_port = 42, "Linux", "0.1", 6379
    facts.memory_used_bytes, facts.connections_max = 1_000, 50
    told = lines(client.call("INFO"))
    assert told["process_id"] == "42"
    assert told["holdfast_version"] == "0.1"
    assert told["used_memory"] == "1000"
    assert (told["redis_mode"], told["cluster_enabled"]) == ("standalone", "0")
    assert client.call("CONFIG", "GET", "p*", "maxclients").count(b"$") == 4


def test_time_is_counted_from_the_start() -> None:
    cluster = alone()
    cluster.run(5_000)
    told = lines(Client(cluster).call("INFO", "server"))
    assert int(told["uptime_in_seconds"]) == cluster.now // 1_000
    assert told["uptime_in_days"] == "0"


def test_own_keys_are_counted_and_backups_named() -> None:
    cluster = grid(A, B, C, unnamed=NameSettings(backups=1))
    client = Client(cluster)
    assert "db0" not in lines(client.call("INFO", "keyspace"))
    client.ask("SET a 1", "SET b 1")
    told = lines(client.call("INFO"))
    assert told["db0"] == "keys=2"
    assert told["connected_slaves"] == "2"
    assert int(told["used_memory_dataset"]) > 0
    assert told["aof_enabled"] == "0"
    told = lines(Client(cluster, B, 2).call("INFO"))
    assert "db0" not in told
    assert told["connected_slaves"] == "0"


def test_parameters_differ_by_port() -> None:
    cluster = alone()
    asked = ("CONFIG", "GET", "cluster-enabled")
    assert b"$3\r\nyes\r\n" in Client(cluster).call(*asked)
    assert b"$2\r\nno\r\n" in Client(cluster, number=2, plain=True).call(*asked)
