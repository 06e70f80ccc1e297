"""Acknowledged writes, and whether they are all there afterwards."""

from __future__ import annotations

from collections.abc import Iterable

from redis import asyncio as aioredis
from redis.exceptions import RedisError

from holdfast_operator.names import CLUSTER_LABEL
from tests.controller.world import World

PER_ROUND = 100


class Ledger:
    """What applications were told is kept."""

    def __init__(
        self, world: World, cluster: str = "orders", kept: dict[str, str] | None = None
    ) -> None:
        self._world = world
        self._cluster = cluster
        self.kept: dict[str, str] = dict(kept or {})
        self._round = 0

    async def write(self) -> None:
        """A round of writes through any member that takes them."""
        self._round += 1
        for i in range(PER_ROUND):
            key, value = f"users:{self._round}:{i}", f"{self._round}.{i}"
            if await self._set(key, value):
                self.kept[key] = value

    async def check(self) -> None:
        """Every acknowledged write is there."""
        assert self.kept, "nothing was ever acknowledged"
        lost = {}
        client = self._client(next(iter(self._hosts())))
        for key, value in self.kept.items():
            found = await client.get(key)
            if found != value.encode():
                lost[key] = found
        await client.aclose()
        assert not lost, f"{len(lost)} of {len(self.kept)} writes are lost: {list(lost)[:5]}"

    async def count(self) -> int:
        """How many keys there are in all."""
        client = self._client(next(iter(self._hosts())))
        total: int = await client.dbsize()
        await client.aclose()
        return total

    async def _set(self, key: str, value: str) -> bool:
        for host in self._hosts():
            client = self._client(host)
            try:
                await client.set(key, value)
            except (RedisError, OSError):
                continue
            else:
                return True
            finally:
                await client.aclose()
        return False

    def _hosts(self) -> Iterable[str]:
        pods = self._world.pods().values()
        return [
            raw["status"]["podIP"]
            for raw in pods
            if raw["metadata"]["labels"].get(CLUSTER_LABEL) == self._cluster
            and any(
                c["type"] == "Ready" and c["status"] == "True"
                for c in raw.get("status", {}).get("conditions", ())
            )
        ]

    @staticmethod
    def _client(host: str) -> aioredis.Redis:
        return aioredis.Redis(
            host=host, port=6379, socket_timeout=10, single_connection_client=True
        )
