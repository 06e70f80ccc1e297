"""Feeds bases: what is in memory, in slices, set by set of partitions (`bases`).

Rules
-----
* Whoever has the data makes a slice now and then, between other work; a thread writes it
  (`writer`).
* A partition may change between two slices of it: the log has what has changed (`bases`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from holdfast.core.effects import Record
from holdfast.ids import PartitionId
from holdfast.storage import bases
from holdfast.storage.format import entries
from holdfast.storage.format.entries import Entry, FragmentEntry, MutationsEntry
from holdfast.storage.writer import BaseBody, Round

ENTRY_BYTES: Final = 64
"""What an entry takes beside its keys and records, about."""


class Source(Protocol):
    """What is in memory, for a base."""

    def records(self, partition: PartitionId, size: int) -> Iterator[Record]:
        """Records that sum up to a partition, in pieces of about this size; it may change."""


def user_bytes(entry: Entry) -> int:
    """Bytes of keys and records."""
    if type(entry) is not MutationsEntry:
        return 0
    return sum(map(len, entry.keys)) + sum(map(len, entry.records))


class Feed:
    """A round of bases, as the thread that has the data sees it."""

    def __init__(self, due: Round, slice_bytes: int) -> None:
        self.slice_bytes = slice_bytes
        self.wanted = due.wanted
        self.sizes = due.sizes
        self.current: Iterator[Record] | None = None

    def begin(self, source: Source, limit: int) -> tuple[PartitionId, ...]:
        """The next set, and its records."""
        chosen = bases.next_set(self.wanted, self.sizes, limit)
        self.wanted = self.wanted[len(chosen) :]
        self.current = (
            record for partition in chosen for record in source.records(partition, self.slice_bytes)
        )
        return chosen

    def slice(self) -> BaseBody | None:
        """The next records; None when the set has no more."""
        assert self.current is not None, "a set is begun before it is read"
        read: list[Entry] = []
        epochs: dict[PartitionId, int] = {}
        size = 0
        for record in self.current:
            entry = entries.entry_of(record)
            read.append(entry)
            size += user_bytes(entry) + ENTRY_BYTES
            if isinstance(entry, FragmentEntry):
                epochs[entry.partition] = entry.epoch
            if size >= self.slice_bytes:
                break
        if not read:
            self.current = None
            return None
        return BaseBody(entries.encode(read), len(read), epochs)
