"""`holdfast migrations`: what moves, once or as it happens."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from holdfast.cli.progress import Bar
from holdfast.cli.remote import (
    CODES,
    URL_DEFAULT,
    Output,
    OutputOption,
    SecretFile,
    Url,
    progress_screen,
    run,
    screen,
)
from holdfast.client.http import HttpClient
from holdfast.errors import ProblemReported, Unreachable
from holdfast.wire.api.partitions import MigrationsModel

AGAIN_SECONDS: Final = 1.0
HISTORY_SHOWN: Final = 10


def migrations_command(
    url: Url = URL_DEFAULT,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on telling, until interrupted.")
    ] = False,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Show planned, running and completed migrations."""

    async def job(client: HttpClient) -> int:
        if watch:
            return await _watch(client, output)
        seen = await client.migrations()
        if output is Output.JSON:
            typer.echo(seen.model_dump_json())
        else:
            _print(screen(), seen)
        return 0

    return run(url, secret_file, job)


migrations_command.__doc__ = f"{migrations_command.__doc__}\n\n{CODES}"


def summary(seen: MigrationsModel) -> str:
    """One line."""
    parts = [f"{seen.completed} of {seen.planned} migrations done"]
    if seen.failed:
        parts.append(f"{seen.failed} failed")
    if seen.remaining:
        parts.append(f"{len(seen.running)} running")
    if seen.bytes:
        parts.append(f"{seen.bytes / 1e6:.1f} MB came over")
    if seen.elapsed_seconds:
        parts.append(f"{seen.rate_per_second:.1f} a second for {seen.elapsed_seconds:.1f} s")
    return f"{seen.activity}: {', '.join(parts)}"


def _print(console: Console, seen: MigrationsModel) -> None:
    console.print(summary(seen))
    if seen.running:
        table = Table("id", "partition", "course", "seconds", "moves", box=None, pad_edge=False)
        for migration in seen.running:
            moves = ", ".join(move.type.value for move in migration.moves)
            seconds = f"{migration.seconds:.1f}"
            table.add_row(migration.id, str(migration.partition), migration.course, seconds, moves)
        console.print(table)
    for happened in seen.history[-HISTORY_SHOWN:]:
        when = f"{happened.at:%H:%M:%S}"
        console.print(f"{when} {happened.about}: {happened.kind} {happened.detail}", markup=False)


async def _watch(client: HttpClient, output: Output) -> int:
    """A stream ends with its master; the next one is asked for, until nobody answers at first."""
    heard = False
    with Bar(progress_screen(), "migrations") as bar:
        while True:
            try:
                async for seen in client.watch_migrations():
                    heard = True
                    bar.show(seen.completed, seen.planned, seen.activity)
                    if output is Output.JSON:
                        typer.echo(seen.model_dump_json())
                    elif not progress_screen().is_terminal:
                        typer.echo(summary(seen))
            except (Unreachable, ProblemReported) as error:
                if not heard:
                    raise
                bar.show(0, 0, error.message)
            await asyncio.sleep(AGAIN_SECONDS)
