"""The simulator can fail: every deliberate fault of the core is found, and nothing without it."""

from __future__ import annotations

from typing import Final

import pytest

from holdfast.core.table import Table
from holdfast.errors import IllegalArgument
from holdfast.sim import bugs
from holdfast.sim.bugs import BUGS, Bug, replaced
from holdfast.sim.run import Verdict, run_seed

UNNAMED: Final = "the core raises nothing"
"""An error of the core is found too, but says little about what the checkers see."""


def first_failure(bug: Bug) -> Verdict | None:
    """The first seed that breaks something."""
    verdicts = (run_seed(seed, bug.name) for seed in bug.searched)
    return next((verdict for verdict in verdicts if verdict.violation is not None), None)


def test_there_are_enough_of_them() -> None:
    assert len(BUGS) >= 12
    assert all(bug.about and 1 <= bug.seeds <= 40 for bug in BUGS.values())


@pytest.mark.parametrize("name", sorted(BUGS))
def test_the_bug_is_found_and_its_absence_too(name: str) -> None:
    verdict = first_failure(BUGS[name])
    assert verdict is not None, f"{name} was not found in {BUGS[name].searched}"
    assert verdict.violation is not None
    assert verdict.violation.invariant != UNNAMED, verdict.violation.message
    assert run_seed(verdict.seed).violation is None


def test_a_bug_lasts_as_long_as_its_context() -> None:
    right = vars(Table)["apply"]
    with replaced(Table, "apply", lambda *_: ()):
        assert vars(Table)["apply"] is not right
    assert vars(Table)["apply"] is right


def test_a_bug_ends_with_an_error_too() -> None:
    right = vars(Table)["apply"]

    def broken() -> None:
        with replaced(Table, "apply", None):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert vars(Table)["apply"] is right


def test_no_bug_by_default() -> None:
    with bugs.active(None):
        pass


def test_an_unknown_bug_is_refused() -> None:
    with pytest.raises(IllegalArgument, match="no bug is called 'x'"):
        bugs.active("x")


def test_a_bug_is_switched_on_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bugs, "BUGS", {})
    bug = bugs.register(Bug("b", "", lambda: replaced(Table, "apply", lambda *_: ())))
    assert {"b": bug} == bugs.BUGS
    right = vars(Table)["apply"]
    with bugs.active("b"):
        assert vars(Table)["apply"] is not right
    assert vars(Table)["apply"] is right
