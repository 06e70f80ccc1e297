"""Bulk endpoints of real members: who may ask, who answers, what is refused, what outlives."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from holdfast.client.bulk import Bulk
from holdfast.client.bulk_jobs import Job
from holdfast.core.data.plane import slot_of
from holdfast.core.stores.record import ABSENT, Kind, build
from holdfast.ids import PartitionId
from holdfast.wire.api.bulk import DONE, FIRST, OWNER
from holdfast.wire.rows import BLOCK_BYTES_MAX, About, RowStream, decode, encode
from tests.shell.http import clusters
from tests.shell.http.clusters import Processes, Running
from tests.shell.waiting import wait_until

COUNT = 16
"""Partitions of the member alone."""
NAMES = "/v1/bulk/names/users/partitions"
JOB = "/v1/bulk/jobs/j"
JSON = {"content-type": "application/json"}


def place(key: bytes, count: int = COUNT) -> int:
    return slot_of(key) * count >> 14


def block(
    key: bytes, partition: int | None = None, value: bytes = b"v", kind: Kind = Kind.STRING
) -> bytes:
    where = place(key) if partition is None else partition
    row = (key, build(ABSENT, kind, 0, value))
    return encode(About(PartitionId(where), 0, 0), [row])


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_nobody_asks_without_the_secret(several: Processes) -> None:
    member = several.members[0]
    for method, path in (
        ("GET", f"{NAMES}/0"),
        ("GET", f"{NAMES}/0/changes"),
        ("PUT", f"{JOB}/blocks/t/a?name=users"),
        ("POST", f"{JOB}:check"),
        ("POST", f"{JOB}:publish"),
        ("DELETE", f"{JOB}?partitions=0"),
    ):
        assert kind(member.ask(method, path)) == (401, "not-authorized")
        foreign = {**several.credentials, "origin": "http://elsewhere"}
        assert kind(member.ask(method, path, b"", **foreign)) == (403, "foreign-origin")


def test_who_is_not_the_owner_says_who_is(several: Processes) -> None:
    answers = [each.get(f"{NAMES}/3", **several.credentials) for each in several.members]
    (owner,) = (each for each in answers if each.status_code == 200)
    for answer in answers:
        if answer is not owner:
            assert kind(answer) == (421, "misdirected")
            assert answer.headers[OWNER] == owner.url.netloc.decode()


def test_what_can_not_be_is_refused(one: Running) -> None:
    blocks, mine = f"{JOB}/blocks/t/a", block(b"users:1")
    asked: list[tuple[tuple[int, str], str, str, bytes]] = [
        ((400, "bad-request"), "PUT", f"{blocks}?name=users", b"nonsense"),
        ((400, "bad-request"), "PUT", f"{blocks}?name=users", b""),
        ((400, "bad-request"), "PUT", f"{blocks}?name=users", mine[:-1]),
        ((400, "bad-request"), "PUT", f"{blocks}?name=users", mine[:-1] + b"x"),
        ((400, "bad-request"), "PUT", f"{blocks}?name=users", block(b"users:1", 99)),
        ((400, "bad-request"), "PUT", f"{blocks}?name=other", mine),
        ((422, "invalid"), "PUT", f"{blocks}?name=a:b", mine),
        ((422, "invalid"), "PUT", blocks, mine),
        ((422, "invalid"), "PUT", f"{blocks}?name=users&life_seconds=0", mine),
        ((400, "bad-request"), "GET", f"{NAMES}/{COUNT}", b""),
        ((422, "invalid"), "GET", f"{NAMES}/-1", b""),
        ((400, "bad-request"), "GET", "/v1/bulk/names/a:b/partitions/0", b""),
        ((422, "invalid"), "GET", f"{NAMES}/0/changes?after=soon", b""),
        ((410, "gap"), "GET", f"{NAMES}/0/changes?after=77-1", b""),
        ((422, "invalid"), "POST", f"{JOB}:publish", b"{}"),
        ((422, "invalid"), "POST", f"{JOB}:publish", end(("t", {}), asked=[])),
        ((409, "not-staged"), "POST", f"{JOB}:publish", end(("t", {0: 1}))),
        ((409, "not-staged"), "POST", f"{JOB}:check", end(("t", {0: 1}))),
        ((422, "invalid"), "DELETE", f"{JOB}?partitions=x", b""),
        ((400, "bad-request"), "DELETE", f"{JOB}?partitions={COUNT}", b""),
    ]
    for expected, method, path, body in asked:
        answer = one.ask(method, path, body, **{"content-type": "application/json"})
        assert kind(answer) == expected, (method, path, answer.text)
    assert one.get(f"{NAMES}/0/changes?after=77-1").headers[FIRST].count("-") == 1


def end(*tasks: tuple[str, dict[int, int]], asked: list[int] | None = None) -> bytes:
    """A job at its end, asked of these partitions, or of all in which a task has something."""
    attempts = [{"task": task, "attempt": "a", "blocks": blocks} for task, blocks in tasks]
    every = sorted({partition for _, blocks in tasks for partition in blocks})
    partitions = every if asked is None else asked
    return json.dumps({"name": "users", "partitions": partitions, "attempts": attempts}).encode()


def test_several_partitions_go_as_far_as_they_can(one: Running) -> None:
    """1. Of three blocks the second is none for here: the first is laid aside. 2. Without it all
    are. 3. Of what is checked and published, the second partition has nothing."""
    keys = [b"users:{%d}" % number for number in range(64)]
    first, bad, last = list({place(key): key for key in keys}.values())[:3]
    path = "/v1/bulk/jobs/several"
    blocks = [block(first), block(bad, kind=Kind.SET), block(last)]
    refused = one.ask("PUT", f"{path}/blocks/t/a?name=users", b"".join(blocks))
    assert kind(refused) == (400, "bad-request")
    assert refused.json()["detail"].startswith(f"partition {place(bad)}: ")
    assert refused.headers[DONE] == "1"
    torn = blocks[1][:-1] + b"x"
    refused = one.ask("PUT", f"{path}/blocks/t/a?name=users", blocks[0] + torn)
    assert refused.json()["detail"].startswith(f"partition {place(bad)}: ")
    assert one.ask("PUT", f"{path}/blocks/t/a?name=users", blocks[0] + blocks[2]).is_success
    places = [place(first), place(bad), place(last)]
    counts = dict.fromkeys(places, 1)
    for verb in ("check", "publish"):
        refused = one.ask("POST", f"{path}:{verb}", end(("t", counts), asked=places), **JSON)
        assert kind(refused) == (409, "not-staged")
        assert refused.json()["detail"].startswith(f"partition {places[1]}: ")
        assert refused.headers[DONE] == "1"
    del counts[places[1]]
    shown = one.ask("POST", f"{path}:publish", end(("t", counts)), **JSON)
    assert shown.json() == {"state": "published"}
    for key in (first, last):
        answer = one.get(f"{NAMES}/{place(key)}")
        assert key in [row.key for rows in RowStream().feed(answer.content) for row in rows]
        one.ask("DELETE", f"/v1/maps/users/{key.decode().partition(':')[2]}")


def test_what_is_too_long_is_refused_before_it_is_read(one: Running) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(2 + (BLOCK_BYTES_MAX >> 20)):
            yield bytes(1 << 20)

    path = f"{one.url}{JOB}/blocks/t/a?name=users"
    with contextlib.suppress(httpx.TransportError):  # it may be cut off while it is sent
        assert kind(httpx.put(path, content=endless(), timeout=60)) == (413, "too-large")
    assert one.is_ready()


def test_a_long_value_is_a_block_of_its_own(one: Running) -> None:
    key, value = b"users:long", b"x" * (8 << 20)
    where = place(key)
    staged = one.ask("PUT", f"{JOB}/blocks/long/a?name=users", block(key, value=value))
    assert staged.json() == {"state": "staging"}
    shown = one.ask("POST", f"{JOB}:publish", end(("long", {where: 1})), **JSON)
    assert shown.json() == {"state": "published"}
    stream = RowStream()
    found = [row for rows in stream.feed(one.get(f"{NAMES}/{where}").content) for row in rows]
    assert stream.whole
    assert [row.value for row in found if row.key == key] == [value]
    one.ask("DELETE", "/v1/maps/users/long")


def test_what_is_laid_aside_is_among_the_sizes_and_not_among_the_keys(one: Running) -> None:
    key = b"users:aside"
    path = "/v1/bulk/jobs/aside"
    before = named(one, ":staging")
    assert one.ask("PUT", f"{path}/blocks/t/a?name=users", block(key)).is_success
    assert named(one, ":staging") == before + 2, "a block and a mark"
    client = redis.Redis(port=one.port("plain"), protocol=2)
    assert client.keys("*aside*") == []
    assert one.ask("DELETE", f"{path}?partitions={place(key)}").json() == {"state": "discarded"}
    assert named(one, ":staging") == before + 1
    client.close()


def named(member: Running, name: str) -> int:
    names: list[dict[str, Any]] = member.get("/v1/namespaces").json()["names"]
    return next((each["owned_entries"] for each in names if each["name"] == name), 0)


def test_a_reader_that_goes_away_leaves_nothing(one: Running) -> None:
    """Again and again, more often than there may be snapshots."""
    client = redis.Redis(port=one.port("plain"), protocol=2)
    with client.pipeline(transaction=False) as pipeline:
        for number in range(600):
            pipeline.set(b"big:{x}%d" % number, b"x" * 20_000)
        pipeline.execute()
    path = f"{one.url}/v1/bulk/names/big/partitions/{place(b'x')}"
    for _ in range(70):
        with httpx.stream("GET", path) as answer:
            assert answer.status_code == 200
            next(answer.iter_raw())
    whole = one.get(f"/v1/bulk/names/big/partitions/{place(b'x')}")
    assert sum(len(rows) for rows in RowStream().feed(whole.content)) == 600
    client.flushall()
    client.close()


def test_keys_alone_weigh_little(one: Running) -> None:
    client = redis.Redis(port=one.port("plain"), protocol=2)
    client.set("thin:1", b"x" * 100_000)
    answer = one.get(f"/v1/bulk/names/thin/partitions/{place(b'thin:1')}?values=false")
    assert len(answer.content) < 1_000
    assert [row.key for row in decode(answer.content)] == [b"thin:1"]
    client.close()


def test_a_member_that_ends_keeps_no_reader_waiting_and_says_nothing_alarming(
    own: Processes,
) -> None:
    """A reader is in the middle of it, and one has just had the last block."""
    try:
        member = own.start("one")
        own.settle()
        client = redis.Redis(port=member.port("plain"), protocol=2)
        with client.pipeline(transaction=False) as pipeline:
            for number in range(600):
                pipeline.set(b"big:{x}%d" % number, b"x" * 20_000)
            pipeline.execute()
        client.close()
        path = f"{member.url}/v1/bulk/names/big/partitions/{place(b'x')}"
        with httpx.stream("GET", path) as answer:
            next(answer.iter_raw())
            assert httpx.get(path).is_success
            member.terminate()
            wait_until(lambda: member.says("has left the cluster"), "it has left")
        assert member.code() == 0
        assert "Traceback" not in member.log.read_text()
    finally:
        own.end()


@pytest.fixture
def own(tmp_path: Path) -> Processes:
    return Processes(tmp_path, settings=clusters.ALONE)


async def test_what_is_laid_aside_outlives_its_member(own: Processes, tmp_path: Path) -> None:
    """1. A job is laid aside. 2. The member is killed. 3. It starts again: the job is committed."""
    flags = ("--data-dir", str(tmp_path / "data"))
    try:
        member = own.start("one", *flags)
        own.settle()
        rows = {b"users:%d" % number: b"x" * 100 for number in range(200)}
        async with Bulk([member.url]) as bulk:
            await bulk.learn()
            task = Job(bulk, "j", "users").task("t", "a")
            for key, value in rows.items():
                await task.put(key, value)
            receipt = await task.finish()
        member.kill()
        own.members.clear()
        member = own.start("one", *flags)
        own.settle()
        async with Bulk([member.url]) as bulk:
            await bulk.learn()
            await Job(bulk, "j", "users").commit([receipt])
            found = {row.key: row.value async for some in bulk.read("users") for row in some}
        assert found == rows
    finally:
        own.end()
