"""How a supervisor deals with the processes it runs: what their ends mean, and when to try again.

Pure: numbers and tables, no process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from signal import Signals
from typing import Final

from holdfast.ids import Millis

EXIT_OK: Final = 0
EXIT_IN_VAIN: Final = frozenset({2, 4, 9, 78})
"""Settings that can't work, a cluster that refuses the member for good, files that can't be read,
and `EX_CONFIG` of sysexits."""
EXIT_PORT_TAKEN: Final = 3
EXIT_IN_VAIN_AT_FIRST: Final = frozenset({EXIT_PORT_TAKEN})
"""A port is in use: at the first start somebody else has it, later it may come free again."""
EXIT_BY_SIGNAL: Final = 128
"""A shell's convention: ended by signal n is code 128 + n."""


class End(Enum):
    """What the end of a process means."""

    LEFT = "left"
    """By itself and in good order: it has taken leave of its cluster, or was told to end."""
    REFUSED = "refused"
    """It can't work so. The same settings would end it again."""
    DIED = "died"
    """Anything else."""


def end_of(status: int, *, first: bool) -> End:
    """The meaning of an exit code, or of a signal as a negative number; `first` if no process has
    come up in this place so far."""
    if status == EXIT_OK:
        return End.LEFT
    in_vain = status in EXIT_IN_VAIN or (first and status in EXIT_IN_VAIN_AT_FIRST)
    return End.REFUSED if in_vain else End.DIED


def exit_code(status: int) -> int:
    """The status as an exit code of our own."""
    return status if status >= 0 else EXIT_BY_SIGNAL - status


def describe(status: int) -> str:
    """The status in words."""
    if status >= 0:
        return f"exit code {status}"
    known = -status in set(Signals)
    return f"signal {Signals(-status).name if known else -status}"


@dataclass(frozen=True, slots=True)
class Policy:
    """Times of one supervisor."""

    restart_base_ms: Millis = Millis(500)
    """Wait before the second restart in a row; the first is at once, each next one doubles."""
    restart_max_ms: Millis = Millis(30_000)
    stable_after_ms: Millis = Millis(60_000)
    """A process that ran this long has not failed in a row."""
    leave_ms: Millis | None = None
    """How long processes may take to leave before they are killed; None leaves it to whoever
    asked, who can ask again."""

    def restart_delay(self, failures: int) -> Millis:
        """How long to wait after so many failures in a row."""
        if failures <= 1:
            return Millis(0)
        doublings = min(failures - 2, 32)
        return Millis(min(self.restart_max_ms, self.restart_base_ms << doublings))
