"""`kubectl holdfast`: what it prints, what it patches, and what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast_operator.kubectl import main as plugin
from holdfast_operator.kubernetes.access import Access
from holdfast_operator.kubernetes.client import Kubernetes
from tests.controller.api_server import Address, ApiServer

ORDERS = Address("Cluster", "shop", "orders")
STATUS: dict[str, Any] = {
    "phase": "Running",
    "state": "ACTIVE",
    "safe": True,
    "members": "3/3",
    "liteMembers": "0/0",
    "pendingState": {"target": "FROZEN", "reason": "MigrationsRunning", "message": "3 run"},
    "pending": "FROZEN",
    "migrations": {
        "planned": 10, "completed": 4, "remaining": 6, "running": 2, "bytes": 700_000,
        "ratePerSecond": 3.5,
    },
    "memberList": [
        {"name": "orders-0", "state": "Ready", "kind": "data", "master": True,
         "ownedPartitions": 91, "backups": 90, "reason": ""},
    ],
    "conditions": [
        {"type": "Safe", "status": "True", "reason": "AllCopiesInSync", "message": "every copy"},
    ],
}  # fmt: skip


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer().serving() as made:
        body = {"metadata": {"name": "orders", "namespace": "shop"}, "spec": {"state": "ACTIVE"}}
        made.store.create("Cluster", {**body, "status": STATUS})
        yield made


async def run(server: ApiServer, *words: str) -> tuple[int, list[str]]:
    """Exit code and lines."""
    said: list[str] = []
    given = plugin.parser().parse_args(["-n", "shop", *words])
    async with Kubernetes(Access(server.url)) as api:
        return await plugin.run(given, api, said.append), said


def settle(server: ApiServer, kind: str, truth: str) -> None:
    """What an operator would say."""
    raw = server.store.get(ORDERS)
    condition = {
        "type": kind,
        "status": truth,
        "reason": "Applied",
        "message": "it is so",
        "observedGeneration": raw["metadata"]["generation"],
    }
    server.store.change(ORDERS, {"status": {**STATUS, "conditions": [condition]}}, "status")


async def test_status_at_a_glance(server: ApiServer) -> None:
    code, lines = await run(server, "status", "orders")
    text = "\n".join(lines)
    assert code == 0
    assert "shop/orders: Running" in text
    assert "ACTIVE -> FROZEN (MigrationsRunning: 3 run)" in text
    assert "4 of 10 migrations, 2 running, 0.7 MB, 3.5 a second" in text
    assert "master  owns    91, backs up    90" in text
    assert "AllCopiesInSync: every copy" in text


async def test_the_state_is_shown_or_declared(server: ApiServer) -> None:
    assert await run(server, "state", "orders") == (0, ["ACTIVE (pending: FROZEN)"])
    code, lines = await run(server, "state", "orders", "FROZEN", "--wait", "0")
    assert (code, lines) == (0, ["declared: {'state': 'FROZEN'}"])
    assert server.store.get(ORDERS)["spec"]["state"] == "FROZEN"


async def test_it_waits_for_the_operator_s_word_of_this_generation(server: ApiServer) -> None:
    """1. an older True counts for nothing 2. the reason is told 3. then it is so"""
    settle(server, "StateApplied", "True")
    job = asyncio.create_task(run(server, "state", "orders", "FROZEN", "--wait", "30"))
    while server.store.get(ORDERS)["spec"]["state"] != "FROZEN":
        await asyncio.wait([job], timeout=0.01)
    settle(server, "StateApplied", "False")
    await asyncio.wait([job], timeout=plugin.LOOK_SECONDS * 3)
    assert not job.done()
    settle(server, "StateApplied", "True")
    code, lines = await job
    assert (code, lines[-1]) == (0, "done")
    assert "Applied: it is so" in lines


async def test_what_does_not_come_in_time_is_told(server: ApiServer) -> None:
    code, lines = await run(server, "promote", "orders", "1", "--wait", "0.1")
    assert (code, lines[-1]) == (1, "not in time; it stays declared")
    assert server.store.get(ORDERS)["spec"]["lite"] == {"promote": 1}


async def test_migrations_are_watched_to_their_end(server: ApiServer) -> None:
    assert (await run(server, "migrations", "orders"))[1] == [
        "4 of 10 migrations, 2 running, 0.7 MB, 3.5 a second"
    ]
    job = asyncio.create_task(run(server, "migrations", "orders", "--watch"))
    await asyncio.wait([job], timeout=0.2)
    server.store.change(ORDERS, {"status": {**STATUS, "migrations": {"remaining": 0}}}, "status")
    assert (await job)[1][-1] == "nothing moves"


def test_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert plugin.answer(["status", "orders"], said.append, said.append) == 3
    assert "can't be asked" in said[-1]
    with pytest.raises(SystemExit) as ended:
        plugin.answer(["state", "orders", "PAUSED"], said.append, said.append)
    assert ended.value.code == 2


async def test_a_refusal_is_told(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "shop"}}],
        "clusters": [{"name": "a", "cluster": {"server": server.url}}],
        "users": [{"name": "a", "user": {}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    args = (["status", "other"], said.append, said.append)
    assert await asyncio.to_thread(plugin.answer, *args) == 1
    assert "not found" in said[-1]
