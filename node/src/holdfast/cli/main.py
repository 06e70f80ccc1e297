"""`holdfast`: the commands, and what becomes of an error.

Each command is a function in a module of its own, listed in `commands`, and its module is imported
when it is called: a member must not spend its first second on what only others need. It raises
errors of the one tree (`holdfast.errors`); here they become one line on stderr and an exit code,
never a traceback: 2 for what makes no sense, 1 for what a cluster refuses, 3 where nobody answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from holdfast.cli.commands import COMMANDS, Listed
from holdfast.errors import HoldfastError, ProblemReported, RemoteProtocolError, Unreachable

EXIT_REFUSED: Final = 1
EXIT_BAD_INPUT: Final = 2
EXIT_UNREACHABLE: Final = 3


def make_app(called: str | None) -> typer.Typer:
    """The command line: the command that is called, and of the others what the help says."""
    app = typer.Typer(add_completion=False)
    app.callback(invoke_without_command=True)(holdfast)
    for name, listed in COMMANDS.items():
        if name == called:
            register(app, name, listed)
        else:
            app.command(name, help=listed.about, rich_help_panel=listed.panel)(nothing)
    return app


def register(app: typer.Typer, name: str, listed: Listed) -> None:
    """Add a command with all that it takes."""
    found = listed.load()
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, rich_help_panel=listed.panel)
    else:
        options = listed.options()
        app.command(name, rich_help_panel=listed.panel, **options)(found)


def nothing() -> None:
    """Stands for a command that is not called."""


def holdfast(context: typer.Context) -> None:
    """Holdfast, a partitioned, replicated in-memory data grid."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    app = make_app(given[0] if given else None)
    try:
        code: object = app(given, prog_name="holdfast", standalone_mode=False)
    except typer.TyperException as error:
        return complain(error.format_message(), error.exit_code)
    except ProblemReported as error:
        return complain(error.message, EXIT_REFUSED)
    except (Unreachable, RemoteProtocolError) as error:
        return complain(error.message, EXIT_UNREACHABLE)
    except HoldfastError as error:
        return complain(error.message, EXIT_BAD_INPUT)
    except BrokenPipeError:
        return forsake_output()
    except OSError as error:
        return complain(words_of(error), EXIT_BAD_INPUT)
    return code if isinstance(code, int) else 0


def words_of(error: OSError) -> str:
    """A path that can't be used: a file in place of a directory, no permission, a full disk."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


def forsake_output() -> int:
    """Whoever read what is told has gone, as `head` does: what is left must not be told at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_REFUSED


def complain(message: str, code: int) -> int:
    """One line on stderr, whatever the message has in it."""
    typer.echo(f"holdfast: {' '.join(message.split())}", err=True)
    return code
