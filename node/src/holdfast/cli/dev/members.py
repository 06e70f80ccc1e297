"""The members of a local cluster: their names, failure domains, ports and flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.cli.dev.board import Place
from holdfast.core.views import Kind
from holdfast.errors import ConfigurationError
from holdfast.shell.settings import join_address
from holdfast.shell.supervisor.layout import PROCESSES_MAX, Ports

HOST: Final = "127.0.0.1"
LEAVE_MS: Final = 5_000
"""A cluster that is thrown away need not be left with care."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What was asked for."""

    members: int
    lite: int
    processes: int
    """Of each member, in one failure domain."""

    def __post_init__(self) -> None:
        if self.count > PROCESSES_MAX:
            raise ConfigurationError(
                [f"{self.count} processes are more than the {PROCESSES_MAX} that fit one machine"]
            )

    @property
    def count(self) -> int:
        """All processes."""
        return (self.members + self.lite) * self.processes


def places(shape: Shape, ports: Sequence[Ports]) -> tuple[Place, ...]:
    """A place for each process: data members first."""
    return tuple(
        Place(name, group, kind, each)
        for (name, group, kind), each in zip(_names(shape), ports, strict=True)
    )


def _names(shape: Shape) -> Iterator[tuple[str, str, Kind]]:
    groups = [(f"m{number + 1}", Kind.DATA) for number in range(shape.members)]
    groups += [(f"lite{number + 1}", Kind.LITE) for number in range(shape.lite)]
    for group, kind in groups:
        for process in range(shape.processes):
            name = group if shape.processes == 1 else f"{group}-{process}"
            yield name, group, kind


def flags_of(
    every: Sequence[Place], index: int, *, may_found: bool, files: Path | None = None
) -> dict[str, str]:
    """What the process in this place is started with. The data members found the cluster.

    A cluster whose files are kept is stopped as a whole: nobody hands over what all will have
    again."""
    place = every[index]
    ports = place.ports
    founders = (each for each in every if each.kind is Kind.DATA)
    kept = {} if files is None else {"data_dir": str(files), "hands_over": "false"}
    return {
        "name": place.name,
        "group": place.group,
        "kind": place.kind.value,
        "bind": HOST,
        "advertise": HOST,
        "initial": ",".join(join_address(HOST, each.ports.link) for each in founders),
        "may_found": str(may_found).lower(),
        "port_plain": str(ports.plain),
        "port_cluster": str(ports.cluster),
        "port_http": str(ports.http),
        "port_member": str(ports.link),
        "leave_timeout_ms": str(LEAVE_MS),
        "processes": str(len(every)),  # who share this machine's memory
        **kept,
    }
