"""Who syncs: the thread that serves clients, or the one that writes. Pure.

Rules (`design/5`, "Group commit"; ADR 32)
------------------------------------------
* A sync that is over before another thread would be awake is made where the write was: then all
  clients that wait are in it, and no thread has to wait for the interpreter.
* Nobody knows beforehand how long one takes. What it takes beyond `QUICK_S` is *owed*, and paid off
  with one part in `SHARE` of the time that goes by. While more than `OWED_S` is owed, the other
  thread syncs. So a disk that has a slow moment now and then goes on to be quick, and a slow one
  holds the loop for no more than that part of its time.

States
------
    near ── more than OWED_S is owed ──► far ── enough is paid off ──► near

What can go wrong
-----------------
*A disk that hangs* holds the loop as long as it hangs, once. Whoever has to sync can promise
nothing meanwhile, and the others learn that from its leases.
"""

from __future__ import annotations

from typing import Final

QUICK_S: Final = 0.001
"""What a sync may take where clients are served: about what it takes to have a thread do it."""
SMALL_BYTES: Final = 1 << 20
"""More than this is not expected to be synced quickly."""
OWED_S: Final = 0.02
SHARE: Final = 50


class Pace:
    """How quick syncs were."""

    __slots__ = ("_as_of", "_owed")

    def __init__(self) -> None:
        self._owed = 0.0
        self._as_of = 0.0

    def is_near(self, size: int, now: float) -> bool:
        """Whether so many bytes should be synced at once, by whoever has written them."""
        return size <= SMALL_BYTES and self._owed_at(now) <= OWED_S

    def took(self, seconds: float, now: float) -> None:
        """A sync where clients are served is over."""
        self._owed = self._owed_at(now) + max(0.0, seconds - QUICK_S)
        self._as_of = now

    def _owed_at(self, now: float) -> float:
        return max(0.0, self._owed - (now - self._as_of) / SHARE)
