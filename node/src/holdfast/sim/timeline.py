"""Virtual time: what is due, in the order in which it is due.

What is due at the same moment happens in the order in which it was planned, so that a run depends
on nothing but its seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000


class Timeline:
    """A heap of things to do. Time is microseconds."""

    def __init__(self) -> None:
        self.now = 0
        self._queue: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._sequence = 0

    def plan(self, delay_us: int, action: Callable[..., object], *arguments: Any) -> None:
        """Do something later."""
        self._sequence += 1
        heapq.heappush(self._queue, (self.now + delay_us, self._sequence, action, arguments))

    def plan_at(self, at_us: int, action: Callable[..., object], *arguments: Any) -> None:
        """Do something at a moment."""
        self._sequence += 1
        heapq.heappush(self._queue, (at_us, self._sequence, action, arguments))

    def run_until(self, until_us: int) -> None:
        """Let everything happen that is due up to this moment."""
        queue = self._queue
        while queue and queue[0][0] <= until_us:
            at, _, action, arguments = heapq.heappop(queue)
            self.now = at
            action(*arguments)
        self.now = until_us
