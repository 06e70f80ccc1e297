"""The list of commands is what the commands say of themselves, and costs nothing but itself."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Final

import pytest
import typer

from holdfast.cli.commands import COMMANDS
from holdfast.cli.main import main

HEAVY: Final = ("fastapi", "pydantic", "httpx", "holdfast.shell", "holdfast.sim")
OF_A_MEMBER: Final = ("fastapi", "pydantic", "httpx", "rich", "typer", "holdfast.sim")


def imported_by(statement: str, unwanted: tuple[str, ...]) -> list[str]:
    """Which of these a fresh interpreter has after the statement."""
    told = f"import sys; {statement}; print([each for each in {unwanted!r} if each in sys.modules])"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, check=True, text=True)
    return [each for each in unwanted if repr(each) in found.stdout]


@pytest.mark.parametrize("name", COMMANDS)
def test_list_says_what_a_command_says_of_itself(name: str) -> None:
    found = COMMANDS[name].load()
    told = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert told is not None
    assert COMMANDS[name].about == " ".join(told.split("\n\n")[0].split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"Usage: holdfast {name} " in capsys.readouterr().out


def test_help_has_a_line_for_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name, listed in COMMANDS.items():
        assert f"{name} {listed.about}" in told
        assert listed.panel in told


def test_command_that_is_meant_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["membres"]) == 2
    assert "Did you mean 'members'" in capsys.readouterr().err


def test_help_imports_no_command() -> None:
    assert imported_by("from holdfast.cli.main import main; main(['--help'])", HEAVY) == []


def test_member_starts_without_what_only_others_need() -> None:
    """What the HTTP port needs beyond probes is loaded when the member is ready."""
    assert imported_by("import holdfast.cli.child", OF_A_MEMBER) == []


def test_member_has_nothing_of_the_command_line_of_httpx() -> None:
    assert imported_by("import holdfast.shell.http.peers", ("rich", "pygments")) == []
    assert imported_by("import httpx, holdfast.shell.http.peers", ("httpx",)) == ["httpx"]
