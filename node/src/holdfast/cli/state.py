"""`holdfast state get | set`: what may move, join and be written in a cluster."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from holdfast.cli.progress import Bar, watched
from holdfast.cli.remote import (
    CODES,
    URL_DEFAULT,
    Output,
    OutputOption,
    SecretFile,
    Url,
    progress_screen,
    run,
)
from holdfast.client.http import HttpClient
from holdfast.core.states import ASKABLE, ClusterState
from holdfast.errors import ClientError, RemoteProtocolError

NAMES: Final = " | ".join(ASKABLE)


def get_command(
    url: Url = URL_DEFAULT,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Print the state of the cluster, and a change that waits."""

    async def job(client: HttpClient) -> int:
        cluster = await client.cluster()
        if output is Output.JSON:
            told = cluster.model_dump_json(include={"state", "pending", "safety", "master_answers"})
            typer.echo(told)
            return 0
        typer.echo(cluster.state.value)
        if cluster.pending is not None:
            typer.echo(f"to become {cluster.pending.target}: {cluster.pending.reason}", err=True)
        if not cluster.master_answers:
            typer.echo("the master does not answer: whether a change waits is not known", err=True)
        return 0

    return run(url, secret_file, job)


def set_command(
    state: Annotated[str, typer.Argument(help=f"{NAMES}.", metavar="STATE")],
    url: Url = URL_DEFAULT,
    wait: Annotated[
        float,
        typer.Option(
            min=0, max=86_400, help="Seconds for which running migrations may delay it; 0: none."
        ),
    ] = 0,
    secret_file: SecretFile = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Change the state of the cluster: all members or none."""
    wanted = state.upper().replace("-", "_")
    if wanted not in ASKABLE:
        raise typer.BadParameter(f"there is no state {state!r}; there are {NAMES}")

    async def job(client: HttpClient) -> int:
        with Bar(progress_screen(), f"state {wanted}") as bar:

            async def look() -> None:
                bar.show(0, 0, await _reason(client))

            changed = await watched(client.set_state(ClusterState(wanted), wait_seconds=wait), look)
        typer.echo(changed.model_dump_json() if output is Output.JSON else changed.state.value)
        return 0

    return run(url, secret_file, job)


for each in (get_command, set_command):
    each.__doc__ = f"{each.__doc__}\n\n{CODES}"


async def _reason(client: HttpClient) -> str:
    """What a change waits for, as far as that can be seen."""
    try:
        pending = (await client.cluster()).pending
    except (ClientError, RemoteProtocolError):
        return "asked"
    return "asked" if pending is None else pending.reason


state_app = typer.Typer(help="Print or change the state of a cluster.", no_args_is_help=True)
state_app.command("get")(get_command)
state_app.command("set")(set_command)
