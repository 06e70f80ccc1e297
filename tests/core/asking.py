"""What tests of requests share: a cluster with a lite member, the asks, the answers."""

from __future__ import annotations

from holdfast.core.effects import Answer
from holdfast.core.messages import Ask
from holdfast.core.node import Node
from holdfast.core.views import Kind, View
from tests.core.harness import A, B, C, Cluster, member, request_of

PROMOTE, DEMOTE, LEAVE = request_of(Ask.PROMOTE), request_of(Ask.DEMOTE), request_of(Ask.LEAVE)


def with_lite(**settings: object) -> tuple[Cluster, Node]:
    """A leads B, and C which is lite."""
    cluster = Cluster(A, B, C, **settings)
    for member_id in (A, B, C):
        kind = Kind.LITE if member_id == C else Kind.DATA
        cluster.start(member(member_id, kind=kind))
    return cluster, cluster.settle()


def outcome(cluster: Cluster, request_id: str = "q") -> Answer:
    """The one answer, when it has come; nothing follows."""
    cluster.run_until(lambda: request_id in cluster.answers)
    cluster.run(3_000)
    (answer,) = cluster.answers[request_id]
    return answer


def held(node: Node, of: str) -> int:
    """How many indexes a member has."""
    return sum(of in row.replicas for row in node.table.rows)


def view(node: Node) -> View:
    assert node.view is not None
    return node.view
