"""What ends mean, and how long to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ids import Millis
from holdfast.shell.supervisor.policy import End, Policy, describe, end_of, exit_code


@pytest.mark.parametrize(
    ("status", "end", "code", "words"),
    [
        (0, End.LEFT, 0, "exit code 0"),
        (1, End.DIED, 1, "exit code 1"),
        (2, End.REFUSED, 2, "exit code 2"),
        (3, End.REFUSED, 3, "exit code 3"),
        (4, End.REFUSED, 4, "exit code 4"),
        (78, End.REFUSED, 78, "exit code 78"),
        (137, End.DIED, 137, "exit code 137"),
        (-9, End.DIED, 137, "signal SIGKILL"),
        (-15, End.DIED, 143, "signal SIGTERM"),
        (-63, End.DIED, 191, "signal 63"),
    ],
)
def test_ends(status: int, end: End, code: int, words: str) -> None:
    assert (end_of(status, first=True), exit_code(status), describe(status)) == (end, code, words)


def test_a_port_that_was_free_once_may_come_free_again() -> None:
    assert end_of(3, first=False) is End.DIED
    assert end_of(2, first=False) is End.REFUSED


@given(st.integers(0, 10_000))
def test_waits_grow_and_have_a_limit(failures: int) -> None:
    policy = Policy()
    here, there = policy.restart_delay(failures), policy.restart_delay(failures + 1)
    assert 0 <= here <= there <= policy.restart_max_ms
    assert failures > 1 or here == Millis(0)
