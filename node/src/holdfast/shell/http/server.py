"""The HTTP server inside the member's own loop: uvicorn without its signals and log of accesses.

It is given a socket that is bound: a port that is taken is found, and told, before anything runs.

Probes, metrics and what members tell one another of themselves are answered at once. All the rest
stands on frameworks that take long to import, so it is loaded in a thread: a moment after the
member is ready (`warm`), or when somebody asks for it. Who asks waits that long; the loop does not,
but it shares the interpreter with that thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import uvicorn

from holdfast.shell.http.happenings import Happenings
from holdfast.shell.http.local import LocalMember
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.probes import Front
from holdfast.shell.member import Member

if TYPE_CHECKING:
    from holdfast.shell.http.app import Application

LOG: Final = logging.getLogger("holdfast.http")
PATIENCE_SECONDS: Final = 5
"""For answers that are under way when the member ends."""
CONNECTIONS_MAX: Final = 2_000


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the member, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.listens.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None."""
        yield


class HttpServer:
    """Answers on the HTTP port of one member."""

    def __init__(self) -> None:
        self._loading: asyncio.Task[Application] | None = None
        self._member: MemberPort
        self._happenings = Happenings()
        self._server: _Uvicorn | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self, member: Member, listener: socket.socket) -> None:
        """Serve on this socket; return once it listens."""
        local = self._member = LocalMember(member)
        local.listen(self._happenings.note)
        config = uvicorn.Config(
            Front(local, self._application),
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=PATIENCE_SECONDS,
        )
        server = self._server = _Uvicorn(config)
        loop = asyncio.get_running_loop()
        self._serving = loop.create_task(server.serve(sockets=[listener]))
        listens = loop.create_task(server.listens.wait())
        await asyncio.wait((self._serving, listens), return_when=asyncio.FIRST_COMPLETED)
        if not listens.done():
            listens.cancel()
            await self._serving  # it says why

    def warm(self) -> None:
        """Load what takes long."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())

    async def _application(self) -> Application:
        self.warm()
        assert self._loading is not None, "it was just begun"
        return await asyncio.shield(self._loading)

    async def _load(self) -> Application:
        application = await asyncio.to_thread(_make, self._member, self._happenings)
        gc.freeze()  # what was imported stays: no collection has to look at it
        return application

    async def stop(self) -> None:
        """Answer what is under way, then end."""
        if self._server is None or self._serving is None:
            return
        application = None if self._loading is None else await self._loading
        if application is not None:
            application.stop()
        self._server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await self._serving
        if application is not None:
            await application.close()


def _make(member: MemberPort, happenings: Happenings) -> Application:
    from holdfast.shell.http.app import Application

    return Application(member, happenings)
