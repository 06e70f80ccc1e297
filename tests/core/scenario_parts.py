"""What surrounds the nodes of a scenario: messages under way."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.messages import Message, Origin
from tests.core import scenario_text as text


@dataclass(slots=True)
class InFlight:
    """A message under way."""

    due: int
    sender: str
    to: str
    origin: Origin
    message: Message
    held: bool = False

    def __str__(self) -> str:
        return f"{self.sender} → {self.to} {text.message(self.message)}"
