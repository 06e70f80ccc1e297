"""`holdfast`: the commands, and what becomes of an error.

Each command is a function in a module of its own, registered here. It raises errors of the one
tree (`holdfast.errors`); here they become one line on stderr and exit code 2, never a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import typer

from holdfast.cli.assign import InOrder, assign_command
from holdfast.cli.plan import plan_command
from holdfast.cli.sim import sim_command
from holdfast.errors import HoldfastError

EXIT_BAD_INPUT: Final = 2

app = typer.Typer(add_completion=False)

# A row may begin with a vacant index, as in '-,B', which must not be taken for an option.
app.command("plan", context_settings={"ignore_unknown_options": True})(plan_command)
app.command("sim")(sim_command)
app.command("assign", cls=InOrder)(assign_command)


@app.callback(invoke_without_command=True)
def holdfast(context: typer.Context) -> None:
    """Holdfast, a partitioned, replicated in-memory data grid."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    try:
        code: object = app(arguments, prog_name="holdfast", standalone_mode=False)
    except typer.TyperException as error:
        return complain(error.format_message(), error.exit_code)
    except HoldfastError as error:
        return complain(error.message, EXIT_BAD_INPUT)
    return code if isinstance(code, int) else 0


def complain(message: str, code: int) -> int:
    """One line on stderr, whatever the message has in it."""
    typer.echo(f"holdfast: {' '.join(message.split())}", err=True)
    return code
