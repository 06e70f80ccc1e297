"""What the process remembers of migrations, and the pace of the present plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.effects import Notice, NoticeKind
from holdfast.core.messages import Outcome
from holdfast.core.observing import MigrationsSeen
from holdfast.shell.http.happenings import Happenings

IDLE = MigrationsSeen("idle", planned=9, completed=9, failed=0, waiting=0, moved=0, running=())


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def planned() -> Notice:
    return Notice(NoticeKind.MIGRATIONS_PLANNED, "table", "3 migrations")


def ended(detail: str) -> Notice:
    return Notice(NoticeKind.MIGRATION_ENDED, "partition 1", detail)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_rate_is_of_the_present_plan_alone(clock: Clock) -> None:
    """1. A plan of three steps. 2. Much later one of two, of which the node counts only these."""
    seen = Happenings(clock)
    seen.note(planned())
    for _ in range(3):
        clock.now += 1
        seen.note(ended(Outcome.SUCCESS))
    assert seen.rate(replace(IDLE, completed=3)) == pytest.approx(1.0)
    clock.now += 100
    seen.note(planned())
    for _ in range(2):
        clock.now += 2
        seen.note(ended(Outcome.SUCCESS))
    assert seen.elapsed(IDLE) == pytest.approx(4.0)
    assert seen.rate(replace(IDLE, completed=2)) == pytest.approx(0.5)
    assert len(seen.history()) == 7


def test_a_plan_that_still_runs_gets_slower_while_nothing_ends(clock: Clock) -> None:
    seen, busy = Happenings(clock), replace(IDLE, waiting=1, completed=1)
    seen.note(planned())
    clock.now += 1
    seen.note(ended(Outcome.SUCCESS))
    clock.now += 3
    assert seen.rate(busy) == pytest.approx(0.25)
    assert seen.rate(replace(IDLE, completed=1)) == pytest.approx(1.0)


def test_before_any_plan_there_is_no_pace(clock: Clock) -> None:
    assert Happenings(clock).rate(IDLE) == 0
