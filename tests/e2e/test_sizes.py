"""More and fewer members; lite ones that become data members where they run."""

from __future__ import annotations

import json
import time

import pytest

from tests.e2e.grid import Grid


def test_promotion_happens_in_place_and_is_taken_back(grid: Grid) -> None:
    before = grid.uids()
    grid.patch(lite={"promote": 1})
    grid.at_rest()
    assert grid.member("orders-lite-0")["promoted"]
    grid.until(lambda: grid.member("orders-lite-0")["ownedPartitions"], "it gets its share")
    grid.patch(lite={"promote": 0})
    grid.at_rest()
    assert not grid.member("orders-lite-0")["promoted"]
    assert not grid.member("orders-lite-0")["ownedPartitions"]
    assert grid.uids() == before


@pytest.mark.parametrize("state", ["NO_MIGRATION", "STABLE_CLUSTER", "FROZEN", "PASSIVE"])
def test_promotion_waits_where_no_data_may_move(grid: Grid, state: str) -> None:
    before = grid.uids()
    grid.patch(state=state)
    grid.until(lambda: grid.holds("StateApplied"), state)
    grid.patch(lite={"promote": 1})
    grid.until(
        lambda: grid.condition("Progressing").get("reason") == "PromotionPending", "it is held"
    )
    assert grid.condition("Progressing")["message"]
    assert not grid.member("orders-lite-0")["promoted"]
    grid.patch(state="ACTIVE")
    grid.at_rest()
    assert grid.member("orders-lite-0")["promoted"]
    grid.patch(lite={"promote": 0})
    grid.at_rest()
    assert grid.uids() == before


def test_three_five_three(grid: Grid) -> None:
    before = grid.uids()
    grid.scale(5)
    grid.at_rest()
    assert len(grid.uids()) == 6
    grid.until(
        lambda: all(each["ownedPartitions"] for each in grid.status["memberList"][:5]), "shares"
    )
    grid.scale(3)
    grid.at_rest()
    assert grid.uids() == before
    kept = {each["metadata"]["name"] for each in grid.claims()}
    assert not kept & {"data-orders-3", "data-orders-4"}, "claims go after their pods"


def test_three_two_three_before_it_is_done(grid: Grid) -> None:
    before = grid.uids()
    grid.load.ask("fill?count=4000&size=4000")
    began = time.monotonic()
    grid.scale(2)

    def resizes() -> bool:
        told = grid.watcher.since(grid.namespace, began)
        return any(raw.get("status", {}).get("phase") == "Resizing" for _, raw in told)

    grid.until(resizes, "it gives its data away")
    grid.scale(3)
    grid.at_rest()
    assert grid.status["members"] == "3/3"
    assert {name: grid.uids()[name] for name in ("orders-0", "orders-1")} == {
        name: before[name] for name in ("orders-0", "orders-1")
    }


def test_no_copy_is_given_up(grid: Grid) -> None:
    """1. one of three members is away 2. a second one is not wanted any more: it stays"""
    before = grid.uids()
    away = grid.pods()["orders-0"]
    node = away["spec"]["nodeName"]
    grid.kubectl.run("cordon", node)
    try:
        grid.run("delete", "pod", "orders-0", "--wait=false", "--grace-period=0", "--force")
        grid.until(lambda: grid.renewed(before, "orders-0"), "it is to come back, and can't")
        grid.until(lambda: grid.status["members"] == "2/3", "one is away")
        grid.scale(2)
        grid.until(
            lambda: grid.condition("Resizing").get("reason") == "CopiesWouldBeLost", "it is held"
        )
        assert grid.uids()["orders-2"] == before["orders-2"]
        told = json.dumps(grid.status["conditions"])
        assert "orders-2 stays" in told
    finally:
        grid.kubectl.run("uncordon", node)
        grid.scale(3)
    grid.at_rest()
    told = grid.refused(members=1)
    assert "backups must be fewer" in told
