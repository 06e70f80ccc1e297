"""What files must survive, on real processes: death at any moment, lost power, lost directories.

`make test` runs a round of each; `make soak` says with HOLDFAST_SOAK how many, with new chances
each time. Whatever was acknowledged is there in the end, or a member has said that it may be lost.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest
import redis

from tests.shell.processes import NOT_NOW, Grid, Process, ask
from tests.shell.test_restart import lose_power
from tests.shell.waiting import wait_until

ROUNDS: Final = int(os.environ.get("HOLDFAST_SOAK", "1"))
CHANCES: Final = range(ROUNDS)
KEYS: Final = 40
POLICIES: Final = ("most-recent", "most-complete", "full")
PATIENCE_SECONDS: Final = 180.0


class Writer:
    """Counts up in every key, and remembers what was acknowledged."""

    def __init__(self, members: Sequence[Process], first: int) -> None:
        self.acknowledged: dict[str, int] = {}
        self.tried: dict[str, int] = {}
        self.count = 0
        """Acknowledged writes."""
        self.number = first
        self._ports = [member.port() for member in members]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        clients = [
            redis.Redis(port=port, protocol=2, socket_timeout=2, socket_connect_timeout=1)
            for port in self._ports
        ]
        while not self._over.is_set():
            self.number += 1
            key = f"key:{self.number % KEYS}"
            self.tried[key] = self.number
            client = clients[self.number % len(clients)]
            with contextlib.suppress(redis.RedisError, OSError):
                if client.set(key, self.number):
                    self.acknowledged[key] = self.number
                    self.count += 1
        for client in clients:
            client.close()

    def stop(self) -> None:
        """No more."""
        self._over.set()
        self._thread.join()


def started(
    grid: Grid, *, durability: str, numbers: Sequence[int], **settings: str
) -> list[Process]:
    """These members with their directories, not waited for."""
    config = grid.folder / "config.toml"
    config.write_text(f'[unnamed]\ndurability = "{durability}"\n')
    return [
        grid.start(
            f"m{number}",
            int(grid.initial[number].rpartition(":")[2]),
            arguments=("--config", str(config)),
            data_dir=str(grid.folder / f"data{number}"),
            **settings,
        )
        for number in numbers
    ]


def wait_ready(members: Sequence[Process]) -> None:
    """Until all of them serve."""
    for member in members:
        wait_until(
            lambda: member.told("ready") or member.popen.poll() is not None,  # noqa: B023 - at once
            f"{member.name} is ready",
            PATIENCE_SECONDS,
        )
        assert member.told("ready"), member.log.read_text(encoding="utf-8")


def assert_kept(members: list[Process], writer: Writer) -> None:
    """What was acknowledged is there, or something later that was tried."""
    for key, number in writer.acknowledged.items():
        found = ask(members, "GET", key)
        assert found is not None, f"{key} is gone; {number} was acknowledged"
        assert number <= int(found) <= writer.tried[key], f"{key} is {found}, not {number}"


@contextlib.contextmanager
def grid_of(folder: Path, count: int) -> Iterator[Grid]:
    """Whatever runs in the end is ended."""
    grid = Grid(folder, count)
    try:
        yield grid
    finally:
        grid.end()


def kill(members: Sequence[Process]) -> None:
    """All at once."""
    for member in members:
        member.popen.kill()
    for member in members:
        member.kill()


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("durability", ["always", "everysec", "off"])
def test_all_are_killed_at_any_moment_again_and_again(
    tmp_path: Path, durability: str, chance: int
) -> None:
    """1. A client writes all the time. 2. Everyone is killed, after any number of writes. 3. They
    come back with all that it was told. 4. And again."""
    rng = Random(f"{durability} {chance}")
    first = 0
    with grid_of(tmp_path, 3) as grid:
        for _ in range(2):
            members = started(grid, durability=durability, numbers=range(3))
            wait_ready(members)
            writer = Writer(members, first)
            target = rng.randint(50, 400)
            wait_until(lambda: writer.count >= target, "writes", PATIENCE_SECONDS)  # noqa: B023
            kill(members)
            writer.stop()
            first = writer.number
            members = started(grid, durability=durability, numbers=range(3))
            wait_ready(members)
            assert_kept(members, writer)
            kill(members)


@pytest.mark.parametrize("chance", CHANCES)
def test_one_machine_loses_its_power_and_what_was_not_synced(tmp_path: Path, chance: int) -> None:
    """1. Everyone is killed while a client writes with `everysec`. 2. One of three was on a machine
    without power: any part of the end of its log is gone. 3. The others have it."""
    rng = Random(f"power {chance}")
    with grid_of(tmp_path, 3) as grid:
        members = started(grid, durability="everysec", numbers=range(3))
        wait_ready(members)
        writer = Writer(members, 0)
        target = rng.randint(100, 400)
        wait_until(lambda: writer.count >= target, "writes", PATIENCE_SECONDS)
        kill(members)
        writer.stop()
        victim = rng.randrange(3)
        lose_power(tmp_path / f"data{victim}", rng.randint(1, 8_000))
        members = started(grid, durability="everysec", numbers=range(3))
        wait_ready(members)
        assert_kept(members, writer)


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize(
    ("policy", "gone"),
    [(policy, gone) for policy in POLICIES for gone in (1, 2)]
    if ROUNDS > 1
    else [("most-recent", 2), ("full", 1)],
)
def test_of_five_any_one_or_two_come_back_without_files(
    tmp_path: Path, policy: str, gone: int, chance: int
) -> None:
    """1. Five members with two backups, and a client that writes. 2. All are killed, and the files
    of any one or two are gone. 3. Where the policy is content with the others, all that was
    acknowledged is there; where it wants everyone, nobody serves, and they say who is missing."""
    rng = Random(f"{policy} {gone} {chance}")
    settings = {"recovery_policy": policy, "backup_count": "2", "validation_timeout_ms": "3000"}
    with grid_of(tmp_path, 5) as grid:
        members = started(grid, durability="everysec", numbers=range(5), **settings)
        wait_ready(members)
        writer = Writer(members, 0)
        wait_until(lambda: writer.count >= 200, "writes", PATIENCE_SECONDS)
        kill(members)
        writer.stop()
        victims = rng.sample(range(5), gone)
        for victim in victims:
            shutil.rmtree(tmp_path / f"data{victim}")
        rest = [number for number in range(5) if number not in victims]
        members = started(grid, durability="everysec", numbers=rest, **settings)
        if policy == "full":
            wait_until(
                lambda: any(member.says("not back yet") for member in members),
                "they say who is missing",
                PATIENCE_SECONDS,
            )
            for member in members:
                assert not member.told("ready")
                with pytest.raises((redis.ResponseError, *NOT_NOW)):
                    member.client.set("key:0", "1")
            return
        wait_ready(members)
        assert_kept(members, writer)
