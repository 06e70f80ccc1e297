"""Migrations of one partition, for tests that play its master and the other participants."""

from __future__ import annotations

from holdfast.core.messages import (
    Completed,
    Fragment,
    FragmentAck,
    Migration,
    MigrationId,
    MigrationReady,
    Publication,
)
from holdfast.core.migrations import MigrationType, Move
from holdfast.core.node import Node
from holdfast.core.table import REIGN_BITS, Row
from holdfast.core.views import Kind
from holdfast.ids import NO_INDEX, MemberId, Replicas, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    follower,
    member,
    partition,
    row,
)

a, b, c = member(A), member(B), member(C)
P = partition(0)
DATA = Fragment(0, 7)


def move(source: MemberId | None, destination: MemberId | None, index: int = 0) -> Move:
    left = NO_INDEX if source is None else index
    taken = NO_INDEX if destination is None else index
    return Move(MigrationType.MOVE, source, left, NO_INDEX, destination, NO_INDEX, taken)


def migration(
    before: Replicas, after: Replicas, *moves: Move, version: int = 3, sequence: int = 1
) -> Migration:
    return Migration(MigrationId(Term(1), sequence), P, Version(version), moves, before, after)


GIVE = migration((B, None, None), (C, None, None), move(B, C))
"""B owns the partition and gives it to C."""
TAKE = migration((C, None, None), (B, None, None), move(C, B))
"""C owns it and gives it to B."""


def published(cluster: Cluster, held: Row, *completed: Completed) -> None:
    """A publishes a row."""
    cluster.inject(a, B, Publication(Term(1), 9, (held,), completed))


REIGN = 1
"""Of the owner at version 3."""
NEXT_REIGN = 1 << REIGN_BITS
"""Of the first owner whom the master of term 1 has put in its place."""


def owning(*, backup_count: int = 1, **settings: bool) -> tuple[Cluster, Node]:
    """B owns partition 0 at version 3."""
    cluster = follower(persistent=False, kind=Kind.DATA, backup_count=backup_count, **settings)
    published(cluster, row(0, 3, B, None, None, reign=REIGN))
    return cluster, cluster.nodes[B]


def lacking() -> tuple[Cluster, Node]:
    """C owns partition 0 at version 3, and B has no index."""
    cluster = follower()
    published(cluster, row(0, 3, C, None, None, reign=REIGN))
    return cluster, cluster.nodes[B]


def ready(cluster: Cluster) -> str | None:
    """What B told its master last about a migration."""
    said = cluster.messages(MigrationReady)
    return said[-1].reason if said else None


def acked(cluster: Cluster) -> str:
    return cluster.messages(FragmentAck, to=C)[-1].reason
