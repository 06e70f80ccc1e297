"""What things are called: labels, annotations, names of child objects, ports.

A name that is written here once can't differ between who makes an object and who looks for it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

GROUP: Final = "holdfast.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
MANAGER: Final = "holdfast-operator"
"""Field manager of server-side apply, and reporter of events."""

CLUSTER_LABEL: Final = f"{GROUP}/cluster"
ROLE_LABEL: Final = f"{GROUP}/role"
COMPONENT: Final = "app.kubernetes.io/component"
TEMPLATE_ANNOTATION: Final = f"{GROUP}/template"
"""Of a pod: fingerprint of the template that it was made from."""
JOB_LABEL: Final = f"{GROUP}/job-of"
"""Of a pod of a Job: for which cluster it works. It is no member."""
SCHEDULE_LABEL: Final = f"{GROUP}/schedule"
"""Of a Backup: the BackupSchedule that it was made for."""
SERVICE_NAME: Final = "app.kubernetes.io/name"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"

FINALIZER: Final = f"{GROUP}/graceful-end"

CONTAINER: Final = "member"
SEEDER: Final = "seed"
"""The container that makes a member's first files of a backup, before it starts."""
CARRIER: Final = "carry"
"""The container of a Job."""
VOLUME: Final = "data"
"""Of the claim template: claims are called `data-POD`."""

PORT_PLAIN: Final = 6379
PORT_CLUSTER: Final = 7379
PORT_HTTP: Final = 8080
PORT_MEMBER: Final = 7380
PORT_STEP: Final = 10
"""From one process of a pod to the next (`holdfast.shell.supervisor.layout`)."""

DATA_DIR: Final = "/var/lib/holdfast"
CONFIG_DIR: Final = "/etc/holdfast/config"
SECRET_DIR: Final = "/etc/holdfast/secret"  # noqa: S105 - a directory
SOURCE_DIR: Final = "/var/lib/holdfast-source"
SOURCE_SECRET_DIR: Final = "/etc/holdfast/source"  # noqa: S105 - a directory
TOPOLOGY_DIR: Final = "/etc/holdfast/topology"

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
HOST_LABEL: Final = "kubernetes.io/hostname"


class Role(StrEnum):
    """Which set a pod is of."""

    DATA = "data"
    LITE = "lite"


def set_name(cluster: str, role: Role) -> str:
    """The StatefulSet: data pods carry the cluster's own name."""
    return cluster if role is Role.DATA else f"{cluster}-lite"


def members_service(cluster: str) -> str:
    """Headless: a name for each pod, ready or not."""
    return f"{cluster}-members"


def http_service(cluster: str) -> str:
    """Control, REST and metrics, any ready member."""
    return f"{cluster}-http"


def config_map(cluster: str) -> str:
    """Settings of all members."""
    return f"{cluster}-config"


def founding_map(cluster: str) -> str:
    """Who founds the cluster, and whether it still may be founded."""
    return f"{cluster}-founding"


def topology_map(cluster: str) -> str:
    """The zone of each node."""
    return f"{cluster}-topology"


def secret(cluster: str) -> str:
    """The cluster's secret."""
    return f"{cluster}-secret"


def pod_name(cluster: str, role: Role, ordinal: int) -> str:
    """One pod of a set."""
    return f"{set_name(cluster, role)}-{ordinal}"


def claim_name(pod: str) -> str:
    """The claim that a StatefulSet makes for a pod."""
    return f"{VOLUME}-{pod}"


def http_url(cluster: str, namespace: str) -> str:
    """Where any ready member of a cluster is asked."""
    return f"http://{http_service(cluster)}.{namespace}.svc:{PORT_HTTP}"


def job_name(owner: str, what: str, uid: str) -> str:
    """A Job of a Backup or a Restore."""
    return f"{owner}-{what}-{uid[:8]}"


def ordinal_of(pod: str) -> int:
    """The number at the end of a pod's name; -1 where there is none."""
    _, _, number = pod.rpartition("-")
    return int(number) if number.isdecimal() else -1


def pod_host(cluster: str, namespace: str, pod: str) -> str:
    """The name under which a pod is found, by applications of other namespaces too."""
    return f"{pod}.{members_service(cluster)}.{namespace}.svc"


def member_names(pod: str, processes: int) -> tuple[str, ...]:
    """What the members in a pod are called (`holdfast.cli.pod`)."""
    return (pod,) if processes == 1 else tuple(f"{pod}-{i}" for i in range(processes))


def pod_labels(cluster: str, role: Role) -> dict[str, str]:
    """What tells a member's pod."""
    return {
        SERVICE_NAME: "holdfast",
        COMPONENT: "member",
        MANAGED_BY: MANAGER,
        CLUSTER_LABEL: cluster,
        ROLE_LABEL: role.value,
    }


def cluster_labels(cluster: str) -> dict[str, str]:
    """What tells an object of a cluster."""
    return {SERVICE_NAME: "holdfast", MANAGED_BY: MANAGER, CLUSTER_LABEL: cluster}
