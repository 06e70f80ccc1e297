"""Clocks of members: each with its own zero and its own pace.

The world counts microseconds. A member's clock counts milliseconds from an offset of its own, at a
rate between 0.98 and 1.02, which may change while it runs but never goes backwards. All of it is
integers, so that a run is the same on every machine.
"""

from __future__ import annotations

from typing import Final

from holdfast.ids import Millis

RATE_UNIT: Final = 1_000_000
"""A rate of this many parts per million is true time."""

_DIVISOR: Final = 1_000 * RATE_UNIT


class Clock:
    """One member's monotonic clock."""

    __slots__ = ("_base_ms", "_base_us", "rate")

    def __init__(self, offset_ms: int, rate: int, now_us: int) -> None:
        self._base_ms = offset_ms
        self._base_us = now_us
        self.rate = rate

    def read(self, now_us: int) -> Millis:
        """What the clock says at a moment of the world."""
        return Millis(self._base_ms + (now_us - self._base_us) * self.rate // _DIVISOR)

    def when(self, local_ms: int) -> int:
        """The first moment of the world at which the clock says at least this."""
        ahead = local_ms - self._base_ms
        return self._base_us if ahead <= 0 else self._base_us - (-ahead * _DIVISOR // self.rate)

    def set_rate(self, rate: int, now_us: int) -> None:
        """Go on from here at another pace."""
        self._base_ms = self.read(now_us)
        self._base_us = now_us
        self.rate = rate
