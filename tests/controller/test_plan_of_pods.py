"""The plan, second part: pods that are replaced, deaths, evictions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast.wire.api.words import Kind
from holdfast_operator.actions import (
    Apply,
    ChangeState,
    ConfirmDead,
    Delete,
    Demote,
    Promote,
)
from holdfast_operator.model.cluster import State
from holdfast_operator.model.status import ClusterStatus, Phase
from holdfast_operator.names import Role
from holdfast_operator.observed import Ended, Observed, Set
from holdfast_operator.plan import plan
from tests.controller.sample import (
    NOW,
    UNSAFE,
    asked,
    changed_member,
    changed_pod,
    condition,
    in_state,
    observed,
    remembered,
    replicas,
    spec,
    stay,
    with_children,
)


def unformed(o: Observed) -> Observed:
    """It was never complete."""
    return replace(o, status=ClusterStatus.model_validate({}))


def updating(o: Observed) -> Observed:
    """A rolling restart was begun."""
    return replace(o, status=o.status.model_copy(update={"phase": Phase.UPDATING}))


def outdated(o: Observed, *names: str) -> Observed:
    """Pods of an older template."""
    for name in names:
        o = changed_pod(o, name, template="older")
    return o


def sized(o: Observed, data: int, lite: int = 0) -> Observed:
    """Sets of these sizes, and objects accordingly."""
    sets = {Role.DATA: Set("uid-data", data, ())}
    if lite:
        sets[Role.LITE] = Set("uid-lite", lite, ())
    return with_children(replace(o, sets=sets, children={}))


# Rolling restart ----------------------------------------------------------------------------------


def test_a_restart_begins_with_stable_cluster() -> None:
    o = outdated(observed(), "orders-0", "orders-1", "orders-2")
    made = plan(o)
    assert ChangeState(State.STABLE_CLUSTER) in made.actions
    assert asked(o, Delete) == []
    assert made.status.phase is Phase.UPDATING
    assert condition(made, "StateApplied")[0] == "False"


def test_one_pod_at_a_time_and_the_master_last() -> None:
    o = in_state(
        outdated(
            observed(spec(lite={"members": 1})), "orders-0", "orders-1", "orders-2", "orders-lite-0"
        ),
        "STABLE_CLUSTER",
    )
    order = []
    for _ in range(4):
        (gone,) = asked(o, Delete)
        order.append(gone.name)
        fresh = observed(o.spec).pod(gone.name)
        assert fresh is not None
        o = changed_pod(o, gone.name, template=fresh.template)
    assert order == ["orders-lite-0", "orders-2", "orders-1", "orders-0"]


@pytest.mark.parametrize(
    "change",
    [
        lambda o: changed_pod(o, "orders-1", ready=False),
        lambda o: changed_pod(o, "orders-1", terminating=True, ready=False),
        lambda o: changed_member(o, "orders-1", ready=False),
        lambda o: replace(o, grid=o.grid.model_copy(update={"safety": UNSAFE})),
        lambda o: replace(o, grid=None),
        lambda o: replace(o, pods=[p for p in o.pods if p.name != "orders-1"]),
    ],
    ids=["not ready", "going", "does not serve", "unsafe", "silent grid", "missing"],
)
def test_the_next_pod_waits_until_all_is_well(change: Any) -> None:
    o = in_state(outdated(observed(), "orders-0", "orders-2"), "STABLE_CLUSTER")
    assert asked(o, Delete)
    assert asked(change(o), Delete) == []


def test_a_restart_ends_when_the_last_copy_is_in_sync() -> None:
    o = updating(in_state(observed(), "STABLE_CLUSTER"))
    assert o.grid is not None
    unfinished = replace(o, grid=o.grid.model_copy(update={"safety": UNSAFE}))
    assert asked(unfinished, ChangeState) == []
    assert plan(unfinished).status.phase is Phase.UPDATING
    assert asked(o, ChangeState) == [ChangeState(State.ACTIVE)]


def test_a_pod_that_can_not_start_is_replaced_at_once() -> None:
    o = outdated(observed(), "orders-0", "orders-1", "orders-2")
    o = changed_pod(
        o, "orders-1", started_at=None, waiting="ImagePullBackOff", ready=False, restarts=4
    )
    assert asked(o, Delete) == [Delete("Pod", "orders-1", "uid-orders-1")]
    assert condition(plan(o), "Degraded") == ("True", "PodFailing")


def test_on_delete_leaves_it_to_people() -> None:
    o = outdated(observed(spec(upgradeStrategy="OnDelete")), "orders-0")
    assert asked(o, Delete) == []
    assert condition(plan(o), "Progressing") == ("True", "OnDelete")


def test_members_without_files_are_restarted_in_active_only() -> None:
    declared = spec(upgradeStrategy="RollingMigrate", persistence={"enabled": False})
    o = outdated(observed(declared), "orders-0", "orders-1")
    assert [gone.name for gone in asked(o, Delete)] == ["orders-1"]
    assert asked(o, ChangeState) == []
    frozen = in_state(o, "NO_MIGRATION")
    assert asked(frozen, Delete) == []


def test_frozen_pods_are_restarted_as_they_are() -> None:
    o = outdated(observed(spec(state="FROZEN")), "orders-0", "orders-1")
    assert [gone.name for gone in asked(o, Delete)] == ["orders-1"]
    assert asked(o, ChangeState) == []


def test_sizes_wait_for_the_end_of_a_restart_and_a_restart_for_sizes() -> None:
    running = updating(in_state(outdated(sized(observed(), 3), "orders-0"), "STABLE_CLUSTER"))
    running = replace(running, spec=spec(members=4))
    assert "orders" not in replicas(running)
    resizing = outdated(sized(observed(), 3), "orders-0")
    resizing = replace(resizing, spec=spec(members=4))
    assert asked(resizing, Delete) == []
    assert asked(resizing, ChangeState) == []
    assert replicas(resizing)["orders"] == 4


def test_a_restart_waits_for_a_pod_that_is_being_emptied_but_not_for_one_that_is_held() -> None:
    draining = outdated(sized(observed(spec(members=4)), 4), "orders-0")
    draining = replace(draining, spec=spec(members=3))
    assert asked(draining, Demote)
    assert asked(draining, ChangeState) == []
    held = changed_member(draining, "orders-1", kind=Kind.LITE)
    held = changed_member(held, "orders-2", kind=Kind.LITE)
    assert condition(plan(held), "Resizing")[1] == "Updating"
    assert asked(held, ChangeState) == [ChangeState(State.STABLE_CLUSTER)]


def test_a_promoted_pod_that_was_replaced_is_promoted_again_during_the_restart() -> None:
    o = in_state(observed(spec(lite={"members": 1, "promote": 1})), "STABLE_CLUSTER")
    o = updating(outdated(o, "orders-0"))
    o = changed_member(o, "orders-lite-0", kind=Kind.LITE)
    assert asked(o, Promote) == [Promote("id-orders-lite-0")]


# Deaths -------------------------------------------------------------------------------------------


def ended_at(minutes_ago: float, container: str = "container-orders-1") -> tuple[Ended, ...]:
    """A container that ended."""
    return (Ended(container, NOW - timedelta(minutes=minutes_ago), 137, "OOMKilled"),)


def silent(o: Observed, **changes: Any) -> Observed:
    """orders-1 does not serve, and its pod is as said."""
    o = changed_member(o, "orders-1", ready=None)
    return changed_pod(o, "orders-1", ready=False, **changes)


def test_a_container_that_ended_is_a_fact() -> None:
    o = silent(remembered(observed(), "orders-1"), ended=ended_at(1), container="next")
    assert asked(o, ConfirmDead) == [ConfirmDead("id-orders-1", 1, "orders-1")]
    assert "DeathConfirmed" in [event.reason for event in plan(o).events]
    told = replace(o, stays=[stay("orders-1", "container-orders-1")])
    assert asked(told, ConfirmDead)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda o: changed_pod(o, "orders-1", ended=()), id="nothing ended"),
        pytest.param(lambda o: replace(o, pods=o.pods[:1]), id="deleted by force"),
        pytest.param(
            lambda o: changed_pod(o, "orders-1", ended=ended_at(1, "another")), id="not its own"
        ),
        pytest.param(
            lambda o: changed_pod(o, "orders-1", ended=ended_at(45)), id="ended before it began"
        ),
        pytest.param(lambda o: changed_member(o, "orders-1", incarnation=2), id="a later stay"),
        pytest.param(lambda o: changed_member(o, "orders-1", ready=True), id="it answers"),
        pytest.param(lambda o: remembered(o, "orders-1", container=""), id="where is not known"),
        pytest.param(lambda o: remembered(o, "orders-1", startedAt=None), id="since is not known"),
        pytest.param(lambda o: replace(o, status=observed().status), id="nothing is known"),
        pytest.param(lambda o: replace(o, grid=None), id="nobody to tell"),
    ],
)
def test_what_is_no_fact_is_left_to_the_lease(change: Any) -> None:
    o = silent(remembered(observed(), "orders-1"), ended=ended_at(1), container="next")
    assert asked(change(o), ConfirmDead) == []


def test_where_a_member_runs_is_remembered_as_long_as_it_is_the_same_stay() -> None:
    o = replace(observed(), stays=[stay("orders-1", "container-orders-1")])
    kept = plan(o).status
    found = {each.name: each.container for each in kept.member_list}
    assert found["orders-1"] == "container-orders-1"
    again = plan(replace(o, stays=[], status=kept)).status
    assert {each.name: each.container for each in again.member_list} == found
    later = changed_member(replace(o, stays=[], status=kept), "orders-1", incarnation=2)
    assert {e.name: e.container for e in plan(later).status.member_list}["orders-1"] == ""


# Disruption ---------------------------------------------------------------------------------------


def budget_of(o: Observed) -> int | None:
    """What is applied, if it is another one."""
    bodies = [a.body for a in asked(o, Apply) if a.body["kind"] == "PodDisruptionBudget"]
    return bodies[0]["spec"]["maxUnavailable"] if bodies else None


def test_the_disruption_budget_follows_the_copies() -> None:
    o = observed()
    assert o.grid is not None
    assert o.children["PodDisruptionBudget", "orders"]["spec"]["maxUnavailable"] == 1
    assert budget_of(replace(o, grid=o.grid.model_copy(update={"safety": UNSAFE}))) == 0
    assert budget_of(replace(o, grid=None)) == 0
    two = observed(spec(backups=2, structures=[{"name": "users"}]))
    assert two.children["PodDisruptionBudget", "orders"]["spec"]["maxUnavailable"] == 2
    none = observed(spec(backups=0, state="FROZEN"))
    assert none.children["PodDisruptionBudget", "orders"]["spec"]["maxUnavailable"] == 0


def test_a_budget_that_is_not_wanted_goes() -> None:
    o = observed()
    budget = {**o.children["PodDisruptionBudget", "orders"]}
    budget["metadata"] = {**budget["metadata"], "uid": "uid-b"}
    o = replace(o, children={**o.children, ("PodDisruptionBudget", "orders"): budget})
    o = replace(o, spec=spec(availability={"pdb": False}))
    assert asked(o, Delete) == [Delete("PodDisruptionBudget", "orders", "uid-b")]


# A grid without files that is gone ----------------------------------------------------------------


def lost() -> Observed:
    """Every container is another one than that of the grid, and none is in a grid."""
    declared = spec(persistence={"enabled": False}, upgradeStrategy="RollingMigrate")
    o = observed(declared)
    for name in ("orders-0", "orders-1", "orders-2"):
        o = remembered(o, name, container="old")
    pods = [replace(each, container=f"new-{each.name}", ready=False) for each in o.pods]
    return replace(o, pods=pods, grid=None, migrations=None, claims=[])


def test_a_grid_without_files_that_is_gone_is_founded_again() -> None:
    made = plan(lost())
    assert [gone.name for gone in asked(lost(), Delete)] == ["orders-0", "orders-1", "orders-2"]
    founding = next(
        a.body for a in asked(lost(), Apply) if a.body["metadata"]["name"] == "orders-founding"
    )
    assert founding["data"]["may_found"] == "true"
    assert made.status.cluster_id == ""
    assert made.status.phase is Phase.FORMING
    assert "GridLost" in [event.reason for event in made.events]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda o: replace(o, spec=spec()), id="it has files"),
        pytest.param(lambda o: observed(o.spec), id="it is there"),
        pytest.param(unformed, id="it never was"),
        pytest.param(lambda o: changed_pod(o, "orders-1", container="old"), id="one is left"),
        pytest.param(lambda o: remembered(o, "orders-1", container=""), id="one is not known"),
        pytest.param(lambda o: changed_pod(o, "orders-1", started_at=None), id="one does not run"),
        pytest.param(lambda o: changed_pod(o, "orders-1", started_at=NOW), id="one is young"),
        pytest.param(lambda o: replace(o, pods=o.pods[:2]), id="one is missing"),
        pytest.param(lambda o: replace(o, deleting=True), id="it is to go"),
    ],
)
def test_what_may_live_is_not_founded_again(change: Any) -> None:
    assert "GridLost" not in [event.reason for event in plan(change(lost())).events]


def test_a_grid_that_its_members_founded_again_is_told() -> None:
    """They died before they could be told that nobody founds any more."""
    o = observed(spec(persistence={"enabled": False}, upgradeStrategy="RollingMigrate"))
    assert o.grid is not None
    other = replace(o, grid=o.grid.model_copy(update={"id": "grid-2"}))
    made = plan(other)
    assert made.status.cluster_id == "grid-2"
    assert [event.reason for event in made.events].count("GridLost") == 1
    again = plan(replace(other, status=made.status))
    assert "GridLost" not in [event.reason for event in again.events]


def test_members_that_are_only_out_of_reach_are_remembered() -> None:
    """However long nobody answers: the same containers are no lost grid."""
    declared = spec(persistence={"enabled": False}, upgradeStrategy="RollingMigrate")
    o = observed(declared)
    o = replace(o, stays=[stay(each.name, each.container) for each in o.pods])
    for minutes in range(5):
        o = replace(o, status=plan(o).status, now=NOW + timedelta(minutes=minutes))
        assert "GridLost" not in [event.reason for event in plan(o).events]
        o = replace(o, grid=None, migrations=None, stays=[])
    assert {each.container for each in o.status.member_list} == {p.container for p in o.pods}
