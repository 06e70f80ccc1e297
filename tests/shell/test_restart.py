"""Real processes with files: killed and started again, and nothing acknowledged is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis
from msgspec.structs import replace

from holdfast.shell.lifecycle import Exit
from holdfast.storage.format.manifest import decode_identity, encode
from tests.shell.processes import MAIN, Grid, Process, ask
from tests.shell.waiting import wait_until

KEYS = [f"users:{number}" for number in range(80)]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Grid]:
    """A grid that a test may break."""
    grid = Grid(tmp_path)
    try:
        yield grid
    finally:
        grid.end()


def with_files(grid: Grid, durability: str) -> list[Process]:
    """Three members, each with a directory; the same ones when they are started again."""
    config = grid.folder / "config.toml"
    config.write_text(f'[unnamed]\ndurability = "{durability}"\n')
    started = []
    for number, address in enumerate(grid.initial):
        directory = str(grid.folder / f"data{number}")
        link = int(address.rpartition(":")[2])
        started.append(
            grid.start(f"m{number}", link, arguments=("--config", str(config)), data_dir=directory)
        )
    for process in started:
        process.wait_ready()
    return started


@pytest.mark.parametrize("durability", ["always", "everysec", "off"])
def test_a_whole_cluster_that_is_killed_comes_back_with_every_acknowledged_write(
    own: Grid, durability: str
) -> None:
    """1. Three members with files; strings, a hash, a list, what was removed. 2. All are killed at
    once. 3. All start again. 4. Everything is as it was acknowledged, and writes go on. 5. And once
    more."""
    members = with_files(own, durability)
    expected = {}
    for round_number in range(2):
        for key in KEYS:
            value = f"{round_number} of {key}"
            assert ask(members, "SET", key, value) in (True, b"OK")
            expected[key] = value.encode()
        ask(members, "HSET", "hash:1", f"field {round_number}", "value")
        ask(members, "RPUSH", "list:1", f"element {round_number}")
        assert ask(members, "DEL", KEYS[round_number]) == 1
        expected.pop(KEYS[round_number])
        for process in members:
            process.popen.kill()
        for process in members:
            process.kill()
        members = with_files(own, durability)
        found = {key: ask(members, "GET", key) for key in KEYS}
        assert {key: value for key, value in found.items() if value is not None} == expected
        assert int(ask(members, "HLEN", "hash:1")) == round_number + 1
        assert len(ask(members, "LRANGE", "list:1", "0", "-1")) == round_number + 1


def test_a_whole_cluster_that_leaves_in_good_order_comes_back_with_every_write(own: Grid) -> None:
    """1. Three members with files. 2. All are asked to leave at once, as when a machine is shut
    down: two hand over what they have, and the last one ends with all of it. 3. All start again,
    and everything is there. 4. And once more."""
    members = with_files(own, "everysec")
    expected: dict[str, bytes] = {}
    for round_number in range(2):
        for key in KEYS:
            value = f"{round_number} of {key}"
            assert ask(members, "SET", key, value) in (True, b"OK")
            expected[key] = value.encode()
        for process in members:
            process.terminate()
        assert [process.code() for process in members] == [Exit.OK] * 3
        members = with_files(own, "everysec")
        assert {key: ask(members, "GET", key) for key in KEYS} == expected


def test_a_member_that_is_killed_comes_back_as_the_same_one(own: Grid) -> None:
    """1. One of three dies. 2. Others write on. 3. It is back, with its id and the new writes."""
    members = with_files(own, "always")
    for key in KEYS:
        ask(members, "SET", key, "before")
    gone = members[1]
    identity = gone.told("id")
    gone.kill()
    rest = [members[0], members[2]]
    for key in KEYS[:20]:
        put(rest, key, "after")
    members = [rest[0], again(own, 1), rest[1]]
    members[1].wait_ready()
    assert members[1].told("id") == identity
    assert [ask(members, "GET", key) for key in KEYS] == [b"after"] * 20 + [b"before"] * 60


def put(members: list[Process], key: str, value: str) -> None:
    """Until somebody says that it is done: a backup that has just died may leave it unknown."""

    def is_put() -> bool:
        try:
            return ask(members, "SET", key, value) in (True, b"OK")
        except redis.ResponseError as error:
            if not str(error).startswith("UNKNOWNOUTCOME"):
                raise
            return False

    wait_until(is_put, f"{key} is written")


def again(grid: Grid, number: int) -> Process:
    """The same member once more."""
    return grid.start(
        f"m{number}",
        int(grid.initial[number].rpartition(":")[2]),
        arguments=("--config", str(grid.folder / "config.toml")),
        data_dir=str(grid.folder / f"data{number}"),
    )


def written_in(log: Path) -> int:
    """How long it is without the zeros at its end, which are room."""
    return len(log.read_bytes().rstrip(b"\0"))


def lose_power(directory: Path, lost_bytes: int) -> None:
    """What a machine leaves behind that was off: less of the log, and it is another start of it."""
    log = max((directory / "data").glob("*.log"))
    with log.open("r+b") as file:
        file.truncate(written_in(log) - lost_bytes)
    identity = directory / "identity.json"
    found = decode_identity(identity.read_bytes(), "identity.json")
    identity.write_bytes(encode(replace(found, boot="an earlier one")))


def test_an_owner_that_lost_its_last_second_gets_it_from_its_backups(own: Grid) -> None:
    """1. Three members with `everysec`. 2. All are killed; one was without power as well, and its
    log ends earlier. 3. They start again, and everything that was acknowledged is there."""
    members = with_files(own, "everysec")
    for number in range(2):
        for key in KEYS:
            assert ask(members, "SET", key, f"{number} of {key}") in (True, b"OK")
    safe = f"http://{members[0].told('http')}/healthz/safe"
    wait_until(lambda: httpx.get(safe, trust_env=False).status_code == 200, "every copy is whole")
    for process in members:
        process.popen.kill()
    for process in members:
        process.kill()
    lose_power(own.folder / "data0", 3_000)
    members = with_files(own, "everysec")
    assert [ask(members, "GET", key) for key in KEYS] == [f"1 of {key}".encode() for key in KEYS]
    told = [line for process in members for line in process.lines()]
    lost = [line for line in told if "writes may be lost" in line["message"]]
    assert not lost, lost


def test_damaged_files_end_the_start_and_say_where(own: Grid) -> None:
    members = with_files(own, "always")
    for key in KEYS:
        ask(members, "SET", key, "x" * 100)
    for process in members:
        process.kill()
    log = max((own.folder / "data0" / "data").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[written_in(log) // 2] ^= 1
    log.write_bytes(data)
    broken = again(own, 0)
    assert broken.code() == Exit.FILES
    assert broken.says(f"data/{log.name} at byte ")
    assert "Traceback" not in broken.log.read_text()


def test_two_processes_never_share_a_directory(own: Grid) -> None:
    with_files(own, "always")
    second = own.start("second", data_dir=str(own.folder / "data0"))
    assert second.code() == Exit.DISK
    wait_until(lambda: second.says("another process has it open"), "it says why")


def test_a_full_disk_refuses_writes_and_serves_reads(own: Grid) -> None:
    """No disk has as much room as this member wants to keep free."""
    only = own.start(
        "only", initial="", data_dir=str(own.folder / "data"), disk_reserve_bytes=str(1 << 40)
    )
    only.wait_ready()
    wait_until(lambda: only.says("the disk is nearly full"), "it notices")
    with pytest.raises(redis.ResponseError, match="MISCONF the disk of this member is nearly full"):
        only.client.set("k", "v")
    assert only.client.get("k") is None


def test_a_backup_with_a_full_disk_has_its_owners_refuse_writes(own: Grid) -> None:
    """1. Two members, of which one wants more room than there is. 2. No key can be written, at
    neither of them, and each of them can be read."""
    settings = {"initial": ",".join(own.initial[:2]), "backup_count": "1"}
    room: tuple[dict[str, str], ...] = ({}, {"disk_reserve_bytes": str(1 << 40)})
    members = [
        own.start(
            f"m{number}",
            int(own.initial[number].rpartition(":")[2]),
            data_dir=str(own.folder / f"data{number}"),
            **settings,
            **room[number],
        )
        for number in (0, 1)
    ]
    for process in members:
        process.wait_ready()

    def is_refused(key: str) -> bool:
        try:
            return ask(members, "SET", key, "1") not in (True, b"OK")
        except redis.ResponseError as error:
            return str(error).startswith("MISCONF")

    wait_until(lambda: all(map(is_refused, KEYS)), "every write is refused")
    ask(members, "GET", KEYS[0])


def test_converted_files_start_a_cluster_of_other_members_and_partitions(own: Grid) -> None:
    """1. Three members, 64 partitions. 2. They are killed, their files converted: two members, 16
    partitions. 3. These start as a cluster of their own, with every key."""
    members = with_files(own, "everysec")
    for key in KEYS:
        ask(members, "SET", key, f"of {key}")
    ask(members, "RPUSH", "list:1", "a", "b")
    for process in members:
        process.kill()
    target = own.folder / "converted"
    command = ["convert", *(str(own.folder / f"data{number}") for number in range(3))]
    command += ["--target", str(target), "--partitions", "16", "--output", "json"]
    for number in (0, 1):
        command += ["--member", f"n{number}={own.initial[number]}"]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *command], capture_output=True, check=True, timeout=60
    )
    assert json.loads(done.stdout)["keys"] == len(KEYS) + 1
    started = [
        own.start(
            f"n{number}",
            int(own.initial[number].rpartition(":")[2]),
            initial=",".join(own.initial[:2]),
            data_dir=str(target / f"n{number}"),
            partition_count="16",
        )
        for number in (0, 1)
    ]
    for process in started:
        process.wait_ready()
    assert [ask(started, "GET", key) for key in KEYS] == [f"of {key}".encode() for key in KEYS]
    assert ask(started, "LRANGE", "list:1", "0", "-1") == [b"a", b"b"]
    assert ask(started, "SET", "after", "1") in (True, b"OK")
