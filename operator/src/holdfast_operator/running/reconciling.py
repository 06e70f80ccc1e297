"""The loop of each cluster and each Restore: look, plan, carry out; again when something happens,
or after a while.

Rules
-----
* One loop a cluster, so that two plans of one cluster never mix. What happens while it is at work
  wakes it once more afterwards.
* Only the leader acts. Who leads no more cancels what it asks of grids and forgets what it knew.
* An error ends one round, not the loop: it is told, counted, and tried again, later each time.
* `dry_run` prints the plan and does nothing of it.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from holdfast.errors import HoldfastError
from holdfast_operator.actions import Action
from holdfast_operator.kubernetes.client import Kubernetes
from holdfast_operator.kubernetes.errors import KubernetesError
from holdfast_operator.model.restore import RestoreStatus
from holdfast_operator.model.status import ClusterStatus
from holdfast_operator.observed import Defaults, Observed, RestoreObserved
from holdfast_operator.plan import Plan, RestorePlan, plan, restoring
from holdfast_operator.running.applying import (
    Herald,
    apply,
    carry_out_restore,
    described,
    write_others,
    write_status,
)
from holdfast_operator.running.asking import Asking
from holdfast_operator.running.cache import Cache, Key
from holdfast_operator.running.metrics import Labels, Metrics
from holdfast_operator.running.observing import Memory, observe, observe_restore

LOG: Final = logging.getLogger("holdfast.operator.reconciling")
BACKOFF_SECONDS: Final = 1.0
BACKOFF_SECONDS_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class Means:
    """What a reconciliation works with."""

    api: Kubernetes
    cache: Cache
    metrics: Metrics
    herald: Herald
    defaults: Defaults
    leads: Callable[[], bool]
    dry_run: bool = False


class Loop(ABC):
    """Of one object: a Cluster or a Restore."""

    def __init__(self, key: Key, means: Means) -> None:
        self.key = key
        self._means = means
        self._woken = asyncio.Event()
        self._failures = 0

    def wake(self) -> None:
        """Something happened."""
        self._woken.set()

    async def run(self) -> None:
        """Until the object is gone, or cancelled."""
        try:
            while True:
                self._woken.clear()
                seconds = await self._round()
                if seconds is None:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._woken.wait()
        finally:
            await self._close()

    async def _round(self) -> float | None:
        means = self._means
        if not means.leads():
            self._rest()
            return BACKOFF_SECONDS_MAX
        began = asyncio.get_running_loop().time()
        text = "Looks at a cluster."
        try:
            seconds = await self._reconcile()
        except (KubernetesError, HoldfastError, OSError) as error:
            self._failures += 1
            self._forget()
            means.metrics.count("reconciles_total", text, result="error")
            LOG.warning("%s/%s: %s", *self.key, error)
            return float(min(BACKOFF_SECONDS * 2**self._failures, BACKOFF_SECONDS_MAX))
        except Exception:
            self._failures += 1
            self._forget()
            means.metrics.count("reconciles_total", text, result="bug")
            LOG.exception("%s/%s: the plan failed: a bug", *self.key)
            return float(min(BACKOFF_SECONDS * 2**self._failures, BACKOFF_SECONDS_MAX))
        self._failures = 0
        means.metrics.count("reconciles_total", text, result="done")
        means.metrics.took(asyncio.get_running_loop().time() - began)
        return seconds

    def _count(self, actions: Iterable[Action]) -> None:
        for action in actions:
            kind = type(action).__name__
            self._means.metrics.count("decisions_total", "Actions of plans.", action=kind)

    @abstractmethod
    async def _reconcile(self) -> float | None:
        """Look, plan, carry out; when to look again, or None if the object is gone."""

    def _rest(self) -> None:
        """Somebody else leads."""
        self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """What is known may be old."""

    async def _close(self) -> None:  # noqa: B027 - not every loop holds something open
        """It is over."""


class ClusterLoop(Loop):
    """Of one cluster."""

    def __init__(self, key: Key, means: Means) -> None:
        super().__init__(key, means)
        self.memory = Memory(Asking(self.wake))
        self.seen: ClusterStatus | None = None

    def _rest(self) -> None:
        self.memory.asking.close()
        self._forget()

    def _forget(self) -> None:
        self.memory.status = None

    async def _close(self) -> None:
        self.memory.asking.close()
        await self.memory.eye.close()

    async def _reconcile(self) -> float | None:
        means = self._means
        o = await observe(self.key, means.cache, self.memory, means.api, means.defaults)
        if o is None:
            return None
        made = plan(o)
        self.seen = made.status
        if means.dry_run:
            print_plan(o, made)
            return made.look_again_seconds
        if not means.leads():
            return BACKOFF_SECONDS
        self._count(made.actions)
        await means.herald.tell(o, made.events)
        if not (o.deleting and not o.finalizers):
            wanted = made.status.wire()
            await write_status(o, wanted, o.status.wire(), means.api)
            self.memory.status = made.status
        await write_others(o, made, means.api)
        refused = await apply(o, made.actions, self.memory, means.api)
        await means.herald.tell(o, tuple(refused))
        return BACKOFF_SECONDS_MAX if refused else made.look_again_seconds


class RestoreLoop(Loop):
    """Of one Restore."""

    def __init__(self, key: Key, means: Means) -> None:
        super().__init__(key, means)
        self._uid = ""
        self._status: RestoreStatus | None = None
        """As it was written last: the watch may be behind."""

    def _forget(self) -> None:
        self._status = None

    async def _reconcile(self) -> float | None:
        means = self._means
        r = observe_restore(self.key, means.cache, self._status, means.defaults)
        if r is None:
            return None
        if r.uid != self._uid:  # another one of the same name
            self._uid, self._status = r.uid, None
            return 0.0
        made = restoring(r)
        if means.dry_run:
            print_plan(r, made)
            return made.look_again_seconds
        self._count(made.actions)
        await means.herald.tell(r, made.events)
        refused = await carry_out_restore(r, made, means.api)
        self._status = made.status
        await means.herald.tell(r, refused)
        return BACKOFF_SECONDS_MAX if refused else made.look_again_seconds


def print_plan(o: Observed | RestoreObserved, made: Plan | RestorePlan) -> None:
    """What would be done and said."""
    where = f"{o.namespace}/{o.name}"
    LOG.info("%s: phase %s, look again in %s s", where, made.status.phase, made.look_again_seconds)
    for action in made.actions:
        LOG.info("%s: would %s", where, described(action))
    for event in made.events:
        LOG.info("%s: would say %s: %s", where, event.reason, event.message)


Looped = TypeVar("Looped", bound=Loop)


class Loops:
    """One for each cluster, and for each Restore, that there is."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._tasks: dict[Loop, asyncio.Task[None]] = {}
        self._loops: dict[Key, ClusterLoop] = {}
        self._restores: dict[Key, RestoreLoop] = {}
        self._closed = False
        means.metrics.gauge("clusters", "Clusters that are looked after.", self._count)
        means.metrics.gauge("leads", "Whether this operator leads.", self._leads)
        means.metrics.gauge("cluster_safe", "Whether every copy is in sync.", self._safe)

    def wake(self, key: Key) -> None:
        """Something of this cluster changed."""
        self._rouse(self._loops, key, ClusterLoop)

    def wake_restore(self, key: Key) -> None:
        """A Restore changed."""
        self._rouse(self._restores, key, RestoreLoop)

    def wake_all(self) -> None:
        """Every one."""
        for key in self._means.cache.clusters():
            self.wake(key)
        for key in self._means.cache.restores():
            self.wake_restore(key)

    def _rouse(
        self, loops: dict[Key, Looped], key: Key, make: Callable[[Key, Means], Looped]
    ) -> None:
        if self._closed:
            return
        if key not in loops:
            self._begin(loops, key, make(key, self._means))
        loops[key].wake()

    def _begin(self, loops: dict[Key, Looped], key: Key, loop: Looped) -> None:
        def end(_: asyncio.Task[None]) -> None:
            del self._tasks[loop], loops[key]

        loops[key] = loop
        self._tasks[loop] = asyncio.get_running_loop().create_task(loop.run())
        self._tasks[loop].add_done_callback(end)

    async def close(self) -> None:
        """End all; none begins any more."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _count(self) -> dict[Labels, float]:
        return {(): float(len(self._loops))}

    def _leads(self) -> dict[Labels, float]:
        return {(): float(self._means.leads())}

    def _safe(self) -> dict[Labels, float]:
        return {
            (("cluster", key[1]), ("namespace", key[0])): float(loop.seen.safe)
            for key, loop in self._loops.items()
            if loop.seen is not None
        }
