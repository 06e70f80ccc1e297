"""`holdfast backup`, `restore`, `verify`, `convert`: what is told, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.storage.files import RealFiles
from tests.shell.processes import MAIN
from tests.storage.test_backup import Running


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A directory of a member that has ended."""
    member = Running(tmp_path / "member")
    member.write(20)
    member.stop()
    return member.directory


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    """The line of JSON."""
    return json.loads(capsys.readouterr().out)


def test_back_up_twice_and_restore(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert main(["backup", str(stopped), one, "--output", "json"]) == 0
    first = told(capsys)
    assert first["own_bytes"] == first["bytes"]
    assert main(["backup", str(stopped), two, "--previous", one]) == 0
    assert "bytes are new since one" in capsys.readouterr().out
    assert main(["restore", two, str(tmp_path / "back"), "--output", "json"]) == 0
    assert told(capsys)["files"] == first["files"]
    assert main(["verify", str(tmp_path / "back"), "--output", "json"]) == 0
    assert told(capsys)["sound"] is True


def test_verify_names_what_is_broken(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(stopped)]) == 0
    assert capsys.readouterr().out.startswith("sound: ")
    table = next((stopped / "data").glob("*.log"))
    data = bytearray(table.read_bytes())
    data[20] ^= 1
    table.write_bytes(data)
    assert main(["verify", str(stopped), "--output", "json"]) == 1
    report = told(capsys)
    assert report["sound"] is False
    assert {"file": f"data/{table.name}", "offset": 0, "reason": "the checksum is wrong"} in report[
        "problems"
    ]
    assert main(["verify", str(stopped)]) == 1
    assert f"broken: data/{table.name} at byte 0" in capsys.readouterr().out


def test_files_of_a_member_that_runs_are_not_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = RealFiles(tmp_path)
    assert main(["verify", str(tmp_path)]) == 2
    assert "another process has it open" in capsys.readouterr().err
    files.close()


def test_convert(stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["convert", str(stopped), "--partitions", "7", "--replicas", "2", "--allow-missing"]
    command += ["--member", "a", "--member", "b=10.0.0.2:7380=zone"]
    target = tmp_path / "new"
    assert main([*command, "--target", str(target), "--output", "json"]) == 0
    report = told(capsys)
    assert sorted(report["members"]) == ["a", "b"]
    assert report["partitions"] == 7
    assert main(["verify", str(target / "b")]) == 0
    assert main([*command, "--target", str(target)]) == 2
    assert "it is not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        ("a=b", "'b' is no host:port"),
        ("=h:1", "is no NAME"),
        ("../a", "is no NAME"),
        ("a=h:1=g=x", "is no NAME"),
    ],
)
def test_a_member_that_cannot_be_is_refused(
    stopped: Path, tmp_path: Path, member: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "new")
    assert main(["convert", str(stopped), "--target", target, "--member", member]) == 2
    assert reason in capsys.readouterr().err


def test_the_same_name_twice_is_refused(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["convert", str(stopped), "--target", str(tmp_path / "new")]
    assert main([*command, "--member", "a", "--member", "a=h:1"]) == 2
    assert "the same name" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["backup", "restore", "verify"])
def test_a_directory_that_has_nothing_is_no_traceback(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [] if command == "verify" else [str(tmp_path / "target")]
    assert main([command, str(tmp_path / "nothing"), *targets]) in (1, 2)
    said = capsys.readouterr()
    assert "no f" in said.out + said.err or "missing" in said.out + said.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["verify", "{file}"], "{file}: there are no files of a member"),
        (["verify", "{nothing}"], "{nothing}: there are no files of a member"),
        (["verify", "{above}"], "there are in kept, member: name one of them"),
        (["backup", "{file}", "{nothing}"], "Not a directory"),
        (["backup", "{member}", "{file}"], "{file}: Not a directory"),
        (["backup", "{member}", "/proc/nobody/writes/here"], "No such file or directory"),
        (["backup", "{member}", "{nothing}", "--previous", "{file}"], "Not a directory"),
        (["restore", "{file}", "{nothing}"], "Not a directory"),
        (["restore", "{kept}", "{file}"], "{file}: Not a directory"),
        (["convert", "{file}", "--target", "{nothing}", "--member", "a"], "Not a directory"),
        (["convert", "{member}", "--target", "{file}", "--member", "a"], "{file}: Not a directory"),
    ],
)
def test_a_path_that_can_not_be_used_is_told_in_one_line(
    stopped: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    words: str,
) -> None:
    (tmp_path / "file").touch()
    assert main(["backup", str(stopped), str(tmp_path / "kept")]) == 0
    capsys.readouterr()
    names = {name: str(tmp_path / name) for name in ("file", "nothing", "kept")}
    places = {**names, "member": str(stopped), "above": str(stopped.parent)}
    assert main([each.format(**places) for each in command]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words.format(**places) in line


def test_whoever_reads_no_further_gets_no_traceback(stopped: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "verify", str(stopped)],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
