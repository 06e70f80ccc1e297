"""Work beside the applications' own, in slices, at the pace that `core.pacing` says.

What is done here, between two turns, is one slice at a time. What the core does in its turns, and
may have to wait for, is `STEPS_MAX` at a time: one that waits must not hold up all others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.core.pacing import Pace

NS: Final = 1_000_000_000
STEPS_MAX: Final = 2
Result = TypeVar("Result")


class Slices:
    """Of one member."""

    def __init__(self, commands: Callable[[], int]) -> None:
        """`commands` tells how many applications have sent."""
        self._commands = commands
        self._pace = Pace()
        self._one = asyncio.Lock()
        self._steps = asyncio.Semaphore(STEPS_MAX)

    async def run(self, work: Callable[[], Result]) -> Result:
        """One slice that is done at once; it counts what this thread did, not what others did to
        it."""
        async with self._one:
            began = time.thread_time_ns()
            result = work()
            await self._rest(time.thread_time_ns() - began)
            return result

    async def step(self, work: Awaitable[Result]) -> Result:
        """One slice that the core carries out in its turn."""
        async with self._steps:
            began = time.monotonic_ns()
            result = await work
            await self._rest(time.monotonic_ns() - began)
            return result

    async def _rest(self, took_ns: int) -> None:
        await asyncio.sleep(self._pace.pause_ns(took_ns, self._commands()) / NS)
