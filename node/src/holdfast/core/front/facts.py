"""What only the shell can know about its process; it writes this down, INFO and CLIENT tell it.

None means that nobody has said: then nothing is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.ids import Address

VERSION_OF_REDIS = "7.0.15"
"""The Redis whose replies are ours: clients choose by it what they may ask."""


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """One connection to another member."""

    address: Address
    """Where the other one is reached."""
    dialled: bool
    """Whether this member made it."""
    since: int
    """Milliseconds since 1970."""
    unsent_bytes: int


@dataclass(slots=True)
class Facts:
    """Set by the shell, whenever it likes."""

    version: str = ""
    """Of the program."""
    process_id: int | None = None
    plain_port: int | None = None
    os: str | None = None
    memory_used_bytes: int | None = None
    """What the process takes of the machine's memory now."""
    memory_peak_bytes: int | None = None
    connections_received: int | None = None
    connections_refused: int | None = None
    connections_max: int | None = None
    links: tuple[LinkFacts, ...] = ()
    bytes_in: int | None = None
    bytes_out: int | None = None
    cpu_system_s: float | None = None
    cpu_user_s: float | None = None
