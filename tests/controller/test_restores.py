"""Backups that leave the members, and new grids made of them: the operator with real members.

Jobs and what comes before a member are real processes, too; a claim is a folder, the object store a
server on this machine.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.controller.api_server import Address, Raw
from tests.controller.ledger import Ledger
from tests.controller.world import NAMESPACE, World, world
from tests.storage.test_depots import BUCKET, object_server


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[tuple[World, Ledger]]:
    """One operator, a grid of two members, at rest, with data."""
    async with world(tmp_path) as made:
        made.start()
        made.declare(members=2)
        await made.until(made.is_at_rest, "a grid of two")
        ledger = Ledger(made)
        await ledger.write()
        yield made, ledger


def declare(grid: World, kind: str, name: str, **spec: Any) -> Raw:
    """Any resource of ours."""
    meta = {"name": name, "namespace": NAMESPACE}
    return grid.store.create(kind, {"metadata": meta, "spec": spec})


def status(grid: World, kind: str, name: str) -> dict[str, Any]:
    """Of a resource."""
    found: dict[str, Any] = grid.store.get(Address(kind, NAMESPACE, name)).get("status", {})
    return found


def phase(grid: World, kind: str, name: str) -> str:
    """Of a Backup or a Restore."""
    found: str = status(grid, kind, name).get("phase", "")
    return found


async def until(grid: World, kind: str, name: str, wanted: str) -> dict[str, Any]:
    """Until it is in that phase; one that failed by then says why."""
    finals = {wanted, "Failed"}
    await grid.until(lambda: phase(grid, kind, name) in finals, f"{kind} {name} is {wanted}")
    found = status(grid, kind, name)
    assert found["phase"] == wanted, found
    return found


def small(members: int, partitions: int, **more: Any) -> dict[str, Any]:
    """The spec of a new Cluster."""
    return {
        "members": members,
        "partitions": partitions,
        "backups": min(1, members - 1),
        "persistence": {"size": "1Gi"},
        **more,
    }


async def end(grid: World, name: str) -> None:
    """Delete a Cluster and its claims."""
    address = Address("Cluster", NAMESPACE, name)
    grid.patch(name, persistence={"size": "1Gi", "reclaim": "Delete"})
    grid.store.delete(address)
    await grid.until(lambda: address not in grid.store.objects, f"{name} is gone")
    await grid.until(
        lambda: not grid.store.of("Pod", NAMESPACE, f"holdfast.io/cluster={name}"), "its pods too"
    )


async def test_a_backup_becomes_three_grids_of_other_names_and_sizes(
    one: tuple[World, Ledger],
) -> None:
    """1. A backup stays with the members; more is written. 2. Three Restores of it, into one, three
    and four members, with other partitions. 3. Each serves what was there at the backup, and
    nothing of later; the first grid goes on. 4. No pod of them restarts at the end."""
    grid, ledger = one
    declare(grid, "Backup", "before", cluster="orders")
    await until(grid, "Backup", "before", "Completed")
    then = dict(ledger.kept)
    await ledger.write()
    for size, partitions in ((1, 7), (3, 32), (4, 271)):
        name = f"copy-{size}"
        declare(
            grid,
            "Restore",
            name,
            source={"backup": "before"},
            cluster={"name": name, "spec": small(size, partitions)},
        )
        told = await until(grid, "Restore", name, "Completed")
        assert told["members"] == f"{size}/{size}"
        assert told["grid"] == "shop/orders"
        conditions = {each["type"]: each["status"] for each in told["conditions"]}
        assert conditions == {"Complete": "True", "Failed": "False"}
        await grid.until(partial(grid.is_at_rest, name), f"{name} is at rest")
        await Ledger(grid, name, then).check()
        assert await Ledger(grid, name, then).count() == len(then)
        sets = grid.store.get(Address("StatefulSet", NAMESPACE, name))
        assert sets["spec"]["template"]["spec"]["initContainers"] == []
        pods = grid.store.of("Pod", NAMESPACE, f"holdfast.io/cluster={name}")
        assert all(raw["spec"]["initContainers"] for raw in pods), "the same pods as ever"
        await end(grid, name)
    events = grid.events()
    assert events.count("Restored") == 3
    await ledger.check()


async def test_a_backup_in_a_claim_outlives_its_grid(one: tuple[World, Ledger]) -> None:
    """1. Two backups to a claim, the second with only what is new. 2. The grid is deleted, with its
    claims. 3. The newest backup becomes a grid of the same name, with members of two processes."""
    grid, ledger = one
    place = {"claim": "vault", "path": "deep/down"}
    for name in ("first", "second"):
        await ledger.write()
        declare(grid, "Backup", name, cluster="orders", target=place)
        told = await until(grid, "Backup", name, "Completed")
        assert told["place"] == "claim vault, deep/down"
    assert (grid.kubelet.workers.claims / "vault/deep/down/backups").is_dir()
    await end(grid, "orders")
    declare(
        grid,
        "Restore",
        "again",
        source={"kept": place},
        cluster={"name": "orders", "spec": small(2, 64, processesPerPod=2)},
    )
    told = await until(grid, "Restore", "again", "Completed")
    assert told["backup"].startswith("second-")
    await grid.until(grid.is_at_rest, "at rest")
    await ledger.check()


async def test_a_backup_in_an_object_store(one: tuple[World, Ledger], tmp_path: Path) -> None:
    grid, ledger = one
    with object_server(tmp_path / "objects.log") as environment:
        url = environment.pop("AWS_ENDPOINT_URL")
        data = {key: base64.b64encode(text.encode()).decode() for key, text in environment.items()}
        meta = {"name": "keys", "namespace": NAMESPACE}
        grid.store.create("Secret", {"metadata": meta, "data": data})
        store = {"bucket": BUCKET, "prefix": "grids", "endpoint": url, "credentials": "keys"}
        declare(grid, "Backup", "far", cluster="orders", target={"objectStore": store})
        told = await until(grid, "Backup", "far", "Completed")
        assert told["place"] == f"s3://{BUCKET}/grids"
        declare(
            grid,
            "Restore",
            "near",
            source={"backup": "far"},
            cluster={"name": "copy", "spec": small(1, 16)},
        )
        await until(grid, "Restore", "near", "Completed")
        await grid.until(partial(grid.is_at_rest, "copy"), "at rest")
        await Ledger(grid, "copy", ledger.kept).check()


async def test_what_can_not_be_restored_is_told_and_nothing_is_made(
    one: tuple[World, Ledger],
) -> None:
    grid, ledger = one
    declare(grid, "Backup", "whole", cluster="orders")
    await until(grid, "Backup", "whole", "Completed")

    async def refused(name: str, cluster: dict[str, Any], source: dict[str, Any]) -> str:
        declare(grid, "Restore", name, source=source, cluster=cluster)
        await grid.until(lambda: phase(grid, "Restore", name) == "Failed", f"{name} is refused")
        told: str = status(grid, "Restore", name)["message"]
        return told

    whole, new = {"backup": "whole"}, {"name": "copy", "spec": small(1, 8)}
    taken = await refused("taken", {"name": "orders", "spec": small(2, 8)}, whole)
    assert taken == "there is a Cluster orders already: a Restore makes a new one"
    level = {"name": "copy", "spec": small(1, 8, compatibilityLevel=2)}
    assert "of compatibilityLevel 3" in await refused("level", level, whole)
    nothing = await refused("nothing", new, {"kept": {"claim": "empty"}})
    assert "there is no whole backup" in nothing
    bare = {**small(1, 8), "persistence": {"enabled": False}, "upgradeStrategy": "OnDelete"}
    files = await refused("files", {"name": "copy", "spec": bare}, whole)
    assert "needs persistence.enabled" in files
    claim = {"metadata": {"name": "data-copy-0", "namespace": NAMESPACE,
                          "labels": {"holdfast.io/cluster": "copy"}},
             "spec": {"resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    grid.store.create("PersistentVolumeClaim", claim)
    left = await refused("left", new, whole)
    assert "claims of an earlier Cluster copy are there: data-copy-0" in left
    assert len(grid.store.of("Cluster")) == 1
    assert grid.events().count("RestoreFailed") == 5
    await ledger.check()


async def test_another_operator_goes_on_with_a_restore(one: tuple[World, Ledger]) -> None:
    """1. The Cluster is being filled. 2. The operator dies. 3. The Restore is deleted, which
    changes nothing for the Cluster. 4. Another operator ends it."""
    grid, ledger = one
    declare(grid, "Backup", "whole", cluster="orders")
    await until(grid, "Backup", "whole", "Completed")
    declare(grid, "Restore", "go", source={"backup": "whole"},
            cluster={"name": "copy", "spec": small(2, 16)})  # fmt: skip
    await grid.until(lambda: phase(grid, "Restore", "go") == "Filling", "it is being filled")
    copy = Address("Cluster", NAMESPACE, "copy")
    await grid.until(lambda: copy in grid.store.objects, "the Cluster is declared")
    grid.kill("first")
    grid.store.delete(Address("Restore", NAMESPACE, "go"))
    lease = grid.store.of("Lease")[0]
    lease["spec"]["holderIdentity"] = ""  # thirty seconds later
    grid.store.put(Address("Lease", "default", "holdfast-operator"), lease)
    grid.start("second")
    await grid.until(partial(grid.is_at_rest, "copy"), "the second ends it")
    await Ledger(grid, "copy", ledger.kept).check()


async def test_a_schedule_makes_backups_and_removes_old_ones(
    one: tuple[World, Ledger],
) -> None:
    """1. It was made an hour ago, for every minute: one is made. 2. As if another hour had passed,
    twice: two are kept, by the members and in the claim."""
    grid, ledger = one
    place = {"claim": "vault"}
    declare(grid, "BackupSchedule", "often", cluster="orders", schedule="* * * * *", keep=2,
            target=place)  # fmt: skip
    address = Address("BackupSchedule", NAMESPACE, "often")
    seen: set[str] = set()

    def fresh() -> set[str]:
        return {
            raw["metadata"]["name"]
            for raw in grid.store.of("Backup")
            if raw.get("status", {}).get("phase") == "Completed"
        } - seen

    for number in range(3):
        raw = grid.store.get(address)
        early = f"2026-01-0{number + 1}T00:00:00Z"
        raw["metadata"]["creationTimestamp"] = early
        raw["status"] = {"lastTime": early}
        grid.store.put(address, raw)
        await grid.until(fresh, f"backup {number}")
        seen |= fresh()
        await ledger.write()
    grid.store.change(address, {"spec": {"suspend": True}})
    await grid.until(lambda: len(grid.store.of("Backup")) == 2, "the oldest are removed")
    kept = {status(grid, "Backup", raw["metadata"]["name"])["keptAs"]
            for raw in grid.store.of("Backup")}  # fmt: skip
    listed = (grid.kubelet.workers.claims / "vault/backups/backups").iterdir()
    assert kept <= {each.stem for each in listed}
    await grid.until(lambda: status(grid, "BackupSchedule", "often").get("message") == "suspended",
                     "it is suspended")  # fmt: skip
