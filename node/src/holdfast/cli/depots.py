"""`holdfast carry`, `depot`, `seed`: backups away from the members, and clusters made of them.

A depot is a folder, `s3://BUCKET/PREFIX`, or `http://MEMBER:8080` for what the members of a running
cluster keep themselves. These are what the operator's jobs and new pods run, and people too. The
result is told as text or as one line of JSON, which `--report` puts into a file as well.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from holdfast.cli.files import bar_of, progress, tell
from holdfast.cli.remote import Output, OutputOption, SecretFile, secret_of
from holdfast.client.grid_depot import GridDepot
from holdfast.core.config import LEVEL_MAX
from holdfast.errors import ForeignFiles, IllegalArgument, RecoveryError
from holdfast.ids import PARTITION_COUNT_DEFAULT, PARTITION_COUNT_MAX, REPLICA_COUNT_MAX
from holdfast.storage import carrying
from holdfast.storage.backup import write_synced
from holdfast.storage.convert import Share, convert, newcomer_of
from holdfast.storage.depot import Depot, DepotFiles, Entry, FolderDepot, entries
from holdfast.storage.files import sync_directory
from holdfast.storage.objects import SCHEME, ObjectDepot

ORIGIN: Final = "origin.json"
"""In a pod's directory: of which cluster its first files were made."""

DepotOption = Annotated[
    str, typer.Option("--from", help="A folder, s3://BUCKET/PREFIX, or http://MEMBER:8080.")
]
ReportFile = Annotated[Path | None, typer.Option(help="Gets the result as JSON.", hidden=True)]


class EntryReport(msgspec.Struct):
    """A backup in a depot."""

    name: str
    grid: str
    level: int
    partitions: int
    created: float
    members: list[str]
    bytes: int
    own_bytes: int


class SeedReport(msgspec.Struct):
    """What a pod got."""

    cluster: str
    backup: str
    members: list[str]
    keys: int


@contextmanager
def depot_at(place: str, secret: bytes = b"") -> Iterator[Depot]:
    """What is there."""
    if place.startswith(("http://", "https://")):
        grid = GridDepot(place, secret)
        try:
            yield grid
        finally:
            grid.close()
    elif place.startswith(SCHEME):
        yield ObjectDepot(place)
    else:
        yield FolderDepot(Path(place))


# Commands -----------------------------------------------------------------------------------------


def carry_command(
    name: Annotated[str, typer.Argument(help="Of the backup.")],
    *,
    source: DepotOption,
    target: Annotated[str, typer.Option("--to", help="A folder, or s3://BUCKET/PREFIX.")],
    forget: Annotated[
        list[str] | None, typer.Option(help="A backup that is removed there afterwards.")
    ] = None,
    secret_file: SecretFile = None,
    report: ReportFile = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Carry a backup to another place: only files that its earlier ones there lack."""
    if target.startswith("http"):
        raise IllegalArgument("members keep backups themselves: --to is a folder or s3://")
    with depot_at(source, secret_of(secret_file)) as here, depot_at(target) as there:
        with progress("carries") as advance:
            made = carrying.carry(here, there, name, lambda size: advance(size, None))
        carrying.forget(there, forget or [])
    tell_entry(made, f"{made.name} is in {target}", report, output)


def depot_command(
    place: Annotated[str, typer.Argument(help="A folder, s3://BUCKET/PREFIX, http://MEMBER:8080.")],
    *,
    check: Annotated[
        str, typer.Option(help="See whether this backup is whole; '' is the newest.")
    ] = "-",
    forget: Annotated[list[str] | None, typer.Option(help="Remove this backup.")] = None,
    secret_file: SecretFile = None,
    report: ReportFile = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the backups in a depot, look whether one is whole, or remove some."""
    with depot_at(place, secret_of(secret_file)) as depot:
        if forget:
            gone = carrying.forget(depot, forget)
            typer.echo(f"removed: {', '.join(gone) or 'nothing'}")
        elif check != "-":
            found = carrying.check(depot, check or carrying.newest(depot))
            tell_entry(found, f"{found.name} is whole", report, output)
        else:
            listed = entries(depot)
            lines = [told_of(each) for each in listed] or ["there are none"]
            if output is Output.JSON:
                lines = [msgspec.json.encode([report_of(each) for each in listed]).decode()]
            typer.echo("\n".join(lines))


def seed_command(
    directory: Annotated[Path, typer.Argument(help="The pod's directory; it must not be there.")],
    *,
    source: DepotOption,
    backup: Annotated[str, typer.Option(help="Its name.")],
    cluster: Annotated[str, typer.Option(help="Identity of the new cluster: a UUID.")],
    newcomers: Annotated[
        str,
        typer.Option(
            envvar="HOLDFAST_NEWCOMERS", help="All new members: NAME=HOST:PORT=GROUP, with commas."
        ),
    ],
    own: Annotated[list[str], typer.Option(help="A member whose files these are to be.")],
    partitions: Annotated[
        int, typer.Option(min=1, max=PARTITION_COUNT_MAX, help="Partitions of the new cluster.")
    ] = PARTITION_COUNT_DEFAULT,
    level: Annotated[
        int, typer.Option(min=1, max=LEVEL_MAX, help="Compatibility level of the new cluster.")
    ] = LEVEL_MAX,
    copies: Annotated[
        int,
        typer.Option(
            min=1, max=REPLICA_COUNT_MAX, help="Holders of a partition that get its data."
        ),
    ] = REPLICA_COUNT_MAX,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make the first files of some members of a new cluster out of a backup.

    Every member of the new cluster makes its own, from the same backup and under the same identity.
    The directory is there whole, or not at all; one that is there is left as it is.
    """
    identity = uuid_of(cluster)
    if is_seeded(directory, identity):
        typer.echo(f"{directory} has its files already")
        return
    listed = [newcomer_of(each) for each in newcomers.split(",")]
    wanted = [each.name for each in listed if each.name in own]
    if not wanted:
        typer.echo(f"{', '.join(own)}: none of those that the cluster begins with; it joins empty")
        return
    work = directory.with_name(f".{directory.name}.seed")
    shutil.rmtree(work, ignore_errors=True)
    with depot_at(source, secret_of(secret_file)) as depot, progress("reads") as advance:
        found = carrying.check(depot, backup)
        if found.level > level:
            raise RecoveryError(
                f"the backup {backup} is of compatibility level {found.level}, and this cluster of"
                f" {level}: declare at least {found.level}"
            )
        made = convert(
            [DepotFiles(depot, part.member, backup) for part in found.parts],
            work / "files",
            listed,
            partition_count=partitions,
            replica_count=REPLICA_COUNT_MAX,
            copies=copies,
            watch=bar_of(advance),
            share=Share(identity, frozenset(wanted)),
            level=level,
        )
    put_in_place(work, [work / "files" / each for each in wanted], directory, identity)
    line = f"{made.keys} keys for {', '.join(wanted)} of cluster {identity}"
    tell(SeedReport(identity, backup, wanted, made.keys), [line], output)


def uuid_of(text: str) -> str:
    """As it is written."""
    try:
        return str(uuid.UUID(text))
    except ValueError as error:
        raise IllegalArgument(f"{text!r} is no UUID") from error


def is_seeded(directory: Path, cluster: str) -> bool:
    """Whether the files are there; refused if they are others."""
    if not directory.exists() or not any(directory.iterdir()):
        return False
    path = directory / ORIGIN
    if path.exists() and msgspec.json.decode(path.read_bytes()) == {"cluster": cluster}:
        return True
    raise ForeignFiles(str(directory), "it has files that were not made of this backup: they stay")


def put_in_place(work: Path, made: list[Path], directory: Path, cluster: str) -> None:
    """One member's files are the directory; of several, each has a folder with its number."""
    if len(made) == 1:
        (whole,) = made
    else:
        whole = work / "pod"
        whole.mkdir()
        for number, each in enumerate(made):
            each.rename(whole / str(number))
    write_synced(whole / ORIGIN, msgspec.json.encode({"cluster": cluster}))
    for folder in (each for each in whole.rglob("*") if each.is_dir()):
        sync_directory(folder)
    sync_directory(whole)
    if directory.exists():
        directory.rmdir()
    whole.rename(directory)
    sync_directory(directory.parent)
    shutil.rmtree(work, ignore_errors=True)


# Telling ------------------------------------------------------------------------------------------


def report_of(entry: Entry) -> EntryReport:
    """A backup as JSON has it."""
    return EntryReport(
        entry.name,
        entry.grid,
        entry.level,
        entry.partition_count,
        entry.created_s,
        [each.name for each in entry.parts],
        entry.bytes,
        entry.own_bytes,
    )


def told_of(entry: Entry) -> str:
    """A backup in a line."""
    members = ", ".join(each.name for each in entry.parts)
    return f"{entry.name}: of {entry.grid}, {entry.bytes} bytes, {entry.own_bytes} new, {members}"


def tell_entry(entry: Entry, done: str, report: Path | None, output: Output) -> None:
    """The result of a command about one backup."""
    if report is not None:
        report.write_bytes(msgspec.json.encode(report_of(entry)))
    lines = [f"{done}: {entry.bytes} bytes, {entry.own_bytes} of them new"]
    tell(report_of(entry), lines, output)
