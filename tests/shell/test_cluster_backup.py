"""A backup of a running cluster, through any member, and what can be made of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.http import HttpClient
from holdfast.errors import ProblemReported
from holdfast.ids import Address
from holdfast.storage import backup, catalogue
from holdfast.storage.convert import Newcomer, convert
from tests.shell.processes import MAIN, Grid, Process, ask
from tests.shell.test_restart import KEYS, with_files


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Grid]:
    """A grid that a test may break."""
    grid = Grid(tmp_path)
    try:
        yield grid
    finally:
        grid.end()


def holdfast(*arguments: str, code: int = 0) -> str:
    """What a command prints, or complains of."""
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr.decode()
    return (done.stderr if code else done.stdout).decode()


def about(grid: Grid, member: Process) -> list[str]:
    """Which cluster is asked."""
    return ["--url", f"http://{member.told('http')}", "--secret-file", str(grid.secret)]


def back_up(grid: Grid, member: Process, *more: str) -> Any:
    """A backup through this member."""
    return json.loads(holdfast("backup", *about(grid, member), "--output", "json", *more))


def write(members: list[Process], text: str) -> None:
    """Every key anew."""
    for key in KEYS:
        assert ask(members, "SET", key, f"{text} of {key}") in (True, b"OK")


def test_a_backup_of_a_cluster_is_made_through_any_member_and_restored_three_times(
    own: Grid, tmp_path: Path
) -> None:
    """1. A backup through one member, another through the next one. 2. The second has only what is
    new, and is complete. 3. Its parts become clusters of three sizes, under other names, with what
    was there when each was made. 4. One of them serves."""
    members = with_files(own, "everysec")
    write(members, "first")
    first = back_up(own, members[1], "--name", "first")
    write(members, "second")
    second = back_up(own, members[2], "--name", "second")
    write(members, "third")
    assert first["complete"]
    assert second["complete"]
    assert len(second["parts"]) == 3
    assert {part["previous"] for part in second["parts"]} == {"first"}
    assert first["own_bytes"] == first["bytes"]
    assert second["own_bytes"] < second["bytes"]
    listed = json.loads(holdfast("backups", *about(own, members[0]), "--output", "json"))
    assert [each["name"] for each in listed["backups"]] == ["first", "second"]
    assert listed["silent_members"] == []
    assert back_up(own, members[0], "--name", "first") == listed["backups"][0], "it is there"
    again = holdfast("backup", *about(own, members[0]), "--name", "first")
    assert "first was there already: what was written since is not in it" in again
    for process in members:
        process.kill()
    parts = [Path(part["directory"]) for part in second["parts"]]
    for size, partitions in ((1, 16), (2, 64), (4, 271)):
        target = tmp_path / f"of{size}"
        newcomers = [
            Newcomer(f"n{number}", Address(own.initial[number % 3]), f"g{number}")
            for number in range(size)
        ]
        made = convert(parts, target, newcomers, partition_count=partitions, replica_count=3)
        assert (made.keys, made.missing) == (len(KEYS), ())
    started = [
        own.start(
            f"n{number}",
            int(own.initial[number].rpartition(":")[2]),
            initial=",".join(own.initial[:2]),
            data_dir=str(tmp_path / "of2" / f"n{number}"),
            partition_count="64",
            replica_count="3",
        )
        for number in (0, 1)
    ]
    for process in started:
        process.wait_ready()
    assert [ask(started, "GET", key) for key in KEYS] == [
        f"second of {key}".encode() for key in KEYS
    ]


def test_parts_that_are_restored_are_the_cluster_again(own: Grid, tmp_path: Path) -> None:
    """1. A backup. 2. Everything is lost but the parts. 3. Each is restored where it was."""
    members = with_files(own, "always")
    write(members, "first")
    parts = back_up(own, members[0])["parts"]
    write(members, "second")
    for process in members:
        process.kill()
    for number in range(3):
        (tmp_path / f"data{number}").rename(tmp_path / f"lost{number}")
        name = f"m{number}"
        part = next(Path(each["directory"]) for each in parts if each["member"] == name)
        moved = tmp_path / f"lost{number}" / part.relative_to(tmp_path / f"data{number}")
        backup.restore(moved, tmp_path / f"data{number}")
    members = with_files(own, "always")
    assert [ask(members, "GET", key) for key in KEYS] == [
        f"first of {key}".encode() for key in KEYS
    ]


def test_what_can_not_be_backed_up_is_refused(own: Grid) -> None:
    (member, *_) = own.form()
    where = about(own, member)
    assert "no member has files" in holdfast("backup", *where, code=1)
    assert "no name of a backup" in holdfast("backup", *where, "--name", "../x", code=1)
    assert holdfast("backups", *where) == "there are none\n"
    assert "Bearer SECRET" in holdfast("backups", *where[:2], code=1)
    assert "needs SOURCE and TARGET" in holdfast("backup", str(own.folder), code=2)


def test_one_that_keeps_no_part_leaves_no_backup_that_looks_complete(own: Grid) -> None:
    """1. One member can't write its part. 2. Nobody calls that a backup. 3. It can again: asked for
    by the same name, what is missing is made."""
    members = with_files(own, "everysec")
    directory = own.folder / "data1"
    (directory / catalogue.FOLDER).write_text("in the way")
    assert "m1 keeps no part of it" in holdfast(
        "backup", *about(own, members[0]), "--name", "one", code=1
    )
    found = json.loads(holdfast("backups", *about(own, members[0]), "--output", "json"))
    assert not any(each["complete"] for each in found["backups"])
    (directory / catalogue.FOLDER).unlink()
    assert back_up(own, members[0], "--name", "one")["complete"]


CLUSTER = "5d2f4a0e-3a52-4d0f-9d1c-0f6f6f6f6f6f"


def test_a_backup_leaves_the_members_and_each_new_member_makes_its_own_files(
    own: Grid, tmp_path: Path
) -> None:
    """1. Two backups of a cluster are carried to a folder, the second with only what is new. 2. The
    cluster is gone. 3. Two members of another one make their files, each by itself, and serve. 4.
    To make them again changes nothing; files of another cluster are not taken."""
    members = with_files(own, "everysec")
    depot = str(tmp_path / "depot")
    here = ["--from", f"http://{members[0].told('http')}", "--secret-file", str(own.secret)]
    told = {}
    for name in ("first", "second"):
        write(members, name)
        back_up(own, members[1], "--name", name)
        report = tmp_path / f"{name}.json"
        holdfast("carry", name, *here, "--to", depot, "--report", str(report))
        found = json.loads(report.read_text())
        assert (found["name"], found["level"], len(found["members"])) == (name, 3, 3)
    told = json.loads((tmp_path / "second.json").read_text())
    assert told["own_bytes"] < told["bytes"]
    whole = json.loads(holdfast("depot", here[1], *here[2:], "--check", "", "--output", "json"))
    assert whole["name"] == "second"
    assert whole["bytes"] == told["bytes"]
    seeds = []
    newcomers = ",".join(f"n{i}={own.initial[i]}=g{i}" for i in (0, 1))
    for number in (0, 1):
        target = str(tmp_path / "made" / f"n{number}")
        place = here if number else ["--from", depot]
        seeds.append(["seed", target, *place, "--backup", "second", "--cluster", CLUSTER])
        seeds[-1] += ["--newcomers", newcomers, "--own", f"n{number}", "--partitions", "64"]
        assert f"for n{number} of cluster {CLUSTER}" in holdfast(*seeds[-1])
    for process in members:
        process.kill()
    assert "has its files already" in holdfast(*seeds[0])
    other = [CLUSTER.replace("5", "6") if each == CLUSTER else each for each in seeds[0]]
    assert "not made of this backup" in holdfast(*other, code=2)
    elsewhere = str(tmp_path / "made" / "n9")
    stranger = [{seeds[0][1]: elsewhere, "n0": "n9"}.get(each, each) for each in seeds[0]]
    assert "it joins empty" in holdfast(*stranger)
    started = [
        own.start(
            f"n{number}",
            int(own.initial[number].rpartition(":")[2]),
            initial=",".join(own.initial[:2]),
            data_dir=str(tmp_path / "made" / f"n{number}"),
            partition_count="64",
            may_found="false",
        )
        for number in (0, 1)
    ]
    for process in started:
        process.wait_ready()
    assert [ask(started, "GET", key) for key in KEYS] == [
        f"second of {key}".encode() for key in KEYS
    ]


def test_what_can_not_be_seeded_is_refused_and_leaves_nothing(own: Grid, tmp_path: Path) -> None:
    members = with_files(own, "everysec")
    write(members, "first")
    back_up(own, members[0], "--name", "first")
    here = ["--from", f"http://{members[0].told('http')}", "--secret-file", str(own.secret)]
    target = tmp_path / "made"
    seed = ["seed", str(target), *here, "--newcomers", "n=h:1=g", "--own", "n"]
    known = [*seed, "--cluster", CLUSTER]
    assert "no whole backup 'none'" in holdfast(*known, "--backup", "none", code=2)
    assert "declare at least 3" in holdfast(*known, "--backup", "first", "--level", "2", code=2)
    assert "no UUID" in holdfast(*seed, "--cluster", "x", "--backup", "first", code=2)
    assert not target.exists()
    assert "keep backups themselves" in holdfast("carry", "first", *here, "--to", here[1], code=2)
    depot = str(tmp_path / "depot")
    holdfast("carry", "first", *here, "--to", depot)
    assert "first: of " in holdfast("depot", depot)
    assert len(json.loads(holdfast("depot", depot, "--output", "json"))) == 1
    assert "removed: first" in holdfast("depot", depot, "--forget", "first")
    assert "there are none" in holdfast("depot", depot)


async def test_a_backup_is_removed_at_every_member(own: Grid) -> None:
    members = with_files(own, "everysec")
    for name in ("first", "second"):
        write(members, name)
        back_up(own, members[0], "--name", name)
    async with HttpClient(
        f"http://{members[2].told('http')}", secret=own.secret.read_bytes().strip()
    ) as client:
        left = await client.forget_backup("first")
        assert [each.name for each in left.backups] == ["second"]
        assert [each.name for each in (await client.forget_backup("first")).backups] == ["second"]
        with pytest.raises(ProblemReported, match="no name of a backup"):
            await client.forget_backup(".hidden")
        assert not (await client.forget_backup("second")).backups
