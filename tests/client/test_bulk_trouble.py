"""The bulk client against what real members do only in bad moments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from holdfast.client.bulk import Bulk
from holdfast.client.bulk_jobs import BUFFER_BYTES, Block, Job, Receipt
from holdfast.core.stores.record import ABSENT, Kind, build
from holdfast.errors import ProblemReported, ScanBroken, TryAgain
from holdfast.ids import PartitionId
from holdfast.wire.api import PROBLEM_TYPE, PROBLEM_URN
from holdfast.wire.api.bulk import ATTEMPTS_MAX, DONE, OWNER, ROWS_TYPE
from holdfast.wire.rows import About, encode

ROW = [(b"k", build(ABSENT, Kind.STRING, 0, b"v" * 1_000))]
Answer = Callable[[str, str], bytes]
"""Of a method and a path: the whole answer; the connection ends with it."""


def answer(status: int, body: bytes, *headers: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = (f"HTTP/1.1 {status} X", f"content-length: {size}", "connection: close", *headers)
    return "\r\n".join((*lines, "", "")).encode() + body


def problem(status: int, kind: str, *headers: str) -> bytes:
    body = {
        "type": PROBLEM_URN + kind,
        "title": "t",
        "status": status,
        "detail": "told so",
        "instance": "/",
        "errors": [],
    }
    return answer(status, json.dumps(body).encode(), f"content-type: {PROBLEM_TYPE}", *headers)


def block(sequence: int = 0, *, last: bool = True) -> bytes:
    return encode(About(PartitionId(0), 1, 1, sequence, last=last), ROW)


@asynccontextmanager
async def member(act: Answer, **settings: object) -> AsyncIterator[tuple[Bulk, list[str]]]:
    """One address that answers so, the owner of the only partition, and what it was asked."""
    asked: list[str] = []
    busy: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split(" ", 2)
            for line in head.lower().split("\r\n"):
                if line.startswith("content-length: "):
                    await reader.readexactly(int(line.partition(": ")[2]))
            asked.append(f"{method} {path}")
            writer.write(act(method, path))
        except asyncio.IncompleteReadError:
            return  # it was given up
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        busy.add(task)
        task.add_done_callback(busy.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    bulk = Bulk([f"http://{address}"], **settings)  # type: ignore[arg-type]
    bulk._owners = [address]
    try:
        async with bulk:
            yield bulk, asked
    finally:
        server.close()
        for task in tuple(busy):
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)


def in_turn(*answers: bytes) -> Answer:
    """One after the other, the last for ever; nobody here knows the table."""
    left = list(answers)

    def act(_: str, path: str) -> bytes:
        if not path.startswith("/v1/bulk"):
            return problem(503, "unavailable")
        return left.pop(0) if len(left) > 1 else left[0]

    return act


async def values(bulk: Bulk) -> list[bytes]:
    return [row.key async for rows in bulk.read_partition("n", 0) for row in rows]


STAGED = answer(200, b'{"state": "staging"}', "content-type: application/json")
WHOLE = answer(200, block(last=False) + block(1), f"content-type: {ROWS_TYPE}")


@pytest.mark.parametrize(
    "broken",
    [
        answer(200, block(last=False)),
        answer(200, block(last=False) + block(1)[:50]),
        answer(200, block(last=False), length=9_999),
        answer(200, b"nonsense" * 20),
        problem(503, "unavailable"),
        problem(504, "unknown-outcome"),
        answer(500, b"a proxy's page"),
        b"",
    ],
)
async def test_what_breaks_off_is_read_again_from_its_beginning(broken: bytes) -> None:
    async with member(in_turn(broken, WHOLE)) as (bulk, _):
        assert await values(bulk) == [b"k", b"k"]


async def test_what_follows_a_whole_partition_is_nobodys() -> None:
    for more in (b"x", block()):
        async with member(in_turn(answer(200, block() + more))) as (bulk, asked):
            assert await values(bulk) == [b"k"]
            assert len(asked) == 1


def of(partition: int, sequence: int = 0, *, last: bool = True) -> bytes:
    return encode(About(PartitionId(partition), 1, 1, sequence, last=last), ROW)


@pytest.mark.parametrize(
    "some",
    [
        b"",
        of(0),
        of(0) + of(1),
        of(0) + of(1, last=False),
        of(0) + b"nonsense" * 20,
        of(0) + of(5),
        problem(421, "misdirected"),
        problem(503, "unavailable"),
    ],
)
async def test_what_did_not_come_with_the_others_is_asked_for_alone(some: bytes) -> None:
    """Three partitions in one request: each is given once, however far that comes."""

    def act(_: str, path: str) -> bytes:
        if "ids=0,1,2" in path:
            return some if some.startswith(b"HTTP") else answer(200, some)
        if path.startswith("/v1/bulk"):
            return answer(200, of(int(path.rpartition("/")[2].partition("?")[0])))
        return problem(503, "unavailable")

    async with member(act) as (bulk, asked):
        bulk._owners = bulk._owners * 3
        found = [rows.about.partition async for rows in bulk.read("n")]
        assert sorted(found) == [0, 1, 2]
        assert "ids=0,1,2" in asked[0]


async def test_a_group_that_breaks_off_in_what_was_given_out_is_told() -> None:
    broken = answer(200, of(0) + of(1, last=False), length=9_999)
    async with member(in_turn(broken), hold_bytes=100) as (bulk, _):
        bulk._owners = bulk._owners * 3
        with pytest.raises(ScanBroken, match="partition 1 of n"):
            async for _rows in bulk.read("n"):
                pass


async def test_two_moments_are_never_mixed() -> None:
    """More was given out than is held: the caller has to know."""
    broken = answer(200, block(last=False), length=9_999)
    async with member(in_turn(broken, WHOLE), hold_bytes=100) as (bulk, asked):
        with pytest.raises(ScanBroken, match="partition 0 of n"):
            await values(bulk)
        assert len(asked) == 1
        assert await values(bulk) == [b"k", b"k"], "it may be asked anew"


async def test_an_owner_that_is_named_is_asked_next() -> None:
    async with member(in_turn(WHOLE)) as (bulk, asked):
        real = bulk.owner_of(0)
        moved = problem(421, "misdirected", f"{OWNER}: {real}")
        async with member(in_turn(moved)) as (other, _):
            bulk._owners = list(other._owners)
            assert await values(bulk) == [b"k", b"k"]
            assert bulk.owner_of(0) == real
        assert [each for each in asked if "bulk" in each] == [
            "GET /v1/bulk/names/n/partitions/0?values=true"
        ]


async def test_what_is_refused_for_good_is_told_at_once() -> None:
    async with member(in_turn(problem(422, "invalid"))) as (bulk, asked):
        with pytest.raises(ProblemReported, match="told so"):
            await values(bulk)
        with pytest.raises(ProblemReported, match="told so"):
            async for _ in bulk.read("n"):
                pass
        assert len(asked) == 2


async def test_who_stops_listening_stops_the_reading() -> None:
    async with member(in_turn(WHOLE), parallel=1) as (bulk, asked):
        reading = bulk.read("n", [0] * 50)
        async for _ in reading:
            break
        await reading.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert 1 <= len(asked) < 10


async def test_an_owner_that_nobody_knows_is_looked_for() -> None:
    async with member(in_turn(WHOLE), patience_seconds=0.2) as (bulk, asked):
        bulk._owners = [""]
        with pytest.raises(TryAgain, match="nobody is known to own it"):
            await values(bulk)
        assert any("/v1/partitions" in each for each in asked)


async def test_a_block_that_fails_ends_the_attempt() -> None:
    """What was under way beside it is given up, and nothing of it is left to be wondered at."""
    refusal = problem(409, "wrong-type")
    async with member(in_turn(refusal)) as (bulk, asked):
        task = Job(bulk, "j", "default").task("0", "0")

        async def write() -> None:
            for number in range(100_000):
                await task.put(b"%d" % number, b"x" * 10_000)

        with pytest.raises(ProblemReported, match="told so"):
            await write()
        assert asked
        assert not task._sending


async def test_what_waits_to_be_sent_is_bounded() -> None:
    """Many partitions with little each: the largest goes out, although it is no whole block."""
    async with member(in_turn(STAGED)) as (bulk, asked):
        bulk._owners = bulk._owners * 271
        task = Job(bulk, "j", "default").task("0", "0")
        for number in range(4_000):
            await task.put(b"%d" % number, b"x" * 10_000)
            assert task._size < BUFFER_BYTES
        receipt = await task.finish()
        assert len(receipt.blocks) == 271
        assert len(asked) < sum(receipt.blocks.values()) / 2, "several in a request"


DONE_ONE = problem(503, "unavailable", f"{DONE}: 1")


@pytest.mark.parametrize(
    ("first", "alone"),
    [
        (STAGED, []),
        (DONE_ONE, [1, 2]),
        (problem(421, "misdirected", f"{DONE}: 99"), [2]),
        (problem(503, "unavailable", f"{DONE}: x"), [0, 1, 2]),
        (answer(500, b"a proxy's page"), [0, 1, 2]),
        (b"", [0, 1, 2]),
    ],
)
async def test_what_was_not_done_with_the_others_is_sent_alone(
    first: bytes, alone: list[int]
) -> None:
    """Blocks of three partitions in one request: each is laid aside, however far that comes."""
    left = [first]
    async with member(lambda *_: left.pop() if left else STAGED) as (bulk, asked):
        bulk._owners = bulk._owners * 3
        blocks = [Block(partition, of(partition)) for partition in range(3)]
        await Job(bulk, "j", "default").stage("t", "a", blocks)
        assert len(asked) == 1 + len(alone)


async def test_what_is_asked_of_several_at_the_end_is_asked_again_of_the_rest() -> None:
    async with member(in_turn(DONE_ONE, STAGED)) as (bulk, asked):
        bulk._owners = bulk._owners * 3
        await Job(bulk, "j", "default").commit([Receipt("t", "a", {0: 1, 1: 1, 2: 1})])
        job = "POST /v1/bulk/jobs/j"
        assert asked == [f"{job}:check"] * 3 + [f"{job}:publish"]
        await Job(bulk, "j", "default").abort()
        assert asked[-1].startswith("DELETE /v1/bulk/jobs/j?partitions=0,1,2&")


async def test_a_request_says_no_more_about_attempts_than_a_member_hears() -> None:
    async with member(in_turn(STAGED)) as (bulk, asked):
        bulk._owners = bulk._owners * 3
        counts = {0: 1, 1: 1, 2: 1}
        receipts = [Receipt(str(task), "a", counts) for task in range(ATTEMPTS_MAX // 2)]
        await Job(bulk, "j", "default").commit(receipts)
        assert asked == ["POST /v1/bulk/jobs/j:check"] * 2 + ["POST /v1/bulk/jobs/j:publish"] * 2
