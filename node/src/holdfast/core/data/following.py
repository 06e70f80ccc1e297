"""Which names of a partition somebody reads the changes of: their journal goes where it goes.

Rules (`design/3` §10; `docs/adr/0028`)
---------------------------------------
* Whoever reads changes follows their name for a while from then on.
* What is followed is told to whoever gets the partition, together with the journal (`giving`), so
  that it goes on to the next one, even if no reader has come by meanwhile.

States: of a name: followed until a time, or not.

What can go wrong
-----------------
*Somebody reads names that nobody writes*: only so many are remembered, the last ones.
*A reader stays away for longer*: its journal moves no more, and if it moves, it is told of a gap.
"""

from __future__ import annotations

from typing import Final

FOLLOWED_MS: Final = 600_000
NAMES_MAX: Final = 64


class Following:
    """Names with their readers' last times, the latest last."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[bytes, int] = {}

    def note(self, name: bytes, now: int) -> None:
        """Somebody reads its changes now."""
        self._until.pop(name, None)
        self._until[name] = now + FOLLOWED_MS
        if len(self._until) > NAMES_MAX:
            del self._until[next(iter(self._until))]

    def has(self, name: bytes, now: int) -> bool:
        """Whether somebody is expected to read on."""
        return now < self._until.get(name, 0)
