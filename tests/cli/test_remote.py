"""The commands that ask a running cluster: what they print, and their exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.main import main
from tests.shell.http import clusters
from tests.shell.http.clusters import SECRET, Processes
from tests.shell.processes import MAIN
from tests.shell.waiting import wait_until

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Three data members and a lite one, with a secret."""
    yield from clusters.several(tmp_path_factory.mktemp("several"))


@pytest.fixture(autouse=True)
def environment(several: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the cluster is, and its secret."""
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n", encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_URL", several.members[0].url)
    monkeypatch.setenv("HOLDFAST_SECRET_FILE", str(file))


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_members_are_listed(capsys: Capture, several: Processes) -> None:
    code, out, err = run(capsys, "members")
    assert (code, err) == (0, "")
    heading, *lines = out.splitlines()
    assert heading.split()[:4] == ["name", "kind", "role", "ready"]
    kinds = {line.split()[0]: line.split()[1] for line in lines}
    assert kinds == {"one": "data", "two": "data", "three": "data", "light": "lite"}
    assert lines[0].startswith("one"), "the oldest is the first"
    assert all(line.split()[3] == "yes" for line in lines)
    assert several.members[0].ends["http"] in lines[0]


def test_somebody_who_waits_for_a_backup_sees_that_it_goes_on(several: Processes) -> None:
    """This cluster has no files, and says so in the end."""
    seen, terminal = os.openpty()
    command = [sys.executable, "-c", MAIN, "backup", "--url", several.members[0].url]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, check=False, timeout=60)
    os.close(terminal)
    told = os.read(seen, 1 << 16).decode()
    os.close(seen)
    assert (done.returncode, done.stdout) == (1, b"")
    assert "the members back up what they have" in told
    assert "no member has files" in told


def test_members_are_told_to_scripts(capsys: Capture) -> None:
    code, out, _ = run(capsys, "members", "--output", "json")
    assert code == 0
    names = [member["name"] for member in json.loads(out)["members"]]
    assert sorted(names) == ["light", "one", "three", "two"]


def test_the_state_is_told_and_changed(capsys: Capture) -> None:
    assert run(capsys, "state", "get") == (0, "ACTIVE\n", "")
    code, out, _ = run(capsys, "state", "set", "no-migration", "--wait", "10")
    assert (code, out) == (0, "NO_MIGRATION\n")
    code, out, _ = run(capsys, "state", "get", "--output", "json")
    told = json.loads(out)
    assert (code, told["state"], told["pending"]) == (0, "NO_MIGRATION", None)
    code, out, _ = run(capsys, "state", "set", "ACTIVE", "--output", "json")
    assert (code, json.loads(out)["state"]) == (0, "ACTIVE")


def test_a_state_that_is_none_is_refused_here(capsys: Capture) -> None:
    code, out, err = run(capsys, "state", "set", "IN_TRANSITION")
    assert (code, out) == (2, "")
    assert "there are ACTIVE | NO_MIGRATION" in err
    assert "\n" not in err.strip()


def test_a_member_is_promoted_and_demoted(capsys: Capture, several: Processes) -> None:
    code, out, _ = run(capsys, "promote", "light")
    assert (code, out) == (0, "light is a data member now; its partitions come by and by\n")
    several.settle()
    code, out, err = run(capsys, "promote", "light")
    assert (code, out, err) == (1, "", "holdfast: this is a data member already\n")
    code, out, _ = run(capsys, "demote", "light", "--output", "json")
    assert (code, json.loads(out)["done"]) == (0, "demote")
    several.settle()


def test_migrations_are_shown(capsys: Capture) -> None:
    code, out, err = run(capsys, "migrations")
    assert (code, err) == (0, "")
    assert out.startswith("idle: ")
    code, out, _ = run(capsys, "migrations", "--output", "json")
    assert (code, json.loads(out)["remaining"]) == (0, 0)


def test_migrations_are_watched_until_interrupted(several: Processes, tmp_path: Path) -> None:
    log = tmp_path / "watch"
    with log.open("wb") as out:
        watching = subprocess.Popen(
            [sys.executable, "-c", MAIN, "migrations", "--watch", "--output", "json"],
            stdout=out,
            env={**os.environ, "HOLDFAST_URL": several.others()[0].url},
        )
    try:
        wait_until(lambda: b'"activity"' in log.read_bytes(), "something is told")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 130
    finally:
        watching.kill()
        watching.wait()


def test_top_shows_everything_at_a_glance(capsys: Capture) -> None:
    code, out, err = run(capsys, "top", "--count", "2", "--interval", "0.2")
    assert (code, err) == (0, "")
    assert "ACTIVE" in out
    assert "32 of 32 partitions have an owner" in out
    assert "\nsafe" in out
    code, out, _ = run(capsys, "top", "--count", "2", "--interval", "0.2", "--output", "json")
    first, second = (json.loads(line) for line in out.splitlines())
    assert first["loads"][0]["commands_per_second"] is None
    assert second["loads"][0]["commands_per_second"] is not None
    assert second["cluster"]["safety"]["safe"]


def test_what_needs_the_secret_says_so(capsys: Capture) -> None:
    wrong = Path(os.environ["HOLDFAST_SECRET_FILE"])
    wrong.write_text("not this one", encoding="utf-8")
    code, _, err = run(capsys, "demote", "two")
    assert (code, err) == (1, "holdfast: send it as 'Authorization: Bearer SECRET'\n")
    code, _, err = run(capsys, "members", "--secret-file", "/nowhere/at/all")
    assert code == 2
    assert "/nowhere/at/all: No such file" in err


@pytest.mark.parametrize("command", [("members",), ("state", "get"), ("migrations",), ("top",)])
def test_where_nobody_answers_that_is_told_in_one_line(
    capsys: Capture, command: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, *command, "--url", "http://127.0.0.1:1")
    assert code == 3
    assert out.strip() == ""
    assert err.startswith("holdfast: http://127.0.0.1:1 can't be asked")
    assert err.count("\n") == 1


def test_nobody_of_that_name_is_told(capsys: Capture) -> None:
    code, _, err = run(capsys, "shutdown", "nobody")
    assert (code, err) == (1, "holdfast: no member is called 'nobody'\n")


def test_a_member_leaves_and_its_process_ends(capsys: Capture, several: Processes) -> None:
    """The last test of this cluster. The last data member goes only if that is meant."""
    leaver = several.named("three")
    code, out, _ = run(capsys, "shutdown", "three")
    assert (code, out) == (0, "three has left the cluster\n")
    assert leaver.popen.wait(20) == 0
    code, out, _ = run(capsys, "members")
    assert "three" not in out
    assert run(capsys, "shutdown", "two")[0] == 0
    code, out, err = run(capsys, "shutdown", "one")
    assert (code, out) == (2, "")
    assert "one is the last data member" in err
    code, out, _ = run(capsys, "shutdown", "one", "--force")
    assert (code, out) == (0, "one has left the cluster\n")
    assert several.named("one").popen.wait(20) == 0
