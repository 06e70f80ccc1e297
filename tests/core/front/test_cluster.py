"""CLUSTER: the table of partitions as clients of Redis Cluster want it."""

from __future__ import annotations

import re

import pytest

from holdfast.core.context import Context
from holdfast.core.data.gates import SLOTS
from holdfast.core.data.plane import slot_of
from holdfast.core.front.facts import LinkFacts
from holdfast.core.front.shape import (
    first_slot,
    node_name,
    partition_of_slot,
    shape_of,
    split_address,
)
from holdfast.core.views import Endpoints
from holdfast.ids import Address, MemberId
from tests.core.data.grid import grid
from tests.core.front.clients import Client, alone
from tests.core.harness import A, B, C, Cluster, follower, member, row
from tests.core.migrating import published
from tests.core.stores.redis_peer import Reply, parse


def plain(reply: Reply) -> object:
    """A reply without its kinds."""
    kind, what = reply
    if isinstance(what, list):
        return [plain(each) for each in what]
    return int(what or b"") if kind == b":" else what


def asked(client: Client, *words: str) -> object:
    return plain(parse(client.call(*words)))


def name_of(member_id: MemberId) -> bytes:
    return node_name(member_id).encode()


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64, 271, 5_000, 16_384])
def test_every_slot_is_in_the_range_of_its_partition(partitions: int) -> None:
    for slot in range(SLOTS):
        partition = partition_of_slot(slot, partitions)
        assert first_slot(partition, partitions) <= slot < first_slot(partition + 1, partitions)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("a:1", "a", 1), ("[::1]:7379", "::1", 7379), ("10.0.0.1:x", "10.0.0.1", 0), ("", "", 0)],
)
def test_address_is_taken_apart(address: str, host: str, port: int) -> None:
    assert split_address(Address(address)) == (host, port)


def test_nodes_have_names_of_forty_digits() -> None:
    assert re.fullmatch("[0-9a-f]{40}", node_name(A))
    assert node_name(A) != node_name(B)


def test_partitions_side_by_side_of_one_owner_are_one_range() -> None:
    cluster = follower(partition_count=4)
    for each in (
        row(0, 3, B, C, None, reign=1),
        row(1, 3, B, None, None, reign=1),
        row(2, 3, C, A, None, reign=1),
        row(3, 3, B, None, A, reign=1),
    ):
        published(cluster, each)
    shape = shape_of(cluster.nodes[B].context)
    assert [(each.first, each.last, each.owner) for each in shape.ranges] == [
        (0, 8191, B),
        (8192, 12287, C),
        (12288, 16383, B),
    ]
    assert shape.slots == SLOTS
    assert list(shape.masters) == [A], "who owns something is no replica"
    client = Client(cluster, B)
    here, there = [b"b", 1, name_of(B), []], [b"c", 1, name_of(C), []]
    replica = [b"a", 1, name_of(A), []]
    master = shape.masters[A]
    assert asked(client, "CLUSTER", "SLOTS") == [
        [0, 8191, here, *([replica] if master == B else [])],
        [8192, 12287, there, *([replica] if master == C else [])],
        [12288, 16383, here, *([replica] if master == B else [])],
    ]


def test_while_an_owner_has_just_gone_clients_are_told_who_comes_after_it() -> None:
    """They know all slots, and the state of the cluster says that not all is well."""
    cluster = follower(partition_count=2)
    published(cluster, row(0, 3, MemberId("X"), C, B, reign=1))
    published(cluster, row(1, 3, B, C, None, reign=1))
    client = Client(cluster, B)
    here, there = [b"b", 1, name_of(B), []], [b"c", 1, name_of(C), []]
    assert asked(client, "CLUSTER", "SLOTS") == [[0, 8191, there], [8192, 16383, here]]
    info = client.call("CLUSTER", "INFO")
    assert b"cluster_state:fail\r\ncluster_slots_assigned:8192\r\n" in info


def test_partitions_without_an_owner_that_is_listed_are_in_no_range() -> None:
    cluster = follower(partition_count=2)
    published(cluster, row(0, 3, None, None, None))
    published(cluster, row(1, 3, MemberId("X"), None, None, reign=1))
    client = Client(cluster, B)
    assert asked(client, "CLUSTER", "SLOTS") == []
    info = client.call("CLUSTER", "INFO")
    assert b"cluster_state:fail\r\ncluster_slots_assigned:0\r\n" in info
    assert b"cluster_known_nodes:3\r\ncluster_size:0\r\n" in info


def test_member_of_no_cluster_knows_nobody() -> None:
    cluster = Cluster(B, may_found=False, partition_count=1)
    cluster.start(member(B))
    client = Client(cluster, B)
    assert asked(client, "CLUSTER", "SHARDS") == []
    assert client.call("CLUSTER", "NODES") == b"$0\r\n\r\n"
    assert b"cluster_state:fail\r\n" in client.call("CLUSTER", "INFO")
    assert asked(client, "CLUSTER", "MYID") == name_of(B)


def test_shards_are_masters_with_their_slots_and_replicas() -> None:
    client = Client(grid(A, B, None))
    shards = asked(client, "CLUSTER", "SHARDS")
    assert isinstance(shards, list)

    def node(member_id: MemberId, role: bytes) -> list[object]:
        host = member_id.lower().encode()
        about = [b"id", name_of(member_id), b"port", 1, b"ip", host, b"endpoint", host]
        return [*about, b"role", role, b"replication-offset", 0, b"health", b"online"]

    assert shards == [
        [b"slots", [0, 16383], b"nodes", [node(A, b"master"), node(B, b"replica")]],
        [b"slots", [], b"nodes", [node(C, b"master")]],
    ]


def test_nodes_are_lines() -> None:
    client = Client(grid(A, B, None), B)
    told = asked(client, "CLUSTER", "NODES")
    assert isinstance(told, bytes)
    term = re.findall(rb"0 0 (\d+) connected", told)[0].decode()
    assert told.decode().split("\n") == [
        f"{node_name(A)} a:1@1 master - 0 0 {term} connected 0-16383",
        f"{node_name(B)} b:1@1 myself,slave {node_name(A)} 0 0 {term} connected",
        f"{node_name(C)} c:1@1 master - 0 0 {term} connected",
        "",
    ]


def test_single_slots_are_told_as_such() -> None:
    told = Client(alone(partition_count=SLOTS)).call("CLUSTER", "NODES")
    assert told.endswith(b" connected 0-16383\n\r\n")


def test_where_the_cluster_port_is_counts_and_not_the_link() -> None:
    cluster = Cluster(A, partition_count=1)
    stay = member(A)
    object.__setattr__(stay, "endpoints", Endpoints(cluster=Address("[::1]:7379")))
    cluster.start(stay)
    cluster.run_until(lambda: cluster.master is not None)
    cluster.settle()
    client = Client(cluster, plain=True)
    assert asked(client, "CLUSTER", "SLOTS") == [[0, 16383, [b"::1", 7379, name_of(A), []]]]
    assert b" ::1:7379@1 myself,master " in client.call("CLUSTER", "NODES")


def test_keys_of_a_slot_are_counted_and_listed() -> None:
    client = Client(alone())
    client.ask("SET {x}1 a", "SET {x}2 a", "RPUSH {x}3 a", "SET y a")
    slot = slot_of(b"x")
    assert asked(client, "CLUSTER", "KEYSLOT", "{x}1") == slot
    assert asked(client, "CLUSTER", "COUNTKEYSINSLOT", str(slot)) == 3
    assert asked(client, "CLUSTER", "COUNTKEYSINSLOT", str(slot_of(b"y") ^ 1)) == 0
    found = asked(client, "CLUSTER", "GETKEYSINSLOT", str(slot), "10")
    assert isinstance(found, list)
    assert sorted(found) == [b"{x}1", b"{x}2", b"{x}3"]
    some = asked(client, "CLUSTER", "GETKEYSINSLOT", str(slot), "2")
    assert isinstance(some, list)
    assert len(some) == 2


def test_keys_of_others_are_not_mine() -> None:
    cluster = grid(A, B, C)
    Client(cluster).call("SET", "k", "v")
    assert Client(cluster, B, 2).call("CLUSTER", "COUNTKEYSINSLOT", slot_of(b"k")) == b":0\r\n"


def test_owned_partitions_are_those_of_the_row() -> None:
    context: Context = alone().nodes[A].context
    assert len(shape_of(context).ranges) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("COUNTKEYSINSLOT 16384", "ERR Invalid slot"),
        ("COUNTKEYSINSLOT -1", "ERR Invalid slot"),
        ("COUNTKEYSINSLOT x", "ERR value is not an integer or out of range"),
        ("GETKEYSINSLOT 16384 1", "ERR Invalid slot or number of keys"),
        ("GETKEYSINSLOT 1 -1", "ERR Invalid slot or number of keys"),
        ("COUNT-FAILURE-REPORTS nobody", "ERR Unknown node nobody"),
    ],
)
def test_questions_that_make_no_sense_are_refused(words: str, text: str) -> None:
    told = Client(alone()).call("CLUSTER", *words.split())
    assert told == b"-%b\r\n" % text.encode()


def test_nobody_reports_failures() -> None:
    assert Client(alone()).call("CLUSTER", "COUNT-FAILURE-REPORTS", node_name(A)) == b":0\r\n"


def link(way: bytes, to: MemberId, *, since: int, events: bytes, unsent: int) -> list[object]:
    """As CLUSTER LINKS tells it."""
    told = {
        b"direction": way,
        b"node": name_of(to),
        b"create-time": since,
        b"events": events,
        b"send-buffer-allocated": unsent,
        b"send-buffer-used": unsent,
    }
    return [each for pair in told.items() for each in pair]


def test_links_to_members_are_told_and_those_to_others_are_not() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster)
    assert asked(client, "CLUSTER", "LINKS") == []
    at = [cluster.nodes[each].me.address for each in (B, C)]
    cluster.nodes[A].facts.links = (
        LinkFacts(at[0], dialled=True, since=5, unsent_bytes=0),
        LinkFacts(at[1], dialled=False, since=6, unsent_bytes=7),
        LinkFacts(Address("elsewhere:1"), dialled=True, since=8, unsent_bytes=0),
    )
    assert asked(client, "CLUSTER", "LINKS") == [
        link(b"to", B, since=5, events=b"r", unsent=0),
        link(b"from", C, since=6, events=b"rw", unsent=7),
    ]
