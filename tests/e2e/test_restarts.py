"""Pods that get a new template one after another: nothing that did not change is copied."""

from __future__ import annotations

import os
import time
from typing import Any, Final

import pytest

from tests.e2e.figures import Figures
from tests.e2e.grid import Grid

MEBIBYTES: Final = int(os.environ.get("HOLDFAST_E2E_MEBIBYTES", "200"))
"""Of data under the restart that is measured; the figure to reach is for 1024."""
RECORD: Final = 16_384
FEW: Final = 2_000
NEXT: Final = os.environ.get("IMAGE_NODE_NEXT", "localhost/holdfast:next")


def restarted(grid: Grid, **change: Any) -> float:
    """All pods, by a change of the template; seconds a pod."""
    before = grid.uids()
    grid.patch(**change)
    took = grid.at_rest()
    assert grid.renewed(before)
    assert grid.state() == "ACTIVE"
    return took / len(before)


def test_a_rolling_restart_copies_nothing_that_did_not_change(
    new_grid: Grid, figures: Figures
) -> None:
    """First with nobody who writes: nothing at all. Then under load: what was written, no more."""
    grid = new_grid
    grid.declare(lite={"members": 0}, resources={"requests": {"cpu": "100m", "memory": "256Mi"}})
    grid.at_rest()
    grid.load.ask(f"fill?count={MEBIBYTES * 2**20 // RECORD}&size={RECORD}")
    grid.load.ask("pause")
    grid.until(grid.is_at_rest, "safe")
    took = restarted(grid, podTemplate={"restartedAt": "1"})
    title = f"rolling restart of 3 members with {MEBIBYTES} MiB: a pod"
    figures.note(title, took, "s", wanted=20, bound=90)
    copied = grid.counted("sync_records_total")
    figures.note("records copied by it", copied, "", wanted=0, bound=0)
    grid.load.ask("resume")
    grid.load.until_writing()
    assert grid.load.check()


def test_another_image_comes_with_no_full_replication(grid: Grid, figures: Figures) -> None:
    """Applications write all the time; what they wrote meanwhile is all that is copied."""
    grid.load.ask(f"fill?count={FEW}&size=100")
    begun = grid.load.ask("mark")["acknowledged"]
    restarted(grid, image={"name": NEXT})
    assert {raw["spec"]["containers"][0]["image"] for raw in grid.pods().values()} == {NEXT}
    told = grid.load.ask("told")
    copied = grid.counted("sync_records_total")
    written = told["acknowledged"] - begun
    assert copied <= written, "what nobody wrote was copied"
    figures.note("longest time without a write in it", told["gap"], "s", wanted=3, bound=60)
    seen = [
        raw["status"]["state"] for _, raw in grid.watcher.since(grid.namespace, grid.changed_at)
    ]
    assert "STABLE_CLUSTER" in seen


def test_an_image_that_does_not_exist_is_told_and_repaired(grid: Grid) -> None:
    """One pod can't start: the others stay, and the next declaration ends it."""
    before = grid.uids()
    broken = "localhost/no-such-image:1"
    grid.patch(image={"name": broken, "pullPolicy": "Never"})
    grid.until(lambda: grid.condition("Degraded").get("reason") == "PodFailing", "it is told")
    still = [pod for pod, uid in grid.uids().items() if before[pod] == uid]
    assert len(still) >= len(before) - 1
    grid.load.until_writing()
    grid.patch(image={"name": None, "pullPolicy": None})
    grid.at_rest()
    assert not [
        pod for pod, raw in grid.pods().items()
        if raw["spec"]["containers"][0]["image"] == broken
    ]  # fmt: skip


@pytest.fixture
def still(grid: Grid) -> Grid:
    """In STABLE_CLUSTER, with data that nobody writes."""
    grid.load.ask(f"fill?count={FEW}&size=100")
    grid.patch(state="STABLE_CLUSTER")
    grid.load.ask("pause")
    grid.at_rest()
    return grid


def test_a_pod_that_is_back_in_stable_cluster_copies_nothing(still: Grid) -> None:
    before, copied = still.member("orders-1"), still.counted("sync_records_total")
    others = copied - one(still, "orders-1")
    still.run("delete", "pod", "orders-1", "--wait=false")
    still.changed_at = time.monotonic()
    still.back_again("orders-1", before)
    still.until(lambda: still.member("orders-1").get("ownedPartitions"), "it has its partitions")
    assert still.counted("sync_records_total") == others, "records came that nobody wrote"
    still.load.ask("resume")
    still.load.until_writing()


def one(grid: Grid, pod: str) -> float:
    """What one has copied so far."""
    lines = grid.ask(pod, "/metrics").splitlines()
    name = "holdfast_sync_records_total"
    return next(float(line.split()[-1]) for line in lines if line.startswith(name))
