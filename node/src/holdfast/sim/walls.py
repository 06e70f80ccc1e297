"""Wall clocks: what members take the time of day to be, each somewhat wrong.

Whatever is to end at a moment ends by the wall clock of whoever owns it then. Each process has its
own: it differs from the true time, drifts, and is set now and then, forwards and backwards, but is
never wrong by more than the *skew* that the seed drew. Chances are its own, so that a run in which
nothing ends is what it was without.
"""

from __future__ import annotations

import random
from typing import Final

from holdfast.core.node import Node
from holdfast.sim.process import Process
from holdfast.sim.timeline import MILLISECOND

EPOCH_MS: Final = 1_700_000_000_000
DRIFT_PPM: Final = 20_000
ROUNDING_MS: Final = 2
"""Clocks are read in whole milliseconds."""


class WallClock:
    """One process' idea of the time of day."""

    def __init__(self, rng: random.Random, skew_ms: int, now_us: int) -> None:
        self._rng = rng
        self._skew_ms = skew_ms
        self.set(now_us)

    def set(self, now_us: int) -> None:
        """From now on it is wrong in another way."""
        self._since_us = now_us
        self._wrong_ms = self._rng.uniform(-self._skew_ms, self._skew_ms)
        self._drift = self._rng.uniform(-DRIFT_PPM, DRIFT_PPM)

    def read(self, now_us: int) -> int:
        """Milliseconds of the time of day."""
        skew = self._skew_ms
        if not skew:
            return EPOCH_MS + now_us // MILLISECOND
        drifted = (now_us - self._since_us) * self._drift / 1_000_000 / MILLISECOND
        wrong = min(max(self._wrong_ms + drifted, -skew), skew)
        return EPOCH_MS + int(now_us / MILLISECOND + wrong)


class Walls:
    """The wall clocks of all processes."""

    def __init__(self, seed: int, skew_ms: int) -> None:
        self.skew_ms = skew_ms
        self._rng = random.Random(f"walls of {seed}")
        self._clocks: dict[Process, WallClock] = {}

    def show(self, process: Process) -> None:
        """A process is about to make a step: let it know what time it is."""
        node = process.node
        if isinstance(node, Node):
            node.data.wall_offset = (
                self.clock(process).read(process.stepped_us) - process.stepped_at
            )

    def clock(self, process: Process) -> WallClock:
        """The clock of a process."""
        clock = self._clocks.get(process)
        if clock is None:
            clock = WallClock(self._rng, self.skew_ms, process.started_us)
            self._clocks[process] = clock
        return clock

    def forget(self, process: Process) -> None:
        """It has ended."""
        self._clocks.pop(process, None)

    def window_us(self, invoked: int, answered: int | None, life_ms: int) -> tuple[int, int | None]:
        """From when on, and until when, what was to live so long may end.

        Written between `invoked` and `answered`, by a clock that is wrong by the skew, and ended by
        another one: by the sum of both earlier or later. Whoever never answered may have written
        at any later time.
        """
        wrong_us = (2 * self.skew_ms + ROUNDING_MS) * MILLISECOND
        first = max(invoked, invoked + life_ms * MILLISECOND - wrong_us)
        last = None if answered is None else answered + life_ms * MILLISECOND + wrong_us
        return first, last
