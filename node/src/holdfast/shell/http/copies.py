"""`/v1/bulk/partitions/N/copies`: what this very member has of a partition, for who compares.

Nothing is passed on and nobody is asked whether it counts (`core.front.copies`). Sums are made
here, slice by slice beside the applications' own work, so that equal copies cost a line each, not
their data.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from fastapi import APIRouter, Query
from fastapi.responses import Response

from holdfast.core.data.likeness import Likeness, weigh
from holdfast.core.stores.snapshot import Snapshot
from holdfast.ids import PartitionId
from holdfast.shell.http.bulk import (
    BULK,
    PAGE_BYTES,
    PAGE_ROWS,
    ROWS,
    Partition,
    RowsResponse,
    blocks_of,
    point_in,
    say,
)
from holdfast.shell.http.pool import Borrowed, Sessions
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.security import guards_of
from holdfast.shell.http.slices import Slices
from holdfast.wire.api.copies import CopiesModel, CopyModel
from holdfast.wire.rows import About

Moment = Annotated[
    int,
    Query(ge=0, le=(1 << 62), description="What has expired by then is left out; 0: nothing."),
]


class CopyRoutes:
    """Copies over HTTP."""

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
        guards = guards_of(member)
        self.router = APIRouter(tags=["bulk"], responses=problems, dependencies=guards)
        path = "/v1/bulk/partitions/{partition}/copies"
        self.router.add_api_route(path, self.all, methods=["GET"], response_model=CopiesModel)
        self.router.add_api_route(
            f"{path}/rows", self.rows, methods=["GET"], response_class=Response, responses=ROWS
        )

    async def all(
        self,
        partition: Partition,
        likeness: Annotated[
            Likeness, Query(description="Whether versions are summed up, or contents.")
        ] = Likeness.VERSIONS,
        moment_ms: Moment = 0,
    ) -> CopiesModel:
        """Every fragment of a partition that is here, owner or backup, and the sum over it."""
        session = self._sessions.borrow()
        try:
            index, names = await self._say(session, b"COPIES", partition)
            copies = [
                await self._copy(session, partition, name, likeness, moment_ms) for name in names
            ]
            await session.execute((BULK, b"CLOSE"))
        except BaseException:
            session.end()
            raise
        session.close()
        me = self._member.node.me.id
        return CopiesModel(member=me, partition=partition, index=index, copies=copies)

    async def rows(
        self,
        partition: Partition,
        name: Annotated[str, Query(description="Of the fragment, as it would stand in a URL.")],
        moment_ms: Moment = 0,
        values: Annotated[bool, Query(description="false: keys without values.")] = True,
    ) -> RowsResponse:
        """All rows of one fragment, as they are here."""
        session = self._sessions.borrow()
        try:
            told = await self._open(session, partition, unquote_to_bytes(name), moment_ms)
        except BaseException:
            session.end()
            raise
        epoch, counter = point_in(told[0])
        about = About(PartitionId(partition), epoch, counter, has_values=values)
        return RowsResponse(self._blocks(session, about), session)

    async def _blocks(self, session: Borrowed, about: About) -> AsyncIterator[bytes]:
        snapshot = self._member.node.front.snapshot(session.number)
        async for block in blocks_of(self._slices, snapshot, about):
            yield block

    async def _copy(
        self, session: Borrowed, partition: int, name: bytes, likeness: Likeness, moment: int
    ) -> CopyModel:
        point, clean, copies, _ = await self._open(session, partition, name, moment)
        snapshot = self._member.node.front.snapshot(session.number)
        keys = place = weight = 0
        while snapshot is not None:
            count, place, weight = await self._slices.run(
                partial(_weighed, snapshot, place, likeness, weight)
            )
            keys += count
            if not place:
                break
        epoch, counter = point_in(point)
        return CopyModel(
            name=quote_from_bytes(name, safe=""),
            epoch=epoch,
            counter=counter,
            clean=bool(clean),
            copies=copies,
            keys=keys,
            weight=f"{weight:016x}",
        )

    async def _open(self, session: Borrowed, partition: int, name: bytes, moment: int) -> Any:
        return await self._say(session, b"COPY", partition, name, b"%d" % moment)

    async def _say(self, session: Borrowed, word: bytes, partition: int, *words: bytes) -> Any:
        return await say(self._member, session, partition, word, *words)


def _weighed(
    snapshot: Snapshot, place: int, likeness: Likeness, before: int
) -> tuple[int, int, int]:
    """The next records: how many, the place after them, the sum."""
    page = snapshot.page(place, PAGE_BYTES, PAGE_ROWS)
    return len(page.records), page.following, weigh(page.records, likeness, before)
