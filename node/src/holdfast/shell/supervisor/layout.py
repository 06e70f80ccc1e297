"""Names and ports of the member processes that run side by side.

In a pod the first process has the configured ports and the next ones follow at a fixed distance,
so that a network policy can name them. On a developer's machine a port may be taken by anything:
then another is used, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, fields, replace
from typing import Final

from holdfast.errors import ConfigurationError

STEP: Final = 10
"""From one process to the next. 1 would not do: 7379 + 1 is the first one's 7380."""
PORT_MAX: Final = 65_535
PROCESSES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one member listens (`design/4`)."""

    plain: int = 6379
    cluster: int = 7379
    http: int = 8080
    link: int = 7380

    @property
    def numbers(self) -> tuple[int, ...]:
        """All four."""
        return astuple(self)


def staggered(first: Ports, count: int) -> tuple[Ports, ...]:
    """Ports of each process, the first on `first`; 0 stays 0, which means any free port."""
    reasons = []
    if not 1 <= count <= PROCESSES_MAX:
        reasons.append(f"processes must be 1 to {PROCESSES_MAX}, not {count}")
    every = tuple(_shifted(first, index * STEP) for index in range(min(count, PROCESSES_MAX)))
    reasons += _clashes(every)
    if reasons:
        raise ConfigurationError(reasons)
    return every


def _shifted(ports: Ports, by: int) -> Ports:
    return Ports(*(number and number + by for number in ports.numbers))


def _clashes(every: Iterable[Ports]) -> list[str]:
    """What can't be: a number twice, or one that is no port."""
    reasons = []
    users: dict[int, str] = {}
    for index, ports in enumerate(every):
        for each in fields(ports):
            number, user = getattr(ports, each.name), f"{each.name} of process {index}"
            if number > PORT_MAX:
                reasons.append(f"{user} would be {number}, more than {PORT_MAX}")
            elif number and number in users:
                reasons.append(f"{user} and {users[number]} would both be {number}")
            else:
                users[number] = user
    return reasons


@dataclass(frozen=True, slots=True)
class Choice:
    """Ports for each process, and what is to be said about them."""

    ports: tuple[Ports, ...]
    remarks: tuple[str, ...]


def choose(count: int, is_free: Callable[[int], bool], any_free: Callable[[], int]) -> Choice:
    """Free ports for processes on one machine: the usual ones where they are free."""
    chosen: list[Ports] = []
    remarks: list[str] = []
    used: set[int] = set()
    for index, wanted in enumerate(staggered(Ports(), count)):
        ports = wanted
        for each in fields(wanted):
            number = getattr(wanted, each.name)
            if number in used or not is_free(number):
                other = _fresh(used, any_free)
                ports = replace(ports, **{each.name: other})
                if index == 0:
                    remarks.append(f"port {number} is taken, {each.name} is on {other}")
                number = other
            used.add(number)
        chosen.append(ports)
    return Choice(tuple(chosen), tuple(remarks))


def _fresh(used: set[int], any_free: Callable[[], int]) -> int:
    """A port that the system says is free and that nobody here was given."""
    while (number := any_free()) in used:
        pass
    return number
