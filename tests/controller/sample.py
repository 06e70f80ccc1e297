"""Observations for tests of the plan: a healthy cluster, and how it differs in a test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.wire.api.cluster import (
    ClusterModel,
    EndpointsModel,
    MemberModel,
    PendingModel,
    SafetyModel,
    TableModel,
)
from holdfast.wire.api.partitions import MigrationsModel
from holdfast.wire.api.words import ClusterState, Drain, Kind
from holdfast_operator.actions import Action, Apply
from holdfast_operator.builders.pods import template_mark
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.status import ClusterStatus, MemberStatus, Phase
from holdfast_operator.names import FINALIZER, Role, claim_name, pod_name
from holdfast_operator.observed import Claim, Observed, Pod, Set, Stay
from holdfast_operator.plan import Plan, plan
from holdfast_operator.plan.children import wanted

NOW: Final = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
NOBODY: Final = EndpointsModel(plain="", cluster="", http="")


def spec(**values: Any) -> ClusterSpec:
    """As declared."""
    return ClusterSpec.model_validate({"members": 3, "persistence": {"size": "1Gi"}, **values})


def member(name: str, *, kind: Kind = Kind.DATA, **changes: Any) -> MemberModel:
    """A healthy one."""
    made = MemberModel(
        id=f"id-{name}",
        incarnation=1,
        name=name,
        address=f"{name}:7380",
        group=f"node-{name}",
        kind=kind,
        drain=Drain.NONE,
        newcomer=False,
        persistent=True,
        level_max=3,
        master=name.endswith("orders-0"),
        endpoints=NOBODY,
        owned_partitions=90 if kind is Kind.DATA else 0,
        backup_partitions=90 if kind is Kind.DATA else 0,
        ready=True,
        unready_reason="",
    )
    return made.model_copy(update=changes)


def grid_of(members: Iterable[MemberModel], **changes: Any) -> ClusterModel:
    """A grid in which all is well."""
    listed = list(members)
    made = ClusterModel(
        id="grid-1",
        name="shop/orders",
        state=ClusterState.ACTIVE,
        pending=None,
        level=3,
        term=1,
        version=1,
        recovering=False,
        master="id-orders-0",
        master_answers=True,
        answered_by="id-orders-0",
        members=listed,
        partitions=TableModel(total=271, with_owner=271, backups_promised=1, stamp="aa"),
        safety=SAFE,
    )
    return made.model_copy(update=changes)


SAFE: Final = SafetyModel(safe=True, reasons=[], missing_copies=0, unsynced_copies=0)
UNSAFE: Final = SafetyModel(
    safe=False,
    reasons=["7 promised copies are held by nobody"],
    missing_copies=7,
    unsynced_copies=0,
)
STILL: Final = MigrationsModel(
    master="id-orders-0",
    activity="idle",
    planned=0,
    completed=0,
    failed=0,
    bytes=0,
    remaining=0,
    elapsed_seconds=0,
    rate_per_second=0,
    running=[],
    history=[],
)
MIGRATING: Final = PendingModel(target="FROZEN", reason="3 migrations are running")


def pod(name: str, role: Role, ordinal: int, mark: str, **changes: Any) -> Pod:
    """One that runs and serves."""
    made = Pod(
        name=name,
        uid=f"uid-{name}",
        role=role,
        ordinal=ordinal,
        ip="10.0.0.1",
        node=f"node-{name}",
        ready=True,
        template=mark,
        container=f"container-{name}",
        started_at=NOW - timedelta(hours=1),
    )
    return replace(made, **changes)


def observed(declared: ClusterSpec | None = None, **changes: Any) -> Observed:
    """A cluster at rest, exactly as declared, and then what is different."""
    chosen = declared or spec()
    bare = Observed(
        name="orders",
        namespace="shop",
        uid="uid-cluster",
        generation=4,
        now=NOW,
        spec=chosen,
        status=ClusterStatus.model_validate({}),
        finalizers=(FINALIZER,),
        zones={},
        secret_exists=True,
    )
    counts = {Role.DATA: chosen.members, Role.LITE: chosen.lite.members}
    pods = [
        pod(pod_name("orders", role, i), role, i, template_mark(bare, role))
        for role, count in counts.items()
        for i in range(count)
    ]
    members = [
        member(
            each.name,
            kind=Kind.DATA
            if each.role is Role.DATA or each.ordinal < chosen.lite.promote
            else Kind.LITE,
        )
        for each in pods
    ]
    size = chosen.persistence.size
    claims = [
        Claim(claim_name(each.name), f"uid-{each.name}", each.name, size, size) for each in pods
    ]
    sets = {role: Set(f"uid-{role}", count, ()) for role, count in counts.items() if count}
    whole = replace(
        bare,
        pods=pods,
        claims=claims,
        sets=sets,
        grid=grid_of(members, state=ClusterState(chosen.state.value)),
        migrations=STILL,
        status=ClusterStatus.model_validate(
            {
                "clusterId": "grid-1",
                "phase": Phase.RUNNING,
                "state": chosen.state.value,
                "stateGeneration": 4,
                "observedGeneration": 4,
            }
        ),
    )
    changed = replace(whole, **changes)
    return with_children(changed)


def with_children(o: Observed) -> Observed:
    """Objects as the operator makes them for the sizes that there are."""
    sizes = {role: o.replicas(role) for role in Role}
    made = {(each["kind"], each["metadata"]["name"]): each for each in wanted(o, sizes)}
    return replace(o, children={**made, **o.children})


def changed_member(o: Observed, name: str, **changes: Any) -> Observed:
    """One member of the grid is different."""
    assert o.grid is not None
    members = [
        each.model_copy(update=changes) if each.name == name else each for each in o.grid.members
    ]
    return replace(o, grid=o.grid.model_copy(update={"members": members}))


def changed_pod(o: Observed, name: str, **changes: Any) -> Observed:
    """One pod is different."""
    return replace(o, pods=[replace(p, **changes) if p.name == name else p for p in o.pods])


def in_state(o: Observed, state: str, **changes: Any) -> Observed:
    """The grid is in another state."""
    assert o.grid is not None
    update = {"state": ClusterState(state), **changes}
    return replace(o, grid=o.grid.model_copy(update=update))


def remembered(o: Observed, name: str, **values: Any) -> Observed:
    """The status knows where a member runs."""
    stay = {
        "pod": name,
        "name": name,
        "id": f"id-{name}",
        "incarnation": 1,
        "container": f"container-{name}",
        "startedAt": NOW - timedelta(minutes=30),
        "kind": "data",
        "promoted": False,
        "master": False,
        "state": "Ready",
        "ready": True,
        **values,
    }
    others = [each for each in o.status.member_list if each.name != name]
    listed = [*others, MemberStatus.model_validate(stay)]
    return replace(o, status=o.status.model_copy(update={"member_list": listed}))


def stay(name: str, container: str, incarnation: int = 1) -> Stay:
    """A stay by its own word."""
    began = NOW - timedelta(minutes=30)
    return Stay(name, f"id-{name}", incarnation, began, name, container)


def asked(o: Observed, kind: type[Action]) -> list[Any]:
    """Actions of one kind in the plan."""
    return [each for each in plan(o).actions if isinstance(each, kind)]


def condition(made: Plan, kind: str) -> tuple[str, str]:
    """Status and reason."""
    found = next(each for each in made.status.conditions if each.type == kind)
    assert found.observed_generation == 4
    return found.status.value, found.reason


def replicas(o: Observed) -> dict[str, int]:
    """Sizes of the sets that are applied."""
    bodies = [each.body for each in asked(o, Apply) if each.body["kind"] == "StatefulSet"]
    return {body["metadata"]["name"]: body["spec"]["replicas"] for body in bodies}
