"""One return: everything that may have come, in some order, before the operation that returned.

From each configuration operations under way are added, one by one, until the one that returned is
among them. What it takes no part in stays under way: it can come later as well.

A configuration is *fresh* while the last that was added is of unknown outcome and has explained
nothing yet. It has to explain something before all is overwritten, else it is superfluous.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from holdfast.sim.linearizability.front import Front, Meter, Place
from holdfast.sim.linearizability.history import Call
from holdfast.sim.linearizability.model import State, apply, fits
from holdfast.sim.linearizability.traits import Task, is_plain, size


@dataclass(slots=True)
class Pool:
    """Operations of unknown outcome with one and the same call, as bits: the oldest goes first."""

    task: Task
    bits: int = 0


class Search:
    """What may be so after the return of one operation."""

    def __init__(
        self, returned: Task, pending: Mapping[int, Task], pools: Mapping[Call, Pool], meter: Meter
    ) -> None:
        self._target = returned.bit
        self._reads = [task for task in pending.values() if task.reads]
        self._writes = [task for task in pending.values() if not task.reads]
        self._asking = [task for task in pending.values() if not task.erases]
        """Known ones that say something of the state before them."""
        self._pools = pools
        self._meter = meter
        self._found = Front(meter)
        self._settled = Front(meter)
        self._fresh = Front(meter)
        self._queue: deque[tuple[Place, int, bool]] = deque()

    def run(self, front: Front) -> Front:
        """The configurations after it; none, if no order explains its reply."""
        for (done, state), used in front:
            self._reach(done, state, used, fresh=False)
        while self._queue:
            place, used, fresh = self._queue.popleft()
            if (self._fresh if fresh else self._settled).has(place, used):
                self._add_known(place, used, fresh=fresh)
                self._add_unknown(place, used, fresh=fresh)
        return self._found

    def _reach(self, done: int, state: State, used: int, *, fresh: bool) -> None:
        """Note a configuration, if it is worth while to go on from it."""
        for task in self._reads:
            if not done & task.bit and self._try(task, state):
                done |= task.bit
                fresh = False
        if done & self._target:
            self._found.add((done & ~self._target, state), used)
        elif not fresh:
            if self._settled.add((done, state), used):
                self._queue.append(((done, state), used, False))
        elif (
            self._may_explain(done, state, used)
            and not self._settled.covers((done, state), used)
            and self._fresh.add((done, state), used)
        ):
            self._queue.append(((done, state), used, True))

    def _try(self, task: Task, state: State) -> bool:
        self._meter.count()
        return task.fits(state)

    def _add_known(self, place: Place, used: int, *, fresh: bool) -> None:
        done, state = place
        for task in self._writes:
            if done & task.bit or (fresh and task.erases):
                continue
            self._meter.count()
            after, reply = apply(state, task.call)
            if fits(reply, task.reply):
                self._reach(done | task.bit, after, used, fresh=False)

    def _add_unknown(self, place: Place, used: int, *, fresh: bool) -> None:
        done, state = place
        becomes_fresh = fresh or is_plain(state) or not self._replacing
        for pool in self._later if fresh else self._useful:
            free = pool.bits & ~used
            if free:
                self._meter.count()
                after, _ = apply(state, pool.task.call)
                self._reach(done, after, used | (free & -free), fresh=becomes_fresh)

    @cached_property
    def _useful(self) -> list[Pool]:
        """Pools that may matter to what a known operation replied, directly or by each other.

        What matters only to one that overwrites everything matters to nobody.
        """
        rest = list(self._pools.values())
        useful: list[Pool] = []
        causes = list(self._asking)
        while causes and rest:
            cause = causes.pop()
            self._meter.count(len(rest))
            near = [pool for pool in rest if not pool.task.is_apart_from(cause)]
            rest = [pool for pool in rest if pool.task.is_apart_from(cause)]
            useful += near
            causes += [pool.task for pool in near if not pool.task.erases]
        return useful

    @cached_property
    def _later(self) -> list[Pool]:
        """Those that may follow another unknown one."""
        return [p for p in self._useful if not p.task.erases and not p.task.replaces]

    @cached_property
    def _replacing(self) -> bool:
        """Whether some are like one that overwrites everything, but only on a plain state."""
        return any(pool.task.replaces for pool in self._useful)

    def _may_explain(self, done: int, state: State, used: int) -> bool:
        """Whether more unknown ones can make a state that fits what some known one replied."""
        asking = [task for task in self._asking if not done & task.bit]
        later = [pool for pool in self._later if pool.bits & ~used and pool.task.may_change(state)]
        if not later:
            return any(self._try(task, state) for task in asking if not task.reads)
        least = most = size(state)
        for pool in later:
            free = (pool.bits & ~used).bit_count()
            least -= free * pool.task.shrinks
            most += free * pool.task.grows
        return any(task.wanted is None or least <= task.wanted <= most for task in asking)
