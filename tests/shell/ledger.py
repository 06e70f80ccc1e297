"""A client that writes all the time, and knows what was acknowledged.

It is the plain client of a library (redis-py's for clusters): it follows `MOVED`, looks for the
table anew, and what fails for now it tries again. An error that trying again does not cure within
its patience ends it, and the test.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import redis
from redis.backoff import ConstantBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry

KEYS: Final = 48
PATIENCE_SECONDS: Final = 120.0
PAUSE_SECONDS: Final = 0.02


class Ledger:
    """Writes numbers to keys in turn; each is written until it is acknowledged."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.acknowledged: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        """What was cured by trying again: how often."""
        self.failure: BaseException | None = None
        self.longest = 0.0
        """Seconds that one write took, with all its attempts."""
        self.client = redis.RedisCluster(
            startup_nodes=[ClusterNode("127.0.0.1", port) for port in ports],  # type: ignore[no-untyped-call]
            protocol=2,
            socket_timeout=3,
            retry=Retry(ConstantBackoff(PAUSE_SECONDS), 5),
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join(2 * PATIENCE_SECONDS)
        if kind is None and self.failure is not None:
            raise self.failure

    @property
    def count(self) -> int:
        """Writes that were acknowledged."""
        return max(self.acknowledged.values(), default=0)

    def _run(self) -> None:
        number = 0
        try:
            while not self._ends.is_set():
                number += 1
                key = f"ledger:{number % KEYS}"
                began = time.monotonic()
                self._persist(key, number)
                self.longest = max(self.longest, time.monotonic() - began)
                self.acknowledged[key] = number
        except BaseException as error:
            self.failure = error

    def _persist(self, key: str, number: int) -> None:
        """Write until it is acknowledged. Twice is like once, for nobody else writes here."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.client.set(key, number)
            except (redis.RedisError, OSError) as error:
                if time.monotonic() > deadline:
                    raise
                kind = f"{type(error).__name__}: {str(error)[:60]}"
                self.errors[kind] = self.errors.get(kind, 0) + 1
                self._ends.wait(PAUSE_SECONDS)
            else:
                return

    def lost(self) -> dict[str, tuple[int, object]]:
        """Of each key whose last acknowledged write is not there: what was, and what is."""
        found = {key: self._read(key) for key in self.acknowledged}
        return {
            key: (number, found[key])
            for key, number in self.acknowledged.items()
            if found[key] != str(number).encode()
        }

    def _read(self, key: str) -> object:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.client.get(key)
            except (redis.RedisError, OSError):
                if time.monotonic() > deadline:
                    raise
                self._pause()

    @staticmethod
    def _pause() -> None:
        threading.Event().wait(PAUSE_SECONDS)
