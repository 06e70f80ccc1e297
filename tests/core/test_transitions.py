"""Transition tables: what is written down may happen, nothing else."""

from __future__ import annotations

from enum import Enum, auto

import pytest

from holdfast.core.transitions import TransitionTable
from holdfast.errors import InvalidTransition


class Door(Enum):
    OPEN = auto()
    SHUT = auto()


class Hand(Enum):
    PUSHES = auto()
    PULLS = auto()


DOORS = TransitionTable("door", {(Door.OPEN, Hand.PUSHES): Door.SHUT})


def test_written_transition_is_made() -> None:
    assert DOORS.next(Door.OPEN, Hand.PUSHES) is Door.SHUT


def test_unwritten_transition_is_our_bug_and_tells_the_story() -> None:
    with pytest.raises(InvalidTransition, match="door: PULLS in state SHUT") as caught:
        DOORS.next(Door.SHUT, Hand.PULLS, lambda: ("it was built",))
    assert caught.value.story == ("it was built",)


def test_table_is_a_copy_that_nobody_else_changes() -> None:
    source = {(Door.OPEN, Hand.PUSHES): Door.SHUT}
    doors = TransitionTable("door", source)
    source.clear()
    assert doors.next(Door.OPEN, Hand.PUSHES) is Door.SHUT
