"""What is configured for a name (`design/4`, "Keys and structures")."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import ConfigurationError
from holdfast.ids import REPLICA_COUNT_MAX


class Eviction(StrEnum):
    """What goes when a name holds more than it may."""

    NONE = "none"
    """Nothing: writes that add are refused."""
    LRU = "lru"
    """What was not used for the longest time, among a few that are looked at."""
    RANDOM = "random"


class Durability(StrEnum):
    """When a write counts as written to disk."""

    OFF = "off"
    EVERYSEC = "everysec"
    ALWAYS = "always"
    """Before it is acknowledged."""


@dataclass(frozen=True, slots=True)
class NameSettings:
    """One structure's settings. What is not configured takes these defaults."""

    backups: int = 1
    """Synchronous backups: a write is acknowledged when they have it."""
    async_backups: int = 0
    ttl_ms: int = 0
    """Life of a value whose command names none; 0 for ever."""
    idle_ms: int = 0
    """A value that was not used for so long expires; 0 never."""
    entries_max: int = 0
    """Keys in one partition; 0 for no limit."""
    eviction: Eviction = Eviction.NONE
    durability: Durability = Durability.EVERYSEC
    journal_entries: int = 256
    """Mutations that a fragment remembers; 0 for no journal."""
    journal_bytes: int = 1 << 20
    merkle_depth: int = 10
    """Levels of a fragment's Merkle tree."""

    def __post_init__(self) -> None:
        reasons = [
            f"{name} must not be negative, it is {value}"
            for name in self.__dataclass_fields__
            if isinstance(value := getattr(self, name), int) and value < 0
        ]
        if self.copies > REPLICA_COUNT_MAX:
            reasons.append(
                f"{self.backups} synchronous and {self.async_backups} asynchronous backups:"
                f" a partition has at most {REPLICA_COUNT_MAX - 1}"
            )
        if not 2 <= self.merkle_depth <= 16:
            reasons.append(f"merkle_depth must be 2 to 16, not {self.merkle_depth}")
        if reasons:
            raise ConfigurationError(reasons)

    @property
    def copies(self) -> int:
        """The owner's and all backups."""
        return 1 + self.backups + self.async_backups
