"""What all objects of a cluster have."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from holdfast_operator.names import API_VERSION, cluster_labels
from holdfast_operator.observed import Observed, Raw

USER: Final = 10_001
SECRET_KEY: Final = "secret"  # noqa: S105 - the name of a key
NOT_ROOT: Final = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Of a pod."""
RESTRICTED: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""Of a container."""


def metadata(o: Observed, name: str, **more: Any) -> Raw:
    """Name, labels, and the owner, with which Kubernetes removes what is left over."""
    return {
        "name": name,
        "namespace": o.namespace,
        "labels": cluster_labels(o.name),
        "ownerReferences": [owner(o)],
        **more,
    }


def owner(o: Observed) -> Raw:
    """The Cluster, as an owner."""
    return owned_by("Cluster", o.name, o.uid)


def owned_by(kind: str, name: str, uid: str) -> Raw:
    """One of our resources, as an owner."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def fingerprint(value: object) -> str:
    """The same for equal values, on every machine."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
