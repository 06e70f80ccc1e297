"""The chart as it is rendered: rights, probes, switches, refused values."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from holdfast_operator.crds import KINDS, schema_of
from holdfast_operator.kubernetes.client import PLURALS
from holdfast_operator.options import parse
from holdfast_operator.running.handlers import LABELLED, OWN

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts/holdfast"
KUBE: Final = ("--kube-version", "1.34.0")


def render(helm: str, *sets: str) -> list[dict[str, Any]]:
    """All objects."""
    flags = [flag for each in sets for flag in ("--set", each)]
    command = [helm, "template", "rel", str(CHART), "-n", "grids", *KUBE, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def named(objects: list[dict[str, Any]], kind: str, name: str = "") -> list[dict[str, Any]]:
    """Of one kind."""
    return [
        each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(name)
    ]


def refused(helm: str, *sets: str) -> str:
    """What helm says."""
    flags = [flag for each in sets for flag in ("--set", each)]
    command = [helm, "template", "rel", str(CHART), *KUBE, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode
    return done.stderr


def test_lint(helm: str) -> None:
    command = [helm, "lint", "--strict", str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "value",
    ["nope=1", "image.nodes=x", "operator.replicas=0", "watch.all=true", "cluster.name=Grid",
     "monitoring.interval=often", "image.pullPolicy=Sometimes"],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(helm: str, value: str) -> None:
    assert value.partition("=")[0].rpartition(".")[2] in refused(helm, value)


def test_the_schema_knows_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(values, schema)
    for name, part in values.items():
        assert set(part) == set(schema["properties"][name]["properties"]), name


def test_by_default_two_replicas_with_a_webhook(helm: str) -> None:
    objects = render(helm)
    (deployment,) = named(objects, "Deployment")
    assert deployment["spec"]["replicas"] == 2
    (hook,) = named(objects, "ValidatingWebhookConfiguration")
    assert hook["webhooks"] == [], "the operator fills it when it answers"
    assert not named(objects, "Cluster")
    assert not named(objects, "NetworkPolicy")


def test_the_operator_understands_what_it_is_given(helm: str) -> None:
    (deployment,) = named(render(helm, "watch.cluster=true"), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each.get("value", "pod") for each in container["env"]}
    known = {
        line.strip()
        for line in re.findall(
            r'"([a-z-]+)": \(', (ROOT / "operator/src/holdfast_operator/options.py").read_text()
        )
    } | {"nodes", "dry-run"}
    for name in given:
        flag = name.removeprefix("HOLDFAST_OPERATOR_").lower().replace("_", "-")
        assert flag in known, name
    options = parse([], given)
    assert options.webhook_service == "rel-operator"
    assert options.nodes
    assert options.namespaces == ()
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"http": options.port, "webhook": options.webhook_port}


def test_the_operator_has_no_rights_on_its_node(helm: str) -> None:
    (deployment,) = named(render(helm), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def rules(role: dict[str, Any]) -> set[tuple[str, str]]:
    """Resource and verb."""
    return {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_rights_are_enough_to_watch_and_no_wildcards(helm: str) -> None:
    (role,) = named(render(helm), "ClusterRole")
    allowed = rules(role)
    for kind in (*LABELLED, *OWN, "Cluster", "Restore", "Node"):
        plural = PLURALS[kind].name
        assert {(plural, "list"), (plural, "watch")} <= allowed, kind
    assert not [each for each in allowed if "*" in each]
    assert ("secrets", "list") not in allowed
    assert ("secrets", "delete") not in allowed
    assert ("nodes", "patch") not in allowed


def test_in_a_namespace_there_are_no_rights_in_the_cluster(helm: str) -> None:
    objects = render(helm, "watch.cluster=false", "watch.namespaces={a,b}")
    for kind in ("ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration"):
        assert not named(objects, kind)
    places = {each["metadata"].get("namespace", "") for each in named(objects, "Role", "-operator")}
    assert places == {"a", "b"}
    (deployment,) = named(objects, "Deployment")
    env = {
        e["name"]: e.get("value")
        for e in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert env["HOLDFAST_OPERATOR_NAMESPACES"] == "a,b"
    assert env["HOLDFAST_OPERATOR_NODES"] == "false"
    assert "HOLDFAST_OPERATOR_WEBHOOK_SERVICE" not in env


def test_switches(helm: str) -> None:
    on = render(
        helm,
        "monitoring.podMonitor=true",
        "monitoring.serviceMonitor=true",
        "networkPolicy.enabled=true",
        "cluster.enabled=true",
        "cluster.spec.members=3",
        "operator.replicas=1",
    )
    kinds = {each["kind"] for each in on}
    assert {"PodMonitor", "ServiceMonitor", "NetworkPolicy", "Cluster", "Pod"} <= kinds
    assert "PodDisruptionBudget" not in kinds
    (cluster,) = named(on, "Cluster")
    jsonschema.validate(cluster["spec"], schema_of(KINDS[0].spec))
    assert cluster["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    (test,) = named(on, "Pod")
    compile(test["spec"]["containers"][0]["args"][0], "helm test", "exec")


def test_examples_fit_their_definitions() -> None:
    schemas = {kind.name: schema_of(kind.spec) for kind in KINDS}
    seen = 0
    for file in sorted((ROOT / "examples").glob("*.yaml")):
        for each in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if each and each["apiVersion"].startswith("holdfast.io"):
                jsonschema.validate(each["spec"], schemas[each["kind"]])
                seen += 1
    assert seen >= 5
