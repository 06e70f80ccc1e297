"""`holdfast member`: what it says of its settings. That it runs is tested with real processes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.shell.lifecycle import Exit
from holdfast.shell.settings import load


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})


def test_check_says_that_settings_can_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["member", "--check"]) == Exit.OK
    assert capsys.readouterr().out == "the settings can work\n"


def test_check_says_every_error_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--kind", "litte", "--port-http", "x", "--initial", "here"]
    assert main(["member", "--check", *wrong]) == Exit.BAD_SETTINGS
    assert capsys.readouterr().err.splitlines() == [
        "holdfast: kind = 'litte' (from --kind): allowed are data, lite",
        "holdfast: port_http = 'x' (from --port-http): expected int, got str",
        "holdfast: initial: 'here' is no host:port",
    ]


def test_what_is_printed_is_a_file_with_the_same_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--name", 'a "b" \\ c', "--initial", "a:1,b:2", "--lease-ms", "4000"]
    assert main(["member", "--print", *given]) == Exit.OK
    printed = capsys.readouterr().out
    file = tmp_path / "member.toml"
    file.write_text(printed)
    loaded = load(file)
    assert loaded.name == 'a "b" \\ c'
    assert loaded.core.initial == ("a:1", "b:2")
    assert loaded.core.lease_ms == 4_000
    assert "secret" not in tomllib.loads(printed)


def test_a_secret_is_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["member", "--secret", "x"]) == 2
    assert "No such option" in capsys.readouterr().err


def test_help_explains_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["member", "--help"]) == 0
    told = capsys.readouterr().out
    assert "[names.users]" in told
    assert "--leave-timeout-ms" in told
