"""A lite member becomes a voter when it has seen the table, like a newcomer."""

from __future__ import annotations

from holdfast.core.messages import Publication, RequestDone
from holdfast.core.node import Node
from holdfast.core.views import Kind
from tests.core.asking import PROMOTE, outcome, view, with_lite
from tests.core.harness import A, B, C, Cluster, address_of, losing, member


def asks_before_it_has_heard(cluster: Cluster) -> Node:
    """A, with files, owns all. C, lite, is let in and asks; no row has come to it."""
    master = cluster.form(persistent=True)
    cluster.drops = [losing(Publication)]
    cluster.start(member(C, kind=Kind.LITE), initial=(address_of(A),))
    cluster.run_until(lambda: cluster.nodes[C].view == view(master))
    cluster.ask(C, PROMOTE)
    cluster.run(100)
    return master


def kind_of_c(master: Node) -> Kind:
    listed = view(master).find(C)
    assert listed is not None
    return listed.kind


def test_lite_member_is_promoted_when_it_has_seen_the_table() -> None:
    cluster = Cluster(A)
    master = asks_before_it_has_heard(cluster)
    assert (kind_of_c(master), cluster.messages(RequestDone)) == (Kind.LITE, [])
    cluster.drops = []
    assert outcome(cluster).error == ""
    assert kind_of_c(master) is Kind.DATA


def test_who_has_not_seen_the_table_does_not_begin_it_anew() -> None:
    """1. C asks to be promoted and lacks the table. 2. A ends, and C knows that it is dead: as one
    of two voters it would go on alone, with partitions that are empty and nobody calls lost. 3. A
    is back, with its files, and leads with what it had."""
    cluster = Cluster(A)
    asks_before_it_has_heard(cluster)
    assert cluster.reply(A, "SET key kept") == b"+OK\r\n"
    cluster.crash(A)
    cluster.confirm_dead(A)
    cluster.run(5_000)
    assert cluster.master is None
    cluster.drops = []
    cluster.start(member(A, 2, persistent=True))
    cluster.settle()
    assert cluster.reply(A, "GET key") == b"$4\r\nkept\r\n"


def test_lite_master_promotes_itself() -> None:
    """Nobody else is left, and it knows what it knows."""
    cluster, _ = with_lite()
    cluster.crash(A, B)
    cluster.confirm_dead(A)
    cluster.confirm_dead(B)
    cluster.run_until(lambda: cluster.master is not None and len(view(cluster.master).members) == 1)
    cluster.ask(C, PROMOTE)
    assert outcome(cluster).error == ""
    assert [m.kind for m in view(cluster.nodes[C]).members] == [Kind.DATA]
