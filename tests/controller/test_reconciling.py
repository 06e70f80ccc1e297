"""Loops end when they are told to, whatever happens at that moment."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from holdfast_operator.kubernetes.access import Access
from holdfast_operator.kubernetes.client import Kubernetes
from holdfast_operator.observed import Defaults
from holdfast_operator.running.applying import Herald
from holdfast_operator.running.cache import Cache, Key
from holdfast_operator.running.metrics import Metrics
from holdfast_operator.running.reconciling import Loop, Loops, Means

ORDERS: Final[Key] = ("shop", "orders")


class Idle(Loop):
    """Has looked, and waits."""

    def __init__(self, means: Means) -> None:
        super().__init__(ORDERS, means)

    async def _reconcile(self) -> float:
        return 30.0

    def _forget(self) -> None:
        """Knows nothing."""


@pytest.fixture
async def means() -> Means:
    api = Kubernetes(Access("http://127.0.0.1:1"))
    herald = Herald(api, "first")
    return Means(api, Cache(), Metrics(), herald, Defaults("image", "Always"), lambda: False)


async def turn() -> None:
    """One round of the event loop."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.call_soon(ended.set_result, None)
    await ended


@pytest.mark.parametrize("turns", range(5))
async def test_a_loop_that_is_woken_while_it_is_ended_ends(means: Means, turns: int) -> None:
    """1. it waits 2. something happens 3. it is cancelled just then"""
    idle = Idle(means)
    task = asyncio.get_running_loop().create_task(idle.run())
    for _ in range(5):
        await turn()
    idle.wake()
    for _ in range(turns):
        await turn()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=5)
    assert done


async def test_nothing_begins_after_the_end(means: Means) -> None:
    loops = Loops(means)
    loops.wake(ORDERS)
    await turn()
    await loops.close()
    before = asyncio.all_tasks()
    loops.wake(ORDERS)
    loops.wake_restore(ORDERS)
    assert asyncio.all_tasks() == before
