"""What a container lets a process have, as both versions of control groups say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.shell import memory
from holdfast.shell.memory import available_bytes, memory_bytes, memory_bytes_max, memory_max_bytes

GIB = 1 << 30
V1 = "sys/fs/cgroup/memory"
V2 = "sys/fs/cgroup"


def told(root: Path, groups: str, limits: dict[str, str]) -> int:
    """How much there is, on a machine whose files say this."""
    for path, text in {"proc/self/cgroup": groups, **limits}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return available_bytes(root)


def test_machine_without_groups_gives_what_it_has(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) > 16 << 20
    assert available_bytes(tmp_path) >= available_bytes()


def test_second_version_says_it_at_the_group_or_above(tmp_path: Path) -> None:
    group = f"{V2}/pods/one"
    limits = {f"{group}/memory.max": "max\n", f"{V2}/pods/memory.max": "67108864\n"}
    assert told(tmp_path, "0::/pods/one\n", limits) == 64 << 20
    assert told(tmp_path, "0::/pods/one\n", {f"{group}/memory.max": "33554432\n"}) == 32 << 20


def test_container_that_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    assert told(tmp_path, "0::/\n", {f"{V2}/memory.max": "67108864"}) == 64 << 20


def test_first_version_says_it_in_the_hierarchy_of_memory(tmp_path: Path) -> None:
    groups = "9:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n"
    limits = {f"{V1}/docker/abc/memory.limit_in_bytes": "67108864\n"}
    assert told(tmp_path, groups, limits) == 64 << 20


def test_first_version_whose_path_is_the_hosts_is_read_at_its_root(tmp_path: Path) -> None:
    limits = {f"{V1}/memory.limit_in_bytes": "67108864\n"}
    assert told(tmp_path, "4:memory:/kubepods/abc\n", limits) == 64 << 20


def test_no_limit_is_a_number_beyond_the_machine(tmp_path: Path) -> None:
    limits = {f"{V1}/memory.limit_in_bytes": "9223372036854771712\n"}
    without = available_bytes(tmp_path)
    assert told(tmp_path, "4:memory:/\n", limits) == without


def test_three_quarters_are_for_data_divided_by_the_processes(tmp_path: Path) -> None:
    told(tmp_path, "0::/\n", {f"{V2}/memory.max": "67108864"})
    assert memory_max_bytes("auto", 1, tmp_path) == 48 << 20
    assert memory_max_bytes("auto", 3, tmp_path) == 16 << 20
    assert memory_max_bytes("5GiB", 3, tmp_path) == 5 * GIB, "what was said is said of each"


def test_process_says_what_it_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert memory_bytes() > 1 << 20
    monkeypatch.setattr(memory, "STATM", tmp_path / "nothing")
    assert memory_bytes() == memory_bytes_max()
