"""Files of members read in bounded memory: first what they have, then the data, group by group.

Rules
-----
* An *outline* is a recovery that keeps no keys and records: where each fragment stands in the end,
  how much was written of each partition, the greatest number of a mutation.
* Once it is known which copy of which fragment counts, a second reading *spills*: what is said of
  each of its keys is appended, as it stands, to the file of the group of new partitions that the
  key will be in. Each such file has what a recovery of these keys would have read, so that folding
  it gives the same (`fold`).
* What is about no key, or about all of them, goes to every group: that a fragment is held, dropped,
  emptied, or begun anew.
* A group has about `GROUP_BYTES`, as written; a partition that is larger is a group of its own.
* Spilled files are nobody's: they are gone at the end, and worth nothing after a crash. Who reads
  them is told how long they are, so that none is missed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final, Self
from uuid import uuid4

import msgspec

from holdfast.core.data.gates import partitions_of_slots
from holdfast.core.data.plane import slot_of
from holdfast.core.stores.record import Kind, kind_of, number_of
from holdfast.errors import StorageError
from holdfast.ids import PartitionId
from holdfast.storage.fold import Data, Fold, Written
from holdfast.storage.format import entries
from holdfast.storage.format.entries import Entry, FragmentEntry, MutationsEntry

GROUP_BYTES: Final = 256 << 20
LENGTH_BYTES: Final = 4
BUFFER_BYTES: Final = 1 << 20

Chosen = Mapping[PartitionId, Collection[bytes]]
"""Names of fragments, by partition of the old cluster."""


class Outline(Data):
    """All partitions' data, without the data."""

    __slots__ = ("count", "sizes")

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[PartitionId, int] = {}
        """Bytes of keys and records that were written of each partition."""
        self.count = 0
        """The greatest number of a mutation."""

    def apply(self, entry: Entry) -> None:
        """Take what an entry says of where things stand."""
        if type(entry) is not MutationsEntry:
            super().apply(entry)
            return
        size = sum(map(len, entry.keys)) + sum(map(len, entry.records))
        self.sizes[entry.partition] = self.sizes.get(entry.partition, 0) + size
        self.count = max(self.count, entry.stand[1], *map(number_of, entry.records))
        super().apply(msgspec.structs.replace(entry, keys=(), records=(), plain=True))


def outlined(outline: Outline) -> Fold:
    """A sum that keeps no data."""
    fold = Fold()
    fold.data = outline
    return fold


def groups_of(sizes: Mapping[PartitionId, int], limit: int) -> list[tuple[PartitionId, ...]]:
    """All partitions, in order, in groups of about this size."""
    groups: list[list[PartitionId]] = []
    total = 0
    for partition in sorted(sizes):
        total += sizes[partition]
        if not groups or total > limit:
            groups.append([])
            total = sizes[partition]
        groups[-1].append(partition)
    return [tuple(group) for group in groups]


class Spill(Fold):
    """In the place of the sum of one member's files: what was chosen of it, by groups."""

    __slots__ = ("_chosen", "_files", "_generations", "_numbers", "_paths", "_stack", "_suffix")

    def __init__(
        self, folder: Path, name: str, groups: Sequence[tuple[PartitionId, ...]], chosen: Chosen
    ) -> None:
        super().__init__()
        self._chosen = chosen
        count = sum(map(len, groups))
        partitions = {each: number for number, group in enumerate(groups) for each in group}
        self._numbers = [partitions[each] for each in partitions_of_slots(count)]
        """Of each slot, the group."""
        self._generations: dict[PartitionId, int] = {}
        self._paths = spill_paths(folder, name, len(groups))
        self._suffix = f".{uuid4().hex}"
        """Nobody else's, although somebody else may do the same at this moment."""
        self._stack = ExitStack()
        self._files: list[IO[bytes] | None] = [None] * len(groups)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def done(self) -> tuple[int, ...]:
        """Everything is there: the files get their names. How long each group's is."""
        self._stack.close()
        for path, file in zip(self._paths, self._files, strict=True):
            if file is not None:
                path.with_name(path.name + self._suffix).replace(path)
        written = zip(self._paths, self._files, strict=True)
        return tuple(path.stat().st_size if file else 0 for path, file in written)

    def apply(self, entry: Entry) -> None:
        """Append it where it belongs."""
        if type(entry) is MutationsEntry:
            if entry.name in self._chosen.get(entry.partition, ()):
                self._spread(entry)
        elif isinstance(entry, FragmentEntry) and entry.partition in self._chosen:
            self._everywhere(entry)

    def _spread(self, entry: MutationsEntry) -> None:
        """To the groups of its keys. What ends earlier data does so in all of them."""
        if self._generations.get(entry.partition, entry.generation) != entry.generation:
            self._everywhere(msgspec.structs.replace(entry, keys=(), records=(), plain=True))
        self._generations[entry.partition] = entry.generation
        numbers, keys = self._numbers, entry.keys
        wanted = [numbers[slot_of(key)] for key in keys]
        if len(frozenset(wanted)) == 1 and b"" not in keys:
            self._append(wanted[0], entry)
            return
        split: dict[int, tuple[list[bytes], list[bytes]]] = {}
        for number, key, record in zip(wanted, keys, entry.records, strict=True):
            empties = not key and kind_of(record) is Kind.EMPTIED
            for place in range(len(self._files)) if empties else (number,):
                some = split.setdefault(place, ([], []))
                some[0].append(key)
                some[1].append(record)
        for place in sorted(split):
            of_keys, records = split[place]
            self._append(place, msgspec.structs.replace(entry, keys=of_keys, records=records))

    def _everywhere(self, entry: Entry) -> None:
        for number in range(len(self._files)):
            self._append(number, entry)

    def _append(self, number: int, entry: Entry) -> None:
        file = self._files[number]
        if file is None:
            path = self._paths[number]
            path = path.with_name(path.name + self._suffix)
            file = self._stack.enter_context(path.open("wb", buffering=BUFFER_BYTES))
            self._files[number] = file
        data = entries.encode((entry,))
        file.write(len(data).to_bytes(LENGTH_BYTES, "big"))
        file.write(data)


def spill_paths(folder: Path, name: str, count: int) -> list[Path]:
    """Where what is spilled of a member is, group by group; no file where there is nothing."""
    return [folder / f"{name}.{number}" for number in range(count)]


def folded(path: Path, size: int) -> Data:
    """The data of one group of one member, if all that was spilled is there."""
    data = Data()
    there = path.stat().st_size if path.exists() else 0
    if there != size:
        raise StorageError(str(path), f"{there} bytes of {size} are there: was it removed?")
    if size:
        for entry in spilled(path):
            data.apply(entry)
    return data


def spilled(path: Path) -> Iterator[Entry]:
    """Everything that was appended, in order."""
    with path.open("rb", buffering=BUFFER_BYTES) as file:
        while head := file.read(LENGTH_BYTES):
            yield from entries.decode(file.read(int.from_bytes(head, "big")), path.name, 0)


def all_written(data: Data) -> Iterator[tuple[PartitionId, Written]]:
    """Every fragment."""
    for partition in sorted(data.written):
        for fragment in data.written[partition][1].values():
            yield partition, fragment
