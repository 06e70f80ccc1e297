"""The operator's installation, a first Cluster, and what users see of both."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.controller.bad_specs import BAD, Bad
from tests.e2e.figures import Figures
from tests.e2e.grid import NAME, Grid
from tests.e2e.kubernetes import ROOT, SYSTEM

EXAMPLES = ROOT / "examples"
CHART = str(ROOT / "charts/holdfast")
SPENT = """
import json, os
words = open("/proc/1/stat").read().rpartition(")")[2].split()
pages = int(open("/proc/1/statm").read().split()[1])
from urllib.request import urlopen
text = urlopen("http://127.0.0.1:8081/metrics", timeout=10).read().decode()
def total(name):
    lines = [l for l in text.splitlines() if l.startswith("holdfast_operator_" + name)]
    return sum(float(l.split()[-1]) for l in lines)
print(json.dumps({
    "cpu": (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"),
    "mebibytes": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
    "requests": total("api_requests_total"),
    "looks": total("reconcile_seconds_count"),
}))
"""
LONG_ENOUGH_SECONDS = 30  # for a few looks and renewals of the lease


def test_a_first_cluster_is_ready_soon(new_grid: Grid, figures: Figures) -> None:
    grid = new_grid
    grid.declare(lite={"members": 0})
    grid.kubectl_wait("Ready")
    took = grid.until(lambda: grid.holds("Ready"), "ready")
    figures.note("kubectl apply of 3 members to Ready", took, "s", wanted=15, bound=120)
    grid.at_rest()
    assert grid.status["members"] == "3/3"
    assert {each["metadata"]["name"] for each in grid.claims()} == {
        "data-orders-0", "data-orders-1", "data-orders-2"
    }  # fmt: skip
    told = grid.run("get", NAME)
    assert "ACTIVE" in told
    assert "3/3" in told
    grid.load.until_writing()
    grid.run("delete", NAME, "--timeout=120s")
    grid.until(lambda: not grid.pods(), "its pods are gone")
    assert len(grid.claims()) == 3, "the claims are kept"
    grid.declare(lite={"members": 0})
    grid.at_rest()
    assert grid.load.check(), "a Cluster of the same name finds its data"


def test_examples_are_taken(grid: Grid) -> None:
    """Where there is no Cluster of the same name, which would be changed."""
    for file in sorted(EXAMPLES.glob("*.yaml")):
        grid.kubectl.run("apply", "-n", "default", "--dry-run=server", "-f", str(file))


def test_an_example_works_as_it_is(grid: Grid) -> None:
    file = str(EXAMPLES / "smallest.yaml")
    grid.run("apply", "-f", file)
    grid.run("wait", "--for=condition=Ready", "hfc/small", "--timeout=120s")
    grid.run("delete", "-f", file, "--timeout=120s")


def test_bad_specs_are_refused_with_their_sentence(grid: Grid) -> None:
    """A change is one of a Cluster that was declared with nothing but defaults, and sleeps."""
    bad_ones = [each for each in BAD if each.kind == "Cluster"]
    assert len(bad_ones) >= 25
    declared(grid, "create", "plain", {"hibernate": True})
    for bad in bad_ones:
        told = judged(grid, bad)
        assert bad.sentence.lower() in told.lower(), f"{bad.name}: {told}"
    grid.run("delete", "hfc", "plain", "--timeout=60s")


def declared(grid: Grid, verb: str, name: str, spec: dict[str, Any], *flags: str) -> str:
    """What is said to a Cluster."""
    body = {
        "apiVersion": "holdfast.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": spec,
    }
    return grid.run(verb, *flags, "-f", "-", stdin=json.dumps(body), check=False)


def judged(grid: Grid, bad: Bad) -> str:
    """By CEL and the webhook, on a server's dry run."""
    dry = "--dry-run=server"
    if bad.old is None:
        told = declared(grid, "create", "bad", bad.spec, dry)
    else:
        flags = (dry, "--type=merge", "-p", json.dumps({"spec": bad.spec}))
        told = grid.run("patch", "hfc", "plain", *flags, check=False)
    taken = told.startswith("cluster.holdfast.io/")
    assert not taken, f"{bad.name} was taken"
    return told


def test_the_plugin_says_and_does_the_same(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    monkeypatch.setitem(grid.kubectl.environment, "PATH", path)

    def plugin(*words: str) -> str:
        return grid.kubectl.run("holdfast", "-n", grid.namespace, *words)

    told = plugin("status", "orders")
    assert "orders-2" in told
    assert "master" in told
    assert plugin("state", "orders").strip() == "ACTIVE"
    assert "done" in plugin("state", "orders", "NO_MIGRATION")
    assert grid.state() == "NO_MIGRATION"
    plugin("state", "orders", "ACTIVE")
    assert "done" in plugin("promote", "orders", "1")
    assert grid.member("orders-lite-0")["promoted"]
    plugin("migrations", "orders", "--watch")
    plugin("promote", "orders", "0")


def test_an_operator_at_rest_costs_little(grid: Grid, figures: Figures) -> None:
    leader = grid.kubectl.leader()

    def spent() -> dict[str, float]:
        script = ("exec", leader, "--", "python3", "-c", SPENT)
        found: dict[str, float] = json.loads(grid.kubectl.run("-n", SYSTEM, *script))
        return found

    before, begun = spent(), time.monotonic()
    grid.until(lambda: time.monotonic() > begun + LONG_ENOUGH_SECONDS, "it rested")
    after, seconds = spent(), time.monotonic() - begun
    assert after["looks"] > before["looks"], "it looked again and again"
    asked = (after["requests"] - before["requests"]) * 60 / seconds
    cpu = (after["cpu"] - before["cpu"]) * 100 / seconds
    figures.note("operator: memory", after["mebibytes"], "MiB", wanted=120, bound=192)
    figures.note("operator: processor at rest", cpu, "%", wanted=1, bound=20)
    figures.note("operator: API calls a minute at rest", asked, "", wanted=12, bound=40)


def test_an_upgrade_of_the_operator_disturbs_nothing(grid: Grid) -> None:
    before, operators = grid.uids(), set(grid.kubectl.operators())
    grid.load.ask("mark")
    note = ("--set-string", "operator.podAnnotations.upgraded=yes")
    upgrade = ("upgrade", "holdfast", CHART, "--reuse-values", "--wait", "--timeout", "3m")
    grid.kubectl.helm("-n", SYSTEM, *upgrade, *note)
    assert not operators & set(grid.kubectl.operators())
    grid.patch(state="NO_MIGRATION")
    grid.at_rest()
    assert grid.uids() == before
    assert not grid.load.ask("told")["errors"]


def test_helm_test_writes_and_reads(grid: Grid) -> None:
    """A Cluster of the chart's values, tried by the chart's own test."""
    spec = {"members": 2, "partitions": 16, "persistence": {"size": "1Gi", "reclaim": "Delete"}}
    values = ("--set", "cluster.enabled=true", "--set-json", f"cluster.spec={json.dumps(spec)}")
    upgrade = ("upgrade", "holdfast", CHART, "--reuse-values", "--wait", "--timeout", "3m")
    at = ("-n", SYSTEM)
    try:
        grid.kubectl.helm(*at, *upgrade, *values)
        grid.kubectl.run(*at, "wait", "--for=condition=Ready", "hfc/grid", "--timeout=120s")
        assert "Succeeded" in grid.kubectl.helm(*at, "test", "holdfast", "--timeout", "2m")
    finally:
        grid.kubectl.helm(*at, *upgrade, "--set", "cluster.enabled=false")
    kept = grid.kubectl.json(*at, "get", "hfc")["items"]
    assert [each["metadata"]["name"] for each in kept] == ["grid"], "helm leaves what holds data"
    grid.kubectl.run(*at, "delete", "hfc", "grid", "--timeout=120s")
