"""State and level changes: two phases, all or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.effects import NoticeKind
from holdfast.core.events import Loaded
from holdfast.core.messages import (
    Abort,
    Ask,
    Claim,
    CommitAck,
    MigrationReady,
    NewView,
    Prepare,
    PrepareAck,
    PublicationAck,
    Request,
)
from holdfast.core.node import Node
from holdfast.core.states import ASKABLE, ClusterState
from holdfast.ids import Millis, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    D,
    address_of,
    losing,
    member,
    partition,
    request_of,
)

FROZEN = ClusterState.FROZEN
ACTIVE = ClusterState.ACTIVE
IN_TRANSITION = ClusterState.IN_TRANSITION
a, b, c = member(A), member(B), member(C)


def three(**settings: object) -> tuple[Cluster, Node]:
    cluster = Cluster(A, B, C, **settings)
    return cluster, cluster.form()


def to_frozen(*, wait_ms: int = 0) -> Request:
    return request_of(Ask.STATE, state=FROZEN, wait_ms=wait_ms)


def outcome(cluster: Cluster) -> tuple[str, str]:
    """The one answer to the request, when it has come."""
    cluster.run_until(lambda: "q" in cluster.answers)
    cluster.run(2_000)
    (answer,) = cluster.answers["q"]
    return answer.error, answer.message


# The whole ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked_at", [A, B, C])
@pytest.mark.parametrize("state", ASKABLE)
def test_state_is_changed_through_any_member(asked_at: str, state: ClusterState) -> None:
    cluster, master = three()
    asker = next(m for m in (A, B, C) if m == asked_at)
    cluster.ask(asker, request_of(Ask.STATE, state=state))
    assert outcome(cluster) == ("", "")
    for node in cluster.nodes.values():
        assert node.locking.state is state
        assert node.view == master.view
        assert (node.stable is not None) is (state is ClusterState.STABLE_CLUSTER)
    assert master.stable is None or master.stable.rows == master.table.rows


def test_state_that_holds_already_is_a_no_op() -> None:
    cluster, master = three()
    held = master.view
    cluster.ask(B, request_of(Ask.STATE, state=ACTIVE))
    assert outcome(cluster) == ("", "")
    assert master.view == held
    assert cluster.messages(Prepare) == []


def test_leaving_the_stable_state_drops_the_stable_table() -> None:
    cluster, _ = three()
    for state in (ClusterState.STABLE_CLUSTER, ACTIVE):
        cluster.ask(A, request_of(Ask.STATE, f"to {state}", state=state))
        cluster.settle()
    assert [node.stable for node in cluster.nodes.values()] == [None] * 3


@pytest.mark.parametrize("level", [1, 2])
def test_level_is_raised_like_a_state(level: int) -> None:
    cluster, master = three(level=level)
    cluster.ask(C, request_of(Ask.LEVEL, level=3))
    assert outcome(cluster) == ("", "")
    assert all(node.view is not None and node.view.level == 3 for node in cluster.nodes.values())
    assert len(set(master.table.versions)) == 1
    assert cluster.noticed(NoticeKind.LEVEL_CHANGED)[0].detail == "3"


def test_every_member_is_in_transition_between_the_phases() -> None:
    cluster, _ = three()
    cluster.drops = [lambda sender, _, m: sender == C and isinstance(m, PrepareAck)]
    cluster.ask(A, to_frozen())
    cluster.run(5)
    assert [node.locking.state for node in cluster.nodes.values()] == [IN_TRANSITION] * 3
    cluster.drops = []
    assert outcome(cluster) == ("", "")


def test_prepare_that_is_lost_is_repeated_to_whom_has_not_locked() -> None:
    cluster, _ = three()
    cluster.drops = [lambda _, to, m: to == address_of(C) and isinstance(m, Prepare)]
    cluster.ask(A, to_frozen())
    cluster.run(400)
    cluster.drops = []
    assert outcome(cluster) == ("", "")
    assert len(cluster.messages(Prepare, to=B)) == 1
    assert len(cluster.messages(Prepare, to=C)) == 2


# Undone -------------------------------------------------------------------------------------------


def test_member_that_does_not_lock_in_time_undoes_everything() -> None:
    cluster, master = three(change_lock_ms=Millis(1_200))
    cluster.drops = [losing(PrepareAck)]
    cluster.ask(A, to_frozen())
    assert outcome(cluster) == ("IllegalState", "not every member locked in time")
    assert master.view is not None
    assert master.view.state is ACTIVE
    assert [node.locking.state for node in cluster.nodes.values()] == [ACTIVE] * 3


def test_member_that_leaves_before_the_second_phase_undoes_everything() -> None:
    cluster, master = three()
    cluster.drops = [losing(PrepareAck)]
    cluster.ask(A, to_frozen())
    cluster.run(10)
    cluster.crash(C)
    cluster.confirm_dead(C)
    assert outcome(cluster) == ("IllegalState", "the members changed meanwhile")
    assert master.view is not None
    assert master.view.state is ACTIVE
    assert cluster.nodes[B].locking.state is ACTIVE


def test_member_that_refuses_undoes_everything() -> None:
    cluster, _ = three()
    cluster.drops = [losing(PrepareAck)]
    cluster.ask(A, to_frozen())
    cluster.run(10)
    cluster.inject(c, A, PrepareAck("other", Term(1), "not this one"))
    assert cluster.nodes[B].locking.state is IN_TRANSITION
    cluster.inject(c, A, PrepareAck("q", Term(1), "I hold another view"))
    assert outcome(cluster) == ("IllegalState", "C: I hold another view")
    assert cluster.messages(Abort, to=B) != []
    assert cluster.nodes[B].locking.state is ACTIVE


def test_table_that_changes_under_the_lock_undoes_everything() -> None:
    cluster, master = three()
    cluster.drops = [losing(PrepareAck)]
    cluster.ask(A, to_frozen())
    cluster.run(10)
    held = master.table.row(partition(0))
    master.leadership.publisher.change([replace(held, version=Version(held.version + 1))])
    assert outcome(cluster) == ("IllegalState", "the partition table changed meanwhile")


def test_answer_to_a_prepare_that_is_over_is_ignored() -> None:
    cluster, master = three()
    cluster.inject(c, A, PrepareAck("q", Term(1), "too late"))
    assert master.leadership.transition.phase.name == "IDLE"
    assert cluster.answers == {}


def test_member_that_leaves_in_the_second_phase_changes_nothing() -> None:
    cluster, _ = three()
    cluster.drops = [lambda _, to, m: to == address_of(C) and isinstance(m, NewView)]
    cluster.ask(B, to_frozen())
    cluster.run_until(lambda: bool(cluster.noticed(NoticeKind.STATE_CHANGED)))
    cluster.crash(C)
    assert outcome(cluster) == ("", "")
    assert cluster.nodes[B].locking.state is FROZEN


@pytest.mark.parametrize("phase_2", [False, True])
def test_master_that_dies_leaves_the_old_state_or_the_new_one(*, phase_2: bool) -> None:
    cluster, _ = three()
    if not phase_2:
        cluster.drops = [losing(PrepareAck)]
    cluster.ask(B, to_frozen())
    if phase_2:
        cluster.run_until(lambda: bool(cluster.noticed(NoticeKind.STATE_CHANGED)))
    cluster.run(10)
    cluster.crash(A)
    cluster.drops = []
    cluster.confirm_dead(A)
    assert outcome(cluster) == ("", "")
    assert {node.locking.state for node in cluster.nodes.values()} == {FROZEN}


def test_change_is_dropped_with_the_mastership_and_the_asker_finds_the_next() -> None:
    cluster, _ = three()
    cluster.drops = [losing(PrepareAck)]
    cluster.ask(B, to_frozen())
    cluster.run(10)
    cluster.nodes[A].election.abdicate("tired")
    cluster.drops = []
    assert outcome(cluster) == ("", "")


# Waiting ------------------------------------------------------------------------------------------


def moving(*lost: type, **settings: object) -> Cluster:
    """A, B and C of whom C has just joined; migrations to it run and do not end."""
    cluster = Cluster(A, B, **settings)
    cluster.form()
    cluster.drops = [losing(*lost)]
    cluster.start(c, initial=(address_of(A),))
    cluster.run_until(lambda: bool(cluster.nodes[A].running_load()))
    return cluster


def test_change_is_refused_while_migrations_run_unless_it_may_wait() -> None:
    cluster = moving(CommitAck)
    cluster.ask(B, to_frozen())
    error, message = outcome(cluster)
    assert error == "IllegalState"
    assert "migrations are running; ask to wait, or ask again later" in message


def test_change_that_waits_is_pending_with_its_reason_then_goes_on() -> None:
    cluster = moving(CommitAck)
    cluster.ask(B, to_frozen(wait_ms=30_000))
    cluster.run(1_500)
    assert "migrations are running" in cluster.pendings[-1].reason
    running = len(cluster.nodes[A].leadership.execution.running)
    cluster.run(2_000)
    assert len(cluster.nodes[A].leadership.execution.running) <= running
    cluster.drops = []
    assert outcome(cluster) == ("", "")
    assert cluster.nodes[C].locking.state is FROZEN


def test_waiting_ends() -> None:
    cluster = moving(MigrationReady, change_lock_ms=Millis(100))
    cluster.ask(B, to_frozen(wait_ms=3_000))
    error, message = outcome(cluster)
    assert error == "IllegalState"
    assert message.startswith("gave up waiting: ")
    assert "migrations are running" in message


def test_change_waits_until_everyone_has_the_table() -> None:
    cluster, master = three()
    cluster.drops = [losing(PublicationAck)]
    held = master.table.row(partition(0))
    master.leadership.publisher.change([replace(held, version=Version(held.version + 1))])
    cluster.ask(A, to_frozen(wait_ms=30_000))
    cluster.run(1_200)
    assert "the partition table is not known to everyone yet" in cluster.pendings[-1].reason
    cluster.drops = []
    assert outcome(cluster) == ("", "")


def test_change_waits_until_a_change_of_the_members_is_known() -> None:
    cluster, _ = three()
    cluster.drops = [losing(NewView)]
    cluster.start(member(D), initial=(address_of(A),))
    cluster.run_until(lambda: len(cluster.nodes[A].view.members) == 4)  # type: ignore[union-attr]
    cluster.ask(A, to_frozen(wait_ms=30_000))
    cluster.run(1_200)
    assert "a change of the members is not known to everyone yet" in cluster.pendings[-1].reason
    cluster.drops = []
    assert outcome(cluster) == ("", "")


def test_change_waits_until_a_cluster_that_comes_back_has_started() -> None:
    cluster = Cluster(A, B)
    cluster.form(persistent=True)
    cluster.crash(A, B)
    for member_id in (A, B):
        cluster.start(member(member_id, 2, persistent=True), loaded=False)
    cluster.run_until(lambda: cluster.master is not None)
    cluster.ask(A, to_frozen(wait_ms=30_000))
    cluster.run(1_200)
    assert cluster.pendings[-1].reason == "the cluster is still starting"
    for member_id in (A, B):
        cluster.step(member_id, Loaded())
    assert outcome(cluster) == ("", "")


def test_outcome_for_nobody_is_forgotten() -> None:
    """1. A locks. 2. It sleeps. 3. A refusal wakes it; its mandate, too, is over."""
    cluster, _ = three()
    cluster.drops = [losing(PrepareAck)]
    cluster.ask(B, to_frozen())
    cluster.run(10)
    cluster.now += 3_000
    cluster.inject(c, A, PrepareAck("q", Term(1), "no"))
    assert not cluster.nodes[A].is_master
    cluster.drops = [lambda sender, _, m: sender != A and isinstance(m, Claim)]
    assert outcome(cluster) == ("", "")
    assert cluster.nodes[A].is_master
