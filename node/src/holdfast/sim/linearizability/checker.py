"""A history of one key, walked along the time: what was invoked is pending, what returned is in."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from holdfast.sim.linearizability.front import BudgetSpentError, Front, Meter
from holdfast.sim.linearizability.history import Call, Operation
from holdfast.sim.linearizability.search import Pool, Search
from holdfast.sim.linearizability.traits import Task
from holdfast.sim.linearizability.verdicts import (
    Linearizable,
    NotLinearizable,
    Undecided,
    Verdict,
)

BUDGET: Final = 2_000_000
"""Steps, a few seconds."""
RECENT_MAX: Final = 12
"""So many operations are in the story of a failure."""


class _Kind(IntEnum):
    """At one instant what begins comes first: operations that touch are concurrent."""

    INVOKED = 0
    RETURNED = 1


class Checker:
    """Judges the operations on one key while they come in, or all at once (`check`).

    Add an operation when its outcome is known, or known to be unknown. `settle(until)` judges what
    returned before that instant, and forgets it.
    """

    def __init__(self, *, budget: int = BUDGET) -> None:
        self._meter = Meter(budget)
        self._front = Front(self._meter)
        self._front.add((0, None), 0)
        self._events: list[tuple[int, _Kind, int, Task]] = []
        self._count = 0
        self._settled = -1
        self._key: bytes | None = None
        self._pending: dict[int, Task] = {}
        self._pools: dict[Call, Pool] = {}
        self._unknown: dict[int, Operation] = {}
        self._next_unknown = 1
        self._recent: deque[Operation] = deque(maxlen=RECENT_MAX)
        self.verdict: Verdict = Linearizable()

    @property
    def steps(self) -> int:
        """How much work it was so far."""
        return self._meter.steps

    def add(self, operation: Operation) -> None:
        """Take in an operation, in any order within what is not settled."""
        if self._key not in (None, operation.key):
            raise ValueError(f"{operation}: this checker is about {self._key!r}")
        if operation.invoked < self._settled:
            raise ValueError(f"{operation}: began before {self._settled}, which is settled")
        self._key = operation.key
        task = Task.of(operation)
        if task.reads and not operation.is_known:
            return
        self._plan(operation.invoked, _Kind.INVOKED, task)
        if operation.is_known and operation.returned is not None:
            self._plan(operation.returned, _Kind.RETURNED, task)

    def _plan(self, time: int, kind: _Kind, task: Task) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, kind, self._count, task))

    def settle(self, until: int | None = None) -> Verdict:
        """Judge what returned before an instant; None: the history is at its end.

        Whatever began before that instant has to be here. So where operations are still under way,
        the instant at which the oldest of them began is the latest to name.
        """
        while self._events and (until is None or self._events[0][0] < until):
            time, kind, _, task = heapq.heappop(self._events)
            self._settled = max(self._settled, time)
            if not isinstance(self.verdict, Linearizable):
                continue
            if kind is _Kind.INVOKED:
                self._invoked(task)
            else:
                self._returned(task)
        if until is not None:
            self._settled = max(self._settled, until)
        return self.verdict

    def _invoked(self, task: Task) -> None:
        if task.operation.is_known:
            task.bit = _lowest_free(self._pending)
            self._pending[task.bit] = task
            return
        self._pools.setdefault(task.call, Pool(task)).bits |= self._next_unknown
        self._unknown[self._next_unknown] = task.operation
        self._next_unknown <<= 1

    def _returned(self, task: Task) -> None:
        try:
            found = Search(task, self._pending, self._pools, self._meter).run(self._front)
        except BudgetSpentError:
            self.verdict = Undecided(task.operation, self.steps)
            return
        del self._pending[task.bit]
        if not found:
            self.verdict = self._unexplained(task.operation)
            return
        self._front = found
        self._recent.append(task.operation)
        if self._pools:
            self._forget(found.used_by_all())

    def _forget(self, used: int) -> None:
        """What took effect in every configuration can't do so again."""
        for call, pool in list(self._pools.items()):
            pool.bits &= ~used
            if not pool.bits:
                del self._pools[call]
        for bit in [bit for bit in self._unknown if bit & used]:
            del self._unknown[bit]

    def _unexplained(self, operation: Operation) -> NotLinearizable:
        pending = [task.operation for task in self._pending.values()]
        return NotLinearizable(
            operation=operation,
            states=tuple(self._front.states()),
            under_way=(*self._unknown.values(), *pending),
            recent=tuple(self._recent),
        )


def check(operations: Iterable[Operation], *, budget: int = BUDGET) -> Verdict:
    """Judge a whole history of one key."""
    checker = Checker(budget=budget)
    for operation in operations:
        checker.add(operation)
    return checker.settle()


def _lowest_free(pending: dict[int, Task]) -> int:
    bit = 1
    while bit in pending:
        bit <<= 1
    return bit
