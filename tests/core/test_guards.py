"""Malformed events are refused at the door with an error of the tree, and change nothing."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from holdfast.core.config import Config
from holdfast.core.events import Event, Image, Persisted, Received, Started
from holdfast.core.messages import (
    CommitRequest,
    Completed,
    Fragment,
    FragmentPush,
    Message,
    Migration,
    MigrationId,
    MigrationRequest,
    Outcome,
    Publication,
    Report,
    StablePublication,
    StableTable,
    Versions,
)
from holdfast.core.node import Node
from holdfast.core.table import Row
from holdfast.errors import HoldfastError, LocalProtocolError, MessageError, RecoveryError
from holdfast.ids import Millis, PartitionId, Replicas, Term, Version
from tests.core.harness import A, B, Cluster, member, origin_of, partition, row, view_of

TERM = Term(1)
ID = MigrationId(TERM, 1)
CONFIG = Config(partition_count=2, replica_count=2, backup_count=1)


def migration(number: int = 0, before: Replicas = (A, B), after: Replicas = (B, A)) -> Migration:
    return Migration(ID, partition(number), Version(1), (), before, after)


def ended(broken: Migration) -> tuple[Completed, ...]:
    return (Completed(broken, Outcome.FAILED),)


def report(
    rows: tuple[Row, ...] = (),
    completed: tuple[Completed, ...] = (),
    active: tuple[Migration, ...] = (),
    unpublished: tuple[PartitionId, ...] = (),
    stable: StableTable | None = None,
) -> Report:
    return Report(TERM, 0, rows, completed, active, unpublished, stable)


def stable(*rows: Row) -> StableTable:
    return StableTable(TERM, Version(1), rows)


FAR = row(7, 1, A, B)
LONG = row(0, 1, A, B, None)
TWICE = row(0, 1, A, A)
FAR_AWAY = migration(7)
LONG_AFTER = migration(after=(A, B, None))
TWICE_BEFORE = migration(before=(B, B))
WHOLE = (row(0, 1, A, B), row(1, 1, B, A))

MALFORMED: list[Message] = [
    Publication(TERM, 1, (WHOLE[0], FAR), ()),
    Publication(TERM, 1, (LONG,), ()),
    Publication(TERM, 1, (TWICE,), ()),
    Publication(TERM, 1, (), ended(FAR_AWAY)),
    report(rows=(WHOLE[1], WHOLE[0])),
    report(rows=WHOLE[:1]),
    report(rows=(TWICE, WHOLE[1])),
    report(completed=ended(LONG_AFTER)),
    report(active=(TWICE_BEFORE,)),
    report(unpublished=(partition(7),)),
    report(stable=stable(*WHOLE[:1])),
    Versions(TERM, (1,)),
    StablePublication(stable()),
    StablePublication(stable(LONG, WHOLE[1])),
    MigrationRequest(FAR_AWAY, ()),
    MigrationRequest(migration(), ended(LONG_AFTER)),
    FragmentPush(TWICE_BEFORE, (), Fragment(1, 1)),
    FragmentPush(migration(), ended(FAR_AWAY), Fragment(1, 1)),
    CommitRequest(LONG_AFTER),
]


def alone() -> Cluster:
    """A, which founded its cluster of two partitions alone."""
    cluster = Cluster(A, partition_count=2, replica_count=2)
    cluster.form(persistent=True)
    return cluster


def state_of(node: Node) -> object:
    return (
        node.view,
        node.table.rows,
        node.table.stamp,
        dict(node.fragments),
        node.story(),
        node.wake_at,
        node.context.promised,
        node.context.now,
    )


def refused(cluster: Cluster, event: Event, now: int) -> HoldfastError:
    """The error of an event, after which nothing is different."""
    node = cluster.nodes[A]
    before = state_of(node)
    with pytest.raises(HoldfastError) as caught:
        node.step(event, Millis(now))
    assert state_of(node) == before
    assert node.context.outbox.take() == []
    return caught.value


@pytest.mark.parametrize("message", MALFORMED)
def test_malformed_message_is_the_peers_fault_and_changes_nothing(message: Message) -> None:
    cluster = alone()
    error = refused(cluster, Received(origin_of(member(B)), message), cluster.now)
    assert isinstance(error, MessageError)
    assert error.message.startswith(f"{type(message).__name__} from B: ")
    assert error.story == cluster.nodes[A].story()


def test_whole_report_and_stable_table_are_let_in() -> None:
    cluster = alone()
    for message in (
        report(
            rows=WHOLE, completed=ended(migration()), active=(migration(),), stable=stable(*WHOLE)
        ),
        StablePublication(stable(*WHOLE)),
        Versions(TERM, (1, 1)),
        CommitRequest(migration()),
    ):
        cluster.inject(member(B), A, message)


def test_record_that_was_never_issued_can_not_be_safe() -> None:
    cluster = alone()
    issued = cluster.nodes[A].context.outbox.issued
    error = refused(cluster, Persisted(issued + 1), cluster.now)
    assert isinstance(error, LocalProtocolError)
    assert f"record {issued + 1} was never issued, only {issued}" in str(error)
    cluster.step(A, Persisted(issued))


@pytest.mark.parametrize(
    ("rows", "kept"),
    [((FAR,), None), ((LONG,), None), ((TWICE,), None), ((), stable()), (WHOLE, stable(FAR))],
)
def test_files_that_do_not_fit_are_refused(rows: tuple[Row, ...], kept: StableTable | None) -> None:
    node = Node(CONFIG, member(A, 2, persistent=True), Random(1))
    with pytest.raises(RecoveryError, match="the files do not fit"):
        node.step(Started(Image(1, TERM, None, rows, kept, ())), Millis(0))
    assert not node.started
    assert node.step(Started(None), Millis(0))


def test_files_that_fit_are_taken() -> None:
    node = Node(CONFIG, member(A, 2, persistent=True), Random(1))
    fragments = ((partition(0), 3, 4),)
    view = replace(view_of(member(A, persistent=True), member(B)), stable=(1, 1))
    node.step(Started(Image(1, Term(5), view, WHOLE, stable(*WHOLE), fragments)), Millis(0))
    assert node.table.rows == WHOLE
    assert node.stable == stable(*WHOLE)
    assert node.fragments == {0: Fragment(3, 4)}
    assert node.context.promised == 5


def test_migration_knows_its_versions_and_who_commits_last() -> None:
    one = migration()
    assert (one.version_committed, one.version_failed) == (2, 3)
    assert Completed(one, Outcome.SUCCESS).version_after == 2
    assert Completed(one, Outcome.FAILED).version_after == 3
    assert one.sender == A
    assert replace(one, before=(None, B)).sender is None
