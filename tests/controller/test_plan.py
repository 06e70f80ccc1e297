"""The plan, row by row of what an operator is to do: each rule by what it sees and decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast.wire.api.backups import BackupModel, BackupPart
from holdfast.wire.api.words import Drain, Kind
from holdfast_operator.actions import (
    Apply,
    BackUp,
    ChangeState,
    Delete,
    Demote,
    Finalizers,
    Grow,
    MakeSecret,
    Promote,
    StopAsking,
)
from holdfast_operator.model.backup import BackupStatus
from holdfast_operator.model.cluster import State
from holdfast_operator.model.status import ClusterStatus, Phase, RecoveryStatus
from holdfast_operator.names import Role, pod_name
from holdfast_operator.observed import Claim, Declared, Observed, Refusal, Set
from holdfast_operator.plan import plan
from tests.controller.sample import (
    MIGRATING,
    NOW,
    STILL,
    UNSAFE,
    asked,
    changed_member,
    changed_pod,
    condition,
    grid_of,
    in_state,
    member,
    observed,
    pod,
    replicas,
    spec,
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


# At rest ------------------------------------------------------------------------------------------


def test_a_cluster_as_declared_is_left_alone_and_looked_at_seldom() -> None:
    made = plan(observed())
    assert made.actions == ()
    assert made.look_again_seconds == 5.0
    assert made.status.phase is Phase.RUNNING
    assert made.status.members == "3/3"
    for kind in ("Ready", "StateApplied", "Safe"):
        assert condition(made, kind)[0] == "True"
    for kind in ("Progressing", "Degraded", "Recovering", "Resizing", "BackedUp"):
        assert condition(made, kind)[0] == "False"


def test_the_same_observation_gives_the_same_plan() -> None:
    o = in_state(observed(), "FROZEN")
    assert plan(o) == plan(o)


def test_a_status_that_was_written_is_not_another_one() -> None:
    """What a plan writes is what the next one begins with: at rest nothing is written again."""
    first = plan(observed()).status
    again = plan(replace(observed(), status=first)).status
    assert again == first
    assert ClusterStatus.model_validate(first.wire()) == first


def test_an_object_that_was_changed_by_hand_is_put_right() -> None:
    o = observed()
    service = o.children["Service", "orders"]
    changed = {**service, "spec": {**service["spec"], "selector": {"other": "pods"}}}
    o = replace(o, children={**o.children, ("Service", "orders"): changed})
    assert [each.body["metadata"]["name"] for each in asked(o, Apply)] == ["orders"]


def test_first_everything_is_made() -> None:
    o = replace(
        unformed(observed()),
        children={},
        sets={},
        pods=[],
        claims=[],
        grid=None,
        migrations=None,
        secret_exists=False,
        finalizers=(),
    )
    made = plan(o)
    assert Finalizers(("holdfast.io/graceful-end",)) in made.actions
    assert MakeSecret("orders-secret") in made.actions
    assert replicas(o) == {"orders": 3}
    assert made.status.phase is Phase.FORMING
    assert condition(made, "Ready") == ("False", "GridSilent") or condition(made, "Ready") == (
        "False",
        "Forming",
    )
    set_made = next(a for a in asked(o, Apply) if a.body["kind"] == "StatefulSet")
    assert set_made.only_new, "a cache that knows of no set must not overwrite one"


def test_a_set_is_changed_only_as_it_was_seen() -> None:
    """Sizes that were decided upon an old size could take a pod away that has data."""
    o = observed(spec(members=5))
    o = sized(o, 3)
    live = o.children["StatefulSet", "orders"]
    live["metadata"]["resourceVersion"] = "77"
    o = replace(o, pods=o.pods[:3], grid=grid_of(o.grid.members[:3]) if o.grid else None)
    body = next(a.body for a in asked(o, Apply) if a.body["kind"] == "StatefulSet")
    assert body["metadata"]["resourceVersion"] == "77"


def test_a_grid_that_is_complete_for_the_first_time_is_remembered() -> None:
    made = plan(unformed(observed()))
    assert made.status.cluster_id == "grid-1"
    half = changed_pod(unformed(observed()), "orders-2", ready=False)
    assert plan(half).status.cluster_id == ""


# State --------------------------------------------------------------------------------------------


def test_a_patched_state_is_asked_for_and_pending() -> None:
    o = in_state(observed(spec(state="FROZEN")), "ACTIVE")
    made = plan(o)
    assert ChangeState(State.FROZEN) in made.actions
    assert made.status.pending_state is not None
    assert (made.status.pending, made.status.state) == ("FROZEN", "ACTIVE")
    assert condition(made, "StateApplied")[0] == "False"
    assert made.look_again_seconds == 1.0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pending": MIGRATING}, "MigrationsRunning"),
        ({"recovering": True}, "Recovering"),
        ({}, "Asked"),
    ],
)
def test_what_a_state_waits_for_is_told(changes: dict[str, Any], reason: str) -> None:
    made = plan(in_state(observed(spec(state="FROZEN")), "ACTIVE", **changes))
    assert made.status.pending_state is not None
    assert made.status.pending_state.reason == reason


def test_a_refused_state_stays_wanted_with_its_reason() -> None:
    o = in_state(observed(spec(state="FROZEN")), "ACTIVE")
    o = replace(o, refusals={"state": Refusal("IllegalState", "orders-2 is not settled")})
    made = plan(o)
    assert ChangeState(State.FROZEN) in made.actions
    assert condition(made, "StateApplied") == ("False", "IllegalState")


def test_how_long_a_state_is_pending_is_kept() -> None:
    o = in_state(observed(spec(state="FROZEN")), "ACTIVE")
    first = plan(o).status
    later = replace(o, status=first, now=NOW + timedelta(seconds=9))
    pending = plan(later).status.pending_state
    assert pending is not None
    assert pending.since == NOW


def test_a_state_that_somebody_else_changed_is_put_back_with_an_event() -> None:
    o = in_state(observed(), "PASSIVE")
    made = plan(o)
    assert ChangeState(State.ACTIVE) in made.actions
    assert [event.reason for event in made.events].count("StatePutBack") == 1
    patched = replace(o, generation=5)
    assert "StatePutBack" not in [event.reason for event in plan(patched).events]


def test_no_state_is_asked_of_a_grid_that_forms() -> None:
    o = in_state(unformed(observed(spec(state="FROZEN"))), "ACTIVE")
    o = changed_pod(o, "orders-2", ready=False)
    assert asked(o, ChangeState) == []


# Lite members -------------------------------------------------------------------------------------


def test_lite_members_are_promoted_where_they_run() -> None:
    o = observed(spec(lite={"members": 2, "promote": 1}))
    o = changed_member(o, "orders-lite-0", kind=Kind.LITE)
    made = plan(o)
    assert asked(o, Promote) == [Promote("id-orders-lite-0")]
    assert asked(o, Delete) == []
    assert "Promoting" in [event.reason for event in made.events]


def test_promotion_waits_where_no_data_may_move() -> None:
    declared = spec(state="FROZEN", lite={"members": 1, "promote": 1})
    o = changed_member(observed(declared), "orders-lite-0", kind=Kind.LITE)
    assert asked(o, Promote) == []
    assert condition(plan(o), "Progressing") == ("True", "PromotionPending")


def test_a_refused_promotion_is_told_and_asked_again() -> None:
    o = observed(spec(lite={"members": 1, "promote": 1}))
    o = changed_member(o, "orders-lite-0", kind=Kind.LITE)
    key = Promote("id-orders-lite-0").key
    o = replace(o, refusals={key: Refusal("IllegalState", "claim in progress")})
    assert asked(o, Promote)
    assert condition(plan(o), "Progressing") == ("True", "PromotionPending")


def test_lowering_promote_demotes() -> None:
    o = observed(spec(lite={"members": 1, "promote": 0}))
    o = changed_member(o, "orders-lite-0", kind=Kind.DATA)
    assert asked(o, Demote) == [Demote("id-orders-lite-0")]


def test_a_lite_pod_with_partitions_is_never_removed() -> None:
    o = sized(observed(spec(lite={"members": 2})), 3, 2)
    declared = spec(lite={"members": 0})
    o = replace(o, spec=declared)
    o = changed_member(o, "orders-lite-0", kind=Kind.DATA, owned_partitions=3)
    assert replicas(o) == {"orders-lite": 1}
    assert asked(o, Demote) == [Demote("id-orders-lite-0")]


def test_lite_pods_are_added_at_once() -> None:
    o = sized(observed(), 3)
    assert replicas(replace(o, spec=spec(lite={"members": 2})))["orders-lite"] == 2


def test_no_lite_pod_goes_while_the_grid_is_silent() -> None:
    o = sized(observed(spec(lite={"members": 2})), 3, 2)
    assert replicas(replace(o, spec=spec(lite={"members": 0}), grid=None)) == {}


# Sizes --------------------------------------------------------------------------------------------


def test_scale_up_is_never_held_back_by_ill_health() -> None:
    o = sized(observed(spec(members=3)), 3)
    o = replace(o, spec=spec(members=5))
    assert o.grid is not None
    for sick in (
        replace(o, grid=o.grid.model_copy(update={"safety": UNSAFE})),
        replace(o, grid=None),
        changed_member(o, "orders-1", ready=None),
    ):
        assert replicas(sick)["orders"] == 5


@pytest.mark.parametrize("state", ["FROZEN", "PASSIVE", "STABLE_CLUSTER"])
def test_scale_up_waits_where_nobody_new_is_let_in(state: str) -> None:
    o = sized(observed(spec(members=3, state=state)), 3)
    o = replace(o, spec=spec(members=4, state=state))
    assert "orders" not in replicas(o)
    assert condition(plan(o), "Resizing") == ("True", "StateForbidsJoin")


def test_scale_down_empties_the_highest_pod_first() -> None:
    o = sized(observed(spec(members=4)), 4)
    o = replace(o, spec=spec(members=2))
    assert asked(o, Demote) == [Demote("id-orders-3")]
    assert "orders" not in replicas(o)
    empty = changed_member(o, "orders-3", kind=Kind.LITE, owned_partitions=0, backup_partitions=0)
    assert replicas(empty) == {"orders": 3}
    assert asked(empty, Demote) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda o: in_state(o, "STABLE_CLUSTER"), "StateMovesNoData"),
        (lambda o: replace(o, grid=None), "GridSilent"),
        (lambda o: changed_member(o, "orders-2", ready=None), "MemberSilent"),
        (lambda o: changed_member(o, "orders-1", kind=Kind.LITE), "CopiesWouldBeLost"),
        (
            lambda o: replace(o, grid=grid_of(o.grid.members[:2], safety=UNSAFE)),
            "NotSafe",
        ),
    ],
)
def test_scale_down_is_held_with_its_reason(change: Any, reason: str) -> None:
    o = change(replace(sized(observed(), 3), spec=spec(members=2)))
    assert "orders" not in replicas(o)
    assert Demote("id-orders-2") not in asked(o, Demote)
    assert condition(plan(o), "Resizing") == ("True", reason)


def test_a_pod_whose_member_is_gone_goes_when_the_rest_is_safe() -> None:
    o = replace(sized(observed(), 3), spec=spec(members=2))
    assert o.grid is not None
    o = replace(o, grid=grid_of(o.grid.members[:2]))
    assert replicas(o) == {"orders": 2}


def test_a_scale_down_that_is_taken_back_promotes_who_was_demoted() -> None:
    """3 to 2 to 3: the member was emptied already, or is being emptied."""
    o = changed_member(observed(), "orders-2", kind=Kind.LITE, owned_partitions=0)
    assert asked(o, Promote) == [Promote("id-orders-2")]
    draining = changed_member(observed(), "orders-2", drain=Drain.DEMOTING)
    key = Demote("id-orders-2").key
    assert asked(replace(draining, asked=frozenset({key})), StopAsking) == [StopAsking(key)]


def test_claims_go_after_their_pod_and_their_member() -> None:
    o = sized(observed(), 3)
    left = Claim("data-orders-3", "uid-c", "orders-3", "1Gi", "1Gi")
    o = replace(o, claims=[*o.claims, left])
    gone = Delete("PersistentVolumeClaim", "data-orders-3", "uid-c")
    assert asked(o, Delete) == [gone]
    assert condition(plan(o), "Resizing") == ("True", "ClaimsLeft")
    still_there = pod("orders-3", Role.DATA, 3, "mark")
    assert o.grid is not None
    for kept in (
        replace(o, pods=[*o.pods, still_there]),
        replace(o, grid=grid_of([*o.grid.members, member("orders-3")])),
        replace(o, grid=o.grid.model_copy(update={"safety": UNSAFE})),
        replace(o, grid=None),
        unformed(o),
    ):
        assert gone not in asked(kept, Delete)


def test_the_claim_of_the_last_lite_pod_goes_too() -> None:
    o = observed()
    left = Claim("data-orders-lite-0", "uid-c", "orders-lite-0", "1Gi", "1Gi")
    o = replace(o, claims=[*o.claims, left])
    assert asked(o, Delete) == [Delete("PersistentVolumeClaim", "data-orders-lite-0", "uid-c")]


def test_claims_grow_and_the_cluster_says_so() -> None:
    o = observed(spec(persistence={"size": "2Gi"}))
    small = [replace(each, requested="1Gi", capacity="1Gi") for each in o.claims]
    o = replace(o, claims=small)
    assert asked(o, Grow) == [Grow(f"data-orders-{i}", "2Gi") for i in range(3)]
    assert condition(plan(o), "Resizing") == ("True", "ClaimsGrow")
    asked_already = replace(o, claims=[replace(each, requested="2Gi") for each in small])
    assert asked(asked_already, Grow) == []
    assert plan(asked_already).status.phase is Phase.RESIZING


# Hibernation and deletion -------------------------------------------------------------------------


def test_hibernation_waits_for_passive() -> None:
    o = replace(sized(observed(), 3), spec=spec(hibernate=True))
    assert asked(o, ChangeState) == [ChangeState(State.PASSIVE)]
    assert replicas(o) == {}
    made = plan(o)
    assert made.status.phase is Phase.HIBERNATING
    assert condition(made, "Ready")[0] == "False"
    assert replicas(in_state(o, "PASSIVE")) == {"orders": 0}
    assert replicas(replace(o, grid=None)) == {}, "who can't be asked is not put to sleep"


def test_a_sleeping_cluster_says_so_and_wakes_with_every_claim() -> None:
    asleep = sized(observed(spec(members=2, hibernate=True)), 0)
    asleep = replace(asleep, pods=[], grid=None, migrations=None)
    made = plan(asleep)
    assert made.status.phase is Phase.HIBERNATED
    assert condition(made, "Ready") == ("False", "Hibernated")
    assert made.status.pending_state is None
    assert asked(asleep, Delete) == []
    three = Claim("data-orders-2", "uid-2", "orders-2", "1Gi", "1Gi")
    awake = replace(asleep, spec=spec(members=2), claims=[*asleep.claims, three])
    assert replicas(awake) == {"orders": 3}, "its files may be the last copy"


def test_deletion_is_graceful() -> None:
    o = sized(replace(observed(), deleting=True), 3)
    assert asked(o, ChangeState) == [ChangeState(State.PASSIVE)]
    assert replicas(o) == {}
    assert asked(o, Finalizers) == []
    assert plan(o).status.phase is Phase.DELETING
    assert replicas(replace(o, grid=None)) == {"orders": 0}, "it can't be kept for ever"
    empty = sized(replace(o, pods=[], grid=None), 0)
    assert asked(empty, Finalizers) == [Finalizers(())]
    assert asked(empty, Delete) == []


def test_claims_of_a_deleted_cluster_go_if_that_is_declared() -> None:
    o = observed(spec(persistence={"size": "1Gi", "reclaim": "Delete"}))
    o = sized(replace(o, deleting=True, pods=[], grid=None), 0)
    assert [each.name for each in asked(o, Delete)] == [f"data-orders-{i}" for i in range(3)]
    assert asked(replace(o, finalizers=()), Finalizers) == []


# Trouble ------------------------------------------------------------------------------------------


def test_a_spec_that_can_not_work_touches_nothing() -> None:
    o = replace(outdated(observed(), "orders-0"), spec_reasons=("backups must be fewer",))
    made = plan(o)
    assert made.actions == ()
    assert made.status.phase is Phase.REFUSED
    assert made.status.cluster_id == "grid-1"
    assert condition(made, "Degraded") == ("True", "SpecRefused")
    assert condition(made, "Ready") == ("False", "SpecRefused")
    assert [event.reason for event in made.events] == ["SpecRefused"]
    assert plan(replace(o, status=made.status)).events == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda o: replace(o, grid=None), "GridSilent"),
        (
            lambda o: replace(o, grid=o.grid.model_copy(update={"master_answers": False})),
            "MasterSilent",
        ),
        (lambda o: changed_member(o, "orders-1", ready=None), "MembersSilent"),
        (
            lambda o: replace(
                o,
                grid=o.grid.model_copy(
                    update={"partitions": o.grid.partitions.model_copy(update={"with_owner": 270})}
                ),
            ),
            "PartitionsWithoutOwner",
        ),
        (
            lambda o: changed_pod(o, "orders-1", unschedulable="no node fits", ready=False),
            "PodUnschedulable",
        ),
    ],
)
def test_what_is_wrong_is_said(change: Any, reason: str) -> None:
    made = plan(change(observed()))
    assert condition(made, "Degraded") == ("True", reason)
    assert reason in [event.reason for event in made.events]


def test_a_recovering_grid_is_no_ready_one() -> None:
    made = plan(in_state(observed(), "PASSIVE", recovering=True))
    assert condition(made, "Ready") == ("False", "Recovering")
    assert condition(made, "Recovering") == ("True", "LoadingFiles")
    assert made.status.phase is Phase.RECOVERING
    assert made.status.recovery is not None


def test_a_grid_that_loads_says_for_how_long() -> None:
    """1. Nobody can speak for the grid: members read. 2. One has read, and waits for the other."""
    made = plan(replace(observed(), grid=None, loading={"orders-1": 7.2, "orders-0": 3.0}))
    assert condition(made, "Recovering") == ("True", "LoadingFiles")
    assert made.status.recovery == RecoveryStatus(
        phase="orders-0, orders-1 load", remaining_seconds=8
    )
    recovering = in_state(observed(), "PASSIVE", recovering=True)
    made = plan(replace(recovering, loading={"orders-1": 2.0}))
    assert made.status.recovery == RecoveryStatus(phase="orders-1 load", remaining_seconds=2)


def test_a_grid_of_which_nobody_speaks_or_loads_does_not_come_back() -> None:
    made = plan(replace(observed(), grid=None))
    assert condition(made, "Recovering") == ("False", "NotRecovering")
    assert made.status.recovery is None


def test_migrations_are_told_and_stand_still_afterwards() -> None:
    moving = STILL.model_copy(
        update={
            "activity": "moving",
            "planned": 10,
            "completed": 4,
            "remaining": 6,
            "elapsed_seconds": 2.04,
        }
    )
    made = plan(replace(observed(), migrations=moving))
    first = made.status
    assert condition(made, "Progressing") == ("True", "DataMoves")
    assert made.look_again_seconds < plan(observed()).look_again_seconds
    assert (first.migrations.progress, first.migrations.remaining) == ("4/10", 6)
    end = {"activity": "idle", "completed": 10, "remaining": 0, "elapsed_seconds": 5.0}
    over = moving.model_copy(update=end)
    last = plan(replace(observed(), migrations=over, status=first)).status
    assert condition(plan(replace(observed(), migrations=over)), "Progressing")[0] == "False"
    later = over.model_copy(update={"elapsed_seconds": 99.0, "rate_per_second": 0.1})
    assert plan(replace(observed(), migrations=later, status=last)).status == last


def test_members_of_several_processes_count_as_one_pod() -> None:
    o = observed(spec(processesPerPod=2))
    members = [member(f"{p.name}-{i}") for p in o.pods for i in range(2)]
    o = replace(o, grid=grid_of(members))
    assert plan(o).status.members == "3/3"
    assert plan(changed_member(o, "orders-1-1", ready=False)).status.members == "2/3"
    assert len(plan(o).status.member_list) == 6
    lonely = replace(o, grid=grid_of(members[:5]))
    assert plan(lonely).status.members == "2/3"


def test_a_member_without_a_pod_is_still_told_of() -> None:
    o = observed()
    lost = replace(o, pods=[p for p in o.pods if p.name != "orders-2"])
    found = {each.name: each for each in plan(lost).status.member_list}
    assert (found["orders-2"].state, found["orders-2"].pod) == ("Gone", "")


def backup(name: str, **status: Any) -> Declared:
    """One that is declared."""
    made = BackupStatus.model_validate(status)
    return Declared(name, f"uid-of-{name}", 1, f"2026-11-18T12:00:0{name[-1]}Z", made)


def kept(name: str, *, complete: bool = True) -> BackupModel:
    """As the grid's catalogue has it."""
    part = BackupPart(
        member="orders-0", id="id", created=1.0, previous="", directory="/d", files=2, bytes=9,
        own_bytes=4,
    )  # fmt: skip
    return BackupModel(
        name=name, created=1.0, complete=complete, missing=[], bytes=9, own_bytes=4, parts=[part]
    )


def test_backups_are_made_one_after_another() -> None:
    o = replace(observed(), backups=[backup("b2"), backup("b1")])
    assert asked(o, BackUp) == [BackUp("b1-uid-of-b")]
    told = plan(o).backups
    assert (told["b1"].phase, told["b2"].phase) == ("Running", "Pending")
    assert told["b2"].message == "another Backup comes first"
    half = replace(o, catalogue=[kept("b1-uid-of-b", complete=False)])
    assert asked(half, BackUp) == [BackUp("b1-uid-of-b")], "what is missing is asked for"
    done = replace(o, backups=[backup("b1")], catalogue=[kept("b1-uid-of-b")])
    made = plan(done)
    assert asked(done, BackUp) == []
    assert (made.backups["b1"].phase, made.backups["b1"].size) == ("Completed", "9")
    assert made.backups["b1"].members[0].own_bytes == 4
    assert "BackupCompleted" in [event.reason for event in made.events]


def test_a_backup_that_is_complete_is_told_and_not_looked_at_again() -> None:
    o = replace(observed(), backups=[backup("b1", phase="Completed"), backup("b2", phase="Failed")])
    made = plan(o)
    assert condition(made, "BackedUp") == ("True", "BackupCompleted")
    assert made.status.last_backup == "b1"
    assert (made.actions, dict(made.backups)) == ((), {})


@pytest.mark.parametrize(
    ("change", "phase", "message"),
    [
        (lambda o: replace(o, grid=None), "Pending", "does not serve"),
        (unformed, "Pending", "does not serve"),
        (lambda o: replace(o, deleting=True), "Pending", "being deleted"),
        (
            lambda o: replace(o, refusals={"backup b1-uid-of-b": Refusal("NoRoom", "disk full")}),
            "Running",
            "disk full",
        ),
        (
            lambda o: replace(
                o, spec=spec(persistence={"enabled": False}, upgradeStrategy="OnDelete")
            ),
            "Failed",
            "no files",
        ),
    ],
    ids=["silent", "forming", "deleted", "refused", "without files"],
)
def test_why_a_backup_is_not_made_is_told(change: Any, phase: str, message: str) -> None:
    told = plan(change(replace(observed(), backups=[backup("b1")]))).backups["b1"]
    assert told.phase == phase
    assert message in told.message


def test_names_of_pods_have_numbers() -> None:
    assert pod_name("orders", Role.LITE, 4) == "orders-lite-4"
