"""The planner's rules, judged by an oracle that knows nothing of it; and the oracle itself.

Few examples here, all small cases; a million random ones by `planner_soak.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.migrations import MigrationType, Move, apply_step
from holdfast.core.planner import BACKUPS_MAX, plan, repair_cycles
from holdfast.ids import MemberId, Replicas
from tests.core.plan_checker import Broken, PlainMove, Row, check_plan, kept_slots
from tests.core.plan_inputs import all_pairs, pairs, plain

Pair = tuple[Replicas, Replicas]


@given(pairs(), st.integers(0, BACKUPS_MAX))
def test_every_plan_keeps_every_rule(pair: Pair, backups: int) -> None:
    current, wanted = pair
    target, kept = repair_cycles(current, wanted)
    assert kept == kept_slots(current, wanted)
    steps = plan(current, target, backups)
    rows = check_plan(current, target, plain(steps), backups)
    row = current
    for step, expected in zip(steps, rows, strict=True):
        row = apply_step(row, step)
        assert row == expected


@given(pairs(), st.integers(0, BACKUPS_MAX))
def test_planning_afresh_after_any_step_still_works(pair: Pair, backups: int) -> None:
    """A plan is stateless: what remains is planned again after a change (`design/3` §3).

    No step makes a cycle with the target, but for the promotion of another than the target's owner.
    """
    row, wanted = pair
    target, _ = repair_cycles(row, wanted)
    promoted = row[0] is None
    for step in plan(row, target, backups):
        row = apply_step(row, step)
        repaired, kept = repair_cycles(row, target)
        assert promoted or kept == ()
        check_plan(row, repaired, plain(plan(row, repaired, backups)), backups)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_all_small_rows(length: int) -> None:
    for current, wanted in all_pairs(length):
        target, kept = repair_cycles(current, wanted)
        assert kept == kept_slots(current, wanted)
        for backups in (*range(length), BACKUPS_MAX):
            check_plan(current, target, plain(plan(current, target, backups)), backups)


def shift(member: str, now: int, new: int) -> PlainMove:
    return ("SHIFT UP" if new < now else "SHIFT DOWN", None, -1, -1, member, now, new)


def copy(member: str, new: int) -> PlainMove:
    return ("COPY", None, -1, -1, member, -1, new)


def move(leaver: str, slot: int, member: str) -> PlainMove:
    return ("MOVE", leaver, slot, -1, member, -1, slot)


def clear(leaver: str, slot: int) -> PlainMove:
    return ("MOVE", leaver, slot, -1, None, -1, -1)


BAD_PLANS: dict[str, tuple[str, str, list[list[PlainMove]]]] = {
    "the target is reached": ("AB", "AC", []),
    "is the type of": ("A-", "AB", [[("MOVE", None, -1, -1, "B", -1, 1)]]),
    "holds slot 1 before": ("AB", "AC", [[copy("C", 1)]]),
    "B is at 2": ("AB--", "A-B-", [[shift("B", 2, 3)]]),
    "B is not in the row": ("AB-", "A-B", [[copy("B", 2)]]),
    "slot 1 is free": ("A-", "AB", [[copy("B", 1), copy("C", 1)]]),
    "the owner is there": ("ABC", "XBC", [[clear("A", 0)], [copy("X", 0)]]),
    "the first step promotes": ("-B", "XB", [[copy("X", 0)]]),
    "the owner goes last": ("AB", "-B", [[move("A", 0, "X")], [clear("X", 0)]]),
    "copies don't dip": ("AB-", "A-C", [[clear("B", 1)], [copy("C", 2)]]),
    "one migration a step": ("A--", "ABC", [[copy("B", 1), copy("C", 2)]]),
    "settled stays": ("AB-", "ABC", [[shift("B", 1, 2)], [shift("B", 2, 1)], [copy("C", 2)]]),
    "clearing is last": ("ABC", "XB-", [[clear("C", 2)], [move("A", 0, "X")]]),
    "slot 0 goes before": ("ABC", "XBY", [[move("C", 2, "Y")], [move("A", 0, "X")]]),
    "is a hole without need": ("ABC-", "AXCB", [[shift("B", 1, 3)], [copy("X", 1)]]),
    "keeps its data": (
        "AB-",
        "CAB",
        [[move("A", 0, "C")], [("SHIFT DOWN", "B", 1, 2, "A", -1, 1)]],
    ),
    "goes before": ("AB-", "XBC", [[move("A", 0, "X")], [copy("C", 2)]]),
}


@pytest.mark.parametrize("rule", BAD_PLANS)
def test_the_checker_finds_a_broken_rule(rule: str) -> None:
    current, target, steps = BAD_PLANS[rule]
    with pytest.raises(Broken, match=rule):
        check_plan(letters(current), letters(target), steps)


def test_the_checker_finds_a_step_that_could_be_shorter() -> None:
    step = [copy("B", 1), copy("C", 2)]
    with pytest.raises(Broken, match="steps are short"):
        check_plan(letters("A--"), letters("ABC"), [step], backups=1)


def letters(text: str) -> Row:
    """`AB-` as a plain row."""
    return tuple(None if letter == "-" else letter for letter in text)


def test_a_move_applies_alone_and_says_whom_and_what_it_touches() -> None:
    a, b = MemberId("a"), MemberId("b")
    down = Move(MigrationType.SHIFT_DOWN, a, 0, 1, b, -1, 0)
    assert down.apply((a, None)) == (b, a)
    assert down.participants() == (a, b)
    assert down.indexes() == (0, 1, 0)


def test_a_step_that_does_not_fit_its_row_is_a_bug() -> None:
    a, b = MemberId("a"), MemberId("b")
    with pytest.raises(AssertionError, match="b is not at index 0"):
        Move(MigrationType.MOVE, b, 0, -1, None, -1, -1).apply((a,))
    with pytest.raises(AssertionError, match="a is still at index 0"):
        Move(MigrationType.COPY, None, -1, -1, b, -1, 0).apply((a,))
