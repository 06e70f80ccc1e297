"""Bad specs: refused, each with its sentence; good ones are not."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast_operator.crds import KINDS, models_below
from holdfast_operator.model.base import Model
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.validation import cluster_reasons, parsed
from holdfast_operator.webhook.reviewing import review
from tests.controller.bad_specs import BAD, Bad


def reviewed(
    kind: str, new: dict[str, Any], old: dict[str, Any] | None = None, *, zones: bool = True
) -> dict[str, Any]:
    """What the webhook answers."""
    request: dict[str, Any] = {
        "uid": "u",
        "kind": {"kind": kind},
        "operation": "CREATE" if old is None else "UPDATE",
        "object": {"metadata": {}, "spec": new},
    }
    if old is not None:
        request["oldObject"] = {"metadata": {}, "spec": old}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = review(body, lambda: zones)
    assert answer["response"]["uid"] == "u"
    response: dict[str, Any] = answer["response"]
    return response


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_a_bad_spec_is_refused_with_its_sentence(bad: Bad) -> None:
    answer = reviewed(bad.kind, bad.spec, bad.old)
    assert not answer["allowed"]
    assert bad.sentence.lower() in answer["status"]["message"].lower().replace("_", "")


def test_there_are_enough_bad_specs_and_every_rule_is_broken_once() -> None:
    assert len(BAD) >= 25
    sentences = {rule.message for model in models_below(Model) for rule in model.RULES}
    told = {
        sentence
        for bad in BAD
        for sentence in sentences
        if sentence in reviewed(bad.kind, bad.spec, bad.old).get("status", {}).get("message", "")
    }
    assert told == sentences


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"members": 1, "backups": 0},
        {"members": 2, "backups": 2, "lite": {"members": 1, "promote": 1}},
        {"persistence": {"enabled": False}, "upgradeStrategy": "RollingMigrate"},
        {"availability": {"spread": "Zone"}},
        {"structures": [{"name": "a", "eviction": "lru", "entriesPerPartition": 5}]},
        {"podTemplate": {"env": [{"name": "TZ", "value": "UTC"}]}},
    ],
)
def test_a_good_spec_is_taken(spec: dict[str, Any]) -> None:
    assert reviewed("Cluster", spec)["allowed"]
    assert reviewed("Cluster", spec, spec)["allowed"]


def test_a_backup_is_taken() -> None:
    assert reviewed("Backup", {"cluster": "orders"})["allowed"]


def test_zones_need_nodes() -> None:
    spec = {"availability": {"spread": "Zone"}}
    answer = reviewed("Cluster", spec, zones=False)
    assert "may not read nodes" in answer["status"]["message"]


def test_what_goes_is_never_held() -> None:
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"kind": "Cluster"},
            "operation": "UPDATE",
            "object": {"metadata": {"deletionTimestamp": "now"}, "spec": {"members": 0}},
        },
    }
    assert review(body, lambda: True)["response"]["allowed"]
    body["request"] = {**body["request"], "operation": "DELETE"}  # type: ignore[dict-item]  # plain JSON
    assert review(body, lambda: True)["response"]["allowed"]


def test_a_spec_that_is_none_is_told_where() -> None:
    spec, reasons = parsed(ClusterSpec, {"lite": {"members": "many"}})
    assert spec is None
    assert reasons[0].startswith("spec.lite.members: ")


def test_reasons_are_limited() -> None:
    many = [{"name": f"HOLDFAST_{i}", "value": "x"} for i in range(40)]
    spec = ClusterSpec.model_validate({"podTemplate": {"env": many}})
    assert len(cluster_reasons(spec, None, sees_zones=True)) == 10


def test_every_kind_is_reviewed() -> None:
    for kind in KINDS:
        assert not reviewed(kind.name, {"members": "x", "cluster": 1})["allowed"]
