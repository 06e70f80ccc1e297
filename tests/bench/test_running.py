"""The runner: what fails or is interrupted costs nobody else's rows, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import options, plan_of, run
from bench.outcomes import Outcome, measured
from bench.processes import ROOT, MissingProgram, Stage, program, wait_for
from bench.running import Figure, Plan

from tests.shell.waiting import wait_until


def figure(name: str, failure: BaseException | None = None) -> Figure:
    """One row, and then perhaps the end."""

    def measure(_: Plan) -> Iterator[Outcome]:
        yield measured(name, None, [1.0], "s")
        if failure is not None:
            raise failure

    return Figure(name, "for this test", measure)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (RuntimeError("it broke"), "RuntimeError: it broke"),
        (MissingProgram("no redis"), "no redis"),
    ],
)
def test_a_figure_that_fails_keeps_its_rows_and_the_others(
    failure: Exception, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes: list[Outcome] = []
    records: list[dict[str, Any]] = []
    run([figure("a", failure), figure("b")], Plan(), outcomes, records)
    assert [each.figure for each in outcomes] == ["a", "b"]
    assert [each["error"] for each in records] == [told, ""]
    assert [len(each["rows"]) for each in records] == [1, 1]
    assert str(failure) in capsys.readouterr().err


def test_an_interruption_leaves_what_was_measured_before_it() -> None:
    outcomes: list[Outcome] = []
    records: list[dict[str, Any]] = []
    with pytest.raises(KeyboardInterrupt):
        run([figure("a", KeyboardInterrupt()), figure("b")], Plan(), outcomes, records)
    assert [each.figure for each in outcomes] == ["a"]
    assert [each["error"] for each in records] == ["interrupted"]


def test_quick_is_one_round_unless_rounds_are_given() -> None:
    assert plan_of(options(["--quick"])).rounds == 1
    assert plan_of(options(["--quick", "--rounds", "4"])).rounds == 4
    assert plan_of(options([])).rounds == 3


@pytest.mark.parametrize("given", [["--only", "nothing"], ["--rounds", "0"], ["--repeats", "x"]])
def test_bad_options_are_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options(given)
    assert ended.value.code == 2
    assert given[0] in capsys.readouterr().err


def test_a_missing_program_says_how_to_get_it() -> None:
    with pytest.raises(MissingProgram, match="make peers"):
        program("a-program-that-nobody-has")


def test_waiting_ends_with_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match="the moon"):
        wait_for(lambda: None, "the moon", seconds=0)


def test_a_stage_ends_its_processes_and_removes_its_files_when_something_fails() -> None:
    stage = Stage()

    def fails() -> None:
        with stage:
            stage.start("sleeps", ["sleep", "1000"])
            raise RuntimeError("the figure failed")

    with pytest.raises(RuntimeError, match="the figure failed"):
        fails()
    assert stage.processes[0].popen.poll() == -signal.SIGKILL
    assert not stage.folder.exists()


def members_of(pid: int) -> list[int]:
    """The members that a process has started; it looks for the package before, with others."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(each) for each in text.split() if b"\0member\0" in said_of(int(each))]


def said_of(pid: int) -> bytes:
    """With what it was started; nothing of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_all_that_it_started(number: signal.Signals) -> None:
    """1. The bench has started a member. 2. ctrl-C, or an end by whoever started it. 3. The
    member is gone, and the exit code says that it was interrupted."""
    bench = subprocess.Popen(
        [sys.executable, "-m", "bench", "--only", "start"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'node' / 'src'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        wait_until(lambda: members_of(bench.pid), "it has started a member")
        started = members_of(bench.pid)
        bench.send_signal(number)
        _, told = bench.communicate(timeout=30)
    finally:
        bench.kill()
    assert bench.returncode == 130, told
    assert b"interrupted" in told
    assert not any(Path(f"/proc/{each}").exists() for each in started)
