"""What clients did and saw: one record for each operation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

Call = tuple[bytes, ...]
"""A command as it was sent: its name, its key, its arguments."""


class Unknown(Enum):
    """The type of `UNKNOWN`."""

    UNKNOWN = "?"


UNKNOWN: Final = Unknown.UNKNOWN
"""Instead of a reply: it may take effect once, at any time after its invocation, or never."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One command of one client on one key.

    What was refused with the promise that nothing was done is no operation; leave it out.
    """

    client: str
    call: Call
    invoked: int
    """Virtual microseconds, like `returned`."""
    returned: int | None
    """When the reply came. It says nothing where the outcome is unknown."""
    reply: object
    """What came (`model.canonical` says in which forms), or `UNKNOWN`."""

    def __post_init__(self) -> None:
        """A reply has a time, and nothing returns before it began."""
        if len(self.call) < 2:
            raise ValueError(f"{self}: a call has a name and a key")
        if self.is_known and (self.returned is None or self.returned < self.invoked):
            raise ValueError(f"{self}: a reply comes after the call")

    @property
    def key(self) -> bytes:
        """What it is about."""
        return self.call[1]

    @property
    def is_known(self) -> bool:
        """Whether its reply is known; it took effect then, before it returned."""
        return self.reply is not UNKNOWN

    def __str__(self) -> str:
        """For stories: who, what, when, and what came of it."""
        words = " ".join(word.decode(errors="backslashreplace") for word in self.call)
        if not self.is_known:
            return f"{self.client}: {words} → ? [{self.invoked}…]"
        return f"{self.client}: {words} → {self.reply!r} [{self.invoked}…{self.returned}]"


def by_key(operations: Iterable[Operation]) -> dict[bytes, list[Operation]]:
    """One history for each key: each can be judged alone."""
    histories: dict[bytes, list[Operation]] = {}
    for operation in operations:
        histories.setdefault(operation.key, []).append(operation)
    return histories
