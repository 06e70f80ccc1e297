"""Backups: asked of the grid one after another, until every member keeps its part; then carried to
where they are to be kept.

A backup is made once. Its name in the grid has a piece of the object's uid: a Backup that was
deleted and declared again is another one. What is complete is read from the catalogue of the grid,
so an operator that is killed meanwhile finds what was made, and asks for what is missing. A Job
that carries has a name of its own, too: it is made once, and found again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from holdfast.wire.api.backups import BackupModel
from holdfast_operator.actions import Action, Apply, BackUp
from holdfast_operator.builders.jobs import For, carrying
from holdfast_operator.model.backup import BackedUpMember, BackupPhase, BackupStatus
from holdfast_operator.names import job_name
from holdfast_operator.observed import Declared, Observed
from holdfast_operator.plan.scheduling import kept_no_more
from holdfast_operator.plan.seeing import is_formed, is_up, kept_as

FINAL = (BackupPhase.COMPLETED, BackupPhase.FAILED)


def open_backups(o: Observed) -> list[Declared]:
    """Those that are not at their end, the oldest first."""
    waiting = [
        each for each in o.backups if each.status.phase not in FINAL and not each.terminating
    ]
    return sorted(waiting, key=lambda each: (each.created, each.name))


def backing_up(o: Observed) -> tuple[list[Action], Mapping[str, BackupStatus]]:
    """What is asked of the grid, and what is said of each Backup."""
    made = {each.name: each for each in o.catalogue if each.complete}
    statuses: dict[str, BackupStatus] = {}
    actions: list[Action] = []
    busy = False
    for backup in open_backups(o):
        if backup.status.phase is BackupPhase.CARRYING:
            status, more = _carried(o, backup)
        elif kept_as(backup) in made:
            status, more = _kept(o, backup, made[kept_as(backup)])
        else:
            status, more = _asked(o, backup, busy=busy)
        statuses[backup.name] = status
        actions += more
        busy = busy or status.phase in (BackupPhase.RUNNING, BackupPhase.CARRYING)
    return actions, statuses


def last_backup(o: Observed) -> str:
    """The newest complete one."""
    done = [each for each in o.backups if each.status.phase is BackupPhase.COMPLETED]
    newest = max(done, key=lambda each: (each.created, each.name), default=None)
    return newest.name if newest is not None else ""


def _asked(o: Observed, backup: Declared, *, busy: bool) -> tuple[BackupStatus, list[Action]]:
    phase, why = BackupPhase.PENDING, _why_not(o)
    actions: list[Action] = []
    if not o.spec.persistence.enabled:
        phase = BackupPhase.FAILED
    elif not why and busy:
        why = "another Backup comes first"
    elif not why:
        ask = BackUp(kept_as(backup))
        actions.append(ask)
        refusal = o.refusals.get(ask.key)
        phase, why = BackupPhase.RUNNING, refusal.message if refusal else ""
    return _begun(o, backup, phase, why), actions


def _why_not(o: Observed) -> str:
    if not o.spec.persistence.enabled:
        return "the Cluster has no files: persistence.enabled is false"
    if o.deleting:
        return "the Cluster is being deleted"
    if not is_formed(o) or not is_up(o):
        return "the grid does not serve now"
    return ""


def _begun(o: Observed, backup: Declared, phase: BackupPhase, message: str) -> BackupStatus:
    started = backup.status.started_at
    if phase is BackupPhase.RUNNING and started is None:
        started = o.now
    return BackupStatus.model_validate(
        {
            "observed_generation": backup.generation,
            "phase": phase,
            "message": message,
            "kept_as": kept_as(backup),
            "started_at": started,
        }
    )


def _kept(o: Observed, backup: Declared, made: BackupModel) -> tuple[BackupStatus, list[Action]]:
    """Every member has its part."""
    status = _with_parts(o, backup, made)
    if backup.target is None:
        return status, []
    update = {"phase": BackupPhase.CARRYING, "completed_at": None}
    return status.model_copy(update=update), [_job(o, backup)]


def _job(o: Observed, backup: Declared) -> Action:
    assert backup.target is not None
    job = For("Backup", backup.name, backup.uid, o.namespace, o.name, o.spec, o.defaults)
    forget = kept_no_more(o, backup)
    body = carrying(job, o.name, kept_as(backup), backup.target, forget)
    return Apply(body, only_new=True)


def _carried(o: Observed, backup: Declared) -> tuple[BackupStatus, list[Action]]:
    """The parts are there; the Job says how far they are on their way."""
    assert backup.target is not None
    job = o.jobs.get(job_name(backup.name, "carry", backup.uid))
    if job is None:
        return backup.status, [_job(o, backup)]
    if job.failed:
        why = f"it is with the members alone: it can't be carried to {backup.target.where}"
        text = f"{why}: {job.message}"
        update = {"phase": BackupPhase.FAILED, "message": text}
        return backup.status.model_copy(update=update), []
    if not job.succeeded:
        return backup.status, []
    done = {
        "phase": BackupPhase.COMPLETED,
        "message": "",
        "place": backup.target.where,
        "completed_at": o.now,
    }
    return backup.status.model_copy(update=done), []


def _with_parts(o: Observed, backup: Declared, made: BackupModel) -> BackupStatus:
    return BackupStatus.model_validate(
        {
            "observed_generation": backup.generation,
            "phase": BackupPhase.COMPLETED,
            "kept_as": made.name,
            "started_at": backup.status.started_at or o.now,
            "completed_at": datetime.fromtimestamp(made.created, UTC),
            "members": [
                BackedUpMember(
                    name=part.member,
                    directory=part.directory,
                    files=part.files,
                    bytes=part.bytes,
                    own_bytes=part.own_bytes,
                )
                for part in sorted(made.parts, key=lambda part: part.member)
            ],
            "size": str(made.bytes),
            "copied": str(made.own_bytes),
        }
    )
