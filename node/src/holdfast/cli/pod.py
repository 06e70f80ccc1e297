"""What a pod runs: a supervisor, and under it one or more member processes (`design/2`).

All of them are in one failure domain, so that no backup stays inside the pod, and have the settings
of the pod but for names and ports.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast.cli.processes import http_messenger, member_process
from holdfast.errors import ConfigurationError
from holdfast.shell import logs
from holdfast.shell.settings import Settings
from holdfast.shell.supervisor.happenings import Tell
from holdfast.shell.supervisor.layout import Ports, staggered
from holdfast.shell.supervisor.policy import Policy
from holdfast.shell.supervisor.processes import Command
from holdfast.shell.supervisor.supervision import Supervision
from holdfast.shell.supervisor.supervisor import Supervisor
from holdfast.shell.supervisor.words import ALARMING, sentence

LOG: Final = logging.getLogger("holdfast.supervisor")


def run_pod(settings: Settings, config: Path | None, flags: Mapping[str, str]) -> int:
    """Run the processes until all are gone; the exit code is the first of theirs that is not 0."""
    own = own_flags(settings)
    options = settings.options
    logs.set_up(options.log_format, options.log_level, f"{settings.name} supervisor")

    def command(child: int, may_found: bool) -> Command:
        given = {**flags, **own[child]}
        if not may_found:
            given["may_found"] = "false"
        return member_process(config, given)

    def tell(told: Tell) -> None:
        name = own[told.child].get("name", settings.name)
        fields = {"event": told.what.value, "process": name, "detail": told.detail}
        level = logging.WARNING if told.what in ALARMING else logging.INFO
        LOG.log(level, "%s", sentence(told, name), extra={"fields": fields})

    supervision = Supervision(len(own), Policy())
    return asyncio.run(
        Supervisor(supervision, command, http_messenger(settings.secret), tell).run()
    )


def own_flags(settings: Settings) -> tuple[dict[str, str], ...]:
    """What each process has for itself. A single one is just what was asked for."""
    options = settings.options
    if options.processes == 1:
        return ({},)
    first = Ports(options.port_plain, options.port_cluster, options.port_http, options.port_member)
    every = tuple(
        _own(settings, i, ports) for i, ports in enumerate(staggered(first, options.processes))
    )
    if options.initial:
        return every
    if not first.link:
        reason = "several processes that found a cluster by themselves need a port_member but 0"
        raise ConfigurationError([reason])
    initial = ",".join(settings.address(int(each["port_member"])) for each in every)
    return tuple({**each, "initial": initial} for each in every)


def _own(settings: Settings, index: int, ports: Ports) -> dict[str, str]:
    kept = settings.options.data_dir
    files = {"data_dir": str(Path(kept) / str(index))} if kept else {}
    return {
        **files,
        "name": f"{settings.name}-{index}",
        "port_plain": str(ports.plain),
        "port_cluster": str(ports.cluster),
        "port_http": str(ports.http),
        "port_member": str(ports.link),
    }
