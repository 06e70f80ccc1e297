"""Probes say what is so, metrics what a scraper can read."""

from __future__ import annotations

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.shell.http.clusters import Processes, Running
from tests.shell.waiting import wait_until


@pytest.mark.parametrize("probe", ["live", "ready", "safe"])
def test_a_member_that_is_well_says_so(one: Running, probe: str) -> None:
    told = one.get(f"/healthz/{probe}")
    assert (told.status_code, told.json()) == (200, {probe: True, "reasons": []})
    assert told.headers["cache-control"] == "no-store"
    assert httpx.head(f"{one.url}/healthz/{probe}").content == b""
    assert httpx.post(f"{one.url}/healthz/{probe}").status_code == 404


def metrics(member: Running) -> dict[str, list[tuple[dict[str, str], float]]]:
    """All samples, as a scraper reads them."""
    text = member.get("/metrics").text
    families = text_string_to_metric_families(text)
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in families:
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return samples


def test_metrics_can_be_read(one: Running) -> None:
    httpx.put(f"{one.url}/v1/maps/odd%22name%5C/k", content=b"v")
    told = metrics(one)
    assert told["holdfast_ready"] == [({}, 1.0)]
    assert told["holdfast_is_master"] == [({}, 1.0)]
    assert ({"role": "owner"}, 16.0) in told["holdfast_partitions"]
    assert ({"name": 'odd"name\\', "role": "owner"}, 1.0) in told["holdfast_entries"]
    assert told["holdfast_commands_total"][0][1] >= 1
    assert told["holdfast_memory_bytes"][0][1] > 1 << 20
    assert told["holdfast_memory_bytes_max"][0][1] > 1 << 20


def test_partitions_of_all_members_add_up(several: Processes) -> None:
    owned = [
        value
        for member in several.living()
        for labels, value in metrics(member)["holdfast_partitions"]
        if labels["role"] == "owner"
    ]
    assert sum(owned) == 32
    masters = [metrics(member)["holdfast_is_master"][0][1] for member in several.living()]
    assert sorted(masters) == [0, 0, 0, 1]
    assert "holdfast_migrations_planned" in metrics(several.master())
    assert "holdfast_migrations_planned" not in metrics(several.others()[0])


def test_a_member_that_does_not_answer_makes_the_cluster_unsafe_at_once(
    several: Processes,
) -> None:
    """1. A member stops, and nobody has noticed. 2. It goes on: the cluster is safe again."""
    silent = next(member for member in several.others() if member.name != "light")
    asked = next(member for member in several.living() if member is not silent)
    silent.pause(on=True)
    try:
        told = asked.get("/healthz/safe")
        assert told.status_code == 503
        assert f"{silent.name} does not answer" in told.json()["reasons"]
    finally:
        silent.pause(on=False)
    wait_until(asked.is_safe, "the cluster is safe again")


def test_a_member_that_was_alone_too_long_is_not_ready(several: Processes) -> None:
    """Everyone else stops: its lease ends, and it says that it serves nobody."""
    lonely = several.others()[0]
    rest = [member for member in several.living() if member is not lonely]
    for member in rest:
        member.pause(on=True)
    try:
        wait_until(lambda: not lonely.is_ready(), "it has no lease")
        assert lonely.get("/healthz/live").status_code == 200
        reasons = lonely.get("/healthz/ready").json()["reasons"]
        assert reasons == ["no lease from a master that holds a majority"]
    finally:
        for member in rest:
            member.pause(on=False)
    for member in several.living():
        wait_until(member.is_ready, f"{member.name} is ready again")
