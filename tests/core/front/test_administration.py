"""HOLDFAST.*: the cluster's state, its members and their journals, as commands."""

from __future__ import annotations

import pytest

from holdfast.core.states import ClusterState
from holdfast.core.stores.replies import error
from holdfast.core.views import Kind
from tests.core.data.grid import grid
from tests.core.data.test_plane import handing_over
from tests.core.front.clients import Client, alone
from tests.core.front.test_cluster import asked
from tests.core.harness import A, B, C, Cluster, D, member

OK = b"+OK\r\n"


def pairs(told: object) -> dict[bytes, object]:
    """A map, as the older dialect writes it."""
    assert isinstance(told, list)
    return dict(zip(told[::2], told[1::2], strict=True))


def test_state_is_told_and_changed_through_any_member() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster, C)
    assert client.call("HOLDFAST.STATE") == b"$6\r\nACTIVE\r\n"
    client.send("HOLDFAST.STATE frozen WAIT 1000", "PING")
    assert client.told == b""
    cluster.run(1_000)
    assert client.told == OK + b"+PONG\r\n"
    views = [node.view for node in cluster.nodes.values()]
    assert all(view is not None and view.state is ClusterState.FROZEN for view in views)
    assert client.call("HOLDFAST.STATE") == b"$6\r\nFROZEN\r\n"
    assert cluster.answers == {}
    client.send("HOLDFAST.STATE ACTIVE")
    cluster.run(1_000)
    assert client.told == OK


def test_state_that_can_not_be_reached_is_refused() -> None:
    cluster = handing_over()
    client = Client(cluster, C)
    client.send("HOLDFAST.STATE PASSIVE")
    cluster.run(1_000)
    assert client.told.startswith(b"-ERR IllegalState: ")
    assert cluster.pendings == []


def test_state_that_waits_for_a_migration_is_not_told_as_pending_to_the_shell() -> None:
    cluster = handing_over()
    client = Client(cluster, A)
    client.send("HOLDFAST.STATE PASSIVE WAIT 5000")
    cluster.run(500)
    assert (client.told, cluster.pendings) == (b"", [])
    cluster.drops = []
    cluster.run(6_000)
    assert client.told == OK


def test_who_has_gone_has_asked_all_the_same() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster, C)
    client.send("HOLDFAST.STATE PASSIVE")
    client.close()
    cluster.run(1_000)
    assert Client(cluster, B, 2).call("HOLDFAST.STATE") == b"$7\r\nPASSIVE\r\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("STATE NONSENSE", "ERR there is no such state; ask for one of ACTIVE, "),
        ("STATE IN_TRANSITION", "ERR there is no such state; ask for one of ACTIVE, "),
        ("STATE ACTIVE SOON 1", "ERR syntax error"),
        ("STATE ACTIVE WAIT", "ERR syntax error"),
        ("STATE ACTIVE WAIT x", "ERR value is not an integer"),
        ("PROMOTE", "ERR IllegalState: this is a data member already"),
        ("PROMOTE A", "ERR IllegalState: this is a data member already"),
        ("PROMOTE B", "ERR a member is promoted or demoted by asking itself; this one is A"),
        ("DEMOTE A B", "ERR syntax error"),
        ("JOURNAL default 0 0-0 0", "ERR syntax error"),
        ("JOURNAL default 0 nonsense 1", "ERR value is not an integer"),
        ("JOURNAL default 99 0-0 1", "ERR this member has nothing of the partition"),
    ],
)
def test_what_makes_no_sense_is_refused(words: str, text: str) -> None:
    told = Client(alone()).call(*f"HOLDFAST.{words}".split())
    assert told.startswith(b"-" + text.encode())


def test_member_of_no_cluster_says_so() -> None:
    cluster = Cluster(B, may_found=False, partition_count=1)
    cluster.start(member(B))
    client = Client(cluster, B)
    assert client.call("HOLDFAST.STATE") == error("CLUSTERDOWN this member is in no cluster")
    assert client.call("HOLDFAST.MEMBERS") == b"*0\r\n"
    assert client.call("HOLDFAST.PROMOTE").startswith(b"-ERR IllegalState: ")


def test_lite_member_is_promoted_and_demoted_by_asking_it() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    cluster.start(member(D, kind=Kind.LITE))
    cluster.run_until(lambda: cluster.nodes[D].view is not None and cluster.settled())
    client = Client(cluster, D)
    client.send("HOLDFAST.PROMOTE")
    cluster.run(2_000)
    assert client.told == OK
    told = asked(Client(cluster, A, 2), "HOLDFAST.MEMBERS")
    assert isinstance(told, list)
    assert [pairs(each)[b"kind"] for each in told] == [b"data"] * 4
    cluster.settle()
    client.send("HOLDFAST.DEMOTE D")
    cluster.run(10_000)
    assert client.told == OK


def test_members_are_described() -> None:
    cluster = grid(A, B, None)
    told = asked(Client(cluster, B), "HOLDFAST.MEMBERS")
    assert isinstance(told, list)
    oldest, second, _ = map(pairs, told)
    named = (b"id", b"master", b"owned", b"backups")
    assert [oldest[name] for name in named] == [b"A", 1, 1, 0]
    assert [second[name] for name in named] == [b"B", 0, 0, 1]
    assert second[b"address"] == b"b:1"


def test_migrations_are_told_while_they_run() -> None:
    cluster = grid(A, None, C)
    assert asked(Client(cluster), "HOLDFAST.MIGRATIONS") == []
    cluster = handing_over()
    told = asked(Client(cluster), "HOLDFAST.MIGRATIONS")
    assert isinstance(told, list)
    (running,) = map(pairs, told)
    assert running[b"partition"] == 0
    assert running[b"moves"] == [b"MOVE"]
    assert (running[b"before"], running[b"after"]) == ([b"A", b"", b"C"], [b"B", b"", b"C"])
    assert running[b"part"] == b"handed_over"


def test_journal_is_read_from_a_point() -> None:
    cluster = grid(A, B, C)
    client = Client(cluster)
    client.ask("SET a 1", "SET b 2", "SET a 3")
    epoch = cluster.holding(A).reign
    told = asked(client, *f"HOLDFAST.JOURNAL default 0 {epoch}-0 2".split())
    assert isinstance(told, list)
    assert [(each[0], each[1]) for each in told] == [
        (b"%d-1" % epoch, b"a"),
        (b"%d-2" % epoch, b"b"),
    ]
    assert told[0][2].endswith(b"1")
    told = asked(client, *f"HOLDFAST.JOURNAL default 0 {epoch}-2 100".split())
    assert isinstance(told, list)
    assert [each[1] for each in told] == [b"a"]
    assert asked(client, *f"HOLDFAST.JOURNAL nothing 0 {epoch}-0 2".split()) == []
    gap = client.call(*f"HOLDFAST.JOURNAL default 0 {epoch + 5}-9 2".split())
    assert gap.startswith(b"-GAP the oldest point that can be gone on from is ")
