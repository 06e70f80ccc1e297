"""The last story: the operator goes and its grids stay; then one without rights in the cluster."""

from __future__ import annotations

import json

from tests.e2e.grid import Grid
from tests.e2e.kubernetes import ROOT, SYSTEM

CHART = str(ROOT / "charts/holdfast")
USER = "system:serviceaccount:{}:installer"


def may_do_everything_in(grid: Grid) -> str:
    """A user with all rights in the namespace and none in the cluster."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "installer"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }
    grid.run("create", "serviceaccount", "installer")
    grid.run("apply", "-f", "-", stdin=json.dumps(role))
    who = f"--serviceaccount={grid.namespace}:installer"
    grid.run("create", "rolebinding", "installer", "--role=installer", who)
    return USER.format(grid.namespace)


def test_uninstalled_and_installed_again_in_one_namespace(grid: Grid) -> None:
    """1. helm takes the operator away 2. the grid serves, its claims and its Cluster are there
    3. somebody without rights in the cluster installs one for the namespace: it goes on
    4. one for all is installed, and what is patched before it answers counts"""
    values = json.loads(grid.kubectl.helm("-n", SYSTEM, "get", "values", "holdfast", "-o", "json"))
    before = grid.uids()
    grid.load.ask("mark")
    grid.kubectl.helm("-n", SYSTEM, "uninstall", "holdfast", "--wait")
    assert not grid.kubectl.operators()
    assert grid.uids() == before
    assert len(grid.claims()) == 4
    grid.load.until_writing()
    user = may_do_everything_in(grid)
    images = [f"--set=image.{key}={text}" for key, text in values["image"].items()]
    flags = ("--skip-crds", "--set=watch.cluster=false", "--wait", "--timeout=2m", *images)
    at = ("-n", grid.namespace, "--kube-as-user", user)
    try:
        grid.kubectl.helm(*at, "install", "own", CHART, *flags)
        grid.patch(state="NO_MIGRATION")
        grid.at_rest()
        assert grid.state() == "NO_MIGRATION"
        grid.patch(state="ACTIVE", lite={"promote": 1})
        grid.at_rest()
        assert grid.uids() == before
        assert not grid.load.ask("told")["errors"]
        assert not grid.kubectl.json("get", "clusterroles", "-l", "app.kubernetes.io/instance=own")[
            "items"
        ]
    finally:
        grid.kubectl.helm(*at, "uninstall", "own", "--wait", check=False)
        again = ("install", "holdfast", CHART, "-f", "-")
        grid.kubectl.helm("-n", SYSTEM, *again, stdin=json.dumps(values))
    grid.patch(lite={"promote": 0})
    grid.at_rest()
