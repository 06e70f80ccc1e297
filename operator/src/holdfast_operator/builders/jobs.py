"""Jobs: carrying a backup to where it is to be kept, and looking whether one is whole.

They run the members' image, as restricted as a member. Their pods belong to no set and no Service:
the label of a cluster's objects is on the Job alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast_operator.builders.common import NOT_ROOT, RESTRICTED, owned_by
from holdfast_operator.builders.sources import Access, at_members, at_place
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.places import Place
from holdfast_operator.names import (
    CARRIER,
    COMPONENT,
    JOB_LABEL,
    MANAGED_BY,
    MANAGER,
    SERVICE_NAME,
    cluster_labels,
    job_name,
)
from holdfast_operator.observed import Defaults, Raw

REPORT: Final = "/dev/termination-log"
"""What is written there is the message of the container's end."""
ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class For:
    """What a Job is for."""

    kind: str
    name: str
    uid: str
    namespace: str
    cluster: str
    """Whose label it has."""
    spec: ClusterSpec
    defaults: Defaults


def carrying(job: For, source: str, backup: str, target: Place, forget: Sequence[str]) -> Raw:
    """From the members of a cluster to a place; and removing what is to be kept there no more."""
    here, there = at_members(source, job.namespace), at_place(target, writes=True)
    arguments = ["carry", backup, "--from", here.address, *here.flags, "--to", there.address]
    arguments += [part for name in forget for part in ("--forget", name)]
    return _job(job, "carry", arguments, (here, there))


def checking(job: For, cluster: str, place: Place | None, backup: str) -> Raw:
    """Whether all that the backup needs is there; without a name, that of the newest is told. Where
    no place is given, the members of that cluster have it."""
    here = at_members(cluster, job.namespace) if place is None else at_place(place, writes=False)
    arguments = ["depot", here.address, "--check", backup, *here.flags]
    return _job(job, "check", arguments, (here,))


def _job(job: For, what: str, arguments: list[str], accesses: Iterable[Access]) -> Raw:
    image, spec = job.spec.image, job.spec
    container = {
        "name": CARRIER,
        "image": image.name or job.defaults.image,
        "imagePullPolicy": image.pull_policy or job.defaults.pull_policy,
        "args": [*arguments, "--report", REPORT],
        "env": [each for access in accesses for each in access.environment],
        "resources": {"requests": dict(spec.resources.requests)},
        "securityContext": RESTRICTED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the container
            *(each for access in accesses for each in access.mounts),
        ],
    }
    pod: Raw = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": NOT_ROOT,
        "containers": [container],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            *(each for access in accesses for each in access.volumes),
        ],
        "nodeSelector": dict(spec.scheduling.node_selector),
        "tolerations": list(spec.scheduling.tolerations),
        "imagePullSecrets": [{"name": name} for name in image.pull_secrets],
    }
    labels = {SERVICE_NAME: "holdfast", COMPONENT: "job", MANAGED_BY: MANAGER}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(job.name, what, job.uid),
            "namespace": job.namespace,
            "labels": cluster_labels(job.cluster),
            "ownerReferences": [owned_by(job.kind, job.name, job.uid)],
        },
        "spec": {
            "backoffLimit": ATTEMPTS,
            "template": {"metadata": {"labels": {**labels, JOB_LABEL: job.cluster}}, "spec": pod},
        },
    }
