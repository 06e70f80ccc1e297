"""`holdfast member`: what applications talk to; what a pod runs.

The flags are made from the list of settings (`shell.options`), so that each is explained in one
place. Exit codes are `shell.lifecycle.Exit`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import Field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.errors import ConfigurationError
from holdfast.shell import lifecycle, settings
from holdfast.shell.options import Options

HELP = """Run one member of a cluster until it is told to stop.

Every setting may stand in a TOML file (--config), in the environment (HOLDFAST_ and its name in
capitals) or be a flag; a flag beats the environment, the environment beats the file. Names of
structures are configured in the file: \\[names.users], \\[unnamed].

It runs in a process of its own below this one, or in several (--processes), all in one failure
domain. One that dies is started again, and the other members are told of its death at once.

SIGTERM lets the member hand over its data and leave; a second one ends it at once. Exit codes: 0 it
left in good order, 2 bad settings, 3 a port is in use, 4 the cluster refuses it, 5 it failed, 6 it
could not leave in time, 7 it was cut short, 8 its disk failed or is in use, 9 its files can't be
read, 128 and n it was ended by signal n.
"""


def shown_options() -> Iterator[Field[Any]]:
    """The settings that are flags."""
    return (each for each in fields(Options) if each.metadata["shown"])


def default_text(each: Field[Any]) -> str:
    """A default as one would write it."""
    value = each.default
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def member(config: Path | None, flags: dict[str, str], *, check: bool, show: bool) -> int:
    """Run, or only check, or show what it would run with."""
    try:
        loaded = settings.load(config, os.environ, flags)
    except ConfigurationError as error:
        for reason in error.reasons:
            typer.echo(f"holdfast: {reason}", err=True)
        return lifecycle.Exit.BAD_SETTINGS
    if show:
        typer.echo("\n".join(described(loaded.options)))
    elif check:
        typer.echo("the settings can work")
    elif not loaded.options.processes:
        # What only this needs is imported here, and so is what a member alone does without
        from holdfast.shell.http.server import HttpServer

        return lifecycle.run(loaded, HttpServer)
    else:
        from holdfast.cli.pod import run_pod

        return run_pod(loaded, config, flags)
    return lifecycle.Exit.OK


def described(options: Options) -> Iterator[str]:
    """The settings as a file that gives the same ones; what is secret is left out."""
    for each in shown_options():
        value = getattr(options, each.name)
        yield f"# {each.metadata['text']}"
        yield f"# {each.name} =" if value is None else f"{each.name} = {in_toml(value)}"


def in_toml(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(in_toml(each) for each in value)}]"
    if isinstance(value, str):
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


def make_command() -> Callable[..., int]:
    """The function that typer reads the flags from: one parameter for each setting."""

    def command(**given: Any) -> int:
        config, check, show = given.pop("config"), given.pop("check"), given.pop("print")
        flags = {key: value for key, value in given.items() if value is not None}
        return member(config, flags, check=check, show=show)

    command.__doc__ = "\n\n".join(" ".join(part.split()) for part in HELP.split("\n\n"))
    command.__signature__ = inspect.Signature(list(_parameters()))  # type: ignore[attr-defined]
    return command


def _parameters() -> Iterator[inspect.Parameter]:
    yield _parameter("config", Path | None, None, "file with settings, in TOML")
    yield _parameter("check", bool, False, "only say what is wrong with the settings")
    yield _parameter("print", bool, False, "only print the settings, explained")
    for each in shown_options():
        default = default_text(each)
        text = each.metadata["text"] + (f" ({default})" if default else "")
        yield _parameter(each.name, str | None, None, text)


def _parameter(name: str, kind: object, default: object, text: str) -> inspect.Parameter:
    flag = typer.Option(f"--{name.replace('_', '-')}", help=text, show_default=False)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, flag]
    )


member_command = make_command()
