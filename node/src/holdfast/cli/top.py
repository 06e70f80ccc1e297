"""`holdfast top`: a cluster at a glance, again and again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Annotated, Final, Self

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.cli.members import role_of
from holdfast.cli.migrations import summary
from holdfast.cli.remote import (
    CODES,
    URL_DEFAULT,
    Output,
    OutputOption,
    SecretFile,
    Url,
    run,
    screen,
)
from holdfast.client.http import HttpClient
from holdfast.errors import ClientError, RemoteProtocolError
from holdfast.wire.api.cluster import ClusterModel, MemberModel
from holdfast.wire.api.partitions import MigrationsModel

REASONS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Load:
    """What one member does."""

    name: str
    commands_per_second: float | None
    """None until it was asked twice."""
    connections: int
    memory_bytes: int
    longest_turn_ms: float


@dataclass(frozen=True, slots=True)
class Counted:
    """How many commands a member had done at a moment."""

    commands: float
    at: float


class Glances:
    """Looks, each compared with the one before."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._before: dict[str, Counted] = {}

    async def look(self) -> tuple[ClusterModel, MigrationsModel | None, dict[str, Load]]:
        """Now."""
        cluster = await self._client.cluster()
        loads = await asyncio.gather(*(self._load(member) for member in cluster.members))
        found = {load.name: load for load in loads if load is not None}
        try:
            return cluster, await self._client.migrations(), found
        except (ClientError, RemoteProtocolError):
            return cluster, None, found

    async def _load(self, member: MemberModel) -> Load | None:
        if not member.endpoints.http:
            return None
        try:
            async with HttpClient(f"http://{member.endpoints.http}", answer_seconds=2) as client:
                told = await client.metrics()
        except (ClientError, RemoteProtocolError):
            return None
        now = Counted(told["commands_total"], time.monotonic())
        before, self._before[member.id] = self._before.get(member.id), now
        rate = None
        if before is not None and now.commands >= before.commands:
            rate = round((now.commands - before.commands) / (now.at - before.at), 1)
        return Load(
            member.name,
            rate,
            int(told["connections"]),
            int(told["memory_bytes"]),
            round(told["loop_stall_seconds_max"] * 1_000, 1),
        )


def top_command(
    url: Url = URL_DEFAULT,
    interval: Annotated[
        float, typer.Option(min=0.2, max=3_600, help="Seconds between two looks.")
    ] = 1.0,
    count: Annotated[int, typer.Option(min=0, help="Looks; 0: until interrupted.")] = 0,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Show state, safety, migrations and members, again and again."""

    async def job(client: HttpClient) -> int:
        glances, done = Glances(client), 0
        with _Shower(output) as shower:
            while True:
                shower.show(*await glances.look())
                done += 1
                if done == count:
                    return 0
                await asyncio.sleep(interval)

    return run(url, secret_file, job)


top_command.__doc__ = f"{top_command.__doc__}\n\n{CODES}"


class _Shower:
    """Where looks are shown: in one place of a terminal, one after the other elsewhere."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._console = screen()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._output is Output.TEXT and self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(
        self, cluster: ClusterModel, migrations: MigrationsModel | None, loads: dict[str, Load]
    ) -> None:
        """One look."""
        if self._output is Output.JSON:
            typer.echo(_json(cluster, migrations, loads))
        elif self._live is not None:
            self._live.update(_shown(cluster, migrations, loads), refresh=True)
        else:
            self._console.print(_shown(cluster, migrations, loads))


def _json(
    cluster: ClusterModel, migrations: MigrationsModel | None, loads: dict[str, Load]
) -> bytes:
    told = {
        "cluster": cluster.model_dump(mode="json"),
        "migrations": migrations and migrations.model_dump(mode="json", exclude={"history"}),
        "loads": [asdict(load) for load in loads.values()],
    }
    return msgspec.json.encode(told)


def _shown(
    cluster: ClusterModel, migrations: MigrationsModel | None, loads: dict[str, Load]
) -> RenderableType:
    safety, parts = cluster.safety, cluster.partitions
    head = f"{cluster.name}: {cluster.state}, term {cluster.term}, level {cluster.level}"
    if cluster.pending is not None:
        head += f"; to become {cluster.pending.target}: {cluster.pending.reason}"
    lines = [Text(head)]
    lines.append(
        Text("safe", style="green")
        if safety.safe
        else Text(f"not safe: {'; '.join(safety.reasons[:REASONS_SHOWN])}", style="red")
    )
    lines.append(Text(f"{parts.with_owner} of {parts.total} partitions have an owner"))
    if migrations is not None:
        lines.append(Text(summary(migrations)))
    return Group(*lines, _table(cluster, loads))


def _table(cluster: ClusterModel, loads: dict[str, Load]) -> Table:
    table = Table("name", "kind", "role", "ready", box=None, pad_edge=False)
    for heading in ("owns", "backs up", "commands/s", "clients", "memory", "longest turn"):
        table.add_column(heading, justify="right")
    for member in cluster.members:
        load = loads.get(member.name)
        row = [
            member.name,
            member.kind.value,
            role_of(member),
            "yes" if member.ready else "no",
            str(member.owned_partitions),
            str(member.backup_partitions),
        ]
        row += ["-"] * 4 if load is None else _load_cells(load)
        table.add_row(*row)
    return table


def _load_cells(load: Load) -> list[str]:
    rate = "-" if load.commands_per_second is None else f"{load.commands_per_second:.0f}"
    memory = f"{load.memory_bytes / (1 << 20):.0f} MiB"
    return [rate, str(load.connections), memory, f"{load.longest_turn_ms:.1f} ms"]
