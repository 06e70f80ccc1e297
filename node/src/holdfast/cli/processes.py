"""Member processes as the command line starts them, and how it tells members of a death."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from holdfast.client.http import HttpClient
from holdfast.errors import ProblemReported
from holdfast.ids import Address, MemberId, Millis
from holdfast.shell.supervisor.confirming import Messenger
from holdfast.shell.supervisor.processes import Command


def member_process(config: Path | None, flags: Mapping[str, str]) -> Command:
    """This very program, as one member that has a supervisor (`cli.child`)."""
    file = () if config is None else (f"--config={config}",)
    given = (f"--{key.replace('_', '-')}={value}" for key, value in flags.items())
    program = (sys.executable, "-P", "-m", "holdfast.cli.child")
    return Command((*program, *file, *given), dict(os.environ))


def http_messenger(secret: bytes) -> Messenger:
    """Tells a member by its HTTP port, with the cluster's secret."""

    async def tell(address: Address, member: MemberId, incarnation: int, ago: Millis) -> bool:
        async with HttpClient(f"http://{address}", secret=secret) as client:
            try:
                await client.confirm_dead(member, incarnation, ago / 1_000)
            except ProblemReported as problem:
                if problem.status == HTTPStatus.NOT_FOUND:
                    return False
                raise
        return True

    return tell
