"""The shell without a grid: who acts, what is only printed, what is done about errors."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from holdfast.client.http import HttpClient
from holdfast_operator.actions import Ask, ChangeState, Demote, Promote
from holdfast_operator.crds import KINDS
from holdfast_operator.crds import main as write_definitions
from holdfast_operator.model.cluster import State
from holdfast_operator.names import Role
from holdfast_operator.running.asking import Asking
from holdfast_operator.running.cache import Cache
from holdfast_operator.running.looking import Eye
from tests.controller.api_server import Address, ApiServer, Refused
from tests.controller.sample import pod
from tests.controller.test_webhook import asked
from tests.controller.world import NAMESPACE, World, world
from tests.shell.waiting import until

BAD: dict[str, Any] = {"podTemplate": {"env": [{"name": "HOLDFAST_NAME", "value": "x"}]}}
"""A Cluster of which only the status is written: no pod is ever made."""


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


async def test_a_dry_run_says_and_does_nothing(
    empty: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    empty.start("dry", "--dry-run")
    empty.declare()
    await empty.until(lambda: "would apply StatefulSet orders" in caplog.text, "it is said")
    assert "would say" in caplog.text
    assert not empty.store.of("StatefulSet")
    assert not empty.store.of("Lease")
    assert empty.status() == {}


async def test_one_of_two_acts_and_the_other_takes_over(empty: World) -> None:
    first = empty.start("first")
    await empty.until(lambda: first.leadership.leads, "the first leads")
    second = empty.start("second")
    empty.declare(**BAD)
    await empty.until(lambda: empty.status().get("phase") == "Refused", "the first has looked")
    assert not second.leadership.leads
    await empty.stop("first")
    await second.leadership.step()
    empty.patch(podTemplate={"env": [{"name": "", "value": "x"}]})
    await empty.until(
        lambda: "has no name" in empty.condition("Degraded").get("message", ""), "the second acts"
    )


async def test_an_error_is_counted_and_tried_again(empty: World) -> None:
    """1. the API server refuses every status 2. it is counted 3. it takes them 4. it is written"""
    change, broken = empty.store.change, [True]

    def refusing(address: Address, body: dict[str, Any], part: str = "") -> dict[str, Any]:
        if part == "status" and broken[0]:
            raise RuntimeError("the API server breaks")
        return change(address, body, part)

    empty.store.change = refusing  # type: ignore[method-assign]  # a server that fails
    operator = empty.start()
    empty.declare(**BAD)
    text = 'reconciles_total{result="error"}'
    await empty.until(lambda: text in operator.metrics.text(), "it is counted")
    broken[0] = False
    await empty.until(lambda: empty.status().get("phase") == "Refused", "it is written")


async def test_what_kubernetes_refuses_is_told_and_holds_nothing_else(empty: World) -> None:
    """Services that a quota forbids; the rest is made."""
    create = empty.store.create

    def refusing(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind == "Service":
            raise Refused(403, "exceeded quota")
        return create(kind, body)

    empty.store.create = refusing  # type: ignore[method-assign]  # a server with a quota
    empty.start()
    empty.declare(hibernate=True)
    await empty.until(lambda: "Refused" in empty.events(), "it is told")
    assert empty.store.of("StatefulSet"), "what comes after it is made"


async def test_a_cluster_that_is_gone_is_looked_at_no_more(empty: World) -> None:
    operator = empty.start()
    empty.declare(**BAD)
    await empty.until(lambda: empty.status().get("phase") == "Refused", "it is looked at")
    assert "clusters 1.0" in operator.metrics.text()
    assert 'cluster_safe{cluster="orders"' in operator.metrics.text()
    empty.store.delete(Address("Cluster", NAMESPACE, "orders"))
    await empty.until(lambda: "clusters 0.0" in operator.metrics.text(), "its loop has ended")


async def test_a_spec_that_can_not_be_read_is_told(empty: World) -> None:
    empty.start()
    empty.declare(members="many")
    await empty.until(lambda: empty.status().get("phase") == "Refused", "it is told")
    assert "spec.members" in empty.condition("Degraded")["message"]


async def test_the_webhook_of_an_operator(empty: World) -> None:
    hooks = {"metadata": {"name": "hooks"}, "webhooks": [{"name": "a", "clientConfig": {}}]}
    empty.store.create("ValidatingWebhookConfiguration", hooks)
    flags = ("--webhook-port", "0", "--webhook-service", "rel", "--webhook-configuration", "hooks")
    operator = empty.start("first", *flags, "--nodes", "--own-namespace", "sys")
    assert operator.unready()
    await empty.until(lambda: not operator.unready(), "it is ready")
    assert operator.keeper is not None
    secret = empty.store.get(Address("Secret", "sys", "holdfast-operator-webhook"))
    bundle = base64.b64decode(secret["data"]["ca.crt"])
    request = {
        "uid": "u",
        "kind": {"kind": "Cluster"},
        "operation": "CREATE",
        "object": {"metadata": {}, "spec": BAD},
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    port = operator.doors.ports[-1]
    answer = await asked(port, bundle, body, "rel.sys.svc")
    assert not answer["response"]["allowed"]
    assert 'reviews_total{allowed="false"} 1.0' in operator.metrics.text()


# Asking -------------------------------------------------------------------------------------------


def member(code: int, body: dict[str, Any], kind: str = "application/problem+json") -> HttpClient:
    """One that always answers the same."""
    headers = {"content-type": kind}
    transport = httpx.MockTransport(lambda _: httpx.Response(code, json=body, headers=headers))
    return HttpClient("http://member", transport=transport)


PROBLEM = {
    "type": "urn:holdfast:problem:illegal-state",
    "title": "not now",
    "status": 409,
    "detail": "3 migrations are running",
    "instance": "/v1/cluster/state",
}


@pytest.mark.parametrize("ask", [ChangeState(State.FROZEN), Promote("m"), Demote("m")], ids=str)
async def test_a_refusal_is_remembered_until_nobody_asks(ask: Ask) -> None:
    ended = []
    asking = Asking(lambda: ended.append(1))
    asking.want({ask.key: ask}, None)
    assert not asking.asked, "there is nobody to be asked"
    asking.want({ask.key: ask}, member(409, PROBLEM))
    asking.want({ask.key: ask}, member(500, {}))
    assert asking.asked == {ask.key}, "once at a time"
    await until(lambda: ended, "it is answered")
    assert asking.refusals[ask.key].kind == "IllegalState"
    assert asking.refusals[ask.key].message == "3 migrations are running"
    asking.want({}, None)
    assert not asking.refusals


async def test_silence_is_a_refusal_and_success_clears_it() -> None:
    ended: list[int] = []
    asking = Asking(lambda: ended.append(1))
    ask = ChangeState(State.FROZEN)
    asking.want({ask.key: ask}, HttpClient("http://127.0.0.1:1"))
    await until(lambda: ended, "it is told")
    assert asking.refusals[ask.key].kind == "NoAnswer"
    done = {"state": "FROZEN", "term": 1, "version": 1}
    asking.want({ask.key: ask}, member(200, done, "application/json"))
    await until(lambda: len(ended) == 2, "it is done")
    assert not asking.refusals


async def test_what_is_not_wanted_any_more_is_not_asked_on() -> None:
    never = asyncio.Event()

    async def hang(_: httpx.Request) -> httpx.Response:
        await never.wait()
        return httpx.Response(200)

    ended: list[int] = []
    asking = Asking(lambda: ended.append(1))
    client = HttpClient("http://member", transport=httpx.MockTransport(hang))
    asking.want({"kind of m": Demote("m"), "state": ChangeState(State.FROZEN)}, client)
    await until(lambda: len(asking.asked) == 2, "both are asked")
    asking.stop("kind of m")
    asking.stop("nothing")
    await until(lambda: ended, "it has ended")
    assert asking.asked == {"state"}
    asking.close()
    await until(lambda: len(ended) == 2, "all have ended")


# Looking ------------------------------------------------------------------------------------------


async def test_nobody_there_is_no_grid() -> None:
    eye = Eye()
    silent = pod("orders-0", Role.DATA, 0, "mark", ip="127.255.255.254")
    without = pod("orders-1", Role.DATA, 1, "mark", ip="")
    assert await eye.look([silent, without]) == (None, None)
    assert eye.client is None
    assert await eye.catalogue() == []
    assert await eye.stays([silent, without], 1, None, lambda _: silent) == []
    await eye.close()


def test_zones_are_known_where_nodes_are_seen() -> None:
    node = {"metadata": {"name": "a", "labels": {"topology.kubernetes.io/zone": "z"}}}
    bare = {"metadata": {"name": "b"}}
    indices: Any = {"Node": {("", "a"): [node], ("", "b"): [bare]}}
    assert Cache(indices).zones() == {"a": "z", "b": ""}
    assert Cache(indices, sees_nodes=False).zones() is None
    assert Cache().zones() is None
    assert Cache().cluster(("shop", "orders")) is None


# The program --------------------------------------------------------------------------------------


def test_the_program_ends_with_a_sentence_where_there_is_no_api_server(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "holdfast_operator"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert "no KUBECONFIG" in json.loads(done.stderr.splitlines()[-1])["message"]


def start(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """With its log in a file."""
    with log.open("wb") as file:
        return subprocess.Popen(command, env=environment, stderr=file)


async def test_the_program_leads_and_ends_in_good_order(tmp_path: Path) -> None:
    async with ApiServer().serving() as server:
        named = {"name": "a"}
        config = {
            "current-context": "a",
            "contexts": [{**named, "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{**named, "cluster": {"server": server.url}}],
            "users": [{**named, "user": {}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        environment = {**os.environ, "KUBECONFIG": str(tmp_path / "config")}
        command = [sys.executable, "-m", "holdfast_operator", "--port", "0", "--identity", "me"]
        log = tmp_path / "log"
        process = start(command, environment, log)
        try:
            await until(lambda: "me leads" in log.read_text(), "it leads")
            process.send_signal(signal.SIGTERM)
            await until(lambda: process.poll() is not None, "it ends")
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, log.read_text()
        assert server.store.of("Lease")[0]["spec"]["holderIdentity"] == ""


def test_definitions_are_written(tmp_path: Path) -> None:
    write_definitions(str(tmp_path))
    assert len(list(tmp_path.iterdir())) == len(KINDS)
