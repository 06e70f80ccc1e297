"""A running cluster as an audit sees it: who holds what, and what each holder has.

Members are asked one by one: whose copy is asked for matters here. Who does not answer, or has no
room for one more reader, is asked again for some time; a table that has changed meanwhile is
learned anew by whoever notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

from holdfast.client.http import HttpClient
from holdfast.client.likeness import STAGING, Likeness, number_of_row
from holdfast.errors import HoldfastError, ProblemReported, RemoteProtocolError, Unreachable
from holdfast_spark.errors import ClusterError
from holdfast_spark.jobs.comparing import Census, Numbers, Stand

PAUSE_SECONDS: Final = 0.1
TRIES: Final = 50
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster: members to ask first, and its secret."""

    endpoints: tuple[str, ...]
    secret: str = field(default="", repr=False)

    def client(self, url: str) -> HttpClient:
        """Of one member."""
        return HttpClient(url, secret=self.secret.encode())


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a partition at an index."""

    index: int
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Table:
    """Who holds what, at one moment."""

    holders: tuple[tuple[Holder, ...], ...]
    """Of each partition, the owner first."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One fragment at one holder."""

    census: Census
    stand: Stand
    copies: int


@dataclass(frozen=True, slots=True)
class Looked:
    """What a member has of a partition."""

    index: int
    fragments: dict[bytes, Kept]


async def table_of(cluster: Cluster) -> Table:
    """From whoever tells it first."""
    reasons = []
    for url in cluster.endpoints:
        try:
            async with cluster.client(url) as client:
                rows = (await client.partitions(health=False)).partitions
                members = {each.id: each for each in await client.members()}
        except (Unreachable, RemoteProtocolError, ProblemReported) as error:
            reasons.append(error.message)
            continue
        return Table(
            tuple(
                tuple(
                    Holder(each.index, found.name, f"http://{found.endpoints.http}")
                    for each in row.replicas
                    if each.member is not None and (found := members.get(each.member)) is not None
                )
                for row in rows
            )
        )
    raise ClusterError(f"no member tells who holds what: {'; '.join(reasons)}")


class Asker:
    """Asks the members of one cluster."""

    def __init__(self, cluster: Cluster, table: Table) -> None:
        self.cluster = cluster
        self.table = table
        self._clients: dict[str, HttpClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ask nothing any more."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    def _client(self, url: str) -> HttpClient:
        if url not in self._clients:
            self._clients[url] = self.cluster.client(url)
        return self._clients[url]

    async def owner(self, partition: int) -> Holder:
        """Whoever owns it now."""

        async def find() -> Holder:
            holders = self.table.holders[partition]
            if not holders or holders[0].index:
                self.table = await table_of(self.cluster)
                raise Unreachable(f"partition {partition} has no owner")
            return holders[0]

        return await tried(find)

    async def look(self, partition: int, holder: Holder, likeness: Likeness, moment: int) -> Looked:
        """Everything that a holder has, but for what jobs have laid aside."""

        async def ask() -> Looked:
            client = self._client(holder.url)
            found = await client.copies(partition, likeness=likeness, moment_ms=moment)
            if found.index != holder.index:
                self.table = await table_of(self.cluster)
            fragments = {
                unquote_to_bytes(each.name): Kept(
                    Census(each.keys, int(each.weight, 16)),
                    Stand(each.epoch, each.counter, each.clean),
                    each.copies,
                )
                for each in found.copies
            }
            fragments.pop(STAGING, None)
            return Looked(found.index, fragments)

        return await tried(ask)

    async def numbers(
        self, partition: int, holder: Holder, name: bytes, likeness: Likeness, moment: int
    ) -> Numbers:
        """Of every key of a fragment, what is compared."""

        async def ask() -> Numbers:
            found: Numbers = {}
            values = likeness is Likeness.CONTENT
            blocks = self._client(holder.url).copy_rows(
                partition, quoted(name), moment_ms=moment, values=values
            )
            async for rows in blocks:
                found.update((row.key, number_of_row(row, likeness)) for row in rows)
            return found

        return await tried(ask)


def quoted(name: bytes) -> str:
    """As members name fragments."""
    return quote_from_bytes(name, safe="")


async def tried(ask: Callable[[], Awaitable[Result]]) -> Result:
    """Again for a while, where that may help."""
    for left in reversed(range(TRIES)):
        try:
            return await ask()
        except HoldfastError as error:
            passes = isinstance(error, Unreachable) or (
                isinstance(error, ProblemReported) and error.status == 503
            )
            if not (passes and left):
                raise ClusterError(error.message) from error
        await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError("the last try returns or raises")
