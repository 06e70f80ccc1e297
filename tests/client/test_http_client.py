"""The client for control, against real members and against what is none."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from holdfast.client.http import HttpClient
from holdfast.core.states import ClusterState
from holdfast.errors import ProblemReported, RemoteProtocolError, Unreachable
from tests.shell.http.clusters import Processes, Running
from tests.shell.waiting import eventually


async def test_questions_are_answered_in_types(several: Processes) -> None:
    async with HttpClient(several.members[0].url) as client:
        cluster = await eventually(client.cluster, lambda told: told.safety.safe, "it is safe")
        assert cluster.safety.reasons == []
        assert [member.id for member in await client.members()] == [
            member.id for member in cluster.members
        ]
        assert len((await client.partitions()).partitions) == 32
        assert (await client.partitions(health=False)).partitions[0].replicas[0].in_sync is None
        assert (await client.migrations()).remaining == 0
        await eventually(client.names, lambda told: not told.silent_members, "everyone answers")
        assert (
            await eventually(client.ready, lambda told: told.holds, "it is ready")
        ).reasons == ()
        assert (await eventually(client.safe, lambda told: told.holds, "it is safe")).reasons == ()
        assert (await client.metrics())["commands_total"] >= 0


async def test_wishes_are_done_or_refused(several: Processes) -> None:
    url = several.members[0].url
    async with HttpClient(url, secret=several.secret.encode()) as client:
        changed = await client.set_state(ClusterState.PASSIVE, wait_seconds=10)
        assert changed.state is ClusterState.PASSIVE
        with pytest.raises(ProblemReported) as refused:
            await client.promote("light")
        assert (refused.value.status, refused.value.kind) == (409, "illegal-state")
        assert (await client.set_state(ClusterState.ACTIVE)).state is ClusterState.ACTIVE
        assert (await client.promote("light")).done == "promote"
        assert (await client.demote("light")).done == "demote"
        with pytest.raises(ProblemReported, match="nobody"):
            await client.shutdown("nobody")
        with pytest.raises(ProblemReported, match="alive"):
            await client.confirm_dead("one", incarnation=1)
    async with HttpClient(url) as stranger:
        with pytest.raises(ProblemReported) as refused:
            await stranger.set_state(ClusterState.PASSIVE)
        assert refused.value.kind == "not-authorized"


async def test_values_are_written_read_and_removed(one: Running) -> None:
    async with HttpClient(one.url) as client:
        key = b"\xff/?#:%"
        tag = await client.put("things", key, b"v", ttl_seconds=50)
        found = await client.get("things", key)
        assert found is not None
        assert (found.data, found.tag) == (b"v", tag)
        assert found.ttl_seconds is not None
        assert 40 < found.ttl_seconds <= 50
        newer = await client.put("things", key, b"w", if_tag=tag)
        with pytest.raises(ProblemReported) as refused:
            await client.put("things", key, b"x", if_absent=True)
        assert refused.value.status == 412
        with pytest.raises(ProblemReported):
            await client.delete("things", key, if_tag=tag)
        assert await client.delete("things", key, if_tag=newer)
        assert not await client.delete("things", key)
        assert await client.get("things", key) is None


async def test_migrations_are_watched(one: Running) -> None:
    async with HttpClient(one.url) as client, asyncio.timeout(20):
        async for seen in client.watch_migrations(0.1):
            assert seen.remaining == 0
            break


def answering(status: int, body: str, kind: str = "application/json") -> httpx.MockTransport:
    """Whatever is asked, this is the answer."""
    return httpx.MockTransport(
        lambda _: httpx.Response(status, text=body, headers={"content-type": kind})
    )


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, "{}", "application/json"),
        (200, "<html>", "text/html"),
        (404, "<html>", "text/html"),
        (500, "{}", "application/problem+json"),
    ],
)
async def test_who_is_no_member_is_told(status: int, body: str, kind: str) -> None:
    async with HttpClient("http://m", transport=answering(status, body, kind)) as client:
        with pytest.raises(RemoteProtocolError):
            await client.cluster()
        with pytest.raises(RemoteProtocolError):
            await client.safe()


async def test_a_watch_that_is_refused_says_why() -> None:
    async with HttpClient("http://m", transport=answering(404, "no", "text/plain")) as client:
        with pytest.raises(RemoteProtocolError, match="not from a member"):
            await anext(client.watch_migrations())


async def test_where_nobody_answers_that_is_told() -> None:
    async with HttpClient("http://127.0.0.1:1") as client:
        with pytest.raises(Unreachable, match="can't be asked"):
            await client.cluster()
    async with HttpClient("http://[") as client:
        with pytest.raises(Unreachable):
            await client.cluster()

    async def slow(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("too slow")

    async with HttpClient("http://m", transport=httpx.MockTransport(slow)) as client:
        with pytest.raises(Unreachable, match="in time"):
            await client.cluster()
    async with HttpClient("ftp://m") as client:
        with pytest.raises(Unreachable):
            await client.cluster()
