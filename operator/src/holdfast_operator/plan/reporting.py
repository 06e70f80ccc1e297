"""The status: what is so, in numbers and names."""

from __future__ import annotations

import math

from holdfast.wire.api.cluster import MemberModel
from holdfast.wire.api.words import Kind
from holdfast_operator.model.status import (
    ClusterStatus,
    MemberStatus,
    MigrationStatus,
    PartitionStatus,
    Phase,
    RecoveryStatus,
)
from holdfast_operator.names import CLUSTER_LABEL, ROLE_LABEL, Role, member_names
from holdfast_operator.observed import Observed, Pod
from holdfast_operator.plan.backing_up import last_backup
from holdfast_operator.plan.conditions import conditions, refused
from holdfast_operator.plan.deaths import known_stays
from holdfast_operator.plan.decisions import Course
from holdfast_operator.plan.seeing import is_coming_back, is_formed, is_ready, is_up, ready_count
from holdfast_operator.plan.stating import pending
from holdfast_operator.plan.volumes import growing, surplus


def refused_status(o: Observed) -> ClusterStatus:
    """Of a spec that can't work: what runs goes on, and is reported as it was."""
    return o.status.model_copy(
        update={
            "observed_generation": o.generation,
            "phase": Phase.REFUSED,
            "conditions": refused(o),
        }
    )


def status(o: Observed, course: Course) -> ClusterStatus:
    """All of it."""
    grid = o.grid
    now_in = phase(o, course)
    waits = pending(o, course.target) if not _is_asleep(o, course) else None
    applied = grid is not None and is_formed(o) and grid.state.value == o.spec.state.value
    cluster_id = o.status.cluster_id
    if grid is not None and grid.id and _is_complete(o):
        cluster_id = grid.id
    return ClusterStatus(
        observed_generation=o.generation,
        phase=now_in,
        cluster_id=cluster_id,
        state=grid.state.value if grid is not None else ("" if course.ending else o.status.state),
        state_generation=o.generation if applied else o.status.state_generation,
        pending_state=waits,
        pending=waits.target if waits is not None else "",
        compatibility_level=grid.level if grid is not None else o.status.compatibility_level,
        master=_master(o),
        members=f"{ready_count(o, Role.DATA)}/{o.spec.members}",
        lite_members=f"{ready_count(o, Role.LITE)}/{o.spec.lite.members}",
        replicas=len(o.pods_of(Role.DATA)),
        member_list=member_list(o),
        partitions=_partitions(o),
        migrations=_migrations(o),
        safe=grid is not None and grid.safety.safe,
        recovery=_recovery(o),
        selector=f"{CLUSTER_LABEL}={o.name},{ROLE_LABEL}={Role.DATA.value}",
        last_backup=last_backup(o),
        conditions=conditions(o, course, now_in),
    )


def _is_complete(o: Observed) -> bool:
    """Every declared data member has joined: the grid exists."""
    return is_up(o) and all(is_ready(o, Role.DATA, i) for i in range(o.spec.members))


def _is_asleep(o: Observed, course: Course) -> bool:
    return course.ending and o.replicas(Role.DATA) == 0


def phase(o: Observed, course: Course) -> Phase:
    """What the operator is about."""
    if o.deleting:
        return Phase.DELETING
    if course.ending:
        return Phase.HIBERNATED if _is_asleep(o, course) and not o.pods else Phase.HIBERNATING
    if not is_formed(o):
        return Phase.FORMING if o.spec.origin is None else Phase.RESTORING
    if course.restart.active:
        return Phase.UPDATING
    if not is_up(o):
        return Phase.RECOVERING
    if course.sizes.moving or growing(o) or surplus(o):
        return Phase.RESIZING
    return Phase.RUNNING


def _master(o: Observed) -> str:
    members = [] if o.grid is None else o.grid.members
    return next((member.name for member in members if member.master), "")


def _partitions(o: Observed) -> PartitionStatus:
    if o.grid is None:
        return o.status.partitions
    table, safety = o.grid.partitions, o.grid.safety
    return PartitionStatus(
        total=table.total,
        with_owner=table.with_owner,
        missing_copies=safety.missing_copies,
        unsynced_copies=safety.unsynced_copies,
        stamp=table.stamp,
    )


def _migrations(o: Observed) -> MigrationStatus:
    """When nothing is left the figures are those of the end: they stand still."""
    seen = o.migrations
    if seen is None:
        return o.status.migrations
    before = o.status.migrations
    over = seen.remaining == 0 and not seen.running
    same = (before.planned, before.completed) == (seen.planned, seen.completed)
    if over and same and before.remaining == 0:
        return before
    return MigrationStatus(
        planned=seen.planned,
        completed=seen.completed,
        failed=seen.failed,
        remaining=seen.remaining,
        running=len(seen.running),
        bytes=seen.bytes,
        elapsed_seconds=round(seen.elapsed_seconds, 1),
        rate_per_second=round(seen.rate_per_second, 1),
        progress=f"{seen.completed}/{seen.planned}" if seen.planned else "",
    )


def _recovery(o: Observed) -> RecoveryStatus | None:
    if not is_coming_back(o):
        return None
    if o.loading:
        left = math.ceil(max(o.loading.values()))
        return RecoveryStatus(phase=f"{', '.join(sorted(o.loading))} load", remaining_seconds=left)
    members = [] if o.grid is None else o.grid.members
    waiting = [m.name for m in members if not m.ready]
    return RecoveryStatus(phase=f"waits for {', '.join(waiting)}" if waiting else "settling")


def member_list(o: Observed) -> list[MemberStatus]:
    """Members by pod; also those whose pod is there and that have not joined."""
    found = [
        _member(o, pod, name)
        for role in Role
        for pod in o.pods_of(role)
        for name in member_names(pod.name, o.spec.processes_per_pod)
    ]
    named = {each.name for each in found}
    lost = [m for m in ([] if o.grid is None else o.grid.members) if m.name not in named]
    return found + [_without_pod(o, member) for member in lost]


def _member(o: Observed, pod: Pod, name: str) -> MemberStatus:
    member = o.member(name)
    stay = next((s for s in o.stays if s.name == name), None)
    before = known_stays(o).get(name)
    kept = before if before is not None and _may_be(before, member) else None
    return MemberStatus(
        pod=pod.name,
        name=name,
        id=member.id if member else (kept.id if kept else ""),
        incarnation=member.incarnation if member else (kept.incarnation if kept else 0),
        container=stay.container if stay else (kept.container if kept else ""),
        started_at=stay.started_at if stay else (kept.started_at if kept else None),
        kind=member.kind.value if member else pod.role.value,
        promoted=pod.role is Role.LITE and member is not None and member.kind is Kind.DATA,
        master=member is not None and member.master,
        state=_state(member),
        ready=member is not None and bool(member.ready) and pod.ready,
        reason=member.unready_reason
        if member
        else pod.complaint or pod.waiting or pod.unschedulable,
        group=member.group if member else pod.node,
        owned_partitions=member.owned_partitions if member else 0,
        backups=member.backup_partitions if member else 0,
        version=pod.template,
        restarts=pod.restarts,
    )


def _may_be(before: MemberStatus, member: MemberModel | None) -> bool:
    """Whether nobody says that the remembered stay is over."""
    return member is None or (before.id, before.incarnation) == (member.id, member.incarnation)


def _without_pod(o: Observed, member: MemberModel) -> MemberStatus:
    """The grid counts it, and Kubernetes has no pod for it: it may still run somewhere."""
    before = known_stays(o).get(member.name)
    return MemberStatus(
        pod="",
        name=member.name,
        id=member.id,
        incarnation=member.incarnation,
        container=before.container if before is not None else "",
        started_at=before.started_at if before is not None else None,
        kind=member.kind.value,
        promoted=False,
        master=member.master,
        state="Gone",
        ready=False,
        reason="there is no such pod",
        group=member.group,
        owned_partitions=member.owned_partitions,
        backups=member.backup_partitions,
    )


def _state(member: MemberModel | None) -> str:
    if member is None:
        return "Joining"
    if member.ready is None:
        return "Silent"
    return "Ready" if member.ready else "NotReady"
