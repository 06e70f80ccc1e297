"""Conditions: what can be waited for, each with the generation that it was looked at for.

`kubectl wait --for=condition=X` compares that generation with the object's: after a change of the
spec nothing is True until it was looked at again, with the new spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast_operator.model.status import Condition, ConditionType, Phase, Truth
from holdfast_operator.names import Role
from holdfast_operator.observed import Observed
from holdfast_operator.plan.backing_up import last_backup
from holdfast_operator.plan.decisions import Course
from holdfast_operator.plan.seeing import (
    is_coming_back,
    is_formed,
    is_moving,
    is_up,
    ready_count,
)
from holdfast_operator.plan.stating import pending
from holdfast_operator.plan.volumes import growing, surplus

MESSAGE_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition, before it is known since when."""

    holds: bool
    reason: str
    message: str
    unknown: bool = False


def conditions(o: Observed, course: Course, phase: Phase) -> list[Condition]:
    """All of them, each with the time of its last change."""
    verdicts = {
        ConditionType.READY: ready(o, course),
        ConditionType.STATE_APPLIED: state_applied(o, course),
        ConditionType.SAFE: safe(o),
        ConditionType.PROGRESSING: progressing(o, course, phase),
        ConditionType.DEGRADED: degraded(o, course),
        ConditionType.RECOVERING: recovering(o),
        ConditionType.RESIZING: resizing(o, course),
        ConditionType.BACKED_UP: backed_up(o),
    }
    return [_dated(o, kind, verdict) for kind, verdict in verdicts.items()]


def refused(o: Observed) -> list[Condition]:
    """Of a spec that can't work: nothing is True but that it is so."""
    text = "; ".join(o.spec_reasons)
    return [
        _dated(o, kind, Verdict(kind is ConditionType.DEGRADED, "SpecRefused", text))
        for kind in ConditionType
    ]


def _dated(o: Observed, kind: ConditionType, verdict: Verdict) -> Condition:
    status = Truth.TRUE if verdict.holds else Truth.FALSE
    if verdict.unknown:
        status = Truth.UNKNOWN
    before = next((each for each in o.status.conditions if each.type == kind), None)
    same = before is not None and before.status is status
    since = before.last_transition_time if before is not None and same else o.now
    return Condition(
        type=kind.value,
        status=status,
        observed_generation=o.generation,
        last_transition_time=since,
        reason=verdict.reason,
        message=verdict.message[:MESSAGE_MAX],
    )


def ready(o: Observed, course: Course) -> Verdict:
    """Every declared data member serves."""
    if course.ending:
        asleep = o.replicas(Role.DATA) == 0 and not o.pods
        return Verdict(False, "Hibernated" if asleep else "Ending", "the pods go, or are gone")
    if o.grid is None:
        return Verdict(False, "GridSilent" if is_formed(o) else "Forming", "no member answers")
    count, wanted = ready_count(o, Role.DATA), o.spec.members
    text = f"{count} of {wanted} data members serve"
    if o.grid.recovering:
        return Verdict(False, "Recovering", f"the grid comes back from its files; {text}")
    if not is_up(o):
        return Verdict(False, "MasterSilent", f"the master does not answer; {text}")
    if not is_formed(o) and count < wanted:
        return Verdict(False, "Forming", text)
    if count != wanted or o.replicas(Role.DATA) != wanted:
        return Verdict(False, "MembersNotReady", text)
    return Verdict(True, "AllMembersServe", text)


def state_applied(o: Observed, course: Course) -> Verdict:
    """The declared state holds."""
    waits = pending(o, o.spec.state)
    if waits is not None:
        reason = "Updating" if course.restart.active and is_up(o) else waits.reason
        return Verdict(False, reason, waits.message)
    if course.target is not o.spec.state:
        reason = "Ending" if course.ending else "Updating"
        return Verdict(False, reason, f"the grid goes to {course.target} first")
    return Verdict(True, "Applied", f"the state is {o.spec.state}")


def safe(o: Observed) -> Verdict:
    """Any one holder may go now."""
    if o.grid is None:
        return Verdict(False, "GridSilent", "no member answers", unknown=True)
    if o.grid.safety.safe:
        return Verdict(True, "AllCopiesInSync", "every copy is there and in sync")
    return Verdict(False, "CopiesMissing", "; ".join(o.grid.safety.reasons) or "not every copy")


def progressing(o: Observed, course: Course, phase: Phase) -> Verdict:
    """Something is under way: in the pods, or in the grid, which plans and moves by itself."""
    promotion = course.sizes.promotion
    hold = course.restart.hold or course.sizes.hold or promotion
    if phase is Phase.RUNNING and hold is None and o.migrations is not None and is_moving(o):
        text = f"{o.migrations.completed} of {o.migrations.planned} migrations are done"
        return Verdict(True, "DataMoves", text)
    if phase in (Phase.RUNNING, Phase.HIBERNATED) and hold is None:
        return Verdict(False, phase.value, "everything is as declared")
    if phase is Phase.RUNNING and hold is not None:
        reason = "PromotionPending" if hold is promotion else hold.reason
        return Verdict(True, reason, hold.message)
    text = hold.message if hold is not None else "under way"
    return Verdict(True, phase.value, text)


def degraded(o: Observed, course: Course) -> Verdict:
    """Something is wrong that does not belong to what is under way."""
    problems = list(_problems(o, course))
    if not problems:
        return Verdict(False, "Healthy", "nothing is wrong")
    return Verdict(True, problems[0][0], "; ".join(text for _, text in problems))


def _problems(o: Observed, course: Course) -> list[tuple[str, str]]:
    found = []
    for pod in sorted(o.pods, key=lambda p: p.name):
        if pod.waiting and pod.waiting not in ("ContainerCreating", "PodInitializing"):
            said = pod.complaint or f"{pod.restarts} restarts"
            found.append(("PodFailing", f"{pod.name}: {pod.waiting}, {said}"))
        elif pod.unschedulable:
            found.append(("PodUnschedulable", f"{pod.name}: {pod.unschedulable}"))
    if is_formed(o) and o.grid is None and not course.ending and o.replicas(Role.DATA):
        found.append(("GridSilent", "no member answers"))
    if is_formed(o) and o.grid is not None:
        missing = o.grid.partitions.total - o.grid.partitions.with_owner
        if missing and not o.grid.recovering:
            found.append(("PartitionsWithoutOwner", f"{missing} partitions have no owner"))
        if not is_up(o) and not o.grid.recovering:
            found.append(("MasterSilent", "the master does not answer"))
        silent = [m.name for m in o.grid.members if m.ready is None]
        if silent:
            found.append(("MembersSilent", f"no answer from {', '.join(silent)}"))
    if course.sizes.hold is not None and course.sizes.hold.warning:
        found.append((course.sizes.hold.reason, course.sizes.hold.message))
    return found


def recovering(o: Observed) -> Verdict:
    """The whole grid comes back from its files."""
    if is_coming_back(o):
        return Verdict(True, "LoadingFiles", "writes are refused until all have loaded")
    return Verdict(False, "NotRecovering", "the grid does not start from its files")


def resizing(o: Observed, course: Course) -> Verdict:
    """Members are added or taken away, or claims grow."""
    if course.sizes.moving:
        hold = course.sizes.hold
        text = f"{o.replicas(Role.DATA)} of {o.spec.members} data pods"
        reason, message = ("Moving", text) if hold is None else (hold.reason, hold.message)
        return Verdict(True, reason, message)
    claims = growing(o)
    if claims:
        names = ", ".join(claim.name for claim in claims)
        return Verdict(True, "ClaimsGrow", f"not yet {o.spec.persistence.size}: {names}")
    left = surplus(o)
    if left:
        names = ", ".join(claim.name for claim in left)
        return Verdict(True, "ClaimsLeft", f"their pods are gone, they are still there: {names}")
    return Verdict(False, "SizesAsDeclared", "pods and claims are as declared")


def backed_up(o: Observed) -> Verdict:
    """There is a backup."""
    newest = last_backup(o)
    if newest:
        return Verdict(True, "BackupCompleted", f"the newest is {newest}")
    return Verdict(False, "NoBackup", "no Backup of this Cluster is complete")
