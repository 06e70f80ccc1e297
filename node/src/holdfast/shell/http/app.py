"""The app: all routes, and the documents about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

import holdfast
from holdfast.shell.http import manual
from holdfast.shell.http.backups import BackupRoutes
from holdfast.shell.http.bulk import BulkRoutes
from holdfast.shell.http.cluster import ClusterRoutes
from holdfast.shell.http.copies import CopyRoutes
from holdfast.shell.http.data import DataRoutes
from holdfast.shell.http.happenings import Happenings
from holdfast.shell.http.jobs import JobRoutes
from holdfast.shell.http.members import MemberRoutes
from holdfast.shell.http.migrations import MigrationRoutes
from holdfast.shell.http.peers import Peers
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.probes import App
from holdfast.shell.http.problems import install
from holdfast.wire.api import PROBLEM_TYPE
from holdfast.wire.api.problems import Problem

ABOUT: Final = """
Control and single values of a Holdfast cluster. Any member answers; what only another one can
answer is passed on to it. Errors are problem documents (RFC 9457).

For many values use the Redis protocol: it is far faster.

Outside of this document: `/healthz/live`, `/healthz/ready`, `/healthz/safe`, `/metrics`.
"""
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "It was not done; the body says why.",
        "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}


class Application:
    """Everything that answers on the HTTP port of one member, but for probes and metrics."""

    def __init__(self, member: MemberPort, happenings: Happenings) -> None:
        self.peers = Peers(member)
        self._migrations = MigrationRoutes(member, self.peers, happenings, PROBLEMS)
        app = FastAPI(
            title="Holdfast",
            version=holdfast.__version__,
            description=ABOUT,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
        )
        install(app)
        app.include_router(ClusterRoutes(member, self.peers, PROBLEMS).router)
        app.include_router(MemberRoutes(member, self.peers, PROBLEMS).router)
        app.include_router(self._migrations.router)
        app.include_router(BackupRoutes(member, self.peers, PROBLEMS).router)
        app.include_router(DataRoutes(member, PROBLEMS).router)
        self._bulk = BulkRoutes(member, PROBLEMS)
        app.include_router(self._bulk.router)
        slices, sessions = self._bulk.slices, self._bulk.sessions
        app.include_router(JobRoutes(member, PROBLEMS, slices, sessions).router)
        app.include_router(CopyRoutes(member, PROBLEMS, slices, sessions).router)
        _describe_problems(app)
        app.add_api_route("/docs", _manual(app), methods=["GET"], include_in_schema=False)
        _make_routes(app)
        self.app: App = app

    def stop(self) -> None:
        """End what would not end by itself."""
        self._migrations.stop()
        self._bulk.stop()

    async def close(self) -> None:
        """Nothing is asked any more."""
        await self.peers.close()


def _make_routes(app: FastAPI) -> None:
    """The framework makes them when it first looks for one, which takes so long that applications
    would notice."""
    scope = {"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(scope)


def _manual(app: FastAPI) -> Callable[[], Awaitable[HTMLResponse]]:
    """What answers with the documents as a page."""

    async def answer() -> HTMLResponse:
        headers = {"content-security-policy": manual.POLICY}
        return HTMLResponse(manual.page(app.openapi()), headers=headers)

    return answer


def _describe_problems(app: FastAPI) -> None:
    """The schema of problems is no route's model: it has to be put there."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        document = make()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        if "Problem" not in schemas:
            schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas["Problem"] = schema
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # the way that FastAPI describes
