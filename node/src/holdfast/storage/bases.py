"""Which partitions are to be written anew, and what can go then. Pure.

A base is a snapshot of a set of partitions, written from memory in the background while the log
goes on (`design/5`):

    segment 4   │ segment 5                │ segment 6
    ────────────┼──────────────────────────┼────────────
                ▲ a new segment begins     ▲ the base is named: it counts since segment 5
                └── the base is written ───┘

Rules
-----
* The base has each record as it was at some moment while it was written. Whoever reads it applies
  the log since its beginning, so that it does not matter at which (`fold`).
* It is named only once the log is stable up to its end: it may hold what the end of the log says.
* A segment can go when the control files begin later, and a later base has each partition of it.
  Only the oldest segments go, so that what remains has no gap.
* Bases are due when the log is longer than all bases together (and at least `log_bytes_min`). A
  round then writes, set by set, every partition that stands in the segments of that moment. So at
  most about twice what lives, and what is written during one round, is on the disk; and each byte
  is written about twice.
* A set has about `SET_BYTES`, so that a base is read in one piece and an interrupted one costs
  little.

What can go wrong
-----------------
*The process ends within a round.* Named bases count; the next process begins a new round.
*A partition is larger than a set.* It is a set of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.ids import PartitionId
from holdfast.storage.format.manifest import Base, ControlFiles, Manifest

SET_BYTES: Final = 64 << 20
LOG_BYTES_MIN: Final = 256 << 20

Touched = Mapping[int, Mapping[PartitionId, int]]
"""Bytes of each partition in each segment."""


def is_due(log_bytes: int, base_bytes: int, log_bytes_min: int = LOG_BYTES_MIN) -> bool:
    """Whether a round is to begin."""
    return log_bytes >= max(log_bytes_min, base_bytes)


def round_of(named: Manifest, touched: Touched) -> tuple[PartitionId, ...]:
    """The partitions of a round: all that stand in any segment."""
    since = since_of(named)
    wanted = {
        partition: None
        for number in named.segments
        for partition in touched.get(number, {})
        if since.get(partition, -1) <= number
    }
    return tuple(sorted(wanted))


def next_set(
    wanted: tuple[PartitionId, ...], sizes: Mapping[PartitionId, int], limit: int = SET_BYTES
) -> tuple[PartitionId, ...]:
    """The first of these, as many as a base should have."""
    total = 0
    for place, partition in enumerate(wanted):
        total += sizes.get(partition, 0)
        if place and total > limit:
            return wanted[:place]
    return wanted


def sizes_of(named: Manifest, touched: Touched) -> dict[PartitionId, int]:
    """What each partition takes at most, about."""
    sizes: dict[PartitionId, int] = {}
    for base in named.bases:
        share = base.size // max(len(base.partitions), 1)
        for number in base.partitions:
            sizes[PartitionId(number)] = share
    for parts in touched.values():
        for partition, size in parts.items():
            sizes[partition] = sizes.get(partition, 0) + size
    return sizes


def since_of(named: Manifest) -> dict[PartitionId, int]:
    """With which segment each partition's base begins."""
    return {PartitionId(each): base.since for base in named.bases for each in base.partitions}


def with_base(named: Manifest, base: Base, control: ControlFiles, touched: Touched) -> Manifest:
    """The manifest with a new base, without what it makes superfluous."""
    fresh = frozenset(base.partitions)
    kept = [without(old, fresh) for old in named.bases]
    bases = (*(old for old in kept if old.partitions), base)
    found = msgspec.structs.replace(named, bases=bases, control=control)
    since = since_of(found)
    gone = 0
    for number in named.segments[:-1]:
        if number >= control.since:
            break
        if any(since.get(each, -1) <= number for each in touched.get(number, {})):
            break
        gone += 1
    return msgspec.structs.replace(
        found, segments=named.segments[gone:], sealed=named.sealed[gone:]
    )


def without(base: Base, fresh: frozenset[int]) -> Base:
    """A base that counts for these partitions no more."""
    kept = tuple(
        (partition, epoch)
        for partition, epoch in zip(base.partitions, base.epochs, strict=True)
        if partition not in fresh
    )
    return msgspec.structs.replace(
        base,
        partitions=tuple(partition for partition, _ in kept),
        epochs=tuple(epoch for _, epoch in kept),
    )
