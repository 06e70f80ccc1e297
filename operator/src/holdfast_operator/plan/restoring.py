"""The plan of a Restore: what is looked at, then the Cluster, which fills itself.

    Pending ─► Checking ─► Filling ─► Completed
        └──────────┴───────────┴──► Failed

Rules (`design/6`, "Restore"; ADR 24)
-------------------------------------
* Nothing is made before a Job has found all that the backup needs. What can never be is told once.
* The identity of the new grid follows from the Restore's uid. Two Restores make two grids; one that
  is planned again by another operator goes on with the same.
* A Cluster, or claims of one, that have the name already are never touched.
* The Cluster says itself what it is made of (`spec.origin`), and nobody founds it: it goes on when
  the Restore is deleted, and half of it is no grid.
* It is done when the grid was whole once, with every member that it begins with.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

from holdfast_operator.actions import Action, Apply, Event
from holdfast_operator.builders.jobs import For, checking
from holdfast_operator.model.backup import BackupPhase
from holdfast_operator.model.places import Place
from holdfast_operator.model.restore import RestorePhase, RestoreStatus
from holdfast_operator.model.status import Condition, Phase, Truth
from holdfast_operator.names import API_VERSION, job_name
from holdfast_operator.observed import Job, RestoreObserved
from holdfast_operator.plan.seeing import kept_as

FINAL: Final = (RestorePhase.COMPLETED, RestorePhase.FAILED)
BUSY_SECONDS: Final = 1.0
AT_REST_SECONDS: Final = 300.0
SPACE: Final = uuid.UUID("7a3c2f0e-52c9-4be6-9d0c-3e2f0a6a4d11")
"""Of identities that are made from uids."""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What is to be done and said now."""

    actions: tuple[Action, ...]
    status: RestoreStatus
    events: tuple[Event, ...]
    look_again_seconds: float


@dataclass(frozen=True, slots=True)
class Source:
    """A backup: at a place, or with the members of a cluster."""

    cluster: str
    place: Place | None
    name: str


@dataclass(frozen=True, slots=True)
class Step:
    """What follows from a look."""

    phase: RestorePhase
    message: str = ""
    actions: tuple[Action, ...] = ()
    more: tuple[tuple[str, Any], ...] = ()
    """Of the status."""


def identity(r: RestoreObserved) -> str:
    """Of the new grid."""
    return str(uuid.uuid5(SPACE, r.uid))


def restoring(r: RestoreObserved) -> RestorePlan:
    """Decide."""
    if r.status.phase in FINAL or r.deleting:
        return RestorePlan((), r.status, (), AT_REST_SECONDS)
    step = _step(r)
    status = _status(r, step)
    return RestorePlan(step.actions, status, _events(r, status), BUSY_SECONDS)


def _step(r: RestoreObserved) -> Step:
    if r.spec_reasons:
        return Step(RestorePhase.FAILED, "; ".join(r.spec_reasons))
    name = r.spec.cluster.name
    if r.target is not None and r.target.origin == identity(r):
        return _filling(r)
    if r.status.phase is RestorePhase.FILLING:
        return Step(RestorePhase.FAILED, f"the Cluster {name} was deleted before it was whole")
    if r.target is not None:
        return Step(
            RestorePhase.FAILED, f"there is a Cluster {name} already: a Restore makes a new one"
        )
    if r.claims:
        text = f"claims of an earlier Cluster {name} are there: {', '.join(r.claims)}"
        return Step(RestorePhase.FAILED, f"{text}: delete them, or choose another name")
    source = _source(r)
    return source if isinstance(source, Step) else _checking(r, source)


def _source(r: RestoreObserved) -> Source | Step:
    """Where the backup is, or why there is none."""
    kept, name = r.spec.source.kept, r.spec.source.backup
    if kept is not None:
        return Source("", Place.model_validate(kept.model_dump()), kept.name)
    if r.backup is None:
        return Step(RestorePhase.PENDING, f"there is no Backup {name}")
    if r.backup.status.phase is BackupPhase.FAILED:
        return Step(RestorePhase.FAILED, f"the Backup {name} has failed: {r.backup.status.message}")
    if r.backup.status.phase is not BackupPhase.COMPLETED:
        return Step(RestorePhase.PENDING, f"the Backup {name} is not complete yet")
    found = kept_as(r.backup)
    if r.backup.target is not None:
        return Source("", r.backup.target, found)
    cluster = r.backup.cluster
    if r.source is None:
        text = f"the members of {cluster} alone had the Backup {name}, and the Cluster is gone"
        return Step(RestorePhase.FAILED, text)
    if r.source.phase in (Phase.HIBERNATED, Phase.HIBERNATING):
        text = f"the members of {cluster} alone have the Backup {name}, and they sleep: wake them"
        return Step(RestorePhase.PENDING, text)
    return Source(cluster, None, found)


def _checking(r: RestoreObserved, source: Source) -> Step:
    job = r.jobs.get(job_name(r.name, "check", r.uid))
    if job is None:
        name = r.spec.cluster.name
        made = For("Restore", r.name, r.uid, r.namespace, name, r.spec.cluster.spec, r.defaults)
        body = checking(made, source.cluster, source.place, source.name)
        return Step(RestorePhase.CHECKING, actions=(Apply(body, only_new=True),))
    if job.failed:
        return Step(RestorePhase.FAILED, f"the backup can't be used: {job.message}")
    if not job.succeeded:
        return Step(RestorePhase.CHECKING)
    return _found(r, source, job)


def _found(r: RestoreObserved, source: Source, job: Job) -> Step:
    """All of it is there: the Cluster can be made, unless it can't hold it."""
    try:
        report = json.loads(job.message)
        name, grid, level = report["name"], report["grid"], int(report["level"])
    except (ValueError, KeyError, TypeError):
        return Step(RestorePhase.FAILED, f"the Job {job.name} says not what it found")
    more = (("backup", name), ("grid", grid), ("size", str(report.get("bytes", ""))))
    declared = r.spec.cluster.spec.compatibility_level
    if level > declared:
        text = f"the backup is of compatibilityLevel {level}: declare it instead of {declared}"
        return Step(RestorePhase.FAILED, text, more=more)
    made = Apply(_cluster(r, source, name), only_new=True)
    return Step(RestorePhase.CHECKING, actions=(made,), more=more)  # until it is seen


def _cluster(r: RestoreObserved, source: Source, backup: str) -> dict[str, Any]:
    """As it was declared, and what it is made of."""
    origin: dict[str, Any] = {"identity": identity(r), "backup": backup}
    if source.place is None:
        origin["cluster"] = source.cluster
    else:
        origin["place"] = source.place.wire()
    return {
        "apiVersion": API_VERSION,
        "kind": "Cluster",
        "metadata": {"name": r.spec.cluster.name, "namespace": r.namespace},
        "spec": {**r.raw_spec, "origin": origin},
    }


def _filling(r: RestoreObserved) -> Step:
    target = r.target
    assert target is not None
    more = (("members", target.status.members),)
    if target.status.cluster_id == identity(r):
        return Step(RestorePhase.COMPLETED, more=more)
    if target.deleting:
        text = f"the Cluster {r.spec.cluster.name} was deleted before it was whole"
        return Step(RestorePhase.FAILED, text, more=more)
    return Step(RestorePhase.FILLING, "; ".join(target.complaints), more=more)


# What is said ------------------------------------------------------------------------------------


def _status(r: RestoreObserved, step: Step) -> RestoreStatus:
    begun = r.status.started_at
    if begun is None and step.phase is not RestorePhase.PENDING:
        begun = r.now
    update = {
        "observed_generation": r.generation,
        "phase": step.phase,
        "message": step.message,
        "started_at": begun,
        "completed_at": r.now if step.phase is RestorePhase.COMPLETED else None,
        **dict(step.more),
    }
    made = r.status.model_copy(update=update)
    kinds = {
        "Complete": step.phase is RestorePhase.COMPLETED,
        "Failed": step.phase is RestorePhase.FAILED,
    }
    listed = [_condition(r, made, kind, holds=holds) for kind, holds in kinds.items()]
    return made.model_copy(update={"conditions": listed})


def _condition(r: RestoreObserved, made: RestoreStatus, kind: str, *, holds: bool) -> Condition:
    truth = Truth.TRUE if holds else Truth.FALSE
    before = next((each for each in r.status.conditions if each.type == kind), None)
    same = before is not None and before.status is truth
    return Condition(
        type=kind,
        status=truth,
        observed_generation=r.generation,
        last_transition_time=before.last_transition_time if before and same else r.now,
        reason=made.phase.value,
        message=made.message[:1_000],
    )


def _events(r: RestoreObserved, made: RestoreStatus) -> tuple[Event, ...]:
    if made.phase is r.status.phase:
        return ()
    name = r.spec.cluster.name
    told = {
        RestorePhase.FILLING: Event("Restoring", f"{made.backup} of {made.grid} becomes {name}"),
        RestorePhase.COMPLETED: Event("Restored", f"{name} serves what was in {made.backup}"),
        RestorePhase.FAILED: Event("RestoreFailed", made.message, warning=True),
    }
    return (told[made.phase],) if made.phase in told else ()
