"""What is asked often, by machines: probes, metrics, a member's report; ASGI without a framework.

    /healthz/live    the loop turns: whoever answers lives
    /healthz/ready   joined, loaded, and with a lease: applications are served here
    /healthz/safe    the whole cluster: every promised copy is there and in sync, nothing moves.
                     A cluster that rebalances is not safe and serves well: never a readiness

    /metrics
    /v1/members/self/report
                     for the other members, which judge by it whether the cluster is safe. A member
                     that has just come back is asked for it while its partitions come, so this
                     must not cost it the time that the framework takes

Of health it says 200 or 503; the body says why, and what does not work although the member serves
(`warnings`). Whatever is not known is not so.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol

import msgspec

from holdfast.core.observing import Safety, report, unready, warnings
from holdfast.shell.http.bearer import CHALLENGE, HOW, knows
from holdfast.shell.http.metrics import METRICS_TYPE, metrics_text
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.refusals import Kind, problem
from holdfast.wire.api import PROBLEM_TYPE

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Answer = tuple[int, str, bytes]
"""Status, content type, body."""
Headers = list[tuple[bytes, bytes]]


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
UNAUTHORIZED: Final = Kind.NOT_AUTHORIZED.value.status
PROBES: Final = ("/healthz/live", "/healthz/ready", "/healthz/safe", "/metrics")
REPORT_PATH: Final = "/v1/members/self/report"


class Front:
    """Answers probes, and hands everything else to the app, once that is there."""

    def __init__(self, member: MemberPort, rest: Callable[[], Awaitable[Rest]]) -> None:
        self._member = member
        self._rest = rest
        makers = (self._live, self._ready, self._safe, self._metrics)
        self._answers: dict[str, Callable[[Headers], Awaitable[Answer]]] = {
            **dict(zip(PROBES, makers, strict=True)),
            REPORT_PATH: self._report,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        answer = self._answers.get(scope["path"]) if scope["type"] == "http" else None
        if answer is None or scope["method"] not in ("GET", "HEAD"):
            rest = await self._rest()
            await rest.app(scope, receive, send)
            return
        status, kind, body = await answer(scope["headers"])
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            *((b"www-authenticate", CHALLENGE.encode()) for _ in range(status == UNAUTHORIZED)),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        sent = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": sent})

    async def _live(self, _: Headers) -> Answer:
        return _verdict("live", ())

    async def _ready(self, _: Headers) -> Answer:
        reason = unready(self._member.node, self._member.now())
        reasons = (reason,) if reason else ()
        return _verdict("ready", reasons, warnings(self._member.node))

    async def _safe(self, _: Headers) -> Answer:
        safety = await (await self._rest()).peers.safety()
        return _verdict("safe", safety.reasons)

    async def _metrics(self, _: Headers) -> Answer:
        return 200, METRICS_TYPE, metrics_text(self._member).encode()

    async def _report(self, headers: Headers) -> Answer:
        if not knows(self._member.secret, dict(headers).get(b"authorization", b"")):
            told = problem(Kind.NOT_AUTHORIZED, HOW, REPORT_PATH)
            return UNAUTHORIZED, PROBLEM_TYPE, json.dumps(told).encode()
        return 200, JSON, msgspec.json.encode(report(self._member.node, self._member.now()))


def _verdict(what: str, reasons: tuple[str, ...], warnings: tuple[str, ...] = ()) -> Answer:
    told = {what: not reasons, "reasons": reasons, **({"warnings": warnings} if warnings else {})}
    return 503 if reasons else 200, JSON, json.dumps(told).encode()
