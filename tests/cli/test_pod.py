"""What each process of a pod has for itself, and how it is called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.cli import child
from holdfast.cli.pod import own_flags
from holdfast.cli.processes import member_process
from holdfast.errors import ConfigurationError
from holdfast.shell.settings import load


def own(**flags: str) -> tuple[dict[str, str], ...]:
    return own_flags(load(None, {}, flags))


def test_a_single_process_is_just_what_was_asked_for() -> None:
    assert own(name="pod", port_plain="7000") == ({},)


def test_several_have_names_and_ports_of_their_own_and_one_failure_domain() -> None:
    first, second = own(name="pod", processes="2", initial="a:7380,b:7380")
    assert first == {
        "name": "pod-0",
        "port_plain": "6379",
        "port_cluster": "7379",
        "port_http": "8080",
        "port_member": "7380",
    }
    assert (second["name"], second["port_plain"], second["port_member"]) == (
        "pod-1",
        "6389",
        "7390",
    )
    groups = {load(None, {}, {**each}).group for each in (first, second)}
    assert len(groups) == 1


def test_without_others_they_found_a_cluster_by_themselves() -> None:
    flags = own(processes="3", port_member="9000")
    assert {each["initial"] for each in flags} == {"127.0.0.1:9000,127.0.0.1:9010,127.0.0.1:9020"}


def test_they_must_be_able_to_find_one_another() -> None:
    with pytest.raises(ConfigurationError, match="port_member but 0"):
        own(processes="2", port_member="0")
    assert len(own(processes="2", port_member="0", initial="a:7380")) == 2


def test_how_a_process_is_called() -> None:
    command = member_process(Path("a b.toml"), {"port_plain": "7000", "initial": ""})
    assert command.arguments == (
        sys.executable,
        "-P",
        "-m",
        "holdfast.cli.child",
        "--config=a b.toml",
        "--port-plain=7000",
        "--initial=",
    )


def test_a_process_with_settings_that_can_t_work_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "member.toml"
    file.write_text("lease = 2\n")
    assert child.main([f"--config={file}", "--port-plain=x"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"holdfast: lease: there is no such setting (in {file})"
    assert told[1].startswith("holdfast: port_plain = 'x' (from --port-plain): ")


def test_each_of_several_has_a_directory_of_its_own() -> None:
    assert [each["data_dir"] for each in own(processes="2", data_dir="/files")] == [
        "/files/0",
        "/files/1",
    ]
    assert "data_dir" not in own(processes="2")[0]
