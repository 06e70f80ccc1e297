"""The operator's own ports: health and metrics over HTTP, admission over TLS.

`/healthz`: the loop turns. `/readyz`: what is watched is known, and the webhook has a certificate.
Both replicas answer the webhook; only the leader acts.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from holdfast_operator.running.metrics import Metrics

Review = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
BODY_BYTES_MAX: Final = 8 << 20


class Doors:
    """Both servers."""

    def __init__(self, metrics: Metrics, is_ready: Callable[[], str]) -> None:
        """`is_ready` says why not, or nothing."""
        self._metrics = metrics
        self._is_ready = is_ready
        self._runners: list[web.AppRunner] = []
        self.ports: list[int] = []
        """That were taken, in the order of opening."""

    async def open_plain(self, host: str, port: int) -> int:
        """Health and metrics; the port that was taken."""
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._numbers)
        return await self._serve(app, host, port, None)

    async def open_admission(
        self, host: str, port: int, review: Review, context: ssl.SSLContext
    ) -> int:
        """The webhook; certificates are changed in the context while it serves."""

        async def answer(request: web.Request) -> web.Response:
            return web.json_response(await review(await request.json()))

        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_post("/validate", answer)
        return await self._serve(app, host, port, context)

    async def close(self) -> None:
        """Answer what is under way, then end."""
        for runner in self._runners:
            await runner.cleanup()

    async def _serve(
        self, app: web.Application, host: str, port: int, context: ssl.SSLContext | None
    ) -> int:
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host, port, ssl_context=context)
        await site.start()
        taken: int = runner.addresses[0][1]
        self.ports.append(taken)
        return taken

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _ready(self, _: web.Request) -> web.Response:
        reason = self._is_ready()
        status = 503 if reason else 200
        return web.json_response({"ready": not reason, "reason": reason}, status=status)

    async def _numbers(self, _: web.Request) -> web.Response:
        return web.Response(text=self._metrics.text(), content_type="text/plain", charset="utf-8")
