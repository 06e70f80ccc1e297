"""`/v1/migrations`: what the master does about the partition table, once or as it happens.

Only the master knows; who is asked and is not the master passes the question on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from holdfast.core.observing import migrations
from holdfast.shell.http.cluster import view_of
from holdfast.shell.http.happenings import Happenings
from holdfast.shell.http.peers import Peers
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.refusals import Kind, Refused
from holdfast.shell.http.translating import happened_model, migration_id, move_model
from holdfast.wire.api.partitions import MigrationModel, MigrationsModel

EVENTS: Final = "text/event-stream"
SILENCE_SECONDS: Final = 10.0
"""So long nothing is sent when nothing changes; then a comment, so that nobody gives up."""


class MigrationRoutes:
    """Migrations over HTTP."""

    def __init__(
        self,
        member: MemberPort,
        peers: Peers,
        happenings: Happenings,
        problems: dict[int | str, dict[str, Any]],
    ) -> None:
        self._member = member
        self._peers = peers
        self._happenings = happenings
        self._stopping = asyncio.Event()
        self.router = APIRouter(tags=["migrations"], responses=problems)
        add = self.router.add_api_route
        add("/v1/migrations", self.get_migrations, methods=["GET"], response_model=MigrationsModel)
        add(
            "/v1/migrations/events",
            self.get_events,
            methods=["GET"],
            response_class=StreamingResponse,
            responses={
                200: {
                    "description": "An event `migrations` at each change; its data is what"
                    " /v1/migrations answers, without the history.",
                    "content": {EVENTS: {"schema": {"type": "string"}}},
                }
            },
        )

    def stop(self) -> None:
        """End every stream."""
        self._stopping.set()

    async def get_migrations(self, request: Request) -> MigrationsModel | StreamingResponse:
        """Migrations that are planned, running and completed, with the latest history."""
        passed = await self._passed_on(request)
        return passed or self._seen(with_history=True)

    async def get_events(
        self,
        request: Request,
        interval: Annotated[
            float, Query(ge=0.05, le=60, description="Seconds between two looks.")
        ] = 0.5,
    ) -> StreamingResponse:
        """The same as server-sent events. A stream ends when its member is the master no more."""
        passed = await self._passed_on(request)
        if passed is not None:
            return passed
        return StreamingResponse(
            self._events(interval), media_type=EVENTS, headers={"cache-control": "no-cache"}
        )

    async def _passed_on(self, request: Request) -> StreamingResponse | None:
        view, node = view_of(self._member), self._member.node
        if view.master == node.me.id:
            return None
        master = view.find(view.master)
        if master is None:
            raise Refused(Kind.UNAVAILABLE, "the master is leaving; ask again")
        return await self._peers.pass_on(request, master)

    async def _events(self, interval: float) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        last, told_at = "", 0.0
        while view_of(self._member).master == self._member.node.me.id:
            now = loop.time()
            seen = self._seen(with_history=False).model_dump_json()
            if seen != last:
                last, told_at = seen, now
                yield f"event: migrations\ndata: {seen}\n\n"
            elif now - told_at >= SILENCE_SECONDS:
                told_at = now
                yield ": nothing has changed\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._stopping.wait()
                return

    def _seen(self, *, with_history: bool) -> MigrationsModel:
        node, now = self._member.node, self._member.now()
        history = self._happenings.history() if with_history else []
        seen = migrations(node)
        return MigrationsModel(
            master=node.me.id,
            activity=seen.activity,
            planned=seen.planned,
            completed=seen.completed,
            failed=seen.failed,
            remaining=seen.waiting + len(seen.running),
            bytes=seen.moved,
            elapsed_seconds=round(self._happenings.elapsed(seen), 3),
            rate_per_second=round(self._happenings.rate(seen), 3),
            running=[
                MigrationModel(
                    id=migration_id(migration),
                    partition=migration.partition,
                    moves=[move_model(move) for move in migration.moves],
                    before=list(migration.before),
                    after=list(migration.after),
                    course=course,
                    seconds=(now - began) / 1_000,
                )
                for migration, course, began in seen.running
            ],
            history=[happened_model(each) for each in history],
        )
