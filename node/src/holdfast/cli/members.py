"""`holdfast members | promote | demote | shutdown`: who is in the cluster, and as what."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from holdfast.cli.progress import Bar, watched
from holdfast.cli.remote import (
    CODES,
    URL_DEFAULT,
    MemberName,
    Output,
    OutputOption,
    SecretFile,
    Url,
    progress_screen,
    run,
    screen,
)
from holdfast.client.http import HttpClient
from holdfast.core.views import Drain, Kind
from holdfast.errors import ClientError, IllegalArgument, RemoteProtocolError
from holdfast.wire.api.cluster import Done, MemberModel, MembersModel

Wish = Callable[[HttpClient, str], Coroutine[Any, Any, Done]]
DONE: Final = {
    "promote": "is a data member now; its partitions come by and by",
    "demote": "is a lite member now and holds nothing",
    "shutdown": "has left the cluster",
}


def members_command(
    url: Url = URL_DEFAULT,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """List the members of a cluster, the oldest first."""

    async def job(client: HttpClient) -> int:
        members = await client.members()
        if output is Output.JSON:
            typer.echo(MembersModel(members=members).model_dump_json())
        else:
            screen().print(members_table(members))
        return 0

    return run(url, secret_file, job)


def members_table(members: list[MemberModel]) -> Table:
    """For people."""
    table = Table("name", "kind", "role", "ready", box=None, pad_edge=False)
    for heading in ("owns", "backs up"):
        table.add_column(heading, justify="right")
    for heading in ("redis", "cluster", "http", "id"):
        table.add_column(heading, overflow="fold")
    for member in members:
        where = member.endpoints
        table.add_row(
            member.name,
            member.kind.value,
            role_of(member),
            readiness_of(member),
            str(member.owned_partitions),
            str(member.backup_partitions),
            where.plain or "-",
            where.cluster or "-",
            where.http or "-",
            f"{member.id}.{member.incarnation}",
        )
    return table


def readiness_of(member: MemberModel) -> str:
    """Whether it serves, and what does not work there."""
    if not member.ready:
        return f"no: {member.unready_reason}"
    return "; ".join(("yes", *member.warnings))


def role_of(member: MemberModel) -> str:
    """What is special about a member, in one word."""
    if member.drain is not Drain.NONE:
        return member.drain.value
    if member.newcomer:
        return "joining"
    return "master" if member.master else "-"


def promote_command(
    member: MemberName,
    url: Url = URL_DEFAULT,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Make a lite member a data member, in place."""
    return run(url, secret_file, lambda client: _wish(client, member, "promote", output))


def demote_command(
    member: MemberName,
    url: Url = URL_DEFAULT,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Make a data member a lite one, in place; its partitions move away before."""
    return run(url, secret_file, lambda client: _wish(client, member, "demote", output))


def shutdown_command(
    member: MemberName,
    url: Url = URL_DEFAULT,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
    force: Annotated[
        bool, typer.Option("--force", help="Also the last data member, with all that it holds.")
    ] = False,
) -> int:
    """Have a member leave in good order; its partitions move away before, if the state lets
    them move."""

    async def job(client: HttpClient) -> int:
        if not force and _is_last(await client.members(), member):
            raise IllegalArgument(
                f"{member} is the last data member: what it has only in memory ends with it;"
                " --force if that is meant"
            )
        return await _wish(client, member, "shutdown", output)

    return run(url, secret_file, job)


def _is_last(members: list[MemberModel], wanted: str) -> bool:
    data = [member for member in members if member.kind is Kind.DATA]
    return len(data) == 1 and wanted in (data[0].id, data[0].name)


for each in (members_command, promote_command, demote_command, shutdown_command):
    each.__doc__ = f"{each.__doc__}\n\n{CODES}"

WISHES: Final[dict[str, Wish]] = {
    "promote": HttpClient.promote,
    "demote": HttpClient.demote,
    "shutdown": HttpClient.shutdown,
}


async def _wish(client: HttpClient, member: str, verb: str, output: Output) -> int:
    """Ask, and tell how many of its partitions are still there."""
    with Bar(progress_screen(), f"{verb} {member}") as bar:
        total = 0

        async def look() -> None:
            nonlocal total
            held = await _held(client, member)
            if held is not None and verb != "promote":
                total = max(total, held)
                bar.show(total - held, total, "partitions moved")
            else:
                bar.show(0, 0, "asked")

        done = await watched(WISHES[verb](client, member), look)
    if output is Output.JSON:
        typer.echo(done.model_dump_json())
    else:
        typer.echo(f"{member} {DONE[verb]}")
    return 0


async def _held(client: HttpClient, member: str) -> int | None:
    """Partitions that a member has; None if that can't be seen just now."""
    try:
        members = await client.members()
    except (ClientError, RemoteProtocolError):
        return None
    found = [each for each in members if member in (each.id, each.name)]
    return sum(each.owned_partitions + each.backup_partitions for each in found)
