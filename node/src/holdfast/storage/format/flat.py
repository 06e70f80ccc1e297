"""The entry of mutations as it is encoded: a tuple, its number first (`entries`).

There is one for each fragment that a turn has changed, so it counts how long it takes to make: this
is compiled with the path of a command (ADR 34), which records that are decoded can't be.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.effects import MutationsRecord
from holdfast.core.stores.record import EXPIRES, FLAGS_AT

MUTATIONS: Final = 5
"""The number of such an entry."""
NOT_PLAIN: Final = 0xFF & ~EXPIRES
"""The flags that a string has not."""

Flat = tuple[object, ...]


def flattened(record: MutationsRecord) -> tuple[Flat, int]:
    """The entry of mutations, and how long their keys and records are."""
    keys, records, size, plain = [], [], 0, True
    for key, made in record.mutations:
        keys.append(key)
        records.append(made)
        size += len(key) + len(made)
        if made[FLAGS_AT] & NOT_PLAIN:
            plain = False
    standing = record.stand
    stand = standing.stand
    return (
        MUTATIONS,
        record.partition,
        record.generation,
        record.name,
        record.index,
        record.clean,
        (stand.epoch, stand.counter, stand.entries),
        standing.lineage,
        plain,
        keys,
        records,
    ), size
