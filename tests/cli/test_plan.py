"""`holdfast plan`: what is printed, in text, in JSON and in batch, and what bad input becomes."""

from __future__ import annotations

import io
import sys

import msgspec
import pytest

from holdfast.cli.main import main
from holdfast.cli.plan import PlanReport

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    code = main(["plan", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def batch(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, text: bytes, *arguments: str
) -> tuple[int, list[str], list[str]]:
    """The same with `--batch` and lines on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    code, out, err = run(capsys, "--batch", *arguments)
    return code, out.splitlines(), err.splitlines()


def test_text_shows_moves_rows_and_live_copies(capsys: Capture) -> None:
    code, out, err = run(capsys, "A,B,-", "C,A,B")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "step  type        source    destination  commit  replicas  live",
        "                                                 A,B,-     2",
        "1     SHIFT DOWN  -         B 1 -> 2     alone   A,-,B     2",
        "2     SHIFT DOWN  A 0 -> 1  C - -> 0     alone   C,A,B     3",
    ]


def test_text_says_what_is_committed_together(capsys: Capture) -> None:
    _, out, _ = run(capsys, "A,B,-", "C,A,B", "--backups", "1")
    assert out.splitlines()[2:] == [
        "1     SHIFT DOWN  -         B 1 -> 2     atomic with next",
        "1     SHIFT DOWN  A 0 -> 1  C - -> 0     with previous     C,A,B     3",
    ]


def test_text_says_which_indexes_were_kept(capsys: Capture) -> None:
    _, out, _ = run(capsys, "A, B, C", "B, A, D")
    assert out.splitlines()[-2:] == [
        "kept as they are, since their members only change places: indexes 0, 1",
        "target without that cycle: A,B,D",
    ]


def test_text_says_when_there_is_nothing_to_do(capsys: Capture) -> None:
    _, out, _ = run(capsys, "A,B", "B,A")
    assert "nothing to do" in out


def test_json_has_the_named_fields(capsys: Capture) -> None:
    code, out, _ = run(capsys, "A,B,-", "C,A,B", "--backups", "1", "--output", "json")
    assert code == 0
    assert msgspec.json.decode(out) == {
        "target": ["C", "A", "B"],
        "kept": [],
        "migrations": [
            {
                "type": "SHIFT DOWN",
                "source": None,
                "source_current_index": -1,
                "source_new_index": -1,
                "destination": "B",
                "destination_current_index": 1,
                "destination_new_index": 2,
                "atomic_with_next": True,
            },
            {
                "type": "SHIFT DOWN",
                "source": "A",
                "source_current_index": 0,
                "source_new_index": 1,
                "destination": "C",
                "destination_current_index": -1,
                "destination_new_index": 0,
                "atomic_with_next": False,
            },
        ],
        "steps": [["C", "A", "B"]],
    }


def test_rows_are_padded_and_may_begin_vacant(capsys: Capture) -> None:
    code, out, _ = run(capsys, "-,B", "B", "--output", "json")
    report = msgspec.json.decode(out, type=PlanReport)
    assert (code, report.target, report.steps) == (0, ("B", None), [("B", None)])


def test_batch_writes_one_plan_a_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        b'{"current": ["A", null], "target": ["A", "B"]}\n'
        b"\n"
        b'{"current": ["A", "B", "C"], "target": ["B", "A"], "backups": 1}\n'
        b'{"current": ["A", "B"], "target": ["C", "A", "B"]}\n'
    )
    code, out, err = batch(capsys, monkeypatch, lines, "--backups", "1")
    first, second, third = (msgspec.json.decode(line, type=PlanReport) for line in out)
    assert (code, err) == (0, [])
    assert first.steps == [("A", "B")]
    assert (second.kept, second.target) == ((0, 1), ("A", "B", None))
    assert [move.atomic_with_next for move in third.migrations] == [True, False]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "JSON is malformed"),
        (b"\xff", "JSON is malformed"),
        (b'{"current": ["A\xff"], "target": ["B"]}', "utf-8"),
        (b'{"current": ["A"]}', "missing required field `target`"),
        (b'{"current": ["A", 3], "target": ["B"]}', "got `int`"),
        (b'{"current": ["A"], "target": ["B"], "backup": 1}', "unknown field `backup`"),
        (b'{"current": ["A"], "target": ["B"], "backups": 7}', "<= 6"),
        (b'{"current": ["A"], "target": ["B"], "backups": true}', "got `bool`"),
        (b'{"current": ["A", "A"], "target": ["B"]}', "'A' is twice in the current row"),
        (b'{"current": [""], "target": ["B"]}', "empty name"),
        (b'{"current": [], "target": []}', "has 0 replicas"),
    ],
)
def test_a_bad_line_is_named_and_the_others_go_on(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, line: bytes, reason: str
) -> None:
    good = b'{"current": ["A"], "target": ["B"]}'
    code, out, err = batch(capsys, monkeypatch, b"\n".join((good, line, good)))
    assert code == 2
    assert len(out) == 3
    assert len(err) == 1
    assert err[0].startswith("holdfast: line 2: ")
    assert reason in err[0]
    assert msgspec.json.decode(out[1]) == {"error": err[0].removeprefix("holdfast: ")}
    assert out[0] == out[2]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("A", "A,A"), "member 'A' is twice in the target row"),
        (("A,,B", "A"), "the current row has an empty name at index 1"),
        (("", "A"), "the current row has an empty name at index 0"),
        (("A\x1b", "A"), "unprintable name"),
        (("A", "A,B,C,D,E,F,G,H"), "the target row has 8 replicas"),
        (("A", "B", "--backups", "x"), "--backups"),
        (("A", "B", "--backups", "7"), "--backups"),
        (("A", "B", "--output", "xml"), "--output"),
        (("A", "B", "C"), "(C)"),
        (("A", "B", "--backup", "1"), "--backup"),
        (("A",), "give two rows"),
        ((), "give two rows"),
        (("--batch", "A"), "standard input"),
        (("--batch", "--output", "text"), "standard input"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: Capture, arguments: tuple[str, ...], reason: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("holdfast: ")
    assert err.count("\n") == 1
    assert reason in err


def test_without_a_command_the_help_is_shown(capsys: Capture) -> None:
    assert main([]) == 0
    assert "plan" in capsys.readouterr().out


def test_an_unknown_command_is_refused(capsys: Capture) -> None:
    assert main(["plam"]) == 2
    assert "plam" in capsys.readouterr().err
