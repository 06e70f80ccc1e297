"""What a member may answer for a partition at this moment."""

from __future__ import annotations

from enum import IntEnum


class Serving(IntEnum):
    """From nothing to everything."""

    NONE = 0
    """Not the owner, or without a lease, or the data is not here."""
    READS = 1
    """The owner while writes are held back: at a hand-over, or where the state allows none."""
    ALL = 2
    """The owner: it may acknowledge writes."""
