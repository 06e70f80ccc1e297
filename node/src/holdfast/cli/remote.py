"""What the commands share that ask a running cluster over HTTP: where, with which secret, how.

Exit codes of all of them: 0 done; 1 the cluster refused; 2 the command line makes no sense; 3
nobody answers, or not a member; 130 interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from holdfast.client.http import HttpClient
from holdfast.errors import IllegalArgument

EXIT_INTERRUPTED: Final = 130
CODES: Final = (
    "Exit code 0: done. 1: the cluster refuses. 2: bad input. 3: nobody answers. 130: interrupted."
)


class Output(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


Url = Annotated[
    str,
    typer.Option(
        "--url", envvar="HOLDFAST_URL", help="HTTP port of any member.", show_default=True
    ),
]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-file",
        envvar="HOLDFAST_SECRET_FILE",
        help="File with the cluster's secret; needed for changes where there is one.",
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", help="text for people, json.")]
MemberName = Annotated[str, typer.Argument(help="Id or name of the member.")]

URL_DEFAULT: Final = "http://127.0.0.1:8080"

Job = Callable[[HttpClient], Awaitable[int]]


def run(url: str, secret_file: Path | None, job: Job) -> int:
    """Do something with a client, and return its exit code."""
    secret = secret_of(secret_file)
    try:
        return asyncio.run(_run(url, secret, job))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


async def _run(url: str, secret: bytes, job: Job) -> int:
    async with HttpClient(url, secret=secret) as client:
        return await job(client)


def secret_of(file: Path | None) -> bytes:
    """What the file has; nothing where none is given."""
    if file is None:
        return b""
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise IllegalArgument(f"--secret-file {file}: {error.strerror or error}") from error


def screen() -> Console:
    """Where results go. Tables keep their width when nobody looks at them."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    return console


def progress_screen() -> Console:
    """Where it is told how far something is: never mixed with results."""
    return Console(stderr=True, highlight=False)
