"""Which task reads which partitions: groups of one owner's.

Each task asks one member, the owner of its partitions when the read was planned. If a partition has
moved by then, its owner of that time says who it is now; nothing has to be planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

PARTITIONS_OF_A_TASK: Final = 32
"""As many as a member gives in one answer."""


@dataclass(frozen=True, slots=True)
class Group:
    """What one task reads."""

    owner: str
    partitions: tuple[int, ...]


def group(owners: Sequence[str], wanted: Iterable[int], tasks: int = 0) -> list[Group]:
    """All wanted partitions, each in one group; groups of different owners take turns, so that
    tasks that start together ask different members. At least one group for each owner."""
    mine: dict[str, list[int]] = {}
    for partition in sorted(set(wanted)):
        mine.setdefault(owners[partition], []).append(partition)
    total = sum(map(len, mine.values()))
    size = max(1, -(-total // tasks)) if tasks else PARTITIONS_OF_A_TASK
    queues = [
        [Group(owner, tuple(part)) for part in _parts(partitions, size)]
        for owner, partitions in sorted(mine.items())
    ]
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _parts(partitions: Sequence[int], size: int) -> list[Sequence[int]]:
    """Pieces of nearly the same length, none longer than `size`."""
    count = -(-len(partitions) // size)
    length = -(-len(partitions) // count)
    return [partitions[start : start + length] for start in range(0, len(partitions), length)]
