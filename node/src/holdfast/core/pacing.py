"""How fast work that nobody waits for at a keyboard may go beside the applications' own.

Rules (`design/7`: "grid operations keep ≥ 50 % of their idle rate while a full scan runs")
-------------------------------------------------------------------------------------------
* Such work comes in slices, one at a time in a member, each of a few milliseconds.
* While applications send commands, a slice is followed by a pause of `REST` times what it took. So
  of the member's time at most one part in `REST` + 1 goes there, and the longest that a command
  waits for it is a slice.
* While nobody else sends anything there is no pause: time that nobody wants is free.
* A pause is bounded, so that what goes on beside busy applications comes to an end.

States
------
How many commands there had been at the end of the last slice.

What can go wrong
-----------------
*What a slice causes elsewhere in the member* (bytes that are sent, backups that answer) is not in
what it took. `REST` has room for as much again.
"""

from __future__ import annotations

from typing import Final

REST: Final = 2
PAUSE_NS_MAX: Final = 50_000_000


class Pace:
    """Between the slices of one member."""

    def __init__(self) -> None:
        self._commands = 0

    def pause_ns(self, took_ns: int, commands: int) -> int:
        """How long to wait after a slice; `commands` are all that applications have ever sent."""
        busy, self._commands = commands > self._commands, commands
        return min(REST * took_ns, PAUSE_NS_MAX) if busy else 0
