"""The operator with real members: declared, patched, scaled, restarted, killed, asleep.

Pods are processes of members on this machine; the API server is a small one in memory. Data is
written before each story, and all of it must be there afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.http import HttpClient
from holdfast.wire.api.words import ClusterState
from holdfast_operator.names import FINALIZER
from holdfast_operator.plan import losing
from tests.controller.api_server import Address
from tests.controller.ledger import Ledger
from tests.controller.world import NAMESPACE, World, world


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[World, Ledger]]:
    """One operator, a grid of two members and a lite one, at rest, with data."""
    async with world(tmp_path) as made:
        made.start()
        made.declare(members=2, lite={"members": 1})
        await made.until(made.is_at_rest, "a grid of two")
        ledger = Ledger(made)
        await ledger.write()
        yield made, ledger


def member(grid: World, name: str) -> dict[str, Any]:
    """As the status lists it."""
    found = [each for each in grid.status()["memberList"] if each["name"] == name]
    return found[0] if found else {}


def uids(grid: World) -> dict[str, str]:
    """Of the pods."""
    return {name: raw["metadata"]["uid"] for name, raw in grid.pods().items()}


def told(grid: World) -> str:
    """Everything that was said in events."""
    return "\n".join(raw["message"] for raw in grid.store.of("Event"))


async def test_a_patched_state_is_applied_and_a_foreign_change_is_put_back(
    two: tuple[World, Ledger],
) -> None:
    grid, ledger = two
    grid.patch(state="FROZEN")
    assert not grid.holds("StateApplied"), "a condition of an older generation counts for nothing"
    await grid.until(lambda: grid.holds("StateApplied"), "FROZEN")
    assert grid.status()["state"] == "FROZEN"
    host = grid.pods()["orders-0"]["status"]["podIP"]
    secret = next(iter(grid.operators.values()))[0].loops._loops[NAMESPACE, "orders"].memory.eye
    async with HttpClient(f"http://{host}:8080", secret=secret.secret) as client:
        await client.set_state(ClusterState.PASSIVE)
    await grid.until(lambda: "StatePutBack" in grid.events(), "it is noticed")
    await grid.until(grid.is_at_rest, "it is put back")
    assert grid.status()["state"] == "FROZEN"
    await ledger.check()


async def test_a_cluster_at_rest_costs_the_api_server_nothing(two: tuple[World, Ledger]) -> None:
    """It is looked at through its members; only the Lease is renewed."""
    grid, _ = two
    operator, _ = grid.operators["first"]

    def looks() -> float:
        lines = operator.metrics.text().splitlines()
        return next(float(line.split()[-1]) for line in lines if "reconcile_seconds_count" in line)

    await grid.until(grid.is_at_rest, "at rest")
    begun, before = looks(), len(grid.store.requests)
    await grid.until(lambda: looks() >= begun + 3, "it was looked at again and again")
    assert {kind for _, kind in grid.store.requests[before:]} <= {"Lease"}


async def test_promotion_happens_in_place_and_waits_where_data_may_not_move(
    two: tuple[World, Ledger],
) -> None:
    grid, ledger = two
    before = uids(grid)
    grid.patch(state="NO_MIGRATION", lite={"members": 1, "promote": 1})
    await grid.until(
        lambda: grid.condition("Progressing").get("reason") == "PromotionPending", "it is refused"
    )
    assert not member(grid, "orders-lite-0")["promoted"]
    grid.patch(state="ACTIVE")
    await grid.until(lambda: member(grid, "orders-lite-0").get("ownedPartitions"), "it has some")
    await grid.until(grid.is_at_rest, "promoted")
    assert member(grid, "orders-lite-0")["promoted"]
    assert grid.status()["migrations"]["progress"]
    grid.patch(lite={"members": 0, "promote": 0})
    await grid.until(lambda: "orders-lite-0" not in grid.pods(), "demoted, and only then removed")
    await grid.until(grid.is_at_rest, "two again")
    assert "orders-lite-0 becomes a lite member" in told(grid)
    assert {name: uid for name, uid in before.items() if "lite" not in name} == uids(grid)
    await ledger.check()


async def test_scaling_moves_data_first_and_can_be_taken_back(two: tuple[World, Ledger]) -> None:
    grid, ledger = two
    grid.patch(members=3)
    await grid.until(grid.is_at_rest, "three")
    before = uids(grid)
    await ledger.write()
    grid.patch(members=2)
    await grid.until(lambda: "Demoting" in grid.events(), "one gives its data away")
    grid.patch(members=3)
    await grid.until(grid.is_at_rest, "three again")
    assert uids(grid) == before, "nobody was restarted"
    grid.patch(members=2)
    await grid.until(lambda: "orders-2" not in grid.pods(), "it holds nothing, and is gone")
    await grid.until(grid.is_at_rest, "two")
    claims = [raw["metadata"]["name"] for raw in grid.store.of("PersistentVolumeClaim")]
    assert "data-orders-2" not in claims
    await ledger.check()


async def test_scale_down_below_the_copies_is_held_with_its_reason(
    two: tuple[World, Ledger],
) -> None:
    """The rule in CEL would refuse it; this is what happens to one that came past it."""
    grid, ledger = two
    grid.patch(members=1)
    await grid.until(lambda: grid.condition("Degraded").get("status") == "True", "it is told")
    assert "backups must be fewer" in grid.condition("Degraded")["message"]
    assert set(uids(grid)) == {"orders-0", "orders-1", "orders-lite-0"}
    await ledger.check()


async def test_rolling_restart_goes_through_stable_cluster_and_moves_nothing(
    two: tuple[World, Ledger],
) -> None:
    grid, ledger = two
    before = uids(grid)
    stamps = {each["name"]: each["ownedPartitions"] for each in grid.status()["memberList"]}
    grid.patch(podTemplate={"restartedAt": "now"})
    await grid.until(lambda: grid.status()["state"] == "STABLE_CLUSTER", "the state of a restart")
    assert not grid.holds("StateApplied")
    await grid.until(grid.is_at_rest, "all restarted")
    after = uids(grid)
    assert all(after[name] != before[name] for name in before)
    assert grid.status()["state"] == "ACTIVE"
    assert {e["name"]: e["ownedPartitions"] for e in grid.status()["memberList"]} == stamps
    await ledger.check()


async def test_a_restart_of_a_promoted_lite_pod_gives_it_its_partitions_back(
    two: tuple[World, Ledger],
) -> None:
    grid, ledger = two
    grid.patch(lite={"members": 1, "promote": 1})
    await grid.until(lambda: member(grid, "orders-lite-0").get("ownedPartitions"), "it has some")
    await grid.until(grid.is_at_rest, "promoted")
    before = uids(grid)
    grid.patch(podTemplate={"restartedAt": "now"})
    await grid.until(grid.is_at_rest, "all restarted")
    assert not set(uids(grid).values()) & set(before.values())
    assert member(grid, "orders-lite-0")["ownedPartitions"]
    await ledger.check()


async def test_a_killed_container_is_confirmed_dead_and_comes_back(
    two: tuple[World, Ledger],
) -> None:
    grid, ledger = two
    await grid.until(lambda: member(grid, "orders-1").get("container"), "who runs where is known")
    old = member(grid, "orders-1")
    grid.kubelet.kill("orders-1")
    await grid.until(lambda: "DeathConfirmed" in grid.events(), "its death is confirmed")
    await grid.until(
        lambda: member(grid, "orders-1").get("incarnation", 0) > old["incarnation"], "it is back"
    )
    await grid.until(grid.is_at_rest, "whole again")
    assert member(grid, "orders-1")["id"] == old["id"]
    await ledger.check()


async def test_hibernation_keeps_the_claims_and_wakes_with_all_data(
    two: tuple[World, Ledger],
) -> None:
    grid, ledger = two
    grid.patch(hibernate=True)
    await grid.until(lambda: grid.status().get("phase") == "Hibernated", "asleep")
    assert not grid.pods()
    assert grid.condition("Ready")["reason"] == "Hibernated"
    assert len(grid.store.of("PersistentVolumeClaim")) == 3
    grid.patch(hibernate=False)
    await grid.until(grid.is_at_rest, "awake")
    assert grid.status()["state"] == "ACTIVE"
    await ledger.check()


async def test_claims_grow_in_place(two: tuple[World, Ledger]) -> None:
    grid, _ = two
    before = uids(grid)
    grid.patch(persistence={"size": "2Gi"})
    await grid.until(grid.is_at_rest, "grown")
    sizes = [raw["status"]["capacity"]["storage"] for raw in grid.store.of("PersistentVolumeClaim")]
    assert sizes == ["2Gi"] * 3
    assert uids(grid) == before


def backup_status(grid: World, name: str) -> dict[str, Any]:
    """Of a Backup."""
    found: dict[str, Any] = grid.store.get(Address("Backup", NAMESPACE, name)).get("status", {})
    return found


async def test_backups_are_kept_by_every_member(two: tuple[World, Ledger]) -> None:
    grid, ledger = two
    for name in ("first", "second"):
        body = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"cluster": "orders"}}
        grid.store.create("Backup", body)
        await grid.until(partial(is_complete, grid, name), f"the {name} backup")
        parts = [each["name"] for each in backup_status(grid, name)["members"]]
        assert parts == ["orders-0", "orders-1", "orders-lite-0"]
        await ledger.write()
    second = backup_status(grid, "second")
    assert int(second["copied"]) < int(second["size"]), "the second has only what is new"
    await grid.until(lambda: grid.holds("BackedUp"), "it is told")
    assert grid.status()["lastBackup"] == "second"


def is_complete(grid: World, name: str) -> bool:
    """Whether every member keeps its part."""
    return bool(backup_status(grid, name).get("phase") == "Completed")


@pytest.mark.parametrize("reclaim", ["Retain", "Delete"])
async def test_deletion_is_graceful_and_treats_claims_as_declared(
    tmp_path: Path, reclaim: str
) -> None:
    async with world(tmp_path) as grid:
        grid.start()
        grid.declare(members=2, persistence={"size": "1Gi", "reclaim": reclaim})
        await grid.until(grid.is_at_rest, "a grid of two")
        address = Address("Cluster", NAMESPACE, "orders")
        assert FINALIZER in grid.cluster()["metadata"]["finalizers"]
        grid.store.delete(address)
        await grid.until(lambda: address not in grid.store.objects, "the Cluster is gone")
        await grid.until(lambda: not grid.store.of("StatefulSet"), "its objects are gone")
        assert len(grid.store.of("PersistentVolumeClaim")) == (2 if reclaim == "Retain" else 0)


async def test_another_operator_goes_on_with_a_restart(tmp_path: Path) -> None:
    """1. the first begins a rolling restart 2. it dies 3. the second leads and ends it"""
    async with world(tmp_path) as grid:
        grid.start("first")
        grid.declare(members=2)
        await grid.until(grid.is_at_rest, "a grid of two")
        ledger = Ledger(grid)
        await ledger.write()
        before = uids(grid)
        grid.patch(podTemplate={"restartedAt": "now"})
        await grid.until(lambda: len({*uids(grid).values()} - {*before.values()}), "one is new")
        grid.kill("first")
        lease = grid.store.of("Lease")[0]
        lease["spec"]["holderIdentity"] = ""  # thirty seconds later
        grid.store.put(Address("Lease", "default", "holdfast-operator"), lease)
        grid.start("second")
        await grid.until(grid.is_at_rest, "the second ends it")
        assert all(uid != before[name] for name, uid in uids(grid).items())
        await ledger.check()


async def test_a_bad_spec_touches_nothing_that_runs(two: tuple[World, Ledger]) -> None:
    grid, ledger = two
    before = uids(grid)
    grid.patch(podTemplate={"env": [{"name": "HOLDFAST_NAME", "value": "me"}]})
    await grid.until(lambda: grid.status()["phase"] == "Refused", "it is refused")
    assert "HOLDFAST_NAME is set by the operator" in grid.condition("Degraded")["message"]
    assert not grid.holds("Ready")
    assert uids(grid) == before
    grid.patch(podTemplate={"env": []})
    await grid.until(grid.is_at_rest, "as before")
    await ledger.check()


async def test_a_cache_that_lost_all_its_members_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. a grid without files 2. all die at once 3. nobody may found 4. the operator says so"""
    monkeypatch.setattr(losing, "PATIENCE", timedelta(seconds=3))
    async with world(tmp_path) as grid:
        grid.start()
        grid.declare(members=2, persistence={"enabled": False}, upgradeStrategy="RollingMigrate")
        await grid.until(grid.is_at_rest, "a grid of two")
        await grid.until(lambda: member(grid, "orders-1").get("container"), "who runs where")
        first = grid.status()["clusterId"]
        for pod in ("orders-0", "orders-1"):
            grid.kubelet.kill(pod)
        await grid.until(lambda: "GridLost" in grid.events(), "it is told")
        await grid.until(lambda: grid.status()["clusterId"] not in ("", first), "another grid")
        await grid.until(grid.is_at_rest, "at rest")
