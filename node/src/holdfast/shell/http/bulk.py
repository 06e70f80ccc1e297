"""`/v1/bulk/names`: whole partitions of a name, read or followed.

The story is in docs/protocol/bulk.md.

Rules
-----
* Everything is asked of the partition's owner; whoever else is asked says who that is, in a header,
  and nothing is passed on. What is decided is decided in the core (`core.front.bulk`).
* What is large goes in pieces. A reader gets the next block when it has taken the last one; one
  that takes nothing for `STALL_SECONDS` is cut off, as it keeps old values in memory.
* All of it goes at the pace of `slices`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

import hiredis
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.core.stores.packing import unpack
from holdfast.core.stores.snapshot import Snapshot
from holdfast.ids import PARTITION_COUNT_MAX, PartitionId
from holdfast.shell.http.pool import Borrowed, Sessions
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.refusals import Kind, Refused, of_reply
from holdfast.shell.http.security import guards_of
from holdfast.shell.http.slices import Slices
from holdfast.wire.api.bulk import FIRST, IDS_PATTERN, OWNER, ROWS_TYPE
from holdfast.wire.rows import About, encode

BULK: Final = b"HOLDFAST.BULK"
PAGE_BYTES: Final = 512 << 10
PAGE_ROWS: Final = 4_096
STALL_SECONDS: Final = 60.0
NAMES: Final = b"/v1/bulk/names/"
PARTITIONS: Final = b"/partitions"

ROWS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Blocks of rows; the last one says that it is.",
        "content": {ROWS_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}
Name = Annotated[str, Path(description="Name of the map.", examples=["users"], min_length=1)]
Partition = Annotated[int, Path(ge=0, lt=PARTITION_COUNT_MAX, description="The partition.")]


class RowsResponse(StreamingResponse):
    """Blocks as they are made. Its session ends with it, however that comes about."""

    def __init__(self, blocks: AsyncIterator[bytes], session: Borrowed) -> None:
        super().__init__(blocks, media_type=ROWS_TYPE)
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(STALL_SECONDS):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
            self._session.tell((BULK, b"CLOSE"))
        except BaseException:
            self._session.end()
            raise
        self._session.close()


class BulkRoutes:
    """Whole partitions over HTTP."""

    def __init__(self, member: MemberPort, problems: dict[int | str, dict[str, Any]]) -> None:
        self._member = member
        self.slices = Slices(lambda: member.commands)
        self.sessions = Sessions(member.session)
        guards = guards_of(member)
        self.router = APIRouter(tags=["bulk"], responses=problems, dependencies=guards)
        names, add = "/v1/bulk/names/{name:path}/partitions/{partition}", self.router.add_api_route
        many = names.removesuffix("/{partition}")
        for path, endpoint in (
            (names, self.read),
            (many, self.read_many),
            (f"{names}/changes", self.changes),
        ):
            add(path, endpoint, methods=["GET"], response_class=Response, responses=ROWS)

    def stop(self) -> None:
        """Nothing more is asked."""
        self.sessions.stop()

    # Reading --------------------------------------------------------------------------------------

    async def read(
        self,
        request: Request,
        name: Name,  # noqa: ARG002  it is taken from the path as bytes
        partition: Partition,
        values: Annotated[bool, Query(description="false: keys without values.")] = True,
    ) -> RowsResponse:
        """All rows of a partition as they are at one moment: the point that each block names."""
        return await self._answer(_name(request), [partition], values=values)

    async def read_many(
        self,
        request: Request,
        name: Name,  # noqa: ARG002  it is taken from the path as bytes
        ids: Annotated[
            str,
            Query(
                pattern=IDS_PATTERN,
                description="Partitions, with commas.",
                examples=["0,3,6"],
            ),
        ],
        values: Annotated[bool, Query(description="false: keys without values.")] = True,
    ) -> RowsResponse:
        """Several partitions one after the other, each at a moment of its own, as far as this
        member gets: the answer ends before the first that it can't read. Ask for the rest anew."""
        return await self._answer(_name(request), list(map(int, ids.split(","))), values=values)

    async def _answer(self, name: bytes, partitions: list[int], *, values: bool) -> RowsResponse:
        session = self.sessions.borrow()
        try:
            first = await self._say(session, partitions[0], b"OPEN", name)
        except BaseException:
            session.end()
            raise
        return RowsResponse(self._streams(session, first, name, partitions, values), session)

    async def _streams(
        self, session: Borrowed, told: Any, name: bytes, partitions: list[int], values: bool
    ) -> AsyncIterator[bytes]:
        for partition in partitions:
            if partition != partitions[0]:
                try:
                    told = await self._say(session, partition, b"OPEN", name)
                except Refused:
                    return
            epoch, counter = point_in(told[0])
            snapshot = self._member.node.front.snapshot(session.number)
            about = About(PartitionId(partition), epoch, counter, has_values=values)
            async for block in blocks_of(self.slices, snapshot, about):
                yield block

    async def changes(
        self,
        request: Request,
        name: Name,  # noqa: ARG002  it is taken from the path as bytes
        partition: Partition,
        after: Annotated[
            str,
            Query(
                pattern="^([0-9]{1,15}-[0-9]{1,15}|oldest|newest)$",
                description="The point up to which everything is known: epoch-number.",
            ),
        ] = "newest",
        count: Annotated[int, Query(ge=1, le=8_192, description="At most so many.")] = 4_096,
    ) -> Response:
        """What has changed in a partition after a point, in order. The block names the next point.

        What is not kept any more is a problem with the oldest point that is, never left out.
        """
        words = (b"TAIL", _name(request), after.upper().encode(), b"%d" % count)
        session = self.sessions.borrow()
        try:
            point, packed = await self.slices.step(self._say(session, partition, *words))
        finally:
            session.close()
        items, (epoch, counter) = unpack(packed), point_in(point)
        about = About(PartitionId(partition), epoch, counter)
        block = encode(about, list(zip(items[::2], items[1::2], strict=True)))
        return Response(block, media_type=ROWS_TYPE)

    # What is said to the core ---------------------------------------------------------------------

    async def _say(self, session: Borrowed, partition: int, word: bytes, *words: bytes) -> Any:
        return await say(self._member, session, partition, word, *words)


async def say(
    member: MemberPort, session: Borrowed, partition: int, word: bytes, *words: bytes
) -> Any:
    """Ask the core something about a partition."""
    reply = await session.execute((BULK, word, b"%d" % partition, *words))
    if isinstance(reply, hiredis.ReplyError):
        raise refusal_of(member, partition, str(reply))
    return reply


def refusal_of(member: MemberPort, partition: int, text: str) -> Refused:
    """Why it is refused, and where else to ask."""
    refused = of_reply(text)
    if refused.kind is Kind.MISDIRECTED:
        node = member.node
        owner = node.table.row(PartitionId(partition)).owner
        found = node.view.find(owner) if node.view is not None and owner is not None else None
        where = "" if found is None else found.endpoints.http
        refused = Refused(
            Kind.MISDIRECTED,
            f"the owner of partition {partition} answers at {where or 'no HTTP port'}",
            headers={OWNER: where},
        )
    elif refused.kind is Kind.GAP:
        refused.headers[FIRST] = text.rpartition(" ")[2]
    return refused


async def blocks_of(
    slices: Slices, snapshot: Snapshot | None, about: About
) -> AsyncIterator[bytes]:
    """All of a snapshot, a block at a time; one without rows if there is none."""
    place, sequence = 0, 0
    while True:
        block, place = await slices.run(partial(_block, snapshot, about, place, sequence))
        yield block
        if not place:
            return
        sequence += 1


def _block(snapshot: Snapshot | None, about: About, place: int, sequence: int) -> tuple[bytes, int]:
    """The next block, and the place after it; 0 after the last."""
    if snapshot is None:
        return encode(about, ()), 0
    page = snapshot.page(place, PAGE_BYTES, PAGE_ROWS)
    said = About(
        about.partition,
        about.epoch,
        about.counter,
        sequence,
        last=not page.following,
        has_values=about.has_values,
    )
    return encode(said, page.records), page.following


def _name(request: Request) -> bytes:
    """As bytes: the framework's text has lost those that are no text."""
    raw: bytes = request.scope["raw_path"]
    rest = raw.removeprefix(NAMES)
    if rest.endswith(PARTITIONS):
        return unquote_to_bytes(rest.removesuffix(PARTITIONS))
    return unquote_to_bytes(rest.rpartition(PARTITIONS + b"/")[0])


def point_in(text: bytes) -> tuple[int, int]:
    epoch, _, counter = text.partition(b"-")
    return int(epoch), int(counter)
