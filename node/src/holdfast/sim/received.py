"""Which messages an event brings: one, or those of a turn."""

from __future__ import annotations

from holdfast.core.events import Event, Gathered, Received


def received_in(event: Event) -> tuple[Received, ...]:
    """In the order of their arrival."""
    match event:
        case Received():
            return (event,)
        case Gathered(received=received):
            return received
        case _:
            return ()
