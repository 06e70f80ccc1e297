"""How the kernel schedules a member: it lets others finish first (`docs/adr/0043`).

A member that wakes up takes the processor from nobody: while a client or another member on the same
core goes on, more of its messages come together, and one turn does them all. With a core to itself
nothing changes. Threads that are started later do the same.
"""

from __future__ import annotations

import os
from contextlib import suppress


def prefer_batches() -> None:
    """Where the system knows that, and allows it."""
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
