"""Pods that are deleted, killed and evicted, of members and of the operator."""

from __future__ import annotations

import time

import pytest

from tests.e2e.figures import Figures
from tests.e2e.grid import Grid
from tests.e2e.kubernetes import SYSTEM, kill_container


@pytest.mark.parametrize("state", ["ACTIVE", "STABLE_CLUSTER"])
@pytest.mark.parametrize("force", [False, True], ids=["gracefully", "by-force"])
def test_a_deleted_pod_comes_back_whole(grid: Grid, state: str, *, force: bool) -> None:
    """A member that is not the master, then the master."""
    grid.patch(state=state)
    grid.at_rest()
    flags = ("--grace-period=0", "--force") if force else ()
    other = next(pod for pod in ("orders-0", "orders-1") if pod != grid.status["master"])
    for pod in (other, grid.status["master"]):
        before, member = grid.uids(), grid.member(pod)
        grid.run("delete", "pod", pod, "--wait=false", *flags)
        grid.until(lambda: grid.renewed(before, pod), "another pod")  # noqa: B023
        grid.back_again(pod, member)
        assert grid.member(pod)["id"] == member["id"], "it came back with its files"
    grid.load.until_writing()


def test_a_killed_container_is_missed_for_seconds(grid: Grid, figures: Figures) -> None:
    """1. the process of a member ends 2. who wrote to its keys writes again 3. it is back"""
    if not grid.kubectl.throwaway:
        pytest.skip("containers are killed on throwaway nodes alone (tests/e2e/kube)")
    master = grid.status["master"]
    other = next(pod for pod in ("orders-0", "orders-1") if pod != master)
    for kind, pod in (("a member", other), ("the master", master)):
        before = grid.member(pod)
        grid.load.ask("mark")
        kill_container(grid.pods()[pod])
        grid.changed_at = time.monotonic()
        took = grid.back_again(pod, before)
        gap = grid.load.ask("told")["gap"]
        figures.note(f"{kind} killed: writes again", gap, "s", wanted=3, bound=30)
        figures.note(f"{kind} killed: back in full", took, "s", wanted=10, bound=90)


def test_both_operators_die_while_pods_restart(grid: Grid) -> None:
    before = grid.uids()
    grid.patch(podTemplate={"restartedAt": f"{time.time()}"})
    grid.until(lambda: set(grid.uids().values()) - set(before.values()), "one pod is new")
    names = list(grid.kubectl.operators())
    grid.kubectl.run("-n", SYSTEM, "delete", "pod", *names, "--force", "--grace-period=0")
    grid.at_rest()
    assert grid.renewed(before)
    assert grid.state() == "ACTIVE"


def test_a_drain_waits_for_the_copies(grid: Grid) -> None:
    """1. a node is drained: its member goes 2. another node can't be, until it is back"""
    grid.patch(state="STABLE_CLUSTER")
    grid.at_rest()
    before = grid.uids()
    nodes = {pod: grid.pods()[pod]["spec"]["nodeName"] for pod in before if "lite" not in pod}
    alone = next(pod for pod, node in nodes.items() if list(nodes.values()).count(node) == 1)
    other = next(pod for pod, node in nodes.items() if node != nodes[alone])
    flags = ("--ignore-daemonsets", "--delete-emptydir-data",
             "--pod-selector=holdfast.io/cluster=orders,holdfast.io/role=data")  # fmt: skip
    try:
        grid.kubectl.run("drain", nodes[alone], *flags, "--timeout=120s")
        grid.until(lambda: grid.status["members"] == "2/3", "one is away")
        told = grid.kubectl.run("drain", nodes[other], *flags, "--timeout=6s", check=False)
        assert "disruption budget" in told
        assert grid.uids()[other] == before[other]
    finally:
        grid.kubectl.run("uncordon", nodes[alone], nodes[other])
    grid.at_rest()
    assert grid.renewed(before, alone)
    assert not grid.renewed(before, other)
