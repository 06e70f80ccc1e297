"""Looking at a grid through its members' HTTP ports.

Any member can tell of all. The one that answered well last is asked again; if it does not answer in
time, all others are asked at once, and the answer is taken that knows most: a living master, the
newest view. A member that was cut off tells of a grid that is no more; it has an older term.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.client.http import HttpClient
from holdfast.errors import HoldfastError
from holdfast.wire.api.backups import BackupModel
from holdfast.wire.api.cluster import ClusterModel
from holdfast.wire.api.partitions import MigrationsModel
from holdfast_operator.names import PORT_HTTP, PORT_STEP, member_names
from holdfast_operator.observed import Pod, Stay

LOG: Final = logging.getLogger("holdfast.operator.looking")
LOOK_SECONDS: Final = 3.0
FIRST_SECONDS: Final = 1.0
LEFT: Final = "load_remaining_seconds"
"""The metric of a member that reads its files, and of no other."""

PodNow = Callable[[str], Pod | None]
"""A pod by its name, as it is known at this moment."""


class Eye:
    """On one grid."""

    def __init__(self) -> None:
        self._clients: dict[str, HttpClient] = {}
        self._best = ""
        self._stays: dict[str, Stay] = {}
        self.secret = b""

    async def look(self, pods: Iterable[Pod]) -> tuple[ClusterModel | None, MigrationsModel | None]:
        """The grid, and what moves; None where nobody could say."""
        urls = [self._url(pod, 0) for pod in sorted(pods, key=_how_likely) if _is_reachable(pod)]
        await self._keep(urls)
        if self._best in urls:
            found = await self._ask(self._best, FIRST_SECONDS)
            if found is not None and found.master_answers:
                return found, await self._migrations()
        answers = await asyncio.gather(*(self._ask(url, LOOK_SECONDS) for url in urls))
        told = [(each, url) for each, url in zip(answers, urls, strict=True) if each is not None]
        if not told:
            self._best = ""
            return None, None
        grid, self._best = max(told, key=lambda one: _how_good(one[0]))
        return grid, await self._migrations()

    @property
    def client(self) -> HttpClient | None:
        """Of the member that was looked through last."""
        return self._clients.get(self._best)

    async def stays(
        self, pods: Iterable[Pod], processes: int, grid: ClusterModel | None, now: PodNow
    ) -> list[Stay]:
        """Who runs in which container: asked once for each stay that the grid counts."""
        counted = {m.name: (m.id, m.incarnation) for m in grid.members} if grid else {}
        wanted = []
        for pod in pods:
            for i, name in enumerate(member_names(pod.name, processes)):
                known = self._stays.get(name)
                current = counted.get(name)
                same = known and (known.id, known.incarnation) == current
                if current is not None and not (same and known and known.container):
                    wanted.append(self._who(pod, i, name, now))
        for stay in await asyncio.gather(*wanted):
            if stay is not None:
                self._stays[stay.name] = stay
        return list(self._stays.values())

    async def loading(self, pods: Iterable[Pod], processes: int) -> dict[str, float]:
        """How long those need who read their files; only who is not ready is asked."""
        names = {
            self._url(pod, process): name
            for pod in pods
            if _is_reachable(pod) and not pod.ready
            for process, name in enumerate(member_names(pod.name, processes))
        }
        left = await asyncio.gather(*map(self._left, names))
        told = zip(names.values(), left, strict=True)
        return {name: seconds for name, seconds in told if seconds is not None}

    async def catalogue(self) -> list[BackupModel]:
        """The backups that the grid keeps; none where nobody says so."""
        if self.client is None:
            return []
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return (await self.client.backups()).backups
        except (HoldfastError, TimeoutError) as error:
            LOG.debug("%s: %s", self._best, error)
            return []

    async def close(self) -> None:
        """No more questions."""
        await self._keep([])

    async def _who(self, pod: Pod, process: int, name: str, now: PodNow) -> Stay | None:
        """Its own word, if its pod's container was the same one before and after, and had begun
        when the process did."""
        if not _is_reachable(pod) or pod.started_at is None:
            return None
        client = self._client(self._url(pod, process))
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                told = await client.myself()
        except (HoldfastError, TimeoutError):
            return None
        after = now(pod.name)
        if after is None or (after.uid, after.container) != (pod.uid, pod.container):
            return None
        if told.name != name or told.started_at < pod.started_at:
            return None
        return Stay(name, told.id, told.incarnation, told.started_at, pod.name, pod.container)

    async def _ask(self, url: str, seconds: float) -> ClusterModel | None:
        try:
            async with asyncio.timeout(seconds):
                return await self._client(url).cluster()
        except (HoldfastError, TimeoutError) as error:
            LOG.debug("%s: %s", url, error)
            return None

    async def _left(self, url: str) -> float | None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return (await self._client(url).metrics()).get(LEFT)
        except (HoldfastError, TimeoutError) as error:
            LOG.debug("%s: %s", url, error)
            return None

    async def _migrations(self) -> MigrationsModel | None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return await self._client(self._best).migrations()
        except (HoldfastError, TimeoutError) as error:
            LOG.debug("%s: %s", self._best, error)
            return None

    def _client(self, url: str) -> HttpClient:
        if url not in self._clients:
            self._clients[url] = HttpClient(url, secret=self.secret)
        return self._clients[url]

    async def _keep(self, urls: Iterable[str]) -> None:
        kept = set(urls)
        hosts = {url.rpartition(":")[0] for url in kept}
        for url in [url for url in self._clients if url.rpartition(":")[0] not in hosts]:
            await self._clients.pop(url).close()

    @staticmethod
    def _url(pod: Pod, process: int) -> str:
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        return f"http://{host}:{PORT_HTTP + PORT_STEP * process}"


def _is_reachable(pod: Pod) -> bool:
    return bool(pod.ip) and pod.running


def _how_likely(pod: Pod) -> tuple[bool, bool, str]:
    return (not pod.ready, pod.terminating, pod.name)


def _how_good(grid: ClusterModel) -> tuple[bool, int, int]:
    return (grid.master_answers, grid.term, grid.version)
