"""What makes the first files of a restored cluster: a container that ends before the member begins.

Each pod reads the backup where it is, and makes no files but its own (`holdfast seed`, ADR 24).
What is there already stays, so the container may run again at any time.
"""

from __future__ import annotations

from holdfast_operator.builders.common import RESTRICTED
from holdfast_operator.builders.settings import NEWCOMERS
from holdfast_operator.builders.sources import at_members, at_place
from holdfast_operator.names import DATA_DIR, SEEDER, VOLUME, founding_map, member_names
from holdfast_operator.observed import Observed, Raw


def seeder(o: Observed, member: Raw) -> tuple[Raw, list[Raw]]:
    """The container, of the member's image and with its resources, and the volumes it needs."""
    origin = o.spec.origin
    assert origin is not None
    place, cluster = origin.place, origin.cluster or ""
    access = at_members(cluster, o.namespace) if place is None else at_place(place, writes=False)
    flags = {
        "--from": access.address,
        "--backup": origin.backup,
        "--cluster": origin.identity,
        "--partitions": str(o.spec.partitions),
        "--level": str(o.spec.compatibility_level),
        "--copies": str(1 + max(o.spec.backups_of_each)),
    }
    own = member_names("$(HOLDFAST_NAME)", o.spec.processes_per_pod)
    chosen = {"name": founding_map(o.name), "key": NEWCOMERS}
    return {
        "name": SEEDER,
        "image": member["image"],
        "imagePullPolicy": member["imagePullPolicy"],
        "args": [
            "seed",
            f"{DATA_DIR}/member",
            *(part for flag in flags.items() for part in flag),
            *(part for name in own for part in ("--own", name)),
            *access.flags,
        ],
        "env": [
            {"name": "HOLDFAST_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "HOLDFAST_NEWCOMERS", "valueFrom": {"configMapKeyRef": chosen}},
            *access.environment,
        ],
        "resources": member["resources"],
        "securityContext": RESTRICTED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": VOLUME, "mountPath": DATA_DIR},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the container
            *access.mounts,
        ],
    }, [*access.volumes]
