"""Zones, and nodes that are cut off or lost: nobody lends a hand, nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.applications import Applications
from tests.e2e.figures import Figures
from tests.e2e.grid import Grid
from tests.e2e.kubernetes import Kubectl, fault
from tests.shell.waiting import wait_until

COPIES = 2
"""Of each partition: the owner's and one more."""
NODES_SECONDS = 120.0


def missing(kubectl: Kubectl) -> list[str]:
    """Nodes that Kubernetes has marked as away, or not as back yet."""
    return [
        node["metadata"]["name"]
        for node in kubectl.json("get", "nodes")["items"]
        for taint in node["spec"].get("taints", ())
        if taint["key"].startswith("node.kubernetes.io/")
    ]


@pytest.fixture
def spread(new_grid: Grid) -> Grid:
    """A member in each of three zones, of which the story before may have broken one."""
    wait_until(lambda: not missing(new_grid.kubectl), "every node takes pods", NODES_SECONDS)
    zones = {
        node["metadata"]["labels"].get("topology.kubernetes.io/zone")
        for node in new_grid.kubectl.json("get", "nodes")["items"]
    }
    if len(zones - {None}) < 3:
        pytest.skip(f"this cluster has {len(zones - {None})} zones; the story needs 3")
    new_grid.declare(availability={"spread": "Zone"}, lite={"members": 0})
    new_grid.at_rest()
    new_grid.load.until_writing()
    return new_grid


@pytest.fixture
def breakable(spread: Grid) -> Iterator[tuple[Grid, str, str]]:
    """The grid, a pod on a node that is not the host, and the node's number."""
    if not spread.kubectl.throwaway:
        pytest.skip("nodes are broken on throwaway ones alone (tests/e2e/kube)")
    node_of = {pod: raw["spec"]["nodeName"] for pod, raw in spread.pods().items()}
    pod = next(pod for pod, node in node_of.items() if node != "node-1")
    yield spread, pod, node_of[pod].rpartition("-")[2]
    assert spread.load.check()


def too_near(grid: Grid) -> list[str]:
    """Partitions whose two copies are not in two zones."""
    zone_of = {each["id"]: each["group"] for each in grid.status["memberList"]}
    assert len(set(zone_of.values())) == 3
    table = json.loads(grid.ask("orders-0", "/v1/partitions"))["partitions"]
    held = {row["id"]: [zone_of.get(each["member"]) for each in row["replicas"][:COPIES]]
            for row in table}  # fmt: skip
    return [
        f"partition {number}: {zones}"
        for number, zones in held.items()
        if None in zones or len(set(zones)) < COPIES
    ]


def test_copies_never_share_a_zone(spread: Grid) -> None:
    assert not too_near(spread)
    spread.scale(4)
    spread.at_rest()
    assert not too_near(spread)


def test_a_node_that_is_cut_off_for_longer_than_the_lease(
    breakable: tuple[Grid, str, str], figures: Figures
) -> None:
    """1. applications inside and outside write 2. the node is cut off 3. outside they write on
    4. inside nothing is acknowledged that would be lost 5. it is healed, and whole again"""
    grid, pod, number = breakable
    at = grid.pods()[pod]["status"]["podIP"]
    inside = Applications(grid.kubectl, grid.namespace, "inside", node=f"node-{number}", at=at)
    inside.until_writing()
    grid.load.ask("mark")
    fault("cut", number)
    try:
        grid.until(lambda: grid.status.get("members") == "2/3", "it is noticed")
        grid.load.until_writing()
        gap = grid.load.ask("told")["gap"]
        figures.note("a node cut off: writes to its keys again", gap, "s", wanted=5, bound=60)
    finally:
        fault("heal", number)
    grid.at_rest()
    inside.until_writing()
    assert inside.check()
    assert not too_near(grid)


def test_a_node_that_is_lost_and_returns_with_its_volume(
    breakable: tuple[Grid, str, str], figures: Figures
) -> None:
    grid, pod, number = breakable
    member = grid.member(pod)["id"]
    grid.load.ask("mark")
    fault("lose", number)
    try:
        grid.until(lambda: grid.status.get("members") == "2/3", "it is noticed")
        grid.load.until_writing()
        gap = grid.load.ask("told")["gap"]
        figures.note("a node's power lost: writes to its keys again", gap, "s", wanted=5, bound=60)
    finally:
        fault("return", number)
    grid.until(lambda: grid.status.get("members") == "3/3", "it is back")
    grid.at_rest()
    assert grid.member(pod)["id"] == member, "it came back with its files"
    assert not too_near(grid)
