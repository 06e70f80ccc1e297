"""One cluster at one moment, put together from the cache and from what its members say."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Final

from holdfast_operator.builders.common import SECRET_KEY
from holdfast_operator.kubernetes.client import Kubernetes
from holdfast_operator.kubernetes.errors import Missing
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.restore import RestoreSpec, RestoreStatus
from holdfast_operator.model.status import ClusterStatus
from holdfast_operator.names import Role, secret, set_name
from holdfast_operator.observed import (
    Declared,
    Defaults,
    Job,
    Observed,
    Pod,
    Raw,
    RestoreObserved,
    Target,
    claim_of,
    declared_of,
    job_of,
    pod_of,
    scheduled_of,
    set_of,
)
from holdfast_operator.plan.backing_up import FINAL
from holdfast_operator.running.asking import Asking
from holdfast_operator.running.cache import Cache, Key
from holdfast_operator.running.looking import Eye, PodNow
from holdfast_operator.validation import cluster_reasons, parsed, restore_reasons

CHILDREN: Final = ("StatefulSet", "Service", "ConfigMap", "PodDisruptionBudget")


class Memory:
    """What the operator remembers of one cluster between two looks. It can be lost."""

    def __init__(self, asking: Asking) -> None:
        self.uid = ""
        self.eye = Eye()
        self.asking = asking
        self.status: ClusterStatus | None = None
        """As it was written last: the watch may be behind."""
        self.secret_exists = False


async def observe(
    key: Key, cache: Cache, memory: Memory, api: Kubernetes, defaults: Defaults
) -> Observed | None:
    """Everything that a plan is made from; None if the Cluster is gone."""
    raw = cache.cluster(key)
    if raw is None:
        return None
    meta = raw["metadata"]
    if memory.uid != meta["uid"]:
        memory.uid, memory.status, memory.secret_exists = meta["uid"], None, False
    if not memory.secret_exists:
        memory.eye.secret, memory.secret_exists = await _secret(api, key)
    spec, reasons = spec_of(raw, sees_zones=cache.zones() is not None)
    pods = _pods(cache, key)
    grid, migrations = await memory.eye.look(pods)
    stays = await memory.eye.stays(pods, spec.processes_per_pod, grid, _pod_now(cache, key))
    comes_back = grid is None or grid.recovering
    loading = await memory.eye.loading(pods, spec.processes_per_pod) if comes_back else {}
    backups = [declared_of(each) for each in cache.of("Backup", key)]
    schedules = [scheduled_of(each) for each in cache.of("BackupSchedule", key)]
    waiting = any(each.status.phase not in FINAL for each in backups)
    waiting = waiting or any(len(backups) > each.spec.keep for each in schedules)
    sets = {each["metadata"]["name"]: each for each in cache.of("StatefulSet", key)}
    return Observed(
        name=key[1],
        namespace=key[0],
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        now=datetime.now(UTC),
        spec=spec,
        status=memory.status or ClusterStatus.model_validate(raw.get("status") or {}),
        spec_reasons=tuple(reasons),
        deleting="deletionTimestamp" in meta,
        finalizers=tuple(meta.get("finalizers", ())),
        children={
            (kind, each["metadata"]["name"]): each
            for kind in CHILDREN
            for each in cache.of(kind, key)
        },
        sets={
            role: set_of(sets[name]) for role in Role if (name := set_name(key[1], role)) in sets
        },
        pods=_pods(cache, key),
        claims=[claim_of(each) for each in cache.of("PersistentVolumeClaim", key)],
        zones=cache.zones(),
        grid=grid,
        migrations=migrations,
        stays=stays,
        loading=loading,
        asked=memory.asking.asked,
        refusals=dict(memory.asking.refusals),
        backups=backups,
        catalogue=await memory.eye.catalogue() if waiting else [],
        schedules=schedules,
        jobs=_jobs(cache, key),
        secret_exists=memory.secret_exists,
        defaults=defaults,
    )


def spec_of(raw: Raw, *, sees_zones: bool) -> tuple[ClusterSpec, list[str]]:
    """The spec and why it can't work; of one that can't be read, the last that could is not known:
    nothing is done with it."""
    spec, reasons = parsed(ClusterSpec, raw.get("spec"))
    if spec is None:
        return ClusterSpec.model_validate({}), reasons
    return spec, cluster_reasons(spec, None, sees_zones=sees_zones)


async def _secret(api: Kubernetes, key: Key) -> tuple[bytes, bool]:
    try:
        raw = await api.get("Secret", key[0], secret(key[1]))
    except Missing:
        return b"", False
    return base64.b64decode(raw.get("data", {}).get(SECRET_KEY, "")).strip(), True


def observe_restore(
    key: Key, cache: Cache, status: RestoreStatus | None, defaults: Defaults
) -> RestoreObserved | None:
    """Everything that the plan of a Restore is made from, by what the watches have seen alone;
    `status` is the one that was written last."""
    raw = next(iter(cache.of("Restore", key)), None)
    if raw is None:
        return None
    meta, namespace = raw["metadata"], key[0]
    spec, reasons = parsed(RestoreSpec, raw.get("spec"))
    if spec is None:
        spec = RestoreSpec.model_validate({"source": {}, "cluster": {"name": "none"}})
    else:
        reasons = restore_reasons(spec, None, sees_zones=cache.zones() is not None)
    backup = _backup(cache, namespace, spec.source.backup)
    source = None if backup is None else cache.cluster((namespace, backup.cluster))
    target = (namespace, spec.cluster.name)
    claims = cache.of("PersistentVolumeClaim", target)
    return RestoreObserved(
        name=key[1],
        namespace=namespace,
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        now=datetime.now(UTC),
        spec=spec,
        raw_spec=raw["spec"].get("cluster", {}).get("spec") or {},
        status=status or RestoreStatus.model_validate(raw.get("status") or {}),
        spec_reasons=tuple(reasons),
        deleting="deletionTimestamp" in meta,
        backup=backup,
        source=None if source is None else ClusterStatus.model_validate(source.get("status") or {}),
        target=_target(cache, target),
        claims=tuple(each["metadata"]["name"] for each in claims),
        jobs=_jobs(cache, target),
        defaults=defaults,
    )


def _backup(cache: Cache, namespace: str, name: str | None) -> Declared | None:
    """By its name, whatever its cluster."""
    found = (each for each in cache.all("Backup") if each["metadata"]["namespace"] == namespace)
    return next((declared_of(each) for each in found if each["metadata"]["name"] == name), None)


def _target(cache: Cache, key: Key) -> Target | None:
    raw = cache.cluster(key)
    if raw is None:
        return None
    return Target(
        origin=(raw["spec"].get("origin") or {}).get("identity", ""),
        deleting="deletionTimestamp" in raw["metadata"],
        status=ClusterStatus.model_validate(raw.get("status") or {}),
        complaints=tuple(f"{p.name}: {p.complaint}" for p in _pods(cache, key) if p.complaint),
    )


def _jobs(cache: Cache, key: Key) -> dict[str, Job]:
    pods = cache.of("Worker", key)
    return {each["metadata"]["name"]: job_of(each, pods) for each in cache.of("Job", key)}


def _pods(cache: Cache, key: Key) -> list[Pod]:
    return [pod_of(each) for each in cache.of("Pod", key)]


def _pod_now(cache: Cache, key: Key) -> PodNow:
    def now(name: str) -> Pod | None:
        return next((pod for pod in _pods(cache, key) if pod.name == name), None)

    return now
