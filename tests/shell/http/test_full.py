"""A member whose memory is full says so wherever one would look, and goes on to answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.shell.http.clusters import ALONE, Processes, Running
from tests.shell.waiting import wait_until

MEMORY = 4 << 20


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One member that may hold 4 MiB."""
    place = tmp_path_factory.mktemp("small")
    processes = Processes(place, settings=f"memory_max = '4MiB'\n{ALONE}")
    try:
        processes.start("one")
        processes.settle()
        yield processes.members[0]
    finally:
        processes.end()


def is_full(member: Running) -> bool:
    """By its own word."""
    return b"warnings" in member.get("/healthz/ready").content


def test_a_full_member_refuses_what_grows_says_why_and_recovers(small: Running) -> None:
    client = small.client
    for number in range(5):
        client.set(f"large:{number}", b"x" * (1 << 20))
    wait_until(lambda: is_full(small), "the member has noticed")
    with pytest.raises(redis.exceptions.OutOfMemoryError, match="command not allowed"):
        client.set("more", "v")
    refused = small.ask("PUT", "/v1/maps/orders/1", b"v")
    assert refused.status_code == 507
    assert refused.json()["title"] == "There is no room for this"

    assert small.get("/healthz/ready").status_code == 200, "it goes on to serve"
    (warning,) = small.get("/healthz/ready").json()["warnings"]
    assert warning.startswith(f"the data takes more than {MEMORY} bytes")
    assert small.is_safe(), "nobody has to wait for room before it may be given more"
    (told,) = small.get("/v1/members").json()["members"]
    assert (told["warnings"], told["data_bytes_max"]) == ([warning], MEMORY)
    assert told["data_bytes"] > MEMORY
    metrics = small.get("/metrics").text
    assert f"holdfast_data_bytes_max {float(MEMORY)}\n" in metrics
    assert "holdfast_memory_full 1.0\n" in metrics
    info = client.info("memory")
    assert (info["maxmemory"], info["maxmemory_policy"]) == (MEMORY, "noeviction")
    assert info["used_memory_dataset"] > MEMORY
    assert client.config_get("maxmemory") == {"maxmemory": str(MEMORY)}
    assert small.says("memory full")

    assert client.strlen("large:0") == 1 << 20
    assert client.delete("large:0", "large:1") == 2
    wait_until(lambda: not is_full(small), "there is room again")
    assert client.set("more", "v")
    assert "holdfast_memory_full 0.0\n" in small.get("/metrics").text
