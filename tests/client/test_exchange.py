"""HTTP as members speak it, from an address that says what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from holdfast.client.exchange import Broken, Exchange

SECONDS = 5.0
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Says = Callable[[int], bytes | None]
"""Of the number of a question: the answer; None ends the connection."""


@asynccontextmanager
async def address(says: Says) -> AsyncIterator[tuple[str, list[bytes], list[int]]]:
    """Where it listens, what it was asked, and on which connection."""
    asked: list[bytes] = []
    connections: list[int] = []
    busy: set[asyncio.Task[None]] = set()
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        mine = opened
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                for line in head.split(b"\r\n"):
                    if line.startswith(b"content-length: "):
                        head += await reader.readexactly(int(line.split()[1]))
                asked.append(head)
                connections.append(mine)
                answer = says(len(asked))
                if answer is None:
                    return
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        busy.add(task)
        task.add_done_callback(busy.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked, connections
    finally:
        server.close()
        for task in tuple(busy):
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)


def whole(body: bytes, *headers: str) -> bytes:
    lines = ("HTTP/1.1 200 OK", f"content-length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


async def test_answers_of_both_kinds_over_one_connection() -> None:
    chunks = b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n"
    answers = {1: whole(b"first"), 2: CHUNKED + chunks, 3: whole(b"")}
    async with address(answers.get) as (where, asked, connections):
        exchange = Exchange({"authorization": b"Bearer x"})
        head, content = await exchange.ask("PUT", where, "/a", b"body", {"x": "y"}, seconds=SECONDS)
        assert (head.status, content) == (200, b"first")
        async with exchange.asking("GET", where, "/b", seconds=SECONDS) as (_, parts):
            assert [part async for part in parts] == [b"abc", b"defg"]
        assert (await exchange.ask("DELETE", where, "/c", seconds=SECONDS))[1] == b""
        await exchange.close()
    assert connections == [1, 1, 1]
    assert asked[0].startswith(b"PUT /a HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"authorization: Bearer x\r\nx: y\r\ncontent-length: 4\r\n\r\nbody" in asked[0]


async def test_a_connection_that_was_closed_meanwhile_is_opened_anew() -> None:
    async with address(lambda n: None if n == 2 else whole(b"%d" % n)) as (where, _, connections):
        exchange = Exchange()
        assert (await exchange.ask("GET", where, "/", seconds=SECONDS))[1] == b"1"
        assert (await exchange.ask("GET", where, "/", seconds=SECONDS))[1] == b"3"
        assert connections == [1, 1, 2]
        await exchange.close()


@pytest.mark.parametrize("header", ["connection: close", "Connection: Close"])
async def test_a_connection_that_is_to_be_closed_is_not_kept(header: str) -> None:
    async with address(lambda _: whole(b"x", header)) as (where, _, connections):
        exchange = Exchange()
        for _ in range(2):
            await exchange.ask("GET", where, "/", seconds=SECONDS)
        assert connections == [1, 2]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (None, "IncompleteReadError"),
        (b"SSH-2.0\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "'' is no length of an answer"),
        (CHUNKED + b"zz\r\n", "'zz' is no length of an answer"),
        (CHUNKED + b"ffffffffff\r\n", "is too long"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "is too long"),
    ],
)
async def test_what_is_no_answer_is_told(answer: bytes | None, complaint: str) -> None:
    async with address(lambda _: answer) as (where, _, _):
        with pytest.raises(Broken, match=complaint):
            await Exchange().ask("GET", where, "/", seconds=SECONDS)


async def test_an_answer_that_ends_too_early_is_told() -> None:
    short = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nabc"
    answers = {1: short, 2: None}

    async with address(answers.get) as (where, _, _):
        exchange = Exchange()
        with pytest.raises((Broken, TimeoutError)):
            await exchange.ask("GET", where, "/", seconds=0.2)
        assert exchange._idle.get(where, []) == []


@pytest.mark.parametrize("where", ["127.0.0.1:1", "nowhere"])
async def test_nobody_is_there(where: str) -> None:
    with pytest.raises(Broken):
        await Exchange().ask("GET", where, "/", seconds=SECONDS)
