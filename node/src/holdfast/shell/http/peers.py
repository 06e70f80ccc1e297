"""Other members, over HTTP: their reports, and requests that are theirs to answer.

Rules
-----
* Nothing of this is on the way of data. A member that does not answer within `ANSWER_SECONDS` is
  silent; what follows from its silence is judged in the core (`core.observing.judge`).
* Everybody who wants to know whether the cluster is safe at the same time gets one answer.
* A request is passed on once: whoever gets one that was passed on already answers it or refuses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar

import msgspec
from fastapi import Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ValidationError

from holdfast.core.observing import NameSize, Report, Safety, judge, name_sizes, report, troubles
from holdfast.core.views import Member
from holdfast.ids import MemberId
from holdfast.shell.http.lean import httpx
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.probes import REPORT_PATH
from holdfast.shell.http.refusals import Kind, Refused
from holdfast.wire.api import FORWARDED
from holdfast.wire.api.problems import Problem

LOG: Final = logging.getLogger("holdfast.http")
ANSWER_SECONDS: Final = 2.0
CONNECT_SECONDS: Final = 1.0
PASSED_ON_MAX: Final = 1_000
NAMES_PATH: Final = "/v1/members/self/names"
PASSED_ON: Final = (b"authorization", b"content-type", b"accept")
"""Headers that go along with a request."""
TAKEN_BACK: Final = (b"content-type", b"retry-after", b"www-authenticate", b"cache-control")
"""Headers that come back with its answer."""

Header = tuple[bytes, bytes]
Told = TypeVar("Told")
Answered = TypeVar("Answered", bound=BaseModel)


class Ordered(NamedTuple):
    """What became of an order."""

    refused: str
    """Why it was not carried out; nothing if it was."""
    content: bytes = b""
    """What was answered."""


class Peers:
    """The other members, as far as this one may ask them."""

    def __init__(self, member: MemberPort) -> None:
        self._member = member
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS), trust_env=False
        )
        self._through = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=PASSED_ON_MAX, max_keepalive_connections=8),
            trust_env=False,
        )
        """For what is passed on: that may take long, and must not keep a report waiting."""
        self._judging: asyncio.Task[Safety] | None = None
        self.excuses: dict[MemberId, str] = {}
        """What members said last, instead of a report."""

    async def close(self) -> None:
        """No more questions."""
        if self._judging is not None:
            self._judging.cancel()
        await self._client.aclose()
        await self._through.aclose()

    # What they say of themselves ------------------------------------------------------------------

    async def reports(self) -> dict[MemberId, Report]:
        """Of every member that answers, this one included."""
        node = self._member.node
        told = await self._ask_all(REPORT_PATH, Report)
        told[node.me.id] = report(node, self._member.now())
        return told

    async def names(self) -> dict[MemberId, tuple[NameSize, ...]]:
        """What every member that answers has of each name."""
        node = self._member.node
        told = await self._ask_all(NAMES_PATH, tuple[NameSize, ...])
        told[node.me.id] = name_sizes(node)
        return told

    def _note_excuse(self, member: Member, answer: httpx.Response) -> None:
        """Keep why it does not report: it may be reading its files."""
        self.excuses.pop(member.id, None)
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            with contextlib.suppress(ValidationError):
                problem = Problem.model_validate_json(answer.content)
                self.excuses[member.id] = problem.detail

    async def _ask_all(self, path: str, kind: type[Told]) -> dict[MemberId, Told]:
        others = self._member.node.context.others()
        answers = await asyncio.gather(*(self._ask(member, path, kind) for member in others))
        pairs = zip(others, answers, strict=True)
        return {member.id: answer for member, answer in pairs if answer is not None}

    async def _ask(self, member: Member, path: str, kind: type[Told]) -> Told | None:
        if not member.endpoints.http:
            return None
        try:
            answer = await self._client.get(
                f"http://{member.endpoints.http}{path}", headers=self._credentials()
            )
            self._note_excuse(member, answer)
            answer.raise_for_status()
            return msgspec.json.decode(answer.content, type=kind)
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError) as error:
            LOG.debug("%s does not answer %s: %s", member.name, path, error)
            return None

    def _credentials(self, *more: Header) -> list[Header]:
        """Headers as bytes: a secret need not be text."""
        secret = self._member.secret
        return [(b"authorization", b"Bearer " + secret), *more] if secret else [*more]

    # Safety ---------------------------------------------------------------------------------------

    async def safety(self) -> Safety:
        """Whether the cluster is safe, as of a moment after this was asked."""
        if self._judging is None:
            self._judging = asyncio.get_running_loop().create_task(self._judge())
            self._judging.add_done_callback(self._judged)
        return await asyncio.shield(self._judging)

    def _judged(self, _: asyncio.Task[Safety]) -> None:
        self._judging = None

    async def _judge(self) -> Safety:
        """Where this member alone knows better, nobody else is asked: whoever waits for a cluster
        to be safe would take time from what is to make it so. Backups that seem behind are asked
        again, since writes may have been on their way."""
        node = self._member.node
        known = tuple(f"{node.me.name}: {each}" for each in troubles(node, self._member.now()))
        if known:
            return Safety(False, known, 0, 0)
        return await self.safety_of(await self.reports())

    async def safety_of(self, reports: dict[MemberId, Report]) -> Safety:
        """What follows from these reports, and from later ones where that matters."""
        node = self._member.node
        view = node.view
        if view is None:
            return Safety(False, ("this member is in no cluster yet",), 0, 0)
        rows, config = node.table.rows, node.context.config
        first = judge(config, view, rows, reports)
        if not first.unsynced_copies or len(first.reasons) > 1:
            return first
        return judge(config, view, rows, reports, await self.reports())

    # Passing on -----------------------------------------------------------------------------------

    async def pass_on(self, request: Request, member: Member) -> StreamingResponse:
        """Have another member answer this very request."""
        where = member.endpoints.http
        if request.headers.get(FORWARDED) is not None or not where:
            raise Refused(Kind.MISDIRECTED, f"ask {member.name} at {where or member.address}")
        asked = self._through.build_request(
            request.method,
            f"http://{where}{_target(request)}",
            content=await request.body(),
            headers=[*_kept(request.headers.raw, PASSED_ON), (FORWARDED.encode(), b"1")],
        )
        try:
            answer = await self._through.send(asked, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            what = f"{member.name} at {where} does not answer: {error!s} ({type(error).__name__})"
            raise Refused(Kind.NO_ANSWER, what) from error
        return StreamingResponse(
            _chunks(answer),
            answer.status_code,
            {k.decode(): v.decode("latin-1") for k, v in _kept(answer.headers.raw, TAKEN_BACK)},
        )

    async def ask_model(self, member: Member, path: str, kind: type[Answered]) -> Answered | None:
        """What one member answers; None if it does not."""
        try:
            answer = await self._client.get(
                f"http://{member.endpoints.http}{path}", headers=self._credentials()
            )
            answer.raise_for_status()
            return kind.model_validate_json(answer.content)
        except (httpx.HTTPError, httpx.InvalidURL, ValidationError) as error:
            LOG.debug("%s does not answer %s: %s", member.name, path, error)
            return None

    async def order(
        self, member: Member, path: str, body: bytes, seconds: float, *, method: str = "POST"
    ) -> Ordered:
        """Have another member do what may take long."""
        headers = self._credentials(
            (FORWARDED.encode(), b"1"), (b"content-type", b"application/json")
        )
        where = f"http://{member.endpoints.http}{path}"
        limit = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        try:
            answer = await self._through.request(
                method, where, content=body, headers=headers, timeout=limit
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Ordered(f"it does not answer: {error!s} ({type(error).__name__})")
        if answer.is_success:
            return Ordered("", answer.content)
        try:
            return Ordered(Problem.model_validate_json(answer.content).detail)
        except ValidationError:
            return Ordered(f"it answers {answer.status_code}")

    async def post(self, member: Member, path: str, body: bytes) -> bool:
        """Ask another member for something that it does at once; whether it did."""
        headers = self._credentials(
            (FORWARDED.encode(), b"1"), (b"content-type", b"application/json")
        )
        try:
            where = f"http://{member.endpoints.http}{path}"
            answer = await self._client.post(where, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            LOG.warning("%s does not answer: %s", member.name, error)
            return False
        return answer.is_success


def _target(request: Request) -> str:
    raw: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return (raw + (b"?" + query if query else b"")).decode("latin-1")


def _kept(headers: Iterable[Header], names: tuple[bytes, ...]) -> list[Header]:
    return [(name.lower(), value) for name, value in headers if name.lower() in names]


async def _chunks(answer: httpx.Response) -> AsyncIterator[bytes]:
    """What the other member says, as it comes; if it breaks off, so do we."""
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()
