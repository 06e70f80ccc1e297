"""Transition tables: the states of a machine and what may follow what, as data.

A machine holds one `TransitionTable` and asks it for the next state. An entry that is missing is
a bug of ours, and is raised with the story of its subject (style of h11 and of distributed's
worker state machine: the table is the specification, the code can't quietly do otherwise).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Generic, TypeVar

from holdfast.errors import InvalidTransition

State = TypeVar("State", bound=Enum)
Trigger = TypeVar("Trigger", bound=Enum)


class TransitionTable(Generic[State, Trigger]):
    """`(state, trigger) -> state`, total only where it is written down."""

    def __init__(self, machine: str, table: Mapping[tuple[State, Trigger], State]) -> None:
        self.machine = machine
        self.table = dict(table)

    def next(
        self, state: State, trigger: Trigger, story: Callable[[], Sequence[str]] = tuple
    ) -> State:
        """The state after `trigger`, or `InvalidTransition` with the story, which is made then."""
        try:
            return self.table[state, trigger]
        except KeyError:
            message = f"{self.machine}: {trigger.name} in state {state.name}"
            raise InvalidTransition(message, story=story()) from None
