"""A member's side of a state change: the lock between its two phases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.messages import (
    Abort,
    NewView,
    Prepare,
    PrepareAck,
    Publication,
    StablePublication,
    StableTable,
)
from holdfast.core.states import ClusterState
from holdfast.ids import Millis, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    follower,
    member,
    partition,
    row,
    view_of,
)

FROZEN = ClusterState.FROZEN
ACTIVE = ClusterState.ACTIVE
IN_TRANSITION = ClusterState.IN_TRANSITION
a, b, c = member(A), member(B), member(C)


def prepare(cluster: Cluster, **change: object) -> PrepareAck | None:
    """The answer of B to a prepare of A."""
    node = cluster.nodes[B]
    sound = Prepare("q", Term(1), Version(1), node.table.stamp, Millis(500))
    before = len(cluster.messages(PrepareAck))
    cluster.inject(a, B, replace(sound, **change))  # type: ignore[arg-type]
    acks = cluster.messages(PrepareAck)
    return acks[-1] if len(acks) > before else None


def test_member_locks_when_it_sees_what_the_master_sees() -> None:
    cluster = follower()
    assert prepare(cluster) == PrepareAck("q", Term(1), "")
    assert prepare(cluster) == PrepareAck("q", Term(1), "")
    assert cluster.nodes[B].locking.state is IN_TRANSITION


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": Version(2)}, "I hold another view"),
        ({"stamp": 1}, "my partition table differs"),
    ],
)
def test_member_that_sees_something_else_says_why(change: dict[str, object], reason: str) -> None:
    cluster = follower()
    assert prepare(cluster, **change) == PrepareAck("q", Term(1), reason)
    assert cluster.nodes[B].locking.state is ACTIVE


def test_one_change_at_a_time_is_locked() -> None:
    cluster = follower()
    prepare(cluster)
    answer = prepare(cluster, id="other")
    assert answer is not None
    assert answer.reason == "another change is under way"


def test_stranger_locks_nothing() -> None:
    cluster = follower()
    assert prepare(cluster, term=Term(0)) is None
    assert prepare(cluster, term=Term(2)) is None


def test_lock_ends_in_time() -> None:
    cluster = follower()
    prepare(cluster)
    cluster.run(499)
    assert cluster.nodes[B].locking.state is IN_TRANSITION
    cluster.run(1)
    assert cluster.nodes[B].locking.state is ACTIVE


def test_lock_ends_with_its_view() -> None:
    cluster = follower()
    prepare(cluster)
    cluster.inject(a, B, NewView(view_of(a, b, c, version=2, state=FROZEN)))
    assert cluster.nodes[B].locking.state is FROZEN
    assert not cluster.nodes[B].participation.locked


def test_only_its_own_abort_unlocks() -> None:
    cluster = follower()
    prepare(cluster)
    for wrong in (Abort("other", Term(1)), Abort("q", Term(0))):
        cluster.inject(a, B, wrong)
        assert cluster.nodes[B].locking.state is IN_TRANSITION
    cluster.inject(a, B, Abort("q", Term(1)))
    assert cluster.nodes[B].locking.state is ACTIVE


def test_process_outside_a_cluster_has_no_state() -> None:
    cluster = Cluster(A, B)
    assert cluster.start(a).locking.state is None


def test_locked_table_still_takes_publications() -> None:
    cluster = follower()
    prepare(cluster)
    cluster.inject(a, B, Publication(Term(1), 1, (row(0, 9, A, B, None),), ()))
    assert cluster.nodes[B].table.row(partition(0)).version == 9


STABLE = replace(
    view_of(a, b, c, version=2, state=ClusterState.STABLE_CLUSTER),
    stable=(Term(1), Version(2)),
    change="q",
)
"""The view in which the master has made the change that is called q."""


def test_a_stable_table_is_the_one_that_was_locked() -> None:
    """The view reaches B late; the master has repaired rows since, which came before it."""
    cluster = follower()
    prepare(cluster)
    locked = cluster.nodes[B].table.rows
    cluster.inject(a, B, Publication(Term(1), 1, (row(0, 9, A, B, None),), ()))
    cluster.inject(a, B, NewView(STABLE))
    stable = cluster.nodes[B].stable
    assert stable is not None
    assert stable.rows == locked != cluster.nodes[B].table.rows


def test_whoever_is_not_locked_waits_for_the_stable_table() -> None:
    cluster = follower()
    cluster.inject(a, B, NewView(STABLE))
    assert cluster.nodes[B].stable is None
    table = StableTable(Term(1), Version(2), cluster.nodes[B].table.rows)
    cluster.inject(a, B, StablePublication(table))
    assert cluster.nodes[B].stable == table
