"""What was observed: Kubernetes' objects and the grid, as one value. `plan` sees nothing else.

The readers of raw objects (`pod_of`, `claim_of`, ...) stand here too, so that a test of a rule can
begin with what Kubernetes says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from holdfast.wire.api.backups import BackupModel
from holdfast.wire.api.cluster import ClusterModel, MemberModel
from holdfast.wire.api.partitions import MigrationsModel
from holdfast_operator.model.backup import BackupScheduleSpec, BackupScheduleStatus, BackupStatus
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.places import Place
from holdfast_operator.model.restore import RestoreSpec, RestoreStatus
from holdfast_operator.model.status import ClusterStatus
from holdfast_operator.names import (
    CONTAINER,
    ROLE_LABEL,
    SCHEDULE_LABEL,
    SEEDER,
    TEMPLATE_ANNOTATION,
    VOLUME,
    Role,
    ordinal_of,
)

Raw = dict[str, Any]
"""An object as the API server has it."""

UNKNOWN_END: Final = "ContainerStatusUnknown"
"""What a kubelet says of a container that it can't find: it does not know that it ended."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A container of which the kubelet says that it ended."""

    container: str
    finished_at: datetime
    exit_code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a cluster."""

    name: str
    uid: str
    role: Role
    ordinal: int
    ip: str = ""
    node: str = ""
    ready: bool = False
    terminating: bool = False
    template: str = ""
    container: str = ""
    """Id of the container that runs, or ran last."""
    started_at: datetime | None = None
    """When it started, by its node's clock; None if it does not run."""
    waiting: str = ""
    """Why it does not run, if it waits: CrashLoopBackOff, ImagePullBackOff, ..."""
    complaint: str = ""
    """What the container that makes its first files said when it ended last and had failed."""
    ended: tuple[Ended, ...] = ()
    restarts: int = 0
    unschedulable: str = ""

    @property
    def running(self) -> bool:
        """Whether its container runs."""
        return self.started_at is not None


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of one pod."""

    name: str
    uid: str
    pod: str
    requested: str
    capacity: str
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """One StatefulSet."""

    uid: str
    replicas: int
    claims: tuple[Raw, ...]
    """Its claim templates: they can't be changed."""


@dataclass(frozen=True, slots=True)
class Stay:
    """One stay of a member, by its own word."""

    name: str
    id: str
    incarnation: int
    started_at: datetime
    """By the clock of its node, which is its kubelet's."""
    pod: str
    container: str
    """The container that ran in its pod when it answered."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What became of the last time that something was asked."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Declared:
    """A Backup that is declared of the cluster."""

    name: str
    uid: str
    generation: int
    created: str
    status: BackupStatus
    cluster: str = ""
    target: Place | None = None
    schedule: str = ""
    """The BackupSchedule that it was made for."""
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A BackupSchedule that is declared of the cluster."""

    name: str
    uid: str
    generation: int
    created: datetime
    spec: BackupScheduleSpec
    status: BackupScheduleStatus
    raw_target: Raw | None
    """As it stands there: it goes into each Backup."""


@dataclass(frozen=True, slots=True)
class Job:
    """One Job of a Backup or a Restore."""

    name: str
    uid: str
    succeeded: bool = False
    failed: bool = False
    message: str = ""
    """What its newest pod said at its end: a report if it succeeded, else why not."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a Cluster gets that does not say otherwise."""

    image: str = "holdfast:latest"
    pull_policy: str = "IfNotPresent"


@dataclass(frozen=True, slots=True)
class Observed:
    """One cluster at one moment."""

    name: str
    namespace: str
    uid: str
    generation: int
    now: datetime
    spec: ClusterSpec
    status: ClusterStatus
    spec_reasons: tuple[str, ...] = ()
    """Why the spec can't work."""
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    children: Mapping[tuple[str, str], Raw] = field(default_factory=dict)
    """By kind and name."""
    sets: Mapping[Role, Set] = field(default_factory=dict)
    pods: Sequence[Pod] = ()
    claims: Sequence[Claim] = ()
    zones: Mapping[str, str] | None = None
    """Zone of each node; None where the operator may not look."""
    grid: ClusterModel | None = None
    migrations: MigrationsModel | None = None
    stays: Sequence[Stay] = ()
    loading: Mapping[str, float] = field(default_factory=dict)
    """Seconds that members which read their files still need, by their own word."""
    asked: frozenset[str] = frozenset()
    """Keys of what is being asked of the grid at this moment."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """By the same keys."""
    backups: Sequence[Declared] = ()
    catalogue: Sequence[BackupModel] = ()
    """Backups that the grid keeps; looked at while one is declared that is not complete, or one is
    to be removed."""
    schedules: Sequence[Scheduled] = ()
    jobs: Mapping[str, Job] = field(default_factory=dict)
    """By name."""
    secret_exists: bool = False
    defaults: Defaults = Defaults()

    @property
    def kind(self) -> str:
        """Of what is observed."""
        return "Cluster"

    def pods_of(self, role: Role) -> list[Pod]:
        """By ordinal."""
        return sorted((p for p in self.pods if p.role is role), key=lambda p: p.ordinal)

    def pod(self, name: str) -> Pod | None:
        """By its name."""
        return next((p for p in self.pods if p.name == name), None)

    def member(self, name: str) -> MemberModel | None:
        """In the grid, by its name."""
        members = [] if self.grid is None else self.grid.members
        return next((m for m in members if m.name == name), None)

    def replicas(self, role: Role) -> int:
        """How many pods its set is asked to have."""
        return self.sets[role].replicas if role in self.sets else 0


@dataclass(frozen=True, slots=True)
class Target:
    """The Cluster that has the name which a Restore asks for."""

    origin: str
    """The identity that it was made with; empty for one that nothing was restored into."""
    deleting: bool
    status: ClusterStatus
    complaints: tuple[str, ...] = ()
    """Of its pods."""


@dataclass(frozen=True, slots=True)
class RestoreObserved:
    """One Restore at one moment."""

    name: str
    namespace: str
    uid: str
    generation: int
    now: datetime
    spec: RestoreSpec
    raw_spec: Raw
    """Of the new Cluster, as it stands there."""
    status: RestoreStatus
    spec_reasons: tuple[str, ...] = ()
    deleting: bool = False
    backup: Declared | None = None
    """The one that it names."""
    source: ClusterStatus | None = None
    """Of the Cluster whose backup that is; None if there is none."""
    target: Target | None = None
    claims: tuple[str, ...] = ()
    """That a Cluster of the new one's name had."""
    jobs: Mapping[str, Job] = field(default_factory=dict)
    defaults: Defaults = Defaults()

    @property
    def kind(self) -> str:
        """Of what is observed."""
        return "Restore"


# Readers ------------------------------------------------------------------------------------------


def instant(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it."""
    return None if not text else datetime.fromisoformat(text)


def pod_of(raw: Raw) -> Pod:
    """What of a pod matters."""
    meta, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    labels = meta.get("labels", {})
    container: Raw = next(
        (c for c in status.get("containerStatuses", ()) if c.get("name") == CONTAINER), {}
    )
    state = container.get("state", {})
    waiting, complaint = _seeding(status)
    conditions = {c["type"]: c for c in status.get("conditions", ())}
    scheduled = conditions.get("PodScheduled", {})
    ready = conditions.get("Ready", {}).get("status") == "True"
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        role=Role(labels.get(ROLE_LABEL, Role.DATA.value)),
        ordinal=ordinal_of(meta["name"]),
        ip=status.get("podIP", ""),
        node=spec.get("nodeName", ""),
        ready=ready and "deletionTimestamp" not in meta,
        terminating="deletionTimestamp" in meta,
        template=meta.get("annotations", {}).get(TEMPLATE_ANNOTATION, ""),
        container=container.get("containerID", ""),
        started_at=instant(state.get("running", {}).get("startedAt")),
        waiting=waiting or state.get("waiting", {}).get("reason", ""),
        complaint=complaint,
        ended=tuple(_ended(container)),
        restarts=container.get("restartCount", 0),
        unschedulable=scheduled.get("message", "") if scheduled.get("status") == "False" else "",
    )


def _seeding(status: Raw) -> tuple[str, str]:
    """What holds up the container that makes the first files, and what it said."""
    seeder: Raw = next(
        (c for c in status.get("initContainerStatuses", ()) if c.get("name") == SEEDER), {}
    )
    ends = [seeder.get(where, {}).get("terminated", {}) for where in ("state", "lastState")]
    said = next((end.get("message", "") for end in ends if end.get("exitCode")), "")
    waiting = seeder.get("state", {}).get("waiting", {}).get("reason", "")
    return waiting if waiting != "PodInitializing" else "", last_line(said)


def last_line(text: str) -> str:
    """Of what a container said at its end: why it failed."""
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("holdfast: ") if lines else ""


def _ended(container: Raw) -> list[Ended]:
    found = []
    for where in ("state", "lastState"):
        ended = container.get(where, {}).get("terminated", {})
        finished_at = instant(ended.get("finishedAt"))
        if ended.get("containerID") and finished_at and ended.get("reason") != UNKNOWN_END:
            end = Ended(
                ended["containerID"], finished_at, ended.get("exitCode", 0), ended.get("reason", "")
            )
            found.append(end)
    return found


def claim_of(raw: Raw) -> Claim:
    """What of a claim matters."""
    meta = raw["metadata"]
    requested = raw.get("spec", {}).get("resources", {}).get("requests", {}).get("storage", "")
    return Claim(
        name=meta["name"],
        uid=meta["uid"],
        pod=meta["name"].removeprefix(f"{VOLUME}-"),
        requested=requested,
        capacity=raw.get("status", {}).get("capacity", {}).get("storage", ""),
        terminating="deletionTimestamp" in meta,
    )


def set_of(raw: Raw) -> Set:
    """What of a StatefulSet matters."""
    spec = raw["spec"]
    return Set(
        uid=raw["metadata"]["uid"],
        replicas=spec.get("replicas", 1),
        claims=tuple(spec.get("volumeClaimTemplates", ())),
    )


def declared_of(raw: Raw) -> Declared:
    """What of a Backup matters."""
    meta, spec = raw["metadata"], raw.get("spec", {})
    target = spec.get("target")
    return Declared(
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        created=meta.get("creationTimestamp", ""),
        status=BackupStatus.model_validate(raw.get("status") or {}),
        cluster=spec.get("cluster", ""),
        target=None if target is None else Place.model_validate(target),
        schedule=meta.get("labels", {}).get(SCHEDULE_LABEL, ""),
        terminating="deletionTimestamp" in meta,
    )


def scheduled_of(raw: Raw) -> Scheduled:
    """What of a BackupSchedule matters."""
    meta = raw["metadata"]
    return Scheduled(
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        spec=BackupScheduleSpec.model_validate(raw["spec"]),
        status=BackupScheduleStatus.model_validate(raw.get("status") or {}),
        raw_target=raw["spec"].get("target"),
    )


def job_of(raw: Raw, pods: Sequence[Raw]) -> Job:
    """What of a Job matters; `pods` may be those of others, too."""
    meta = raw["metadata"]
    conditions = {c["type"]: c for c in raw.get("status", {}).get("conditions", ())}
    done = {kind: c.get("status") == "True" for kind, c in conditions.items()}
    failed = done.get("Failed", False)
    own = [
        pod
        for pod in pods
        if any(each["uid"] == meta["uid"] for each in pod["metadata"].get("ownerReferences", ()))
    ]
    said = ""
    for pod in sorted(own, key=lambda pod: pod["metadata"].get("creationTimestamp", "")):
        for each in pod.get("status", {}).get("containerStatuses", ()):
            said = each.get("state", {}).get("terminated", {}).get("message", "") or said
    if failed:
        said = last_line(said) or conditions["Failed"].get("message", "")
    return Job(meta["name"], meta["uid"], done.get("Complete", False), failed, said)
