"""The planner's worked examples, by name: seed 002 §3.2.2, seed 003, and the cases beyond them."""

from __future__ import annotations

import pytest

from holdfast.core.cycles import check_rows
from holdfast.core.migrations import Step
from holdfast.core.planner import plan, repair_cycles
from holdfast.errors import PlanError
from holdfast.ids import MemberId, Replicas
from tests.core.plan_checker import check_plan
from tests.core.plan_inputs import plain


def row(text: str) -> Replicas:
    """`AB-` as a row; one letter a member."""
    return tuple(None if letter == "-" else MemberId(letter) for letter in text)


def told(steps: tuple[Step, ...]) -> list[str]:
    """Steps as text: `type who leaves or sinks > who comes`, moves of one step joined by ` + `."""

    def end(member: str | None, now: int, new: int) -> str:
        return "" if member is None else f"{member}{now}:{new}".replace("-1", "_")

    return [
        " + ".join(
            f"{move.type.value} {end(move.source, move.source_current, move.source_new)}"
            f">{end(move.destination, move.destination_current, move.destination_new)}"
            for move in step
        )
        for step in steps
    ]


EXAMPLES = {
    "seed 002: owner replaced": ("ABC", "DBC", ["MOVE A0:_>D_:0"]),
    "seed 002: lost backup": ("A-C", "ADC", ["COPY >D_:1"]),
    "seed 002: owner becomes a backup": ("A-C", "DAC", ["SHIFT DOWN A0:1>D_:0"]),
    "seed 002: backups close the gap": ("A-BC", "ABC-", ["SHIFT UP >B2:1", "SHIFT UP >C3:2"]),
    "seed 002: shift up by moves": (
        "ABCD",
        "ACDE",
        ["MOVE D3:_>E_:3", "MOVE C2:_>D_:2", "MOVE B1:_>C_:1"],
    ),
    "seed 002: a colder copy is given up": (
        "ABCD",
        "BDC-",
        ["SHIFT UP B1:_>D3:1", "MOVE A0:_>B_:0"],
    ),
    "seed 002 §3.1.3.2: shift down by moves": ("ABC", "DAC", ["MOVE A0:_>D_:0", "MOVE B1:_>A_:1"]),
    "seed 002 §3.1.4.2: shift up by moves": ("ABC", "ACD", ["MOVE C2:_>D_:2", "MOVE B1:_>C_:1"]),
    "seed 002 §3.2: shift up before the colder one": (
        "A-BC",
        "ABCD",
        ["SHIFT UP >B2:1", "SHIFT UP >C3:2", "COPY >D_:3"],
    ),
    "seed 002 §3.2.3: copy first": ("AB-", "XBC", ["COPY >C_:2", "MOVE A0:_>X_:0"]),
    "seed 002 §3.2.3: shift up first": ("AB-C", "XBC-", ["SHIFT UP >C3:2", "MOVE A0:_>X_:0"]),
    "seed 002 §3.2.3: copy before a colder shift down": (
        "AB-D-",
        "XBCDA",
        ["COPY >C_:2", "SHIFT DOWN A0:4>X_:0"],
    ),
    "seed 002 §3.2.3: copy after a hotter shift down": (
        "A-C-",
        "XACD",
        ["SHIFT DOWN A0:1>X_:0", "COPY >D_:3"],
    ),
    "seed 002 §3.2.3: copy waits for its participant": (
        "ABC-",
        "CBXD",
        ["COPY >D_:3", "MOVE C2:_>X_:2", "MOVE A0:_>C_:0"],
    ),
    "seed 002 §3.2.3: copy waits for its index": (
        "ZAY-",
        "ZYXA",
        ["SHIFT DOWN A1:3>Y2:1", "COPY >X_:2"],
    ),
    "seed 003: a member returns": ("AB-", "CAB", ["SHIFT DOWN >B1:2", "SHIFT DOWN A0:1>C_:0"]),
    "seed 003, longer": (
        "ABD-",
        "CABD",
        ["SHIFT DOWN >D2:3", "SHIFT DOWN >B1:2", "SHIFT DOWN A0:1>C_:0"],
    ),
    "a gap where the known algorithm dips": (
        "B-NFEJ",
        "EBFNJ-",
        ["SHIFT DOWN B0:1>E4:0", "SHIFT UP >J5:4"],
    ),
    "a copy is made before one is cleared": ("AB-", "A-C", ["COPY >C_:2", "MOVE B1:_>"]),
    "a gain goes ahead of a loss": (
        "ABCD-",
        "BDC-X",
        ["COPY >X_:4", "SHIFT UP B1:_>D3:1", "MOVE A0:_>B_:0"],
    ),
    "owner lost, target's owner at hand": ("-BC", "CB-", ["SHIFT UP >C2:0"]),
    "owner lost, target's owner new": (
        "-BC",
        "XBC",
        ["SHIFT UP >B1:0", "SHIFT DOWN B0:1>X_:0"],
    ),
    "nobody lives": ("---", "AB-", ["COPY >A_:0", "COPY >B_:1"]),
    "nobody remains": ("AB", "--", ["MOVE B1:_>", "MOVE A0:_>"]),
    "target without owner": ("ABC", "-AB", ["SHIFT DOWN C2:_>B1:2", "SHIFT DOWN >A0:1"]),
    "nothing to do": ("AB-", "AB-", []),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_example(name: str) -> None:
    current, target, expected = EXAMPLES[name]
    repaired, _ = repair_cycles(row(current), row(target))
    steps = plan(row(current), repaired)
    assert told(steps) == expected
    check_plan(row(current), repaired, plain(steps))


WITH_FEWER_BACKUPS = {
    "returning member": ("AB-", "CAB", 1, ["SHIFT DOWN >B1:2 + SHIFT DOWN A0:1>C_:0"]),
    "returning member, no backups": ("AB-", "CAB", 0, ["SHIFT DOWN >B1:2", "SHIFT DOWN A0:1>C_:0"]),
    "only the hot part is one step": (
        "ABD-",
        "CABD",
        1,
        ["SHIFT DOWN >D2:3", "SHIFT DOWN >B1:2 + SHIFT DOWN A0:1>C_:0"],
    ),
    "owner lost, target's owner has no data": (
        "-BCD",
        "D-CB",
        2,
        ["SHIFT UP >B1:0", "SHIFT DOWN B0:1>D3:0", "SHIFT DOWN >B1:3"],
    ),
    "a step that waits is cut in two that follow each other": (
        "CBF-I-D",
        "IKHEFCG",
        5,
        [
            "COPY >E_:3",
            "SHIFT DOWN C0:5>I4:0",
            "SHIFT DOWN F2:4>H_:2",
            "MOVE B1:_>K_:1",
            "MOVE D6:_>G_:6",
        ],
    ),
    "a step that waits gets shorter": (
        "D-B-",
        "CADB",
        1,
        ["COPY >A_:1", "SHIFT DOWN >B2:3", "SHIFT DOWN D0:2>C_:0"],
    ),
}


@pytest.mark.parametrize("name", WITH_FEWER_BACKUPS)
def test_with_fewer_backups(name: str) -> None:
    current, target, backups, expected = WITH_FEWER_BACKUPS[name]
    steps = plan(row(current), row(target), backups)
    assert told(steps) == expected
    check_plan(row(current), row(target), plain(steps), backups)


@pytest.mark.parametrize(
    ("current", "target", "repaired", "kept"),
    [
        ("AB", "BA", "AB", (0, 1)),
        ("ABC", "CAB", "ABC", (0, 1, 2)),
        ("ABCDE", "BAEXC", "ABCXE", (0, 1, 2, 4)),
        ("ABC", "BCX", "BCX", ()),
        ("AB-", "BCA", "BCA", ()),
        ("AB-", "BAX", "ABX", (0, 1)),
        ("AB", "AB", "AB", ()),
    ],
)
def test_cycles_are_kept_as_they_are(
    current: str, target: str, repaired: str, kept: tuple[int, ...]
) -> None:
    assert repair_cycles(row(current), row(target)) == (row(repaired), kept)


@pytest.mark.parametrize(
    ("current", "target", "backups", "reason"),
    [
        ("AB", "A", 6, "rows of 2 and 1 replicas"),
        ("ABCDEFGH", "ABCDEFGI", 6, "has 8 replicas"),
        ("AA", "AB", 6, "member 'A' is twice in the current row"),
        ("AB", "CC", 6, "member 'C' is twice in the target row"),
        ("AB", "AC", 7, "backups must be 0 to 6: 7"),
        ("AB", "AC", -1, "backups must be 0 to 6: -1"),
        ("ABC", "BAC", 6, "has a cycle"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    current: str, target: str, backups: int, reason: str
) -> None:
    with pytest.raises(PlanError, match=reason):
        plan(row(current), row(target), backups)


def test_an_empty_row_is_refused() -> None:
    with pytest.raises(PlanError, match="the current row has 0 replicas"):
        check_rows((), ())
