"""`/healthz/...` and `/metrics`: asked often, by machines; plain ASGI without a framework.

    /healthz/live    the loop turns: whoever answers lives
    /healthz/ready   joined, loaded, and with a lease: applications are served here
    /healthz/safe    the whole cluster: every promised copy is there and in sync, nothing moves.
                     A cluster that rebalances is not safe and serves well: never a readiness

200 or 503; the body says why, and what does not work although the member serves (`warnings`).
Whatever is not known is not so.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol

from holdfast.core.observing import Safety, unready, warnings
from holdfast.shell.http.metrics import METRICS_TYPE, metrics_text
from holdfast.shell.http.ports import MemberPort

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Answer = tuple[int, str, bytes]
"""Status, content type, body."""


class Asking(Protocol):
    """Who asks the other members."""

    async def safety(self) -> Safety:
        """Whether the cluster is safe, by the word of all its members."""


class Rest(Protocol):
    """All that is no probe."""

    @property
    def app(self) -> App:
        """What answers it."""

    @property
    def peers(self) -> Asking:
        """The other members."""


JSON: Final = "application/json"
PROBES: Final = ("/healthz/live", "/healthz/ready", "/healthz/safe", "/metrics")


class Front:
    """Answers probes, and hands everything else to the app, once that is there."""

    def __init__(self, member: MemberPort, rest: Callable[[], Awaitable[Rest]]) -> None:
        self._member = member
        self._rest = rest
        self._answers: dict[str, Callable[[], Awaitable[Answer]]] = dict(
            zip(PROBES, (self._live, self._ready, self._safe, self._metrics), strict=True)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        answer = self._answers.get(scope["path"]) if scope["type"] == "http" else None
        if answer is None or scope["method"] not in ("GET", "HEAD"):
            rest = await self._rest()
            await rest.app(scope, receive, send)
            return
        status, kind, body = await answer()
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        sent = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": sent})

    async def _live(self) -> Answer:
        return _verdict("live", ())

    async def _ready(self) -> Answer:
        reason = unready(self._member.node, self._member.now())
        reasons = (reason,) if reason else ()
        return _verdict("ready", reasons, warnings(self._member.node))

    async def _safe(self) -> Answer:
        safety = await (await self._rest()).peers.safety()
        return _verdict("safe", safety.reasons)

    async def _metrics(self) -> Answer:
        return 200, METRICS_TYPE, metrics_text(self._member).encode()


def _verdict(what: str, reasons: tuple[str, ...], warnings: tuple[str, ...] = ()) -> Answer:
    told = {what: not reasons, "reasons": reasons, **({"warnings": warnings} if warnings else {})}
    return 503 if reasons else 200, JSON, json.dumps(told).encode()
