"""Sleep, growth, and the operator's death at any point of what it does."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.e2e.grid import Grid
from tests.e2e.kubernetes import kill_container

SEED = 7
PAUSE_SECONDS = (0.5, 6.0)


def test_hibernate_and_wake(grid: Grid) -> None:
    grid.patch(hibernate=True)
    grid.until(lambda: grid.status.get("phase") == "Hibernated", "it sleeps")
    assert not grid.pods()
    assert not grid.holds("Ready")
    assert len(grid.claims()) == 4
    grid.patch(hibernate=False)
    grid.at_rest()
    assert grid.state() == "ACTIVE"
    grid.load.until_writing()


def test_claims_grow(grid: Grid) -> None:
    before = grid.uids()
    grid.patch(persistence={"size": "2Gi"})
    grid.at_rest()
    assert {each["status"]["capacity"]["storage"] for each in grid.claims()} == {"2Gi"}
    assert grid.uids() == before


@contextmanager
def dying_operators(grid: Grid, chance: random.Random) -> Iterator[list[str]]:
    """The one that leads is killed again and again, at random moments after it was ready."""
    killed: list[str] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(chance.uniform(*PAUSE_SECONDS)):
            pods, leader = grid.kubectl.operators(), grid.kubectl.leader()
            container = pods.get(leader, {}).get("status", {}).get("containerStatuses", [{}])[0]
            if container.get("ready"):
                with suppress(subprocess.CalledProcessError):  # it is told ready and has ended
                    kill_container(pods[leader])
                    killed.append(leader)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_the_operator_may_die_at_any_point_of_every_story(grid: Grid) -> None:
    """States, sizes, promotion, a restart and sleep, one after another, while it is killed."""
    if not grid.kubectl.throwaway:
        pytest.skip("containers are killed on throwaway nodes alone (tests/e2e/kube)")
    chance = random.Random(SEED)
    with dying_operators(grid, chance) as killed:
        grid.patch(state="STABLE_CLUSTER")
        grid.at_rest()
        grid.patch(state="ACTIVE", lite={"promote": 1})
        grid.at_rest()
        grid.patch(lite={"promote": 0}, members=4)
        grid.at_rest()
        grid.patch(members=3)
        grid.at_rest()
        before = grid.uids()
        grid.patch(podTemplate={"restartedAt": f"{time.time()}"})
        grid.at_rest()
        assert grid.renewed(before)
        grid.patch(hibernate=True)
        grid.until(lambda: grid.status.get("phase") == "Hibernated", "it sleeps")
        grid.patch(hibernate=False)
        grid.at_rest()
        grid.until(lambda: len(killed) >= 3, "it was killed again and again")
    grid.load.until_writing()
    assert grid.status["members"] == "3/3"
