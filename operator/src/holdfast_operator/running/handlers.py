"""kopf's side: what is watched, kept in indices, and what a change wakes.

No handler decides anything, and none is of a kind of event: what changed only says which cluster is
to be looked at. So kopf keeps no progress in annotations, and needs no finalizer or peering.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import kopf

from holdfast_operator.names import CLUSTER_LABEL, GROUP, JOB_LABEL, VERSION
from holdfast_operator.running.cache import Cache, Key

LABELLED: Final = {
    "Pod": ("v1", "pods"),
    "Service": ("v1", "services"),
    "ConfigMap": ("v1", "configmaps"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "Job": ("batch/v1", "jobs"),
}
"""Objects of a cluster by their label."""
OWN: Final = {"Backup": "backups", "BackupSchedule": "backupschedules"}
"""Resources of ours that are about a cluster which they name."""
WORKER: Final = "Worker"
"""Pods of Jobs, as a kind of their own: they are no members."""

Wake = Callable[[Key], None]


def make_registry(
    cache: Cache, wake: Wake, wake_restore: Wake, *, nodes: bool
) -> kopf.OperatorRegistry:
    """All indices and all handlers."""
    registry = kopf.OperatorRegistry()
    _watch(registry, cache, wake, "Cluster", (GROUP, VERSION, "clusters"), _own_key, {})
    for kind, plural in OWN.items():
        _watch(registry, cache, wake, kind, (GROUP, VERSION, plural), _spec_key, {})
    for kind, (version, plural) in LABELLED.items():
        labels = {CLUSTER_LABEL: kopf.PRESENT}
        _watch(registry, cache, wake, kind, (version, plural), _label_key, labels)
    _watch(registry, cache, wake, WORKER, ("v1", "pods"), _job_key, {JOB_LABEL: kopf.PRESENT})
    restores = (GROUP, VERSION, "restores")
    _watch(registry, cache, wake_restore, "Restore", restores, _own_key, {})
    if nodes:
        _watch(registry, cache, wake, "Node", ("v1", "nodes"), _node_key, {})
    return registry


def _watch(
    registry: kopf.OperatorRegistry,
    cache: Cache,
    wake: Wake,
    kind: str,
    resource: tuple[str, ...],
    key_of: Callable[[Any], Key],
    labels: dict[str, Any],
) -> None:
    index_id = f"index_{kind.lower()}"

    async def index(body: kopf.Body, **_: Any) -> dict[Key, Any]:
        return {key_of(body): body}

    async def changed(body: kopf.Body, **found: Any) -> None:
        cache.indices.update({each: found[f"index_{each.lower()}"] for each in _kinds(found)})
        if kind != "Node":
            wake(key_of(body))

    kopf.index(*resource, id=index_id, registry=registry, labels=labels or None)(index)
    kopf.on.event(
        *resource, id=f"changed_{kind.lower()}", registry=registry, labels=labels or None
    )(changed)


KINDS: Final = ("Cluster", *OWN, *LABELLED, WORKER, "Restore", "Node")


def _kinds(found: dict[str, Any]) -> list[str]:
    return [kind for kind in KINDS if f"index_{kind.lower()}" in found]


def _own_key(body: Any) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _spec_key(body: Any) -> Key:
    return body["metadata"]["namespace"], body.get("spec", {}).get("cluster", "")


def _label_key(body: Any) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["labels"][CLUSTER_LABEL]


def _job_key(body: Any) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["labels"][JOB_LABEL]


def _node_key(body: Any) -> Key:
    return "", body["metadata"]["name"]
