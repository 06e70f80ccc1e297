"""`holdfast dev` and `holdfast member` with the real processes: a death, the end, a hard end."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli.dev.board import Board, Place
from holdfast.cli.dev.showing import picture
from holdfast.cli.dev.watching import Watch
from holdfast.client.grid import Grid
from holdfast.core.views import Kind
from holdfast.ids import Address, MemberId
from holdfast.shell.free_ports import free_ports
from holdfast.shell.supervisor.happenings import Tell, What
from holdfast.shell.supervisor.reports import Introduced
from tests.cli.processes import HOST, PATIENCE_SECONDS, Running, popen, ports_of
from tests.shell.supervisor.table import is_running
from tests.shell.waiting import wait_until

Start = Callable[..., Running]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Running] = []

    def begin(*arguments: str) -> Running:
        started.append(Running(*arguments))
        return started[-1]

    yield begin
    for running in started:
        running.close()


def board_of(members: list[dict[str, Any]]) -> Board:
    """A board as the command itself has it."""
    places = [
        Place(each["name"], each["group"], Kind(each["kind"]), ports_of(each)) for each in members
    ]
    board = Board(places)
    for index, each in enumerate(members):
        addresses = [Address(f"{HOST}:{each['ports'][name]}") for name in each["ports"]]
        plain, cluster, http, link = addresses
        who = Introduced(
            MemberId(each["id"]),
            each["incarnation"],
            each["name"],
            each["kind"],
            each["group"],
            link,
            plain,
            cluster,
            http,
        )
        board.hear(Tell(What.READY, index), who)
    return board


async def seen(board: Board, condition: Callable[[Board], bool]) -> str:
    """The table as it is drawn, once what is seen through it is as wanted."""
    watch = Watch(board, b"")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await watch.look()
                if condition(board):
                    break
    finally:
        await watch.close()
    table = io.StringIO()
    Console(file=table, width=200).print(picture(board))
    return table.getvalue()


def owned_by_all(board: Board) -> bool:
    """Whether the data members own every partition, and all copies are there."""
    held = [board.held(place) for place in board.places if place.kind is Kind.DATA]
    numbers = [each.owned for each in held if each is not None]
    safe = board.sight is not None and board.sight.safe
    return safe and len(numbers) == 3 and all(numbers) and sum(numbers) == 271


def grid_of(members: list[dict[str, Any]]) -> Awaitable[Grid]:
    """A client that knows these members."""
    addresses = [f"{HOST}:{each['ports']['cluster']}" for each in members]
    return Grid.connect(addresses, patience_seconds=PATIENCE_SECONDS)


async def write(members: list[dict[str, Any]]) -> dict[bytes, bytes]:
    """Keys of many partitions, all acknowledged."""
    values = {b"key%d" % number: b"value%d" % number for number in range(30)}
    async with await grid_of(members) as grid:
        for key, value in values.items():
            await grid.set(key, value)
    return values


async def read(members: list[dict[str, Any]]) -> dict[bytes, bytes | None]:
    """The same keys."""
    keys = [b"key%d" % number for number in range(30)]
    async with await grid_of(members) as grid:
        return dict(zip(keys, await grid.mget(keys), strict=True))


def first_line_is_complete(members: list[dict[str, Any]]) -> None:
    assert [each["name"] for each in members] == ["m1", "m2", "m3", "lite1"]
    assert [each["kind"] for each in members] == ["data", "data", "data", "lite"]
    assert len({each["id"] for each in members}) == 4
    assert len({each["group"] for each in members}) == 4
    assert len({number for each in members for number in each["ports"].values()}) == 16
    assert all(is_running(each["pid"]) for each in members)


async def test_a_death_in_a_local_cluster(start: Start) -> None:
    """1. All are ready, and told in one line. 2. Keys are acknowledged. 3. The owner of some of
    them is killed: its death is confirmed, and it is back. 4. The keys are there, and the table
    shows everybody. 5. ctrl-C, and no process is left."""
    dev = start("dev", "--members", "3", "--lite", "1", "--output", "json")
    members = dev.event()["members"]
    first_line_is_complete(members)
    values = await write(members)
    await seen(board_of(members), owned_by_all)

    os.kill(members[1]["pid"], signal.SIGKILL)
    dead = members[1]["id"]
    events = dev.events_until(("m2", "died"), ("m2", "confirmed"), ("m2", "ready"))
    confirmed = next(each for each in events if each["event"] == "confirmed")
    assert confirmed["detail"] == f"{dead}.1"
    members[1] = next(each for each in events if each["event"] == "ready" and each["name"] == "m2")
    assert members[1]["id"] != dead
    assert members[1]["ports"] == events[0]["ports"], "it is back in its place"

    table = await seen(board_of(members), owned_by_all)
    assert await read(members) == values
    for each in members:
        assert each["id"][:8] in table
    assert table.count("ready") == 4
    assert dev.stop(signal.SIGINT) == 0
    assert not any(is_running(each["pid"]) for each in members)


def test_nobody_stays_when_the_supervisor_is_killed(start: Start) -> None:
    dev = start("dev", "--members", "1", "--output", "json")
    members = dev.event()["members"]
    dev.stop(signal.SIGKILL)
    wait_until(
        lambda: not any(is_running(each["pid"]) for each in members),
        "nobody is left",
        PATIENCE_SECONDS,
    )


def test_a_cluster_of_which_nobody_reads_ends(tmp_path: Path) -> None:
    """As behind `| head -1`: at the next line that it would write."""
    said = tmp_path / "said"
    with said.open("wb") as errors:
        dev = popen("dev", "--members", "1", "--output", "json", errors=errors.fileno())
    assert dev.stdout is not None
    try:
        first = dev.stdout.readline()
        assert first, said.read_text("utf-8")
        (member,) = json.loads(first)["members"]
        dev.stdout.close()
        os.kill(member["pid"], signal.SIGKILL)
        assert dev.wait(PATIENCE_SECONDS) == 0
    finally:
        dev.stdout.close()
        dev.kill()
        dev.wait()


def test_two_that_start_at_once_take_different_ports(start: Start) -> None:
    """Each finds the usual ones free. Who comes second takes others."""
    first, second = (start("dev", "--members", "2", "--output", "json") for _ in range(2))
    members = [*first.event()["members"], *second.event()["members"]]
    assert len({number for each in members for number in each["ports"].values()}) == 16
    assert (first.stop(signal.SIGINT), second.stop(signal.SIGINT)) == (0, 0)


def test_a_pod_with_two_processes(start: Start) -> None:
    """It starts again what dies, and its exit code is that of its members."""
    base = free_ports(HOST, 1)[0]
    names = ("plain", "cluster", "http", "member")
    ports = [f"--port-{name}={base + 2 * index}" for index, name in enumerate(names)]
    pod = start("member", "--processes=2", "--log-format=json", "--leave-timeout-ms=20000", *ports)

    def told(event: str, times: int) -> None:
        wait_until(
            lambda: sum(f'"event": "{event}"' in line for line in pod.errors) >= times,
            f"{event} is told {times} times",
            PATIENCE_SECONDS,
        )

    told("ready", 2)
    pids = [
        int(line.partition('"pid ')[2].partition('"')[0])
        for line in pod.errors
        if '"event": "started"' in line
    ]
    os.kill(pids[1], signal.SIGKILL)
    told("confirmed", 1)
    told("ready", 3)
    assert pod.stop(signal.SIGTERM) == 0
    assert not any(is_running(pid) for pid in pids)


def test_settings_that_can_not_work_start_nothing(start: Start) -> None:
    pod = start("member", "--processes=2", "--port-plain=7000", "--port-cluster=7010")
    assert pod.process.wait(PATIENCE_SECONDS) == 2
    pod.close()
    assert pod.errors == [
        "holdfast: plain of process 1 and cluster of process 0 would both be 7010"
    ]


def persisted(start: Start, folder: Path) -> tuple[Running, list[dict[str, Any]]]:
    """A cluster with files, once all are ready."""
    dev = start(
        "dev", "--members", "3", "--lite", "1", "--persist", str(folder), "--output", "json"
    )
    members: list[dict[str, Any]] = dev.event()["members"]
    first_line_is_complete(members)
    return dev, members


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
async def test_a_local_cluster_with_files_goes_on_where_it_was(
    start: Start, tmp_path: Path, end: signal.Signals
) -> None:
    """1. All are ready, and keys are acknowledged. 2. A second command is refused. 3. It is ended,
    or killed, and nobody is left. 4. It starts again: everybody is who they were, every key is
    there, and all copies are."""
    folder = tmp_path / "kept"
    dev, members = persisted(start, folder)
    values = await write(members)
    second = start("dev", "--members", "3", "--lite", "1", "--persist", str(folder))
    assert second.process.wait(PATIENCE_SECONDS) == 2
    second.close()
    assert second.errors == [
        f"holdfast: {folder}: another holdfast dev runs the cluster that is kept there"
    ]
    code = dev.stop(end)
    assert code == (0 if end is signal.SIGINT else -signal.SIGKILL)
    wait_until(
        lambda: not any(is_running(each["pid"]) for each in members),
        "nobody is left",
        PATIENCE_SECONDS,
    )
    dev, again = persisted(start, folder)
    assert {each["name"]: each["id"] for each in again} == {
        each["name"]: each["id"] for each in members
    }
    assert await read(again) == values
    await seen(board_of(again), owned_by_all)
    assert dev.stop(signal.SIGINT) == 0
    assert not any(is_running(each["pid"]) for each in again)
