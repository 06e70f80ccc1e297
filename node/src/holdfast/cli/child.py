"""A member under a supervisor: what `holdfast member` and `holdfast dev` start, and nobody else.

Its command line is made by this program (`cli.processes`), so it is read without the libraries that
explain one to people: they would take a third of a start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import ConfigurationError
from holdfast.shell import lifecycle, settings
from holdfast.shell.http.server import HttpServer
from holdfast.shell.supervisor.processes import CHILD_FD


def main(arguments: Sequence[str]) -> int:
    """Be that member. Each argument is `--key=value`, of `--config` or a setting."""
    flags = dict(_flag(each) for each in arguments)
    config = flags.pop("config", None)
    try:
        loaded = settings.load(None if config is None else Path(config), os.environ, flags)
    except ConfigurationError as error:
        for reason in error.reasons:
            sys.stderr.write(f"holdfast: {reason}\n")
        return lifecycle.Exit.BAD_SETTINGS
    return lifecycle.run(loaded, HttpServer, CHILD_FD)


def _flag(argument: str) -> tuple[str, str]:
    key, _, value = argument.removeprefix("--").partition("=")
    return key.replace("-", "_"), value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
