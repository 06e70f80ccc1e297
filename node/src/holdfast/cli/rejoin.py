"""`holdfast bench rejoin`: the benchmark of seed 003, at the size of this machine, in its own form.

Four members with files, three backups, so that each has everything. The cluster is stable; one
member is killed, and comes back. Measured are the promotions and migrations, the records that go
over the network to bring copies up to date, and the time until all is safe again:

    full          what it had is gone, but for its identity: everything is sent
    differential  it has its files; the journal is off, so that the trees tell what differs
    journal too   the same with a journal, as it is by default: the versions of records tell what
                  was written since, and the journal what was removed

Told are the whole time since the member's process was started, and what of it is the *sync*: from
the moment at which it has what its files say, and looks for its cluster. What comes before that, an
interpreter that starts and files that are read, is no matter of replication; in `full` there are no
files. The documents, with a hundred times as much data, call the whole *time to safe*.

In all three the planner gives a returning member its places without any other copy being dropped:
that can't be switched off here. In the first table nothing is written meanwhile, in the second a
tenth of the keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from holdfast.cli.remote import Output, OutputOption, progress_screen, screen
from holdfast.client.grid import Grid
from holdfast.client.http import HttpClient
from holdfast.core.effects import NoticeKind
from holdfast.core.states import ClusterState
from holdfast.errors import HoldfastError, StorageError
from holdfast.shell.free_ports import free_ports
from holdfast.shell.lifecycle import LOOKS

MEMBERS: Final = 4
HOST: Final = "127.0.0.1"
BATCH: Final = 1_000
LOOK_SECONDS: Final = 0.02
LIMIT_SECONDS: Final = 900.0
CONFIG: Final = """
[unnamed]
backups = 3
durability = "everysec"
"""
NO_JOURNAL: Final = "journal_entries = 0\n"
WAYS: Final = ("full", "differential", "journal too")

bench_app = typer.Typer(help="Measure what the documents measured, on this machine.")


class Row(msgspec.Struct):
    """One row of a table of the seed."""

    way: str
    kill_migrations: int
    kill_records: int
    kill_seconds: float
    restart_migrations: int
    restart_records: int
    restart_seconds: float
    sync_seconds: float
    """What of that came after it had what its files say."""


class Tables(msgspec.Struct):
    """Both tables."""

    entries: int
    value_bytes: int
    read_only: list[Row]
    mutated: list[Row]


@dataclass(frozen=True, slots=True)
class Size:
    """How much data."""

    entries: int
    value_bytes: int


@dataclass(slots=True)
class Place:
    """Where one member runs."""

    name: str
    ports: dict[str, int]
    directory: Path
    process: asyncio.subprocess.Process | None = None


class Four:
    """Four members as processes on this machine."""

    def __init__(self, folder: Path, config: str) -> None:
        ports = free_ports(HOST, 4 * MEMBERS)
        kinds = ("member", "plain", "cluster", "http")
        self.folder = folder
        self.config = folder / "member.toml"
        self.config.write_text(config)
        self.places = [
            Place(f"m{number}", dict(zip(kinds, ports[4 * number :], strict=False)), folder / name)
            for number, name in enumerate(f"data{number}" for number in range(MEMBERS))
        ]
        self.clients = [HttpClient(f"http://{HOST}:{each.ports['http']}") for each in self.places]

    async def start(self, number: int) -> None:
        """One of them."""
        place = self.places[number]
        founders = ",".join(f"{HOST}:{each.ports['member']}" for each in self.places)
        flags = {
            "config": str(self.config),
            "name": place.name,
            "group": place.name,
            "bind": HOST,
            "advertise": HOST,
            "initial": founders,
            "data-dir": str(place.directory),
            "processes": "0",
            **{f"port-{kind}": str(port) for kind, port in place.ports.items()},
        }
        environment = {
            **{key: value for key, value in os.environ.items() if "HOLDFAST" not in key},
            "PYTHONDONTWRITEBYTECODE": "",  # an installed member is compiled before it starts
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
        }
        with (self.folder / f"{place.name}.log").open("ab") as log:
            place.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "holdfast.cli",
                "member",
                *(f"--{key}={value}" for key, value in flags.items()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )

    async def kill(self, number: int) -> None:
        """At once."""
        process = self.places[number].process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()

    async def close(self) -> None:
        """All of them."""
        for number in range(MEMBERS):
            await self.kill(number)
        for client in self.clients:
            await client.close()

    def forget(self, number: int) -> None:
        """It has lost what it had, and is still who it was."""
        for folder in ("data", "cluster"):
            shutil.rmtree(self.places[number].directory / folder, ignore_errors=True)

    def said(self, number: int) -> str:
        """The end of its log."""
        return (self.folder / f"{self.places[number].name}.log").read_text()[-1_000:]

    def looked_at(self, number: int) -> float:
        """When it began to look for its cluster, in its present process: seconds since 1970."""
        return self.told_at(number, LOOKS)

    def told_at(self, number: int, what: str) -> float:
        """When its log said this last; 0 if it never did."""
        lines = (self.folder / f"{self.places[number].name}.log").read_text().splitlines()
        told = next((line for line in reversed(lines) if what in line), None)
        return 0.0 if told is None else datetime.fromisoformat(told.split()[0]).timestamp()

    def moved_at(self) -> float:
        """When the last plan was carried out, by the log of whoever led."""
        return max(self.told_at(each, NoticeKind.MIGRATIONS_DONE) for each in range(MEMBERS))

    async def safe_since(self, moment: float) -> float:
        """When everything was safe again. Members are not asked before a log says that what was
        planned is done, as that would take time from them. If they say that they are safe at the
        first asking then, they were at that moment."""

        async def has_moved() -> bool:
            return self.moved_at() > moment

        await self.until(has_moved, "what the member had is moved back")
        moved = self.moved_at()
        if await self.is_safe():
            return moved
        await self.until(self.is_safe, "the cluster is safe again")
        return time.time()

    async def records(self) -> int:
        """What came over the network so far, to all that run."""
        total = 0.0
        for number, place in enumerate(self.places):
            if place.process is not None and place.process.returncode is None:
                total += (await self.clients[number].metrics())["sync_records_total"]
        return int(total)

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait for it."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            for number, place in enumerate(self.places):
                code = None if place.process is None else place.process.returncode
                if code is not None and code != -signal.SIGKILL:
                    raise StorageError(place.name, f"ended with {code}: {self.said(number)}")
            with contextlib.suppress(HoldfastError):
                if await holds():
                    return
            if time.monotonic() > deadline:
                raise StorageError(str(self.folder), f"not within {LIMIT_SECONDS} s: {what}")
            await asyncio.sleep(LOOK_SECONDS)

    async def is_safe(self) -> bool:
        """Whether every promised copy is there."""
        return (await self.clients[0].safe()).holds

    async def is_served(self) -> bool:
        """Whether those who are left own everything, and nothing moves any more."""
        members = {each.id for each in await self.clients[0].members()}
        table = await self.clients[0].partitions(health=False)
        owners = [row.replicas[0].member for row in table.partitions if row.replicas]
        idle = (await self.clients[0].migrations()).remaining == 0
        ready = (await self.clients[0].ready()).holds
        fewer = len(members) < MEMBERS and members.issuperset(owners)
        return idle and ready and fewer and len(owners) == len(table.partitions)

    async def rows(self) -> list[tuple[str, ...]]:
        """Who is where."""
        table = await self.clients[0].partitions(health=False)
        return [tuple(str(each.member) for each in row.replicas) for row in table.partitions]


# Measuring ----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def four_with(size: Size, config: str, tell: Callable[[str], None]) -> AsyncIterator[Four]:
    """A stable cluster that has the data."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-rejoin-"))
        four = Four(Path(folder), config)
        stack.push_async_callback(four.close)
        for number in range(MEMBERS):
            await four.start(number)
        await four.until(four.is_safe, "the cluster is safe")
        tell(f"loads {size.entries} entries of {size.value_bytes} bytes")
        await write(four, size, range(size.entries), b"first")
        await four.until(four.is_safe, "the cluster is safe")
        await four.clients[0].set_state(ClusterState.STABLE_CLUSTER, wait_seconds=60)
        yield four


async def write(four: Four, size: Size, numbers: range, text: bytes) -> None:
    """These keys, straight to their owners."""
    addresses = [f"{HOST}:{place.ports['cluster']}" for place in four.places]
    value = text.ljust(size.value_bytes, b".")
    async with await Grid.connect(addresses) as grid:
        for begin in range(0, len(numbers), BATCH):
            some = numbers[begin : begin + BATCH]
            await grid.pipeline([(b"SET", b"entry:%09d" % each, value) for each in some])


async def measured(four: Four, size: Size, way: str, *, mutated: bool) -> Row:
    """One row: the last member dies, and comes back."""
    victim = MEMBERS - 1
    began, before, records = time.monotonic(), await four.rows(), await four.records()
    came = (await four.clients[victim].metrics())["sync_records_total"]
    await four.kill(victim)
    await four.until(four.is_served, "all is served without it")
    killed = time.monotonic() - began
    after = await four.rows()
    kill_records = await four.records() - (records - int(came))
    if mutated:
        step = 10
        await write(four, size, range(0, size.entries, step), way.encode())
    await asyncio.to_thread(os.sync)  # what was written before is not to be paid for now
    if way == "full":
        four.forget(victim)
    records, started = await four.records(), time.time()
    await four.start(victim)
    safe = await four.safe_since(started)
    return Row(
        way,
        sum(one != other for one, other in zip(before, after, strict=True)),
        kill_records,
        killed,
        (await four.clients[0].migrations()).completed,
        await four.records() - records,
        safe - started,
        safe - four.looked_at(victim),
    )


async def all_of_it(size: Size, tell: Callable[[str], None]) -> Tables:
    """Both tables, on two clusters: one without a journal."""
    tables = Tables(size.entries, size.value_bytes, [], [])
    pairs = ((False, tables.read_only), (True, tables.mutated))
    async with four_with(size, CONFIG + NO_JOURNAL, tell) as four:
        for mutated, rows in pairs:
            for way in WAYS[:2]:
                tell(f"{way}, {'10 % mutated' if mutated else 'read-only'}")
                rows.append(await measured(four, size, way, mutated=mutated))
    async with four_with(size, CONFIG, tell) as four:
        for mutated, rows in pairs:
            tell(f"{WAYS[2]}, {'10 % mutated' if mutated else 'read-only'}")
            rows.append(await measured(four, size, WAYS[2], mutated=mutated))
    return tables


# The command --------------------------------------------------------------------------------------


@bench_app.callback()
def bench() -> None:
    """Measure what the documents measured, on this machine."""


@bench_app.command("rejoin")
def rejoin_command(
    *,
    entries: Annotated[int, typer.Option(min=10, help="Keys.")] = 2_000_000,
    value_bytes: Annotated[int, typer.Option(min=16, help="Length of each value.")] = 1_000,
    output: OutputOption = Output.TEXT,
) -> None:
    """A member of a stable cluster dies and comes back: full, differential, with the journal."""
    console = progress_screen()
    size = Size(entries, value_bytes)
    tables = asyncio.run(all_of_it(size, lambda what: console.print(escape(what))))
    if output is Output.JSON:
        typer.echo(msgspec.json.encode(tables))
        return
    show(f"Single member removal and startup with STABLE_CLUSTER, {entries} entries of"
         f" {value_bytes} bytes", tables.read_only)  # fmt: skip
    show("The same with 10% mutation", tables.mutated)


NAMES: Final = {
    "full": "Full partition sync",
    "differential": "Differential (Merkle-tree) partition sync with migration planner",
    "journal too": "Differential (versions, journal) partition sync with migration planner",
}


def show(title: str, rows: list[Row]) -> None:
    """A table in the form of the seed, and what the last row saves."""
    table = Table(title=title)
    table.add_column("")
    for what in ("kill", "restart"):
        table.add_column(f"Number of migrations / records transferred (on member {what})")
        table.add_column(f"Time to safe state (on member {what})")
    table.add_column("Of that the sync: from when it has its files")
    for row in rows:
        table.add_row(
            NAMES[row.way],
            f"{row.kill_migrations} / {row.kill_records:,}",
            f"{row.kill_seconds:.1f} sec",
            f"{row.restart_migrations} / {row.restart_records:,}",
            f"{row.restart_seconds:.1f} sec",
            f"{row.sync_seconds:.2f} sec",
        )
    screen().print(table)
    full, last = rows[0], rows[-1]
    share = last.restart_records / max(full.restart_records, 1)
    ratio = full.restart_seconds / max(last.restart_seconds, 1e-9)
    sync = full.sync_seconds / max(last.sync_seconds, 1e-9)
    screen().print(
        f"records: {share:.1%} of full; time: {ratio:.1f}x faster than full, the sync {sync:.1f}x"
    )
