"""The simulator can fail: every deliberate fault of the core is found, and nothing without it."""

from __future__ import annotations

from typing import Final

import pytest

from holdfast.core.table import Table
from holdfast.errors import IllegalArgument
from holdfast.sim import bugs
from holdfast.sim.bugs import BUGS, Bug, data, masters, members, mixes, moves, replaced
from holdfast.sim.bugs.fault import SEEDS_MAX
from holdfast.sim.run import Run, Verdict, run_seed

UNNAMED: Final = "the core raises nothing"
"""An error of the core is found too, but says little about what the checkers see."""


def first_failure(bug: Bug) -> Verdict | None:
    """The first seed that breaks something."""
    verdicts = (run_seed(seed, bug.name) for seed in bug.searched)
    return next((verdict for verdict in verdicts if verdict.violation is not None), None)


def test_there_are_enough_of_them() -> None:
    control = (*members.BUGS, *masters.BUGS, *moves.BUGS)
    assert len(control) >= 10
    assert len(data.BUGS) >= 15
    assert {bug.name: bug for bug in (*control, *data.BUGS)} == BUGS
    assert all(bug.about and len(bug.searched) == SEEDS_MAX for bug in BUGS.values())


@pytest.mark.parametrize("name", sorted(BUGS))
def test_the_bug_is_found_and_its_absence_too(name: str) -> None:
    bug = BUGS[name]
    verdict = first_failure(bug)
    assert verdict is not None, f"{name} was not found in {bug.searched}"
    assert verdict.violation is not None
    assert verdict.violation.invariant != UNNAMED, verdict.violation.message
    assert Run(verdict.seed, tune=bug.mix).verdict().violation is None


def test_a_mix_is_set_whenever_its_bug_is_named() -> None:
    named = run_seed(BUGS["mandate-for-ever"].start, "mandate-for-ever")
    tuned = Run(named.seed, tune=mixes.falling_apart)
    assert named.options == tuned.options.table()
    assert named.options != run_seed(named.seed).options


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
