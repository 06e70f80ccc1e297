"""The plan as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast_operator.actions import Action, Event, Finalizers
from holdfast_operator.actions import Delete as DeleteAction
from holdfast_operator.model.backup import BackupPhase, BackupScheduleStatus, BackupStatus
from holdfast_operator.model.status import ClusterStatus, Phase, Truth
from holdfast_operator.names import FINALIZER, Role
from holdfast_operator.observed import Observed
from holdfast_operator.plan.backing_up import backing_up
from holdfast_operator.plan.children import changes
from holdfast_operator.plan.course import course
from holdfast_operator.plan.deaths import deaths
from holdfast_operator.plan.decisions import Course
from holdfast_operator.plan.losing import (
    forgotten,
    founded_again,
    founding_again,
    is_another,
    is_lost,
)
from holdfast_operator.plan.reporting import refused_status, status
from holdfast_operator.plan.scheduling import scheduling
from holdfast_operator.plan.seeing import is_moving
from holdfast_operator.plan.stating import asks
from holdfast_operator.plan.volumes import grow, left_over, of_deleted

AT_REST_SECONDS = 5.0
"""Nothing is under way: the grid is looked at, which costs no request to Kubernetes."""
BUSY_SECONDS = 1.0
SPOKEN_OF = ("Degraded", "Recovering", "Resizing", "StateApplied")
"""Conditions whose changes are events: what people want to find in `kubectl describe`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done and said now."""

    actions: tuple[Action, ...]
    status: ClusterStatus
    events: tuple[Event, ...]
    look_again_seconds: float
    backups: Mapping[str, BackupStatus] = field(default_factory=dict)
    """Of the Backups that are not at their end."""
    schedules: Mapping[str, BackupScheduleStatus] = field(default_factory=dict)


def plan(o: Observed) -> Plan:
    """Decide. No clock, no network: the same observation gives the same plan."""
    if o.spec_reasons and not o.deleting:
        made = refused_status(o)
        event = Event("SpecRefused", "; ".join(o.spec_reasons), warning=True)
        new = o.status.observed_generation != o.generation or o.status.phase is not Phase.REFUSED
        return Plan((), made, (event,) if new else (), AT_REST_SECONDS)
    lost = is_lost(o) and not o.deleting
    if lost:
        o = forgotten(o)
    chosen = course(o)
    made = status(o, chosen)
    actions, events = _actions(o, chosen)
    if lost:
        restarts, event = founding_again(o)
        actions, events = actions + restarts, [*events, event]
    elif is_another(o, made.cluster_id):
        events = [*events, founded_again()]
    wanted, backups = backing_up(o)
    declared, schedules = scheduling(o)
    actions += wanted + declared
    events = [*chosen.events, *events, *_changes_of(o, made), *_of_backups(backups)]
    busy = made.phase not in (Phase.RUNNING, Phase.HIBERNATED) or bool(actions) or is_moving(o)
    seconds = BUSY_SECONDS if busy else AT_REST_SECONDS
    return Plan(tuple(actions), made, tuple(events), seconds, backups, schedules)


def _of_backups(statuses: Mapping[str, BackupStatus]) -> list[Event]:
    ends = {BackupPhase.COMPLETED: "BackupCompleted", BackupPhase.FAILED: "BackupFailed"}
    return [
        Event(ends[each.phase], f"{name}: {each.message or each.kept_as}", warning=not each.size)
        for name, each in statuses.items()
        if each.phase in ends
    ]


def _actions(o: Observed, chosen: Course) -> tuple[list[Action], list[Event]]:
    if o.deleting and _is_gone(o):
        rest = tuple(name for name in o.finalizers if name != FINALIZER)
        freed: list[Action] = [] if FINALIZER not in o.finalizers else [Finalizers(rest)]
        return of_deleted(o) + freed, []
    sizes = {Role.DATA: chosen.sizes.data, Role.LITE: chosen.sizes.lite}
    actions: list[Action] = []
    if FINALIZER not in o.finalizers and not o.deleting:
        actions.append(Finalizers((*o.finalizers, FINALIZER)))
    confirmed = deaths(o)
    actions += [ask for ask, _ in confirmed]
    actions += changes(o, sizes)
    actions += grow(o)
    actions += asks(o, chosen.target)
    actions += chosen.sizes.actions
    if chosen.restart.pod is not None:
        actions.append(DeleteAction("Pod", chosen.restart.pod.name, chosen.restart.pod.uid))
    claims, events = left_over(o, sizes) if not chosen.ending else ([], [])
    return actions + claims, [*(event for _, event in confirmed), *events]


def _is_gone(o: Observed) -> bool:
    """No pod is left, and none will be made."""
    return not o.pods and all(each.replicas == 0 for each in o.sets.values())


def _changes_of(o: Observed, made: ClusterStatus) -> list[Event]:
    """Conditions that changed, as events."""
    before = {each.type: each for each in o.status.conditions}
    events = []
    for each in made.conditions:
        old = before.get(each.type)
        if each.type not in SPOKEN_OF or (old is not None and _same(old.reason, each.reason)):
            continue
        bad = each.type == "Degraded" and each.status is Truth.TRUE
        if old is None and each.status is not Truth.TRUE:
            continue
        events.append(Event(each.reason, f"{each.type}: {each.message}", warning=bad))
    return events


def _same(before: str, after: str) -> bool:
    return before == after
