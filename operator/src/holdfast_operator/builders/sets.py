"""StatefulSets: data pods and lite pods.

Pods start side by side: a grid forms by a majority, not one after another. They are replaced by the
operator alone (`OnDelete`), which knows when a pod may go. Claims are never deleted by Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast_operator.builders.common import metadata
from holdfast_operator.builders.pods import template
from holdfast_operator.names import (
    CLUSTER_LABEL,
    ROLE_LABEL,
    VOLUME,
    Role,
    cluster_labels,
    members_service,
    set_name,
)
from holdfast_operator.observed import Observed, Raw


def stateful_set(o: Observed, role: Role, replicas: int) -> Raw:
    """The pods of one role."""
    spec: Raw = {
        "serviceName": members_service(o.name),
        "replicas": replicas,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "revisionHistoryLimit": 2,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "selector": {"matchLabels": {CLUSTER_LABEL: o.name, ROLE_LABEL: role.value}},
        "template": template(o, role),
    }
    if o.spec.persistence.enabled:
        live = o.sets.get(role)
        spec["volumeClaimTemplates"] = [_claim(o)] if live is None else _kept(live.claims)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(o, set_name(o.name, role)),
        "spec": spec,
    }


def _kept(claims: Iterable[Raw]) -> list[Raw]:
    """Templates as they are, without what the API server adds."""
    return [{key: each[key] for key in each if key != "status"} for each in claims]


def _claim(o: Observed) -> Raw:
    """What each pod's claim is made from; a template can't be changed later, claims can grow."""
    spec: Raw = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": o.spec.persistence.size}},
    }
    if o.spec.persistence.storage_class_name is not None:
        spec["storageClassName"] = o.spec.persistence.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": VOLUME, "labels": cluster_labels(o.name)},
        "spec": spec,
    }
