"""ConfigMaps: the members' settings, who founds the cluster, and which zone a node is in.

They are three because they change for different reasons. A change of the settings restarts the
pods; the founders are written once; zones follow the nodes.
"""

from __future__ import annotations

import json
from typing import Final

from holdfast_operator.builders.common import metadata
from holdfast_operator.model.cluster import Policy, Spread, Structure
from holdfast_operator.names import (
    PORT_MEMBER,
    PORT_STEP,
    Role,
    config_map,
    founding_map,
    member_names,
    pod_host,
    pod_name,
    topology_map,
)
from holdfast_operator.observed import Observed, Raw

FILE: Final = "holdfast.toml"
INITIAL: Final = "initial"
MAY_FOUND: Final = "may_found"
NEWCOMERS: Final = "newcomers"
POLICIES: Final = {
    Policy.FULL: "full",
    Policy.MOST_RECENT: "most-recent",
    Policy.MOST_COMPLETE: "most-complete",
}


def settings(o: Observed) -> Raw:
    """What all members are started with."""
    return _map(o, config_map(o.name), {FILE: settings_text(o)})


def settings_text(o: Observed) -> str:
    """As a file of settings (`holdfast member --print` explains each)."""
    spec = o.spec
    after = spec.migration.stable_repair_after_seconds
    values: dict[str, object] = {
        "cluster_name": f"{o.namespace}/{o.name}",
        "partition_count": spec.partitions,
        "backup_count": spec.backups,
        "replica_count": 7,
        "level": spec.compatibility_level,
        "processes": spec.processes_per_pod,
        "migrations_parallel_max": spec.migration.max_parallel,
        "migration_blocking": spec.migration.blocking,
        "stale_read_disabled": spec.migration.stale_read_disabled,
        "rejoin_grace_ms": spec.migration.rejoin_grace_seconds * 1_000,
        "recovery_policy": POLICIES[spec.persistence.recovery.policy],
        "validation_timeout_ms": spec.persistence.recovery.validation_seconds * 1_000,
        "data_load_timeout_ms": spec.persistence.recovery.load_seconds * 1_000,
        "log_format": "json",
    }
    if after is not None:
        values["stable_repair_after_ms"] = after * 1_000
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    lines += ["", "[unnamed]", f"backups = {spec.backups}"]
    lines += [f"durability = {json.dumps(spec.persistence.fsync.value)}"]
    for structure in spec.structures:
        lines += ["", f"[names.{json.dumps(structure.name)}]", *_structure(structure)]
    return "\n".join(lines) + "\n"


def _structure(structure: Structure) -> list[str]:
    values: dict[str, object] = {
        "async_backups": structure.async_backups,
        "ttl_ms": structure.ttl_seconds * 1_000,
        "idle_ms": structure.idle_seconds * 1_000,
        "entries_max": structure.entries_per_partition,
        "eviction": structure.eviction.value,
    }
    if structure.backups is not None:
        values["backups"] = structure.backups
    if structure.persistence is not None:
        values["durability"] = structure.persistence.value
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]


def founding(o: Observed) -> Raw:
    """Who founds the cluster. The list of the first time stays: two lists could make two clusters.

    Once the cluster exists nobody founds it again (`may_found`): members without files could not
    know that it was there.
    """
    live = o.children.get(("ConfigMap", founding_map(o.name)), {}).get("data", {})
    initial = live.get(INITIAL) or ",".join(address for _, _, address in founders(o))
    # what is restored exists already: who has no files of it joins
    may_found = "false" if o.status.cluster_id or o.spec.origin else "true"
    data = {INITIAL: initial, MAY_FOUND: may_found}
    if o.spec.origin is not None:
        listed = ",".join(f"{name}={address}={pod}" for pod, name, address in founders(o))
        data[NEWCOMERS] = live.get(NEWCOMERS) or listed
    return _map(o, founding_map(o.name), data)


def founders(o: Observed) -> list[tuple[str, str, str]]:
    """Pod, name and member port of each member that the cluster begins with."""
    return [
        (pod, name, f"{pod_host(o.name, o.namespace, pod)}:{PORT_MEMBER + PORT_STEP * process}")
        for pod in (pod_name(o.name, Role.DATA, i) for i in range(o.spec.members))
        for process, name in enumerate(member_names(pod, o.spec.processes_per_pod))
    ]


def begun_with(o: Observed) -> int:
    """How many data pods a restored cluster begins with: as many as it was said at first."""
    live = o.children.get(("ConfigMap", founding_map(o.name)), {}).get("data", {})
    pods = {each.split("=")[-1] for each in live.get(NEWCOMERS, "").split(",") if each}
    return len(pods)


def topology(o: Observed) -> Raw | None:
    """A key for each node, with its zone; only where zones are failure domains."""
    if o.spec.availability.spread is not Spread.ZONE or o.zones is None:
        return None
    return _map(o, topology_map(o.name), {node: zone for node, zone in o.zones.items() if zone})


def _map(o: Observed, name: str, data: dict[str, str]) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(o, name),
        "data": data,
    }
