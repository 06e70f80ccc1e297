"""Everything that files of members have, sorted by the partitions of another number of them.

Rules
-----
* What counts of each source (`past`) is appended, key by key, to the file of the group of new
  partitions that the key belongs into (`outline.Spill`): a source after the other, in any process.
* A group is then read by itself, from what all sources have for it, and takes as much memory as it
  has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.core.data.gates import partitions_of_slots
from holdfast.errors import RecoveryError
from holdfast.ids import PartitionId
from holdfast.storage.files import Readable
from holdfast.storage.fold import Written
from holdfast.storage.outline import (
    GROUP_BYTES,
    Spill,
    all_written,
    folded,
    groups_of,
    spill_paths,
)
from holdfast.storage.past import Past
from holdfast.storage.recovery import Watch, recover

SHOWN: Final = 10
"""Missing partitions that are named."""


@dataclass(frozen=True, slots=True)
class Sorting:
    """What is decided before any data is moved."""

    folder: Path
    """Where what counts is until it is at its place."""
    past: Past
    groups: tuple[tuple[PartitionId, ...], ...]
    """Of new partitions: what is made together."""
    chosen: tuple[Mapping[PartitionId, frozenset[bytes]], ...]
    """Of each source, the fragments whose copy there counts."""

    def path_of(self, place: int, number: int) -> Path:
        """What was spilled of a source for a group."""
        return spill_paths(self.folder, str(place), len(self.groups))[number]


def sorting_of(
    past: Past,
    folder: Path,
    partition_count: int,
    *,
    wanted: frozenset[PartitionId] | None = None,
    missing_allowed: bool = False,
    group_bytes: int = GROUP_BYTES,
) -> Sorting:
    """What goes where; refused if nobody has something, unless that may be. If only some of the
    new partitions are wanted, nothing is sorted that can't be in them."""
    missing = past.missing()
    if missing and not missing_allowed:
        shown = ", ".join(map(str, missing[:SHOWN])) + (", ..." if len(missing) > SHOWN else "")
        raise RecoveryError(
            f"{len(missing)} of {past.partition_count} partitions are in none of these"
            f" directories, or perhaps not as a whole ({shown}): give those of the other members as"
            " well"
        )
    every = frozenset(map(PartitionId, range(past.partition_count)))
    needed = every if wanted is None else needed_of(wanted, past.partition_count, partition_count)
    best = {each: past.best(each) for each in sorted(needed)}
    chosen = tuple(
        {
            partition: frozenset(name for name, at in names.items() if at == place)
            for partition, names in best.items()
            if place in names.values()
        }
        for place in range(len(past.surveys))
    )
    groups = groups_of(sizes_of(past, chosen, partition_count), group_bytes)
    return Sorting(folder, past, tuple(groups), chosen)


def needed_of(wanted: frozenset[PartitionId], before: int, after: int) -> frozenset[PartitionId]:
    """The old partitions of which keys come into these new ones."""
    slots = zip(partitions_of_slots(before), partitions_of_slots(after), strict=True)
    return frozenset(old for old, new in slots if new in wanted)


def sizes_of(
    past: Past, chosen: Sequence[Mapping[PartitionId, frozenset[bytes]]], partition_count: int
) -> dict[PartitionId, int]:
    """What was written of each new partition, about: its slots' share of the old ones."""
    slots = partitions_of_slots(past.partition_count)
    share = [0] * past.partition_count
    for partition in slots:
        share[partition] += 1
    sizes = {PartitionId(number): 0.0 for number in range(partition_count)}
    for old, new in zip(slots, partitions_of_slots(partition_count), strict=True):
        for survey, mine in zip(past.surveys, chosen, strict=True):
            if old in mine:
                sizes[new] += survey.sizes.get(old, 0) / share[old]
    return {partition: round(size) for partition, size in sizes.items()}


def spill(
    sorting: Sorting, place: int, files: Readable, watch: Watch | None = None
) -> tuple[int, ...]:
    """Have what counts of one source where the groups find it; how many bytes that are for each."""
    chosen = sorting.chosen[place]
    with Spill(sorting.folder, str(place), sorting.groups, chosen) as spilling:
        recover(files, watch=watch, fold=spilling)
        return spilling.done()


def forget(sorting: Sorting, number: int) -> None:
    """What was spilled for a group is needed no more."""
    for place in range(len(sorting.past.surveys)):
        sorting.path_of(place, number).unlink(missing_ok=True)


def fragments_in(
    sorting: Sorting, number: int, sizes: Sequence[int]
) -> Iterator[tuple[bytes, Written]]:
    """What a group has of all sources, so many bytes of each, with the names of fragments."""
    for place, size in enumerate(sizes):
        for _, written in all_written(folded(sorting.path_of(place, number), size)):
            yield written.last.name, written
