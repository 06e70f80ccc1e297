"""BackupSchedules: a Backup is declared when its time has come, and old ones are removed.

Rules
-----
* The name of a Backup has its time in it: who declares it twice finds it there.
* Times that passed while nobody looked are one Backup, for the last of them. The first time is one
  after the schedule was made.
* As many complete ones stay as are to be kept. What goes is removed at the members first, and at
  its target by the Job that carries the next one; its Backup goes last. Backups that people
  declared, and those that failed, stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from holdfast_operator.actions import Action, Apply, Delete, Forget
from holdfast_operator.cron import following, latest, parse
from holdfast_operator.model.backup import BackupPhase, BackupScheduleStatus
from holdfast_operator.names import API_VERSION, SCHEDULE_LABEL, cluster_labels
from holdfast_operator.observed import Declared, Observed, Scheduled
from holdfast_operator.plan.seeing import is_up, kept_as

STAMP: Final = "%Y%m%d%H%M"
STEM_MAX: Final = 40 - len("-YYYYmmddHHMM")
"""Of a Backup's name, which has at most 40 letters."""


def scheduling(o: Observed) -> tuple[list[Action], Mapping[str, BackupScheduleStatus]]:
    """What is declared and removed, and what is said of each schedule."""
    actions: list[Action] = []
    statuses = {}
    for each in sorted(o.schedules, key=lambda each: each.name):
        due = None if each.spec.suspend or o.deleting else _due(o, each)
        name = each.status.last_backup
        if due is not None:
            name = f"{each.name[:STEM_MAX]}-{due.strftime(STAMP)}"
            if all(backup.name != name for backup in o.backups):
                actions.append(Apply(_backup(o, each, name), only_new=True))
        actions += _removals(o, each)
        statuses[each.name] = _status(o, each, name, due)
    return actions, statuses


def complete_of(o: Observed, schedule: str) -> list[Declared]:
    """Backups of a schedule that are whole, the newest first."""
    found = [
        each
        for each in o.backups
        if each.schedule == schedule and each.status.phase is BackupPhase.COMPLETED
    ]
    return sorted(found, key=lambda each: (each.created, each.name), reverse=True)


def kept_no_more(o: Observed, backup: Declared) -> list[str]:
    """Names of what goes at the target once this one is there."""
    keep = next((each.spec.keep for each in o.schedules if each.name == backup.schedule), None)
    if keep is None:
        return []
    return [kept_as(each) for each in complete_of(o, backup.schedule)[keep - 1 :]]


def retiring(o: Observed) -> list[Declared]:
    """Backups that are to be removed."""
    return [
        backup
        for each in o.schedules
        for backup in complete_of(o, each.name)[each.spec.keep :]
        if not backup.terminating
    ]


def _due(o: Observed, schedule: Scheduled) -> datetime | None:
    after = schedule.status.last_time or schedule.created
    return latest(parse(schedule.spec.schedule), after, o.now)


def _backup(o: Observed, schedule: Scheduled, name: str) -> dict[str, object]:
    labels = {SCHEDULE_LABEL: schedule.name, **cluster_labels(o.name)}
    spec: dict[str, object] = {"cluster": o.name}
    if schedule.raw_target is not None:
        spec["target"] = schedule.raw_target
    return {
        "apiVersion": API_VERSION,
        "kind": "Backup",
        "metadata": {"name": name, "namespace": o.namespace, "labels": labels},
        "spec": spec,
    }


def _removals(o: Observed, schedule: Scheduled) -> list[Action]:
    """Only while the grid can say what it keeps."""
    if not is_up(o) or not o.spec.persistence.enabled:
        return []
    there = {each.name for each in o.catalogue}
    actions: list[Action] = []
    for each in retiring(o):
        if each.schedule != schedule.name:
            continue
        name = kept_as(each)
        actions.append(Forget(name) if name in there else Delete("Backup", each.name, each.uid))
    return actions


def _status(
    o: Observed, schedule: Scheduled, name: str, due: datetime | None
) -> BackupScheduleStatus:
    ahead = following(parse(schedule.spec.schedule), o.now)
    message = "suspended" if schedule.spec.suspend else ""
    return BackupScheduleStatus(
        observed_generation=schedule.generation,
        last_backup=name,
        last_time=due or schedule.status.last_time,
        next_time=None if schedule.spec.suspend else ahead,
        kept=len(complete_of(o, schedule.name)),
        message=message or ("" if ahead else "no such time ever comes"),
    )
