"""A member's part in migrations as a destination: what it refuses, takes, commits, undoes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.effects import NoticeKind
from holdfast.core.messages import (
    CommitAck,
    CommitRequest,
    Completed,
    Fetch,
    FragmentAck,
    FragmentPush,
    Grant,
    MigrationId,
    MigrationRequest,
    NewView,
    Outcome,
    Report,
)
from holdfast.core.node import Node
from holdfast.core.serving import Serving
from holdfast.ids import Millis, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    follower,
    row,
    view_of,
)
from tests.core.migrating import (
    DATA,
    GIVE,
    NEXT_REIGN,
    REIGN,
    TAKE,
    P,
    a,
    acked,
    b,
    c,
    lacking,
    owning,
    published,
)


def received() -> tuple[Cluster, Node]:
    """B has the data of a partition that it is to own."""
    cluster, node = lacking()
    cluster.inject(c, B, FragmentPush(TAKE, (), DATA))
    assert acked(cluster) == ""
    return cluster, node


def test_destination_keeps_the_data_aside_until_the_commit() -> None:
    cluster, node = received()
    cluster.grant()
    assert P not in node.fragments
    cluster.inject(a, B, CommitRequest(TAKE))
    assert node.fragments[P] == DATA
    assert node.table.row(P) == row(0, 4, B, None, None, reign=NEXT_REIGN)
    assert cluster.messages(CommitAck) == [CommitAck(TAKE.id, P)]


def test_new_owner_serves_only_when_the_master_has_published() -> None:
    cluster, node = received()
    cluster.grant()
    cluster.inject(a, B, CommitRequest(TAKE))
    assert node.serving(P, Millis(cluster.now)) is Serving.NONE
    published(cluster, row(0, 3, C, None, None, reign=REIGN))
    assert node.serving(P, Millis(cluster.now)) is Serving.NONE
    decided = row(0, 4, B, None, None, reign=NEXT_REIGN)
    published(cluster, decided, Completed(TAKE, Outcome.SUCCESS))
    assert node.serving(P, Millis(cluster.now)) is Serving.ALL


@pytest.mark.parametrize("known", [True, False])
def test_end_of_a_migration_is_told_until_the_master_has_published_it(*, known: bool) -> None:
    """A grant that was long on its way says that all was known, when it was sent."""
    cluster, _ = received()
    cluster.grant()
    cluster.inject(a, B, CommitRequest(TAKE))
    ended = Completed(TAKE, Outcome.SUCCESS)
    if known:
        published(cluster, row(0, 4, B, None, None), ended)
    grant = Grant(Term(1), Version(1), Millis(0), Millis(0), serve=True, quiet=True)
    cluster.inject(a, B, grant)
    cluster.inject(a, B, Fetch(view_of(a, b, c, version=2), 0))
    assert cluster.messages(Report)[-1].completed == (() if known else (ended,))


def test_commit_is_idempotent() -> None:
    cluster, node = received()
    for _ in range(3):
        cluster.inject(a, B, CommitRequest(TAKE))
    published(cluster, row(0, 4, B, None, None))
    cluster.inject(a, B, CommitRequest(TAKE))
    assert len(cluster.messages(CommitAck)) == 4
    assert node.table.row(P).version == 4


def test_commit_of_what_never_arrived_is_not_confirmed() -> None:
    cluster, node = lacking()
    cluster.inject(a, B, CommitRequest(TAKE))
    cluster.inject(a, B, CommitRequest(replace(TAKE, id=MigrationId(Term(1), 9))))
    assert cluster.messages(CommitAck) == []
    assert node.table.row(P).version == 3


def test_owner_that_is_asked_to_commit_has_it_already() -> None:
    cluster, node = owning()
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    cluster.inject(a, B, CommitRequest(GIVE))
    assert cluster.messages(CommitAck) == [CommitAck(GIVE.id, P)]
    assert node.table.row(P).version == 3


def test_commit_is_confirmed_when_it_will_survive_a_restart() -> None:
    cluster = follower(persistent=True)
    published(cluster, row(0, 3, C, None, None))
    cluster.inject(c, B, FragmentPush(TAKE, (), DATA))
    cluster.run(5)
    cluster.slow_disk = True
    cluster.inject(a, B, CommitRequest(TAKE))
    cluster.run(5)
    assert cluster.messages(CommitAck) == []
    cluster.write(B)
    cluster.run(5)
    assert len(cluster.messages(CommitAck)) == 1


def test_data_that_arrives_twice_is_confirmed_twice() -> None:
    cluster, node = received()
    cluster.inject(c, B, FragmentPush(TAKE, (), DATA))
    assert acked(cluster) == ""
    assert node.active_migrations() == (TAKE,)


def test_destination_refuses_what_does_not_fit_its_table() -> None:
    cluster, node = lacking()
    late = replace(TAKE, version_before=Version(2))
    cluster.inject(c, B, FragmentPush(late, (), DATA))
    assert acked(cluster) == "my version is 3, the migration's 2"
    assert node.active_migrations() == ()


def test_data_of_another_term_or_after_a_promise_is_ignored() -> None:
    cluster, node = lacking()
    cluster.inject(c, B, FragmentPush(replace(TAKE, id=MigrationId(Term(2), 1)), (), DATA))
    node.context.promised = Term(5)
    cluster.inject(c, B, FragmentPush(TAKE, (), DATA))
    assert cluster.messages(FragmentAck) == []


def test_rolled_back_destination_keeps_only_what_it_had() -> None:
    cluster, node = received()
    published(cluster, row(0, 5, C, None, None), Completed(TAKE, Outcome.FAILED))
    assert node.active_migrations() == ()
    assert P not in node.fragments
    assert cluster.noticed(NoticeKind.MIGRATION_ENDED)[-1].detail == "here: failed"


def test_commit_that_is_taken_back_by_the_master_is_undone() -> None:
    cluster, node = received()
    cluster.inject(a, B, CommitRequest(TAKE))
    published(cluster, row(0, 5, C, A, None), Completed(TAKE, Outcome.FAILED))
    assert node.table.row(P) == row(0, 5, C, A, None)
    cluster.run(2_000)
    assert P not in node.fragments
    assert node.participation.unpublished == {}


def test_row_that_says_committed_is_as_good_as_the_commit() -> None:
    cluster, node = received()
    published(cluster, row(0, 4, B, None, None))
    assert node.fragments[P] == DATA
    assert cluster.noticed(NoticeKind.MIGRATION_ENDED)[-1].detail == "here: success"


def test_new_stay_knows_of_no_migration() -> None:
    cluster, node = received()
    cluster.inject(a, B, NewView(view_of(a, c, version=2)))
    cluster.inject(a, B, NewView(view_of(a, c, node.me, version=3)))
    assert node.active_migrations() == ()
    assert node.membership.active == ()
