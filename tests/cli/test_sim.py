"""`holdfast sim`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.cli import sim
from holdfast.cli.main import main
from holdfast.sim.run import Verdict, Violation

BROKEN = Violation("one owner at a time", "a and b", tuple(f"step {n}" for n in range(100)))


def verdict(seed: int, violation: Violation | None = None) -> Verdict:
    return Verdict(
        seed=seed,
        options=(("members", "m00"),),
        digest="d",
        steps=10,
        virtual_ms=2_000,
        marks={"crashes": 2, "pauses": 0},
        violation=violation,
    )


Runner = Callable[..., Verdict]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Seed 3 breaks; everything that was asked for is kept."""
    asked: dict[str, Any] = {"seeds": []}

    def fake(
        seed: int, bug: str | None = None, listener: Callable[[str], None] | None = None
    ) -> Verdict:
        asked["seeds"].append(seed)
        asked["bug"] = bug
        if listener is not None:
            listener(f"a step of {seed}")
        return verdict(seed, BROKEN if seed == 3 else None)

    monkeypatch.setattr(sim, "run_seed", fake)
    return asked


def run(*arguments: str) -> int:
    return main(["sim", "--jobs", "1", *arguments])


def test_clean_seeds(runs: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--start", "10", "--seeds", "4") == 0
    assert runs["seeds"] == [10, 11, 12, 13]
    out = capsys.readouterr().out
    assert "4 seeds, none failed; 40 steps" in out
    row = next(line for line in out.splitlines() if "crashes" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["crashes", "4", "8"]
    assert "pauses" not in out


def test_the_first_failure_ends_the_run(
    runs: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--start", "2", "--seeds", "9") == 1
    assert runs["seeds"] == [2, 3]
    out = capsys.readouterr().out
    assert "seed 3 breaks «one owner at a time»" in out
    assert "holdfast sim --start 3 --seeds 1 --trace" in out
    assert "members" in out
    assert "step 60" in out
    assert "step 59\n" not in out
    assert "2 seeds, 1 FAILED" in out


def test_keep_going(runs: dict[str, Any]) -> None:
    assert run("--start", "2", "--seeds", "3", "--keep-going") == 1
    assert runs["seeds"] == [2, 3, 4]


@pytest.mark.usefixtures("runs")
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--start", "2", "--seeds", "2", "--output", "json") == 1
    failure, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert failure["seed"] == 3
    assert failure["violation"]["invariant"] == "one owner at a time"
    assert failure["replay"] == "holdfast sim --start 3 --seeds 1 --trace"
    assert summary["failed_seeds"] == [3]
    assert summary["seen_in_seeds"] == {"crashes": 2}


@pytest.mark.usefixtures("runs")
def test_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--start", "1", "--seeds", "1", "--trace") == 0
    assert "a step of 1" in capsys.readouterr().out


@pytest.mark.usefixtures("runs")
def test_progress_is_told_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sim, "PROGRESS_SECONDS", 0.0)
    assert run("--start", "5", "--seeds", "2") == 0
    assert "sim: 1 of 2 seeds" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--seeds", "0"], ["--start", "x"], ["--bug", "no such bug"], ["--output", "x"]]
)
def test_a_command_line_that_makes_no_sense(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_seeds_run_in_processes_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """The real thing, twice beside itself."""
    code = main(["sim", "--start", "3", "--seeds", "2", "--jobs", "2", "--keep-going"])
    assert code in (0, 1)
    assert "2 seeds" in capsys.readouterr().out
