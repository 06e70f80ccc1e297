"""What a member says while it reads its files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Awaitable, Callable

import httpx
import pytest

from holdfast.shell.loading import Loading, answered
from holdfast.storage.recovery import Progress

Job = Callable[[httpx.AsyncClient], Awaitable[None]]


def half() -> Loading:
    """Half of it is read, in two seconds."""
    loading = Loading()
    loading.began -= 2.0
    loading.progress = Progress(50, 100, 7)
    return loading


def asked(loading: Loading, job: Job) -> None:
    """Ask it over a real connection."""

    async def run() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with answered(listener, loading), httpx.AsyncClient(base_url=url) as client:
                await job(client)

    asyncio.run(run())


def test_it_lives_and_is_not_ready_and_says_how_far_it_is() -> None:
    async def job(client: httpx.AsyncClient) -> None:
        live, ready = await client.get("/healthz/live"), await client.get("/healthz/ready?x=1")
        assert (live.status_code, ready.status_code) == (200, 503)
        assert ready.json() == {"ready": False, "reasons": ["loads its files: 50%, about 2 s left"]}
        assert (await client.get("/healthz/safe")).json()["safe"] is False
        metrics = (await client.get("/metrics")).text
        assert "\nholdfast_load_ratio 0.5\n" in metrics
        assert "\nholdfast_load_records 7.0\n" in metrics
        assert "\nholdfast_load_remaining_seconds 2." in metrics

    asked(half(), job)


def test_all_else_is_a_problem_that_says_the_same() -> None:
    async def job(client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/cluster", content=b"{}")
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["retry-after"] == "1"
        problem = json.loads(answer.content)
        assert problem["type"] == "urn:holdfast:problem:unavailable"
        assert problem["detail"] == "loads its files: 50%, about 2 s left"

    asked(half(), job)


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET " + b"x" * 100_000, b"GET / H"])
def test_nonsense_ends_the_connection(sent: bytes) -> None:
    async def job(client: httpx.AsyncClient) -> None:
        url = client.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(sent)
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):  # it did not read all of it
            assert await reader.read() == b""
        writer.close()

    asked(half(), job)


def test_the_port_is_there_for_the_member_afterwards() -> None:
    """1. Somebody is answered while it loads. 2. The same port is listened to anew."""

    async def run() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            async with answered(listener, Loading()), httpx.AsyncClient() as client:
                await client.get(f"http://127.0.0.1:{port}/healthz/live")
            done = asyncio.Event()

            def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.close()
                done.set()

            server = await asyncio.start_server(accept, sock=listener)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await done.wait()
            writer.close()
            server.close()

    asyncio.run(run())


def test_a_member_without_this_port_loads_in_silence() -> None:
    async def run() -> None:
        async with answered(None, Loading()):
            pass

    asyncio.run(run())


def test_the_log_hears_of_it_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    loading = Loading()
    with caplog.at_level(logging.INFO, "holdfast.storage"):
        loading.watch(Progress(0, 100, 0))
        assert not caplog.messages
        loading.began -= 6.0
        loading._tell_at -= 6.0
        loading.watch(Progress(75, 100, 3))
        loading.watch(Progress(80, 100, 4))
    assert caplog.messages == ["loads its files: 75%, about 2 s left"]
    assert Loading().told() == "loads its files: 0%, it has just begun"
