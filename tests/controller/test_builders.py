"""The objects of a cluster, as they are to be."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from holdfast.shell.settings import load
from holdfast_operator.builders import disruption, services, settings
from holdfast_operator.builders.pods import template, template_mark
from holdfast_operator.builders.sets import stateful_set
from holdfast_operator.names import Role
from holdfast_operator.observed import Observed, Set
from holdfast_operator.plan.children import wanted
from tests.controller.sample import observed, spec

OWNER = {
    "apiVersion": "holdfast.io/v1alpha1",
    "kind": "Cluster",
    "name": "orders",
    "uid": "uid-cluster",
    "controller": True,
    "blockOwnerDeletion": True,
}
LABELS = {
    "app.kubernetes.io/name": "holdfast",
    "app.kubernetes.io/managed-by": "holdfast-operator",
    "holdfast.io/cluster": "orders",
}
SELECTOR = {"holdfast.io/cluster": "orders", "app.kubernetes.io/component": "member"}


def meta(name: str) -> dict[str, Any]:
    """Of every object."""
    return {"name": name, "namespace": "shop", "labels": LABELS, "ownerReferences": [OWNER]}


def container(o: Observed, role: Role = Role.DATA) -> Any:
    """The only one of a pod."""
    (found,) = template(o, role)["spec"]["containers"]
    return found


def environment(o: Observed, role: Role = Role.DATA) -> dict[str, Any]:
    """By name."""
    return {
        each["name"]: each.get("value", each.get("valueFrom")) for each in container(o, role)["env"]
    }


def test_services() -> None:
    o = observed()
    port = {"protocol": "TCP"}
    assert services.members(o) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta("orders-members"),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": SELECTOR,
            "ports": [
                {"name": "member", "port": 7380, "targetPort": 7380, **port},
                {"name": "http", "port": 8080, "targetPort": 8080, **port},
            ],
        },
    }
    assert services.http(o)["spec"] == {
        "selector": SELECTOR,
        "ports": [{"name": "http", "port": 8080, "targetPort": 8080, **port}],
    }
    outside = observed(spec(service={"type": "LoadBalancer", "annotations": {"a": "b"}}))
    made = services.client(outside)
    assert made["metadata"]["annotations"] == {"a": "b"}
    assert made["spec"]["type"] == "LoadBalancer"
    assert [each["port"] for each in made["spec"]["ports"]] == [6379, 7379]


def test_budget() -> None:
    assert disruption.budget(observed()) == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta("orders"),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}},
    }


def test_settings_are_those_of_a_member(tmp_path: Any) -> None:
    """The member itself reads them: every key is one of its own."""
    declared = spec(
        backups=2,
        structures=[
            {"name": "users", "backups": 1, "persistence": "always", "ttlSeconds": 3},
            {"name": "cache.hot", "entriesPerPartition": 9, "eviction": "lru"},
        ],
        migration={"stableRepairAfterSeconds": 60, "maxParallel": 4},
        persistence={"fsync": "off", "recovery": {"policy": "FullRecovery"}},
    )
    file = tmp_path / "holdfast.toml"
    file.write_text(settings.settings_text(observed(declared)))
    core = load(file, {}, {}).core
    assert (core.cluster_name, core.partition_count, core.backup_count) == ("shop/orders", 271, 2)
    assert (core.stable_repair_after_ms, core.migrations_parallel_max) == (60_000, 4)
    assert core.recovery_policy.value == "full"
    assert core.unnamed.durability.value == "off"
    users, hot = core.names[b"users"], core.names[b"cache.hot"]
    assert (users.backups, users.ttl_ms, users.durability.value) == (1, 3_000, "always")
    assert (hot.backups, hot.entries_max, hot.eviction.value) == (2, 9, "lru")
    assert "stable_repair_after_ms" not in tomllib.loads(settings.settings_text(observed()))


def test_founders_are_those_of_the_first_time() -> None:
    o = observed(spec(members=2, processesPerPod=2))
    made = settings.founding(replace(o, children={}))
    hosts = [f"orders-{pod}.orders-members.shop.svc" for pod in range(2)]
    assert made["data"] == {
        "initial": ",".join(f"{host}:{port}" for host in hosts for port in (7380, 7390)),
        "may_found": "false",
    }
    grown = replace(o, spec=spec(members=5), children={("ConfigMap", "orders-founding"): made})
    assert settings.founding(grown)["data"]["initial"] == made["data"]["initial"]
    new = replace(grown, status=o.status.model_copy(update={"cluster_id": ""}))
    assert settings.founding(new)["data"]["may_found"] == "true"


def test_zones_are_told_where_they_are_failure_domains() -> None:
    declared = spec(availability={"spread": "Zone"})
    o = replace(observed(declared), zones={"node-a": "zone-1", "node-b": ""})
    made = settings.topology(o)
    assert made is not None
    assert made["data"] == {"node-a": "zone-1"}
    assert environment(o)["HOLDFAST_GROUPS_DIR"] == "/etc/holdfast/topology"
    (spread,) = template(o, Role.DATA)["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert ("ConfigMap", "orders-topology") in {
        (each["kind"], each["metadata"]["name"]) for each in wanted(o, dict.fromkeys(Role, 1))
    }
    assert settings.topology(observed()) is None
    assert "HOLDFAST_GROUPS_DIR" not in environment(observed())


def test_pods_have_no_rights() -> None:
    o = observed()
    pod = template(o, Role.DATA)["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(o)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_member_is_told_who_it_is() -> None:
    o = observed(spec(lite={"members": 1}))
    env = environment(o, Role.LITE)
    assert env["HOLDFAST_KIND"] == "lite"
    assert env["HOLDFAST_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert env["HOLDFAST_ADVERTISE"] == "$(HOLDFAST_NAME).orders-members.$(POD_NAMESPACE).svc"
    assert env["HOLDFAST_INITIAL"] == {
        "configMapKeyRef": {"name": "orders-founding", "key": "initial"}
    }
    assert env["HOLDFAST_DATA_DIR"] == "/var/lib/holdfast/member"
    without = observed(spec(persistence={"enabled": False}, upgradeStrategy="RollingMigrate"))
    assert "HOLDFAST_DATA_DIR" not in environment(without)
    assert "data" not in [each["name"] for each in container(without)["volumeMounts"]]
    assert "volumeClaimTemplates" not in stateful_set(without, Role.DATA, 3)["spec"]


def test_probes_ask_every_process() -> None:
    one = container(observed())
    assert one["readinessProbe"]["httpGet"] == {"path": "/healthz/ready", "port": "http"}
    assert one["livenessProbe"]["httpGet"] == {"path": "/healthz/live", "port": "http"}
    two = container(observed(spec(processesPerPod=2)))
    assert two["readinessProbe"]["exec"]["command"] == ["holdfast-probe", "ready", "8080", "8090"]
    assert [each["name"] for each in two["ports"]][4:] == [
        "plain-1", "cluster-1", "http-1", "member-1",
    ]  # fmt: skip


def test_what_is_declared_for_pods_is_taken_over() -> None:
    declared = spec(
        image={"name": "mine:1", "pullPolicy": "Never", "pullSecrets": ["s"]},
        resources={"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
        scheduling={
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "grid"}],
            "affinity": {"podAntiAffinity": {}},
            "priorityClassName": "high",
            "serviceAccountName": "grid",
        },
        podTemplate={
            "labels": {"team": "a", "holdfast.io/cluster": "other"},
            "annotations": {"note": "b"},
            "env": [{"name": "TZ", "value": "UTC"}],
            "terminationGracePeriodSeconds": 30,
        },
    )
    o = observed(declared)
    made = template(o, Role.DATA)
    pod, one = made["spec"], container(o)
    assert (one["image"], one["imagePullPolicy"]) == ("mine:1", "Never")
    assert one["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}
    assert pod["imagePullSecrets"] == [{"name": "s"}]
    assert pod["nodeSelector"] == {"disk": "fast"}
    assert pod["tolerations"] == [{"key": "grid"}]
    assert pod["affinity"] == {"podAntiAffinity": {}}
    assert (pod["priorityClassName"], pod["serviceAccountName"]) == ("high", "grid")
    assert pod["terminationGracePeriodSeconds"] == 30
    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["labels"]["holdfast.io/cluster"] == "orders", "ours are ours"
    assert made["metadata"]["annotations"]["note"] == "b"
    assert {"name": "TZ", "value": "UTC"} in one["env"]


def test_what_changes_pods_changes_their_mark_and_nothing_else_does() -> None:
    plain = template_mark(observed(), Role.DATA)
    same = observed(spec(members=5, state="FROZEN", lite={"members": 1}))
    assert template_mark(same, Role.DATA) == plain
    for values in (
        {"podTemplate": {"restartedAt": "now"}},
        {"image": {"name": "other"}},
        {"structures": [{"name": "users"}]},
        {"migration": {"maxParallel": 3}},
    ):
        assert template_mark(observed(spec(**values)), Role.DATA) != plain


def test_sets() -> None:
    o = replace(observed(spec(persistence={"size": "3Gi", "storageClassName": "fast"})), sets={})
    made = stateful_set(o, Role.DATA, 3)
    assert made["metadata"] == meta("orders")
    body = made["spec"]
    assert (body["replicas"], body["serviceName"]) == (3, "orders-members")
    assert body["updateStrategy"] == {"type": "OnDelete"}
    assert body["podManagementPolicy"] == "Parallel"
    (claim,) = body["volumeClaimTemplates"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "3Gi"}},
        "storageClassName": "fast",
    }
    live = {"metadata": {"name": "data"}, "spec": {"old": "one"}, "status": {"phase": "Pending"}}
    kept = replace(o, sets={Role.DATA: Set("uid", 3, (live,))})
    (found,) = stateful_set(kept, Role.DATA, 3)["spec"]["volumeClaimTemplates"]
    assert found == {"metadata": {"name": "data"}, "spec": {"old": "one"}}, "it can't be changed"


@pytest.mark.parametrize("lite", [0, 1])
def test_there_is_a_lite_set_only_where_it_is_wanted(lite: int) -> None:
    o = observed(spec(lite={"members": lite}))
    names = [each["metadata"]["name"] for each in wanted(o, {Role.DATA: 3, Role.LITE: lite})]
    assert ("orders-lite" in names) is bool(lite)
