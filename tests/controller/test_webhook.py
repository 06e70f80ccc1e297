"""The webhook's certificates, and the webhook over TLS."""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from cryptography import x509

from holdfast_operator.crds import KINDS
from holdfast_operator.kubernetes.access import Access
from holdfast_operator.kubernetes.client import Kubernetes
from holdfast_operator.running.metrics import Metrics
from holdfast_operator.running.serving import Doors
from holdfast_operator.webhook import keeping
from holdfast_operator.webhook.certificates import LIFE, RENEW_LEFT, make, needs_renewal, of_data
from holdfast_operator.webhook.keeping import Keeper
from tests.controller.api_server import Address, ApiServer
from tests.shell.waiting import until

NOW = datetime(2026, 11, 18, tzinfo=UTC)
NAMES = ["localhost"]
HOST = "rel.shop.svc"
HOOKS = Address("ValidatingWebhookConfiguration", "", "hooks")


def test_certificates_are_renewed_in_time_and_for_other_names() -> None:
    pair = make(NAMES, NOW)
    assert not needs_renewal(pair, NAMES, NOW + LIFE - RENEW_LEFT - timedelta(hours=1))
    assert needs_renewal(pair, NAMES, NOW + LIFE - RENEW_LEFT + timedelta(hours=1))
    assert needs_renewal(pair, ["other"], NOW)
    assert needs_renewal(None, NAMES, NOW)


def test_an_older_authority_is_believed_to_its_end() -> None:
    first = make(NAMES, NOW)
    second = make(NAMES, NOW + timedelta(days=60), first)
    assert len(x509.load_pem_x509_certificates(second.bundle)) == 2
    third = make(NAMES, NOW + timedelta(days=120), second)
    assert len(x509.load_pem_x509_certificates(third.bundle)) == 2, "the first one has ended"


def test_a_secret_that_makes_no_sense_is_none() -> None:
    pair = make(NAMES, NOW)
    assert of_data(pair.data()) == pair
    assert of_data({}) is None
    assert of_data({**pair.data(), "tls.crt": "!"}) is None


def keeper(api: Kubernetes) -> Keeper:
    return Keeper(api, "shop", "rel", secret="hook", configuration="hooks")


def hooks(server: ApiServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.store.get(HOOKS)["webhooks"]
    return found


async def test_replicas_share_a_certificate_and_the_api_server_learns_it() -> None:
    """And it is changed under a server that goes on."""
    async with ApiServer().serving() as server, Kubernetes(Access(server.url)) as api:
        body = {"metadata": {"name": "hooks"}, "webhooks": [{"name": "a", "clientConfig": {}}]}
        server.store.create("ValidatingWebhookConfiguration", body)
        first, second = keeper(api), keeper(api)
        before_and_after = [first.has_certificate]
        await first.keep()
        await second.keep()
        assert [*before_and_after, first.has_certificate] == [False, True]
        assert len(server.store.of("Secret")) == 1
        bundle = base64.b64decode(hooks(server)[0]["clientConfig"]["caBundle"])
        doors = Doors(Metrics(), lambda: "")

        async def review(request: dict[str, Any]) -> dict[str, Any]:
            return {"seen": request}

        port = await doors.open_admission("127.0.0.1", 0, review, second.context)
        assert await asked(port, bundle) == {"seen": {"a": 1}}
        old = server.store.get(Address("Secret", "shop", "hook"))
        aged = make(NAMES, datetime.now(UTC) - LIFE + timedelta(days=1))
        server.store.put(Address("Secret", "shop", "hook"), {**old, "data": aged.data()})
        before = len(server.store.requests)
        await second.keep()
        assert of_data(server.store.of("Secret")[0]["data"]) != aged
        bundle = base64.b64decode(hooks(server)[0]["clientConfig"]["caBundle"])
        assert await asked(port, bundle) == {"seen": {"a": 1}}
        assert len(server.store.requests) > before
        await second.keep()
        await doors.close()


async def test_the_api_server_is_told_when_somebody_answers() -> None:
    """What can't be reviewed is refused, so there is no webhook before. It stays, come what may."""
    async with ApiServer().serving() as server, Kubernetes(Access(server.url)) as api:
        body: dict[str, Any] = {"metadata": {"name": "hooks"}, "webhooks": []}
        server.store.create("ValidatingWebhookConfiguration", body)
        one = keeper(api)
        assert not await one.keep()
        assert one.has_certificate
        labels = {"kubernetes.io/service-name": "rel"}
        meta = {"name": "rel-1", "namespace": "shop", "labels": labels}
        for ready in (False, True, False, True):
            ends = [{"conditions": {"ready": ready}}]
            server.store.put(
                Address("EndpointSlice", "shop", "rel-1"), {"metadata": meta, "endpoints": ends}
            )
            assert not await one.keep(), "every node is to know it"
        assert not hooks(server)
        assert await one.keep()
        (hook,) = hooks(server)
        assert hook["failurePolicy"] == "Fail"
        assert hook["rules"][0]["resources"] == [kind.plural for kind in KINDS]
        server.store.put(Address("EndpointSlice", "shop", "rel-1"), {"metadata": meta})
        assert await one.keep()
        assert hooks(server) == [hook]


async def asked(
    port: int, bundle: bytes, body: dict[str, Any] | None = None, host: str = HOST
) -> Any:
    """As the API server asks: it believes the bundle, and knows the Service's name."""
    context = ssl.create_default_context(cadata=bundle.decode())
    url, known = f"https://127.0.0.1:{port}/validate", {"sni_hostname": host}
    async with httpx.AsyncClient(verify=context) as client:
        answer = await client.post(url, json=body or {"a": 1}, extensions=known)
    return answer.json()


async def test_health_readiness_and_metrics() -> None:
    metrics, reasons = Metrics(), ["not yet"]
    metrics.count("things_total", "Things.", kind='a "b"\n')
    metrics.took(0.02)
    metrics.took(99.0)
    metrics.of_request("get", "pods", 200)
    metrics.gauge("now", "A number.", lambda: {(): 3.0})
    doors = Doors(metrics, lambda: reasons[0])
    port = await doors.open_plain("127.0.0.1", 0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        assert (await client.get("/healthz")).status_code == 200
        unready = await client.get("/readyz")
        assert (unready.status_code, unready.json()["reason"]) == (503, "not yet")
        reasons[0] = ""
        assert (await client.get("/readyz")).status_code == 200
        text = (await client.get("/metrics")).text
    assert 'holdfast_operator_things_total{kind="a \\"b\\"\\n"} 1.0' in text
    assert 'holdfast_operator_reconcile_seconds_bucket{le="0.03"} 1.0' in text
    assert 'holdfast_operator_reconcile_seconds_bucket{le="+Inf"} 2.0' in text
    assert "holdfast_operator_now 3.0" in text
    await doors.close()


async def test_a_certificate_that_can_not_be_kept_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. there is no configuration yet 2. it is told 3. it comes, and learns the bundle"""
    monkeypatch.setattr(keeping, "AGAIN_SECONDS", 0.01)
    async with ApiServer().serving() as server, Kubernetes(Access(server.url)) as api:
        task = asyncio.get_running_loop().create_task(keeper(api).run())
        await until(lambda: "could not be looked after" in caplog.text, "it is told")
        body = {"metadata": {"name": "hooks"}, "webhooks": [{"name": "a", "clientConfig": {}}]}
        server.store.create("ValidatingWebhookConfiguration", body)
        await until(lambda: "caBundle" in hooks(server)[0]["clientConfig"], "it is learnt")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_of_two_replicas_that_make_a_certificate_one_wins() -> None:
    """Both find none; the second is refused, and takes the first one's."""
    async with ApiServer().serving() as server, Kubernetes(Access(server.url)) as api:
        body = {"metadata": {"name": "hooks"}, "webhooks": [{"name": "a", "clientConfig": {}}]}
        server.store.create("ValidatingWebhookConfiguration", body)
        first, second = keeper(api), keeper(api)
        results = await asyncio.gather(first.keep(), second.keep(), return_exceptions=True)
        await asyncio.gather(first.keep(), second.keep())
        assert first._loaded == second._loaded, results
        assert len(server.store.of("Secret")) == 1
