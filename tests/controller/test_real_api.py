"""What only a real API server decides: definitions, CEL, defaults, server-side apply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast_operator.builders.jobs import For, carrying, checking
from holdfast_operator.crds import KINDS, definition
from holdfast_operator.differing import covers
from holdfast_operator.kubernetes.access import Access
from holdfast_operator.kubernetes.client import PLURALS, Kubernetes, Plural
from holdfast_operator.kubernetes.errors import ApiRefused, Conflict
from holdfast_operator.kubernetes.leadership import Leadership
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.places import Place
from holdfast_operator.model.status import ClusterStatus
from holdfast_operator.names import Role
from holdfast_operator.observed import Observed, Raw
from holdfast_operator.plan.children import wanted
from tests.controller.bad_specs import BAD, NOWHERE, Bad
from tests.controller.kubelet import pause
from tests.controller.real_server import serving
from tests.controller.sample import observed, spec

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMESPACE = "shop"
WIDE = {
    "Namespace": Plural("/api/v1", "namespaces", namespaced=False),
    "CustomResourceDefinition": Plural(
        "/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
    ),
}


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """With our definitions and a namespace."""
    with serving(tmp_path_factory.mktemp("api")) as made:
        asyncio.run(prepare(made))
        yield made


async def prepare(access: Access) -> None:
    """Until Clusters can be listed."""
    async with Kubernetes(access) as api:
        for kind, body in (
            ("Namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            *(("CustomResourceDefinition", definition(each)) for each in KINDS),
        ):
            await api._ask("create", "Pod", WIDE[kind].path(""), body)
        for ours in KINDS:
            await listed(api, ours.name)


async def listed(api: Kubernetes, kind: str) -> None:
    """A definition takes a moment to be served."""
    async with asyncio.timeout(30):
        while True:
            try:
                await api.list(kind, NAMESPACE)
            except ApiRefused:
                await pause(0.1)
            else:
                return


@pytest.fixture
async def api(access: Access) -> AsyncIterator[Kubernetes]:
    async with Kubernetes(access) as made:
        yield made


def body(kind: str, name: str, declared: Raw) -> Raw:
    """As a manifest."""
    meta = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "holdfast.io/v1alpha1",
        "kind": kind,
        "metadata": meta,
        "spec": declared,
    }


async def told(api: Kubernetes, bad: Bad, name: str) -> str:
    """What is said to it."""
    if bad.old is not None:
        made = await api.create(bad.kind, body(bad.kind, name, bad.old))
        try:
            await api.merge(bad.kind, NAMESPACE, name, {"spec": bad.spec})
        except ApiRefused as error:
            return str(error)
        finally:
            await api.delete(bad.kind, NAMESPACE, name, made["metadata"]["uid"])
        return "taken"
    try:
        await api.create(bad.kind, body(bad.kind, name, bad.spec))
    except ApiRefused as error:
        return str(error)
    return "taken"


@pytest.mark.parametrize(
    "bad", [bad for bad in BAD if not bad.by_webhook], ids=lambda bad: bad.name
)
async def test_a_bad_spec_is_refused_by_the_definition_with_its_sentence(
    api: Kubernetes, bad: Bad
) -> None:
    name = "bad-" + "".join(c if c.isalnum() else "-" for c in bad.name.lower())[:30].strip("-")
    assert bad.sentence.lower() in (await told(api, bad, name)).lower()


async def test_defaults_are_those_of_the_models(api: Kubernetes) -> None:
    made = await api.create("Cluster", body("Cluster", "plain", {"members": 3}))
    assert ClusterSpec.model_validate(made["spec"]) == ClusterSpec.model_validate({"members": 3})
    status = ClusterStatus.model_validate({"state": "ACTIVE", "replicas": 3}).wire()
    await api.merge("Cluster", NAMESPACE, "plain", {"status": status}, part="status")
    found = await api.get("Cluster", NAMESPACE, "plain")
    assert ClusterStatus.model_validate(found["status"]).wire() == status, "nothing is pruned"
    scaled = {"spec": {"replicas": 5}}
    await api.merge("Cluster", NAMESPACE, "plain", scaled, part="scale")
    assert (await api.get("Cluster", NAMESPACE, "plain"))["spec"]["members"] == 5


async def test_examples_are_taken(api: Kubernetes) -> None:
    for file in sorted(EXAMPLES.glob("*.yaml")):
        for each in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            name = f"example-{each['metadata']['name']}"
            each["metadata"] |= {"namespace": NAMESPACE, "name": name}
            await api.create(each["kind"], each)


@pytest.mark.parametrize("zones", [False, True])
async def test_what_is_applied_is_found_as_it_is_wanted(api: Kubernetes, *, zones: bool) -> None:
    """Otherwise it would be applied for ever: the API server's defaults are no difference."""
    declared: dict[str, Any] = {
        "lite": {"members": 1},
        "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {}},
        "availability": {"spread": "Zone" if zones else "Node"},
        "podTemplate": {"env": [{"name": "TZ", "value": "UTC"}], "annotations": {"a": "b"}},
        "service": {"type": "NodePort", "annotations": {"c": "d"}},
    }
    owner = await api.create("Cluster", body("Cluster", f"owner-{zones}".lower(), {}))
    o = observed(spec(**declared), sets={})
    for each in wanted(o, {Role.DATA: 3, Role.LITE: 1}):
        each["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"]
        applied = await api.apply(each)
        assert covers(applied, each), each["kind"]
        again = await api.apply(each)
        same = applied["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
        assert same, f"{each['kind']} is written again and again"
        await api.delete(
            each["kind"], NAMESPACE, each["metadata"]["name"], applied["metadata"]["uid"]
        )


async def test_what_fills_a_cluster_is_taken_and_goes_again(api: Kubernetes) -> None:
    """1. A set with a container before the member, and what it mounts. 2. The grid is whole: both
    are gone, and what is left is as it is wanted. 3. Jobs are taken, too."""
    origin = {**NOWHERE, "cluster": "old"}
    o = replace(observed(spec(origin=origin)), status=ClusterStatus.model_validate({}))
    whole = replace(o, status=ClusterStatus.model_validate({"clusterId": NOWHERE["identity"]}))

    def data_pods(seen: Observed) -> Raw:
        (found,) = [e for e in wanted(replace(seen, sets={}), SIZES) if e["kind"] == "StatefulSet"]
        del found["metadata"]["ownerReferences"]
        return {**found, "metadata": {**found["metadata"], "name": "filled"}}

    applied = await api.apply(data_pods(o))
    assert covers(applied, data_pods(o))
    assert not covers(applied, data_pods(whole))
    applied = await api.apply(data_pods(whole))
    assert covers(applied, data_pods(whole))
    pod = applied["spec"]["template"]["spec"]
    assert not pod.get("initContainers")
    assert "source-secret" not in {each["name"] for each in pod["volumes"]}
    place = Place.model_validate({"objectStore": {"bucket": "b", "credentials": "k"}})
    job = For("Backup", "b", "uid", NAMESPACE, "orders", o.spec, o.defaults)
    for body in (carrying(job, "orders", "b-1", place, ["a"]), checking(job, "orders", None, "")):
        await api.create("Job", body)


SIZES = {Role.DATA: 3, Role.LITE: 0}


async def test_a_size_of_an_old_version_is_refused(api: Kubernetes) -> None:
    o = observed(sets={})
    made = next(e for e in wanted(o, {Role.DATA: 3, Role.LITE: 0}) if e["kind"] == "StatefulSet")
    del made["metadata"]["ownerReferences"]
    first = await api.create("StatefulSet", made)
    version = first["metadata"]["resourceVersion"]
    changed = {**made, "metadata": {**made["metadata"], "resourceVersion": version}}
    changed["spec"] = {**made["spec"], "replicas": 4}
    await api.apply(changed)
    stale = {**changed, "spec": {**made["spec"], "replicas": 2}}
    with pytest.raises(Conflict):
        await api.apply(stale)
    with pytest.raises(Conflict):
        await api.create("StatefulSet", made)


async def test_a_real_lease_has_one_holder(api: Kubernetes) -> None:
    clock = asyncio.get_running_loop().time
    a = Leadership(api, NAMESPACE, "operator", "a", clock)
    b = Leadership(api, NAMESPACE, "operator", "b", clock)
    for each in (a, b, a):
        await each.step()
    assert (a.leads, b.leads) == (True, False)
    await a.give_back()
    await b.step()
    assert (a.leads, b.leads) == (False, True)


def test_every_kind_has_its_place() -> None:
    assert {kind.name for kind in KINDS} <= set(PLURALS)
