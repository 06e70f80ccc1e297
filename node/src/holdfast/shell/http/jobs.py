"""`/v1/bulk/jobs`: what many tasks write is laid aside, and shown at once.

The story is in docs/protocol/bulk.md.

Rules
-----
* A request is about one or several partitions of one owner, in an order. It goes as far as it can:
  a refusal is about the partition that it names, `DONE` says how many before it are done for sure,
  and the same request again is right in any case. Nothing is passed on, nothing is decided here.
* Of those who write, `UPLOADS_MAX` are heard at a time. What they bring is taken apart and given to
  the core in slices of about `SLICE_BYTES`, or one block; `TOGETHER` partitions go in one turn.
* All of it goes at the pace of `slices`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Path, Query, Request
from starlette.requests import ClientDisconnect

from holdfast.core.stores.packing import pack
from holdfast.errors import RemoteProtocolError
from holdfast.shell.http.bulk import say
from holdfast.shell.http.pool import Sessions
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.refusals import Kind, Refused
from holdfast.shell.http.security import guards_of
from holdfast.shell.http.slices import Slices
from holdfast.wire.api.bulk import (
    DONE,
    ID_PATTERN,
    IDS_PATTERN,
    LIFE_SECONDS,
    LIFE_SECONDS_MAX,
    ROWS_TYPE,
    JobEnd,
    JobState,
)
from holdfast.wire.rows import BLOCK_BYTES_MAX, cut, decode, partition_of

SLICE_BYTES: Final = 256 << 10
TOGETHER: Final = 8
UPLOAD_SECONDS: Final = 60.0
UPLOADS_MAX: Final = 4
PUBLISHED: Final = b"published"

BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {ROWS_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}
Id = Annotated[str, Path(pattern=ID_PATTERN, examples=["job-1"])]
Life = Annotated[
    float,
    Query(ge=0.001, le=LIFE_SECONDS_MAX, description="Seconds that the job is remembered."),
]


class Words(NamedTuple):
    """What the core is asked about a partition."""

    partition: int
    words: tuple[bytes, ...]


class JobRoutes:
    """Jobs over HTTP."""

    def __init__(
        self,
        member: MemberPort,
        problems: dict[int | str, dict[str, Any]],
        slices: Slices,
        sessions: Sessions,
    ) -> None:
        self._member = member
        self._slices = slices
        self._sessions = sessions
        self._uploads = asyncio.Semaphore(UPLOADS_MAX)
        guards = guards_of(member)
        self.router = APIRouter(tags=["bulk"], responses=problems, dependencies=guards)
        add, path = (
            partial(self.router.add_api_route, response_model=JobState),
            "/v1/bulk/jobs/{job}",
        )
        add(f"{path}/blocks/{{task}}/{{attempt}}", self.stage, methods=["PUT"], openapi_extra=BODY)
        add(f"{path}:check", self.check, methods=["POST"])
        add(f"{path}:publish", self.publish, methods=["POST"])
        add(path, self.discard, methods=["DELETE"])

    async def stage(
        self,
        request: Request,
        job: Id,
        task: Id,
        attempt: Id,
        name: Annotated[str, Query(min_length=1, pattern="^[^:]+$", description="Of the map.")],
        life_seconds: Life = LIFE_SECONDS,
    ) -> JobState:
        """Lay blocks of an attempt of a task aside, one after the other in the body. Each says its
        partition, and as its place in a stream its number: 0, 1, 2 ... of this attempt there. The
        same one again changes nothing."""
        before = tuple(map(_bytes, (name, job, task, attempt)))
        life = _millis(life_seconds)
        async with self._uploads:
            blocks = _cut(await _body(request))
            done = 0
            for some in _in_slices(blocks):
                laid = await self._slices.run(partial(_laid, some, before, life, done))
                await self._say_all(laid, done)
                done += len(some)
        return JobState(state="staging")

    async def check(self, job: Id, end: JobEnd) -> JobState:
        """Whether every block that counts is here. Ask it of all partitions before the first one
        is published: then nothing is missing in any."""
        words = b"CHECK", _bytes(job), _millis(end.life_seconds)
        await self._by_turns(Words(each, (*words, _winners(end, each))) for each in end.partitions)
        return JobState(state="staging")

    async def publish(self, job: Id, end: JobEnd) -> JobState:
        """Show what the job has for these partitions, one after the other; return when all of it
        is shown. Again, it changes nothing."""
        words = b"PUBLISH", *map(_bytes, (end.name, job, end.mode.value)), _millis(end.life_seconds)
        for done, partition in enumerate(end.partitions):
            asked = Words(partition, (*words, _winners(end, partition)))
            while await self._say_all([asked], done) != [PUBLISHED]:
                pass
        return JobState(state="published")

    async def discard(
        self,
        job: Id,
        partitions: Annotated[
            str,
            Query(pattern=IDS_PATTERN, description="Partitions, with commas.", examples=["0,3,6"]),
        ],
        life_seconds: Life = LIFE_SECONDS,
    ) -> JobState:
        """Have nothing of a job in these partitions any more; blocks of it that come late are
        refused."""
        words = b"DISCARD", _bytes(job), _millis(life_seconds)
        await self._by_turns(Words(int(each), words) for each in partitions.split(","))
        return JobState(state="discarded")

    # What is said to the core ---------------------------------------------------------------------

    async def _by_turns(self, asked: Iterable[Words]) -> None:
        every = list(asked)
        for done in range(0, len(every), TOGETHER):
            await self._say_all(every[done : done + TOGETHER], done)

    async def _say_all(self, asked: Sequence[Words], done: int) -> list[Any]:
        """Ask in one turn; the first that is refused is told."""
        asking = asyncio.gather(*map(self._say, asked), return_exceptions=True)
        answers = await self._slices.step(asking)
        for at, answer in enumerate(answers):
            if isinstance(answer, Refused):
                raise _about(answer, asked[at].partition, done + at)
            if isinstance(answer, BaseException):
                raise answer
        return answers

    async def _say(self, asked: Words) -> Any:
        session = self._sessions.borrow()
        try:
            return await say(self._member, session, asked.partition, *asked.words)
        finally:
            session.close()


# Blocks -------------------------------------------------------------------------------------------


async def _body(request: Request) -> bytes:
    """All blocks of a request, within a time."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(UPLOAD_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > BLOCK_BYTES_MAX:
                    limit = f"a request has at most {BLOCK_BYTES_MAX >> 20} MiB of blocks"
                    raise Refused(Kind.TOO_LARGE, limit)
                parts.append(part)
    except TimeoutError:
        raise Refused(Kind.BAD_REQUEST, f"not all of it within {UPLOAD_SECONDS:.0f} s") from None
    except ClientDisconnect:
        raise Refused(Kind.BAD_REQUEST, "the request broke off") from None
    return b"".join(parts)


def _cut(body: bytes) -> list[bytes]:
    try:
        found = cut(body)
    except RemoteProtocolError as error:
        raise Refused(Kind.BAD_REQUEST, error.message) from None
    if not found:
        raise Refused(Kind.BAD_REQUEST, "there is no block in the request")
    return found


def _in_slices(blocks: Sequence[bytes]) -> Iterator[list[bytes]]:
    """As many as one slice and one turn take."""
    some, size = list[bytes](), 0
    for block in blocks:
        if some and (size + len(block) > SLICE_BYTES or len(some) == TOGETHER):
            yield some
            some, size = [], 0
        some.append(block)
        size += len(block)
    yield some


def _laid(
    blocks: Sequence[bytes], before: tuple[bytes, ...], life: bytes, done: int
) -> list[Words]:
    """What lays these blocks aside."""
    found = []
    for at, block in enumerate(blocks):
        try:
            rows = decode(block)
        except RemoteProtocolError as error:
            refused = Refused(Kind.BAD_REQUEST, error.message)
            raise _about(refused, partition_of(block), done + at) from None
        packed = pack(chain.from_iterable(rows.mutations()))
        number = b"%d" % rows.about.sequence
        found.append(Words(rows.about.partition, (b"STAGE", *before, number, life, packed)))
    return found


def _about(refused: Refused, partition: int, done: int) -> Refused:
    """The same refusal in an answer about several partitions."""
    headers = {**refused.headers, DONE: str(done)}
    return Refused(refused.kind, f"partition {partition}: {refused.message}", headers=headers)


def _bytes(text: str) -> bytes:
    return text.encode()


def _millis(seconds: float) -> bytes:
    return b"%d" % max(1, round(seconds * 1_000))


def _winners(end: JobEnd, partition: int) -> bytes:
    """The attempts that have something in a partition."""
    return pack(
        word
        for each in end.attempts
        if partition in each.blocks
        for word in (_bytes(each.task), _bytes(each.attempt), b"%d" % each.blocks[partition])
    )
