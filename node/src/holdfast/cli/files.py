"""`holdfast backup`, `restore`, `verify`, `convert`: on directories of members, without a cluster.

`backup` without a directory is of a running cluster, and keeps a part at each member; `backups`
says what there is.

Progress goes to standard error, the result to standard output, as text or as one line of JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from pydantic import BaseModel
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from holdfast.cli.remote import URL_DEFAULT, Output, OutputOption, SecretFile, Url, run
from holdfast.client.http import HttpClient
from holdfast.errors import IllegalArgument
from holdfast.ids import PARTITION_COUNT_DEFAULT, PARTITION_COUNT_MAX, REPLICA_COUNT_MAX
from holdfast.storage import backup as backups
from holdfast.storage import layout, recovery
from holdfast.storage.convert import convert, newcomers_of
from holdfast.storage.files import RealFiles
from holdfast.storage.verify import verify
from holdfast.wire.api.backups import BackupModel

EXIT_BROKEN = 1


PathArgument = Annotated[Path, typer.Argument(help="Directory of a member's files.")]


class BackupReport(msgspec.Struct):
    """What a backup or a restore has."""

    member: str
    directory: str
    previous: str
    files: int
    own_files: int
    bytes: int
    own_bytes: int


class ProblemReport(msgspec.Struct):
    """One thing that is broken."""

    file: str
    offset: int | None
    reason: str


class VerifyReport(msgspec.Struct):
    """What `verify` found."""

    sound: bool
    member: str
    files: int
    bytes: int
    blocks: int
    records: int
    torn_bytes: int
    problems: list[ProblemReport]


class ConvertReport(msgspec.Struct):
    """What `convert` made."""

    cluster: str
    members: dict[str, str]
    partitions: int
    keys: int
    locks: int
    missing_partitions: list[int]


# Commands -----------------------------------------------------------------------------------------


def backup_command(
    source: Annotated[
        Path | None,
        typer.Argument(help="Directory of one member's files; without it, a whole cluster."),
    ] = None,
    target: Annotated[
        Path | None, typer.Argument(help="Directory of the backup; it must be empty.")
    ] = None,
    *,
    previous: Annotated[
        Path | None,
        typer.Option(help="An earlier backup beside it: what that has is not stored again."),
    ] = None,
    name: Annotated[str, typer.Option(help="Of the cluster's backup; the time without it.")] = "",
    url: Url = URL_DEFAULT,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Back up a running cluster, at each member and with what is new only; or the files of one
    member, whether it runs or not."""
    if source is None:
        return run(url, secret_file, lambda client: _back_up_all(client, name, output))
    if target is None or name:
        raise IllegalArgument("one member's backup needs SOURCE and TARGET, and has no --name")
    _back_up_one(source, target, previous, output)
    return 0


async def _back_up_all(client: HttpClient, name: str, output: Output) -> int:
    before = (await client.backups()).backups if name else []
    with working("the members back up what they have"):
        made = await client.back_up(name)
    lines = [told_of(made)]
    if made in before:
        lines.append(f"{made.name} was there already: what was written since is not in it")
    tell_model(made, lines, output)
    return 0


def backups_command(
    *,
    url: Url = URL_DEFAULT,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """All backups that the members of a running cluster keep, and whether they are complete."""

    async def show(client: HttpClient) -> int:
        found = await client.backups()
        lines = [told_of(each) for each in found.backups] or ["there are none"]
        lines += [f"{silent} does not answer" for silent in found.silent_members]
        tell_model(found, lines, output)
        return 0

    return run(url, secret_file, show)


def told_of(backup: BackupModel) -> str:
    """One backup in a line, and where each part is."""
    state = "complete" if backup.complete else f"lacks {', '.join(backup.missing)}"
    lines = [f"{backup.name}: {state}, {backup.bytes} bytes, {backup.own_bytes} of them new"]
    lines += [f"  {part.member}: {part.directory}" for part in backup.parts]
    return "\n".join(lines)


def _back_up_one(source: Path, target: Path, previous: Path | None, output: Output) -> None:
    with progress("backs up") as advance:
        index = backups.back_up(
            source, target, previous=previous, on_file=lambda _, size: advance(size, None)
        )
    tell_backup("backed up", target, index, output)


def restore_command(
    source: Annotated[Path, typer.Argument(help="Directory of a backup.")],
    target: Annotated[Path, typer.Argument(help="Directory of the member; it must be empty.")],
    *,
    output: OutputOption = Output.TEXT,
) -> None:
    """Have a member's files again as they were backed up."""
    total = backups.read_index(source).total_bytes
    with progress("restores") as advance:
        index = backups.restore(source, target, on_file=lambda _, size: advance(size, total))
    tell_backup("restored", target, index, output)


def verify_command(source: PathArgument, *, output: OutputOption = Output.TEXT) -> None:
    """Look at every byte of a stopped member's files, and say what is broken where.

    The exit code is 1 when something is.
    """
    files = RealFiles(source, lock=False)
    files.refuse_if_held()
    refuse_strangers(source)
    with progress("verifies") as advance:
        found = verify(files, bar_of(advance))
    report = VerifyReport(
        found.sound,
        found.member,
        found.files,
        found.size,
        found.blocks,
        found.records,
        found.torn_bytes,
        [ProblemReport(each.file, each.offset, each.reason) for each in found.problems],
    )
    lines = [f"broken: {each.message}" for each in found.problems]
    if found.torn_bytes:
        lines.append(f"{found.torn_bytes} bytes at the end were never promised; they will be cut")
    verdict = "sound" if found.sound else "broken"
    lines.append(
        f"{verdict}: {found.files} files, {found.size} bytes, {found.blocks} blocks,"
        f" {found.records} records of member {found.member or '-'}"
    )
    tell(report, lines, output)
    if not found.sound:
        raise typer.Exit(EXIT_BROKEN)


def refuse_strangers(source: Path) -> None:
    """What never was a member's directory is not broken."""
    if any((source / name).exists() for name in (layout.IDENTITY, layout.DATA, layout.CLUSTER)):
        return
    within = sorted(each.parent.name for each in source.glob(f"*/{layout.IDENTITY}"))
    hint = f"; there are in {', '.join(within)}: name one of them" if within else ""
    raise IllegalArgument(f"{source}: there are no files of a member{hint}")


def convert_command(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Directories of the members of one stopped cluster, or backups of them."
        ),
    ],
    *,
    target: Annotated[Path, typer.Option(help="Gets a directory for each new member.")],
    member: Annotated[
        list[str],
        typer.Option(help="A new member, as NAME or NAME=HOST:PORT or NAME=HOST:PORT=GROUP."),
    ],
    partitions: Annotated[
        int, typer.Option(min=1, max=PARTITION_COUNT_MAX, help="Partitions of the new cluster.")
    ] = PARTITION_COUNT_DEFAULT,
    replicas: Annotated[
        int, typer.Option(min=1, max=REPLICA_COUNT_MAX, help="Replica indexes of a partition.")
    ] = REPLICA_COUNT_MAX,
    copies: Annotated[
        int,
        typer.Option(
            min=1,
            max=REPLICA_COUNT_MAX,
            help="Holders of a partition that get its data; others ask for it when they run.",
        ),
    ] = REPLICA_COUNT_MAX,
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="Go on although partitions are in no directory."),
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make files of another cluster out of those of one: other members, other partitions."""
    newcomers = newcomers_of(member)
    with progress("reads") as advance:
        made = convert(
            sources,
            target,
            newcomers,
            partition_count=partitions,
            replica_count=replicas,
            copies=copies,
            missing_allowed=allow_missing,
            watch=bar_of(advance),
        )
    report = ConvertReport(
        made.cluster, dict(made.members), partitions, made.keys, made.locks, list(made.missing)
    )
    lines = [f"{name}: {target / name}" for name in made.members]
    lines.append(f"{made.keys} keys and {made.locks} locks in {partitions} partitions")
    if made.missing:
        lines.append(
            f"{len(made.missing)} partitions of the old cluster were in no directory, or perhaps"
            " not as a whole"
        )
    tell(report, lines, output)


# Telling ------------------------------------------------------------------------------------------


def tell_backup(done: str, directory: Path, index: backups.Index, output: Output) -> None:
    """The result of a backup or a restore."""
    own = [each for each in index.files if not each.directory]
    report = BackupReport(
        index.member,
        str(directory),
        index.previous,
        len(index.files),
        len(own),
        index.total_bytes,
        index.own_bytes,
    )
    lines = [f"{done}: {report.files} files, {report.bytes} bytes of member {report.member}"]
    if index.previous:
        lines.append(
            f"{report.own_files} files, {report.own_bytes} bytes are new since {index.previous}"
        )
    tell(report, lines, output)


def tell_model(report: BaseModel, lines: list[str], output: Output) -> None:
    """The result of a question to a cluster."""
    typer.echo(report.model_dump_json() if output is Output.JSON else "\n".join(lines))


def tell(report: msgspec.Struct, lines: list[str], output: Output) -> None:
    """The result of a command."""
    if output is Output.JSON:
        typer.echo(msgspec.json.encode(report))
    else:
        typer.echo("\n".join(lines))


Advance = Callable[[int, int | None], None]
"""So many bytes more are done, of this many if that is known."""


def bar_of(advance: Advance) -> recovery.Watch:
    """A bar that follows a recovery."""
    done = 0

    def watch(now: recovery.Progress) -> None:
        nonlocal done
        advance(now.done_bytes - done, now.total_bytes)
        done = now.done_bytes

    return watch


@contextmanager
def working(what: str) -> Iterator[None]:
    """On standard error, where somebody sees it: that it goes on, and for how long."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn(what), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as shown:
        shown.add_task(what, total=None)
        yield


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """A bar on standard error, where somebody sees it."""
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)

        def advance(size: int, total: int | None) -> None:
            if total is not None:
                bar.update(task, total=total)
            bar.advance(task, size)

        yield advance
