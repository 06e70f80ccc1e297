"""The way to an API server and the verbs: against the small one in memory."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from holdfast_operator.kubernetes import leadership as leading
from holdfast_operator.kubernetes.access import Access, find, from_kubeconfig
from holdfast_operator.kubernetes.client import Kubernetes
from holdfast_operator.kubernetes.errors import (
    ApiRefused,
    ApiUnreachable,
    Conflict,
    Forbidden,
    Missing,
    NoAccess,
)
from holdfast_operator.kubernetes.leadership import Leadership
from tests.controller.api_server import ApiServer
from tests.shell.certificates import Authority

CONFIG = {
    "current-context": "here",
    "contexts": [
        {"name": "there", "context": {"cluster": "b", "user": "b"}},
        {"name": "here", "context": {"cluster": "a", "user": "a", "namespace": "shop"}},
    ],
    "clusters": [{"name": "a", "cluster": {"server": "https://one:6443/"}}],
    "users": [{"name": "a", "user": {"token": "secret"}}],
}


@pytest.fixture
async def api() -> AsyncIterator[Kubernetes]:
    async with ApiServer().serving() as server, Kubernetes(Access(server.url)) as made:
        yield made


def config_map(name: str, **data: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "labels": {"a": "b"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


# Access -------------------------------------------------------------------------------------------


def test_a_kubeconfig_that_is_named_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(CONFIG))
    found = find({"KUBECONFIG": f"{file}:other", "HOME": "/nowhere"})
    assert (found.server, found.namespace, found.bearer()) == ("https://one:6443", "shop", "secret")
    assert "secret" not in repr(found)


def test_a_pod_uses_its_account_and_reads_its_token_again(tmp_path: Path) -> None:
    for name, text in (("token", "first\n"), ("namespace", "shop\n"), ("ca.crt", "")):
        (tmp_path / name).write_text(text)
    found = find({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "shop")
    (tmp_path / "token").write_text("second")
    assert found.bearer() == "second"


def test_the_user_s_own_kubeconfig_is_the_last(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump(CONFIG))
    assert find({"HOME": str(tmp_path)}, tmp_path).server == "https://one:6443"
    with pytest.raises(NoAccess, match="no KUBECONFIG"):
        find({"HOME": str(tmp_path / "else")}, tmp_path)


@pytest.mark.parametrize("text", ["[", "current-context: x", "[]", "{}"])
def test_what_is_no_kubeconfig_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(NoAccess, match="no kubeconfig"):
        from_kubeconfig(file)
    with pytest.raises(NoAccess, match="No such file"):
        from_kubeconfig(tmp_path / "other")


def test_certificates_are_files_or_data(tmp_path: Path) -> None:
    files = Authority(tmp_path, "ca").files("me")
    cluster = {"server": "https://one", "certificate-authority": Path(files["authority"]).name}
    data = {
        key: base64.b64encode(Path(files[name]).read_bytes()).decode()
        for key, name in (("client-certificate-data", "certificate"), ("client-key-data", "key"))
    }
    file = tmp_path / "config"
    named = {
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": data}],
    }
    file.write_text(yaml.safe_dump({**CONFIG, **named}))
    found = from_kubeconfig(file)
    assert found.authority == files["authority"]
    assert Path(found.certificate).read_bytes() == Path(files["certificate"]).read_bytes()
    assert found.context().verify_mode is ssl.CERT_REQUIRED
    for left in (found.certificate, found.key):
        Path(left).unlink()
    blind = Access("https://one", insecure=True).context()
    assert blind.verify_mode is ssl.CERT_NONE


# Verbs --------------------------------------------------------------------------------------------


async def test_verbs(api: Kubernetes) -> None:
    made = await api.apply(config_map("one", x="1"))
    assert (await api.get("ConfigMap", "shop", "one"))["data"] == {"x": "1"}
    assert [each["metadata"]["name"] for each in await api.list("ConfigMap", "shop", "a=b")] == [
        "one"
    ]
    assert await api.list("ConfigMap", selector="a=c") == []
    changed = await api.merge("ConfigMap", "shop", "one", {"data": {"x": "2"}})
    assert changed["data"] == {"x": "2"}
    with pytest.raises(Conflict):
        await api.replace("ConfigMap", made)
    with pytest.raises(Conflict):
        await api.create("ConfigMap", config_map("one"))
    with pytest.raises(Conflict):
        await api.delete("ConfigMap", "shop", "one", "another")
    await api.delete("ConfigMap", "shop", "one", changed["metadata"]["uid"])
    with pytest.raises(Missing):
        await api.get("ConfigMap", "shop", "one")


async def test_requests_are_counted_and_carry_the_token() -> None:
    seen: list[tuple[str, str, int]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers.get("authorization") != "Bearer t":
            return httpx.Response(403, text="who are you?")
        return httpx.Response(200, json={"items": []})

    def count(verb: str, plural: str, code: int) -> None:
        seen.append((verb, plural, code))

    transport = httpx.MockTransport(answer)
    for token in ("t", ""):
        access = Access("http://api", token=token)
        async with Kubernetes(access, transport=transport, count=count) as api:
            if token:
                assert await api.list("Pod") == []
            else:
                with pytest.raises(Forbidden, match="who are you"):
                    await api.list("Pod")
    assert seen == [("list", "pods", 200), ("list", "pods", 403)]


async def test_silence_is_an_error_of_ours() -> None:
    async with Kubernetes(Access("http://127.0.0.1:1")) as api:
        with pytest.raises(ApiUnreachable):
            await api.list("Pod")


async def test_a_refusal_of_another_kind_has_its_code() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(422, json={"message": "no"}))
    async with Kubernetes(Access("http://api"), transport=transport) as api:
        with pytest.raises(ApiRefused, match="no") as caught:
            await api.list("Pod")
    assert caught.value.code == 422


# Leadership ---------------------------------------------------------------------------------------


class Clock:
    """Of one operator."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def leader(api: Kubernetes, name: str, clock: Clock) -> Leadership:
    return Leadership(api, "shop", "operator", name, clock)


async def test_one_leads_and_the_other_follows_when_it_falls_silent(api: Kubernetes) -> None:
    """1. a leads 2. b waits 3. a renews: b goes on waiting 4. a is silent: a stops, then b leads"""
    clock = Clock()
    a, b = leader(api, "a", clock), leader(api, "b", clock)
    await a.step()
    await b.step()
    assert (a.leads, b.leads) == (True, False)
    clock.now = 20.0
    await a.step()
    await b.step()
    clock.now = 20.0 + leading.RENEW_WITHIN + 1
    assert not a.leads, "it stops before anybody else begins"
    await b.step()
    assert (a.leads, b.leads) == (False, False)
    clock.now = 20.0 + leading.DURATION + 1
    await b.step()
    assert (a.leads, b.leads) == (False, True)
    await a.step()
    assert (a.leads, b.leads) == (False, True)


async def test_who_ends_gives_the_lease_back(api: Kubernetes) -> None:
    clock = Clock()
    a, b = leader(api, "a", clock), leader(api, "b", clock)
    await a.step()
    await b.step()
    await a.give_back()
    assert not a.leads
    await b.step()
    assert b.leads
    await a.give_back()
    assert b.leads, "who does not lead gives nothing back"


async def test_a_container_that_starts_again_takes_up_its_own_lease(api: Kubernetes) -> None:
    clock = Clock()
    await leader(api, "a", clock).step()
    again = leader(api, "a", clock)
    await again.step()
    assert again.leads
    lease = await api.get("Lease", "shop", "operator")
    assert lease["spec"]["leaseTransitions"] == 1


async def test_of_two_who_take_a_free_lease_one_leads(api: Kubernetes) -> None:
    """Both have read the same version; one writes first."""
    clock = Clock()
    a, b = leader(api, "a", clock), leader(api, "b", clock)
    await a.step()
    await a.give_back()
    free = await api.get("Lease", "shop", "operator")
    await a.step()
    b._ours = free
    await b.step()
    assert (a.leads, b.leads) == (True, False)


async def test_changes_are_told_and_silence_of_the_api_server_ends_it() -> None:
    clock, told = Clock(), []
    async with ApiServer().serving() as server, Kubernetes(Access(server.url)) as api:
        a = leader(api, "a", clock)
        a.changed = lambda: told.append(a.leads)
        assert await a.step()
        assert told == [True]
        before = server.url
    async with Kubernetes(Access(before)) as silent:
        a._api = silent
        assert not await a.step()
        assert a.leads, "for a while it may go on"
        clock.now = leading.RENEW_WITHIN + 1
        await a.step()
        assert told == [True, False]
