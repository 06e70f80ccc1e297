"""`holdfast assign`: the figures in text and JSON, the order of changes, and bad input."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from holdfast.cli.assign import Report, Span, Stage
from holdfast.cli.main import main

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    code = main(["assign", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def stages(capsys: Capture, *arguments: str) -> list[Stage]:
    """The stages that JSON tells of."""
    code, out, err = run(capsys, *arguments, "--output", "json")
    assert (code, err) == (0, "")
    return msgspec.json.decode(out, type=Report).stages


def changes(found: Sequence[Stage]) -> list[str]:
    """What happened, in order."""
    return [stage.change for stage in found]


def test_text_shows_moves_and_evenness(capsys: Capture) -> None:
    code, out, err = run(
        capsys, "--members", "4", "--groups", "2", "--partitions", "271",
        "--after-leave", "m2", "--after-join", "m5",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "271 partitions of 7 replicas",
        "",
        "What moves: copies to make, against the least possible; owners and indexes that change;",
        "spread of owners, most less fewest relative to the mean.",
        "change    members  groups  moved  least  owners  indexes  spread",
        "fresh           4       2   1084   1084     271        0   1.5 %",
        out.splitlines()[6],
        out.splitlines()[7],
        "",
        "What each member holds, fewest..most: all copies, and those at each index.",
        "change      copies  index 0  index 1  index 2  index 3",
        "fresh     271..271   67..68   67..68   67..68   67..68",
        "leave m2  271..271   90..91  45..181   0..136",
        "join m5   271..271   67..68   67..68   67..68   67..68",
    ]
    assert out.splitlines()[6].split()[:6] == ["leave", "m2", "3", "2", "0", "0"]
    assert out.splitlines()[7].split()[:6] == ["join", "m5", "4", "2", "271", "271"]


def test_json_has_the_same_figures(capsys: Capture) -> None:
    first, second = stages(capsys, "--members", "3", "--replicas", "2", "--after-join", "x")
    assert first == Stage(
        change="fresh",
        members=3,
        groups=3,
        moved=542,
        least_possible=542,
        owners_changed=271,
        indexes_changed=0,
        owners=Span(90, 91),
        owners_spread_percent=1.1,
        copies=Span(180, 181),
        indexes=[Span(90, 91), Span(90, 91)],
    )
    assert (second.change, second.members, second.groups) == ("join x", 4, 4)
    assert (second.moved, second.least_possible) == (135, 135)


def test_changes_happen_in_the_order_given(capsys: Capture) -> None:
    arguments = ("--after-join", "m9", "--after-leave=m1", "--after-join", "m1")
    found = stages(capsys, "--members", "3", *arguments, "--after-leave", "m9")
    assert changes(found) == ["fresh", "join m9", "leave m1", "join m1", "leave m9"]
    assert [stage.members for stage in found] == [3, 4, 3, 4, 3]


def test_joiner_goes_to_the_smallest_group(capsys: Capture) -> None:
    found = stages(
        capsys, "--members", "5", "--groups", "3", "--replicas", "3",
        "--after-leave", "m3", "--after-join", "m6",
    )  # fmt: skip
    assert [stage.groups for stage in found] == [3, 2, 3]
    assert found[-1].moved == 271  # alone in its group, it needs a copy of everything


def test_table_has_the_rows(capsys: Capture) -> None:
    (stage,) = stages(capsys, "--members", "2", "--partitions", "4", "--replicas", "3", "--table")
    assert isinstance(stage.table, tuple)
    assert sorted(row[:2] for row in stage.table) == [("m1", "m2")] * 2 + [("m2", "m1")] * 2
    assert [row[2] for row in stage.table] == [None] * 4


def test_rows_are_left_out_without_table(capsys: Capture) -> None:
    _, out, _ = run(capsys, "--members", "2", "--output", "json")
    assert '"table"' not in out


def test_everyone_may_leave(capsys: Capture) -> None:
    last = stages(capsys, "--members", "1", "--after-leave", "m1")[-1]
    assert (last.members, last.moved, last.indexes, last.copies) == (0, 0, [], Span(0, 0))
    code, out, _ = run(capsys, "--members", "1", "--after-leave", "m1")
    assert code == 0
    assert "leave m1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--members 0", "'--members'"),
        ("--members 1001", "'--members'"),
        ("--members two", "'--members'"),
        ("--members 2 --groups 3", "3 groups for 2 members"),
        ("--members 2 --groups 0", "'--groups'"),
        ("--members 2 --partitions 16385", "'--partitions'"),
        ("--members 2 --partitions 0", "'--partitions'"),
        ("--members 2 --replicas 0", "'--replicas'"),
        ("--members 2 --replicas 8", "'--replicas'"),
        ("--members 2 --after-leave m3", "m3 can't leave: it is no member"),
        ("--members 2 --after-leave m1 --after-leave m1", "m1 can't leave: it is no member"),
        ("--members 2 --after-join m2", "m2 can't join: it is a member already"),
        ("--members 2 --after-join=", "'' can't join: a name is printable"),
        ("--members 2 --after-join", "requires an argument"),
        ("--members 2 --table", "--table needs --output json"),
        ("--members 2 --output xml", "'--output'"),
        ("--members 2 m1", "m1"),
        ("", "'--members'"),
    ],
)
def test_bad_input_is_one_line(capsys: Capture, arguments: str, message: str) -> None:
    code, out, err = run(capsys, *arguments.split())
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("holdfast: ")
    assert err.count("\n") == 1
