"""A typed client of the HTTP interface (`wire.api`): what can't be done is an error of our tree.

Questions have a short timeout; wishes that a member answers only when they are done (a departure, a
change that waits for migrations) have none but what the caller sets around them.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from holdfast.core.data.likeness import Likeness
from holdfast.core.states import ClusterState
from holdfast.errors import ProblemReported, RemoteProtocolError, Unreachable
from holdfast.wire.api import METRICS_PREFIX, PROBLEM_TYPE, PROBLEM_URN, TTL
from holdfast.wire.api.backups import BackupModel, BackupsModel, BackupWish
from holdfast.wire.api.cluster import (
    ClusterModel,
    Death,
    Done,
    MemberModel,
    MembersModel,
    SelfModel,
    StateChange,
    StateChanged,
)
from holdfast.wire.api.copies import CopiesModel
from holdfast.wire.api.partitions import MigrationsModel, NamesModel, PartitionsModel
from holdfast.wire.api.problems import Problem
from holdfast.wire.rows import Rows, RowStream

CONNECT_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 10.0
PATIENT: Final = httpx.Timeout(None, connect=CONNECT_SECONDS)

Model = TypeVar("Model", bound=BaseModel)

TRUSTS_NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For what has no TLS, as the ports of members: to read the system's authorities would cost a
client more than all that it asks."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a probe says."""

    holds: bool
    reasons: tuple[str, ...]


class _VerdictModel(BaseModel):
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class Value:
    """A value, with what is needed to change it only if it is still this one."""

    data: bytes
    tag: str
    """For `put` and `delete`."""
    ttl_seconds: float | None


class HttpClient:
    """Asks one member; any will do."""

    def __init__(
        self,
        url: str,
        *,
        secret: bytes = b"",
        answer_seconds: float = ANSWER_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url
        headers = [(b"authorization", b"Bearer " + secret)] if secret else []
        with told(url):
            self._client = httpx.AsyncClient(
                base_url=url,
                headers=headers,
                timeout=httpx.Timeout(answer_seconds, connect=CONNECT_SECONDS),
                transport=transport,
                trust_env=False,
                verify=TRUSTS_NOBODY if url.startswith("http:") else True,
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """No more questions."""
        await self._client.aclose()

    # The cluster ----------------------------------------------------------------------------------

    async def cluster(self) -> ClusterModel:
        """State, members, safety."""
        return await self._get("/v1/cluster", ClusterModel)

    async def myself(self) -> SelfModel:
        """Who answers here, also while it is in no cluster."""
        return await self._get("/v1/self", SelfModel)

    async def members(self) -> list[MemberModel]:
        """All members, the oldest first."""
        return (await self._get("/v1/members", MembersModel)).members

    async def partitions(self, *, health: bool = True) -> PartitionsModel:
        """The partition table; with `health` every member is asked how its copies are."""
        return await self._get(f"/v1/partitions?health={str(health).lower()}", PartitionsModel)

    async def names(self) -> NamesModel:
        """All names with their settings and sizes."""
        return await self._get("/v1/namespaces", NamesModel)

    async def set_state(self, state: ClusterState, *, wait_seconds: float = 0) -> StateChanged:
        """Change the state; return when it holds."""
        body = StateChange(state=state, wait=wait_seconds).model_dump_json().encode()
        return await self._act("PUT", "/v1/cluster/state", body, StateChanged)

    # Members --------------------------------------------------------------------------------------

    async def promote(self, member: str) -> Done:
        """Make a lite member, by its id or name, a data member."""
        return await self._act("POST", _verb(member, "promote"), b"", Done)

    async def demote(self, member: str) -> Done:
        """Make a data member a lite one; return when its partitions are elsewhere."""
        return await self._act("POST", _verb(member, "demote"), b"", Done)

    async def shutdown(self, member: str) -> Done:
        """Have a member leave; return when its partitions are elsewhere."""
        return await self._act("POST", _verb(member, "shutdown"), b"", Done)

    async def confirm_dead(self, member: str, incarnation: int, ago_seconds: float = 0) -> Done:
        """Tell all members that a process is gone: only what is known for a fact."""
        body = Death(incarnation=incarnation, ago=ago_seconds).model_dump_json().encode()
        return await self._act("POST", _verb(member, "confirm-dead"), body, Done)

    # Backups --------------------------------------------------------------------------------------

    async def backups(self) -> BackupsModel:
        """What all members have kept."""
        return await self._get("/v1/backups", BackupsModel)

    async def back_up(self, name: str = "") -> BackupModel:
        """Make a backup of all members; return when it is complete."""
        body = BackupWish(name=name).model_dump_json().encode()
        return await self._act("POST", "/v1/backups", body, BackupModel)

    async def forget_backup(self, name: str) -> BackupsModel:
        """Remove a backup at all members; return what is left."""
        return await self._act("DELETE", f"/v1/backups/{quote(name, safe='')}", b"", BackupsModel)

    # Copies ---------------------------------------------------------------------------------------

    async def copies(
        self, partition: int, *, likeness: Likeness = Likeness.VERSIONS, moment_ms: int = 0
    ) -> CopiesModel:
        """Every fragment that this very member has of a partition, and the sum over it."""
        query = f"likeness={likeness.value}&moment_ms={moment_ms}"
        return await self._get(f"/v1/bulk/partitions/{partition}/copies?{query}", CopiesModel)

    async def copy_rows(
        self, partition: int, name: str, *, moment_ms: int = 0, values: bool = True
    ) -> AsyncIterator[Rows]:
        """All rows of one of them, by its name in `copies`."""
        query = f"name={quote(name, safe='')}&moment_ms={moment_ms}&values={str(values).lower()}"
        path, reader = f"/v1/bulk/partitions/{partition}/copies/rows?{query}", RowStream()
        with told(self.url):
            async with self._client.stream("GET", path) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise problem_of(answer)
                async for data in answer.aiter_raw():
                    for rows in reader.feed(data):
                        yield rows
        if not reader.whole:
            raise Unreachable(f"{self.url}: it broke off")

    # Migrations -----------------------------------------------------------------------------------

    async def migrations(self) -> MigrationsModel:
        """What the master does about the table."""
        return await self._get("/v1/migrations", MigrationsModel)

    async def watch_migrations(
        self, interval_seconds: float = 0.5
    ) -> AsyncIterator[MigrationsModel]:
        """The same at each change, until the master is another one."""
        path = f"/v1/migrations/events?interval={interval_seconds}"
        timeout = httpx.Timeout(30.0, connect=CONNECT_SECONDS)
        with told(self.url):
            async with self._client.stream("GET", path, timeout=timeout) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise problem_of(answer)
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        yield decoded(line.removeprefix("data: ").encode(), MigrationsModel)

    # Probes ---------------------------------------------------------------------------------------

    async def ready(self) -> Verdict:
        """Whether the member serves applications."""
        return await self._probe("ready")

    async def safe(self) -> Verdict:
        """Whether every promised copy of the cluster is there and in sync."""
        return await self._probe("safe")

    async def _probe(self, what: str) -> Verdict:
        answer = await self._ask("GET", f"/healthz/{what}")
        if answer.status_code not in (200, 503):
            raise problem_of(answer)
        verdict = decoded(answer.content, _VerdictModel)
        return Verdict(answer.status_code == 200, tuple(verdict.reasons))

    async def metrics(self) -> dict[str, float]:
        """The member's own numbers, as far as they have no labels, without our prefix."""
        answer = await self._ask("GET", "/metrics")
        check(answer)
        pairs = (line.split(" ") for line in answer.text.splitlines() if line[:1] != "#")
        return {
            name.removeprefix(METRICS_PREFIX): float(number)
            for name, number in (pair for pair in pairs if len(pair) == 2)
            if not name.endswith("}")
        }

    # Values ---------------------------------------------------------------------------------------

    async def get(self, name: str, key: bytes) -> Value | None:
        """A value of a map; None where nothing is."""
        answer = await self._ask("GET", _place(name, key))
        if answer.status_code == 404:
            return None
        check(answer)
        ttl = answer.headers.get(TTL)
        return Value(answer.content, answer.headers["etag"], None if ttl is None else float(ttl))

    async def put(
        self,
        name: str,
        key: bytes,
        data: bytes,
        *,
        ttl_seconds: float | None = None,
        if_tag: str | None = None,
        if_absent: bool = False,
    ) -> str:
        """Write a value; return its tag."""
        headers = {} if if_tag is None else {"if-match": if_tag}
        if if_absent:
            headers["if-none-match"] = "*"
        if ttl_seconds is not None:
            headers[TTL] = f"{ttl_seconds:.3f}"
        answer = await self._ask("PUT", _place(name, key), data, headers)
        check(answer)
        tag: str = answer.headers["etag"]
        return tag

    async def delete(self, name: str, key: bytes, *, if_tag: str | None = None) -> bool:
        """Remove a value; whether there was one."""
        headers = {} if if_tag is None else {"if-match": if_tag}
        answer = await self._ask("DELETE", _place(name, key), headers=headers)
        if answer.status_code == 404:
            return False
        check(answer)
        return True

    # One request ----------------------------------------------------------------------------------

    async def _get(self, path: str, kind: type[Model]) -> Model:
        answer = await self._ask("GET", path)
        check(answer)
        return decoded(answer.content, kind)

    async def _act(self, method: str, path: str, body: bytes, kind: type[Model]) -> Model:
        headers = {"content-type": "application/json"} if body else {}
        answer = await self._ask(method, path, body, headers, patient=True)
        check(answer)
        return decoded(answer.content, kind)

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        patient: bool = False,
    ) -> httpx.Response:
        with told(self.url):
            request = self._client.build_request(
                method,
                path,
                content=body,
                headers=headers,
                timeout=PATIENT if patient else self._client.timeout,
            )
            return await self._client.send(request)


@contextlib.contextmanager
def told(url: str) -> Iterator[None]:
    """Errors of the library as ours."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise Unreachable(f"{url} does not answer in time") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreachable(f"{url} can't be asked: {error}") from error


def _verb(member: str, verb: str) -> str:
    return f"/v1/members/{quote(member, safe='')}:{verb}"


def _place(name: str, key: bytes) -> str:
    return f"/v1/maps/{quote(name, safe='')}/{quote(key, safe='')}"


def check(answer: httpx.Response) -> None:
    if not answer.is_success:
        raise problem_of(answer)


def problem_of(answer: httpx.Response) -> ProblemReported | RemoteProtocolError:
    """What the answer says is wrong; an answer that is none of ours says so."""
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind != PROBLEM_TYPE:
        return RemoteProtocolError(f"{answer.url}: {answer.status_code}, not from a member")
    problem = decoded(answer.content, Problem)
    return ProblemReported(problem.status, problem.type.removeprefix(PROBLEM_URN), problem.detail)


def decoded(data: bytes, kind: type[Model]) -> Model:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise RemoteProtocolError(f"no {kind.__name__}: {error.error_count()} errors") from error
