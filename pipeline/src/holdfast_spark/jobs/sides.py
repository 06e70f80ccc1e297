"""What a cluster can be compared with: another cluster, or files; read partition by partition.

The partitions are those of the cluster that is audited. Another cluster with as many of them sums
up its own fragments; with others, and of files, everything is read and put where it belongs.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.client.likeness import (
    SLOT_BITS,
    STAGING,
    Likeness,
    is_value,
    number_of_record,
    slot_of,
)
from holdfast.storage.outline import GROUP_BYTES
from holdfast.storage.past import together
from holdfast.storage.sorting import Sorting, fragments_in, sorting_of, spill
from holdfast_spark.jobs.asking import Asker, Cluster, Table, table_of
from holdfast_spark.jobs.comparing import Census, Numbers
from holdfast_spark.jobs.convert import GROUP_BYTES_MIN, group_size, survey
from holdfast_spark.jobs.places import files_of
from holdfast_spark.jobs.tasks import TASKS_OF_A_CORE, cores_of, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMEMBERED: Final = 2
"""Partitions of the other side that are kept while its neighbours are compared."""


class Reader(Protocol):
    """Reads what is on the other side; it can be pickled."""

    @property
    def name(self) -> str:
        """As it is told."""

    async def censuses(self, partition: int, count: int, moment: int) -> dict[bytes, Census] | None:
        """Of one of so many partitions; None where that takes reading all of it."""

    async def numbers(self, partition: int, count: int, moment: int) -> dict[bytes, Numbers]:
        """Everything that belongs into this one of so many partitions, by fragment."""

    async def close(self) -> None:
        """Read no more."""


class Prepared(Protocol):
    """The other side, ready to be read."""

    @property
    def reader(self) -> Reader:
        """What tasks read with."""

    @property
    def groups(self) -> Sequence[tuple[int, ...]]:
        """Partitions of the cluster that are compared by one task."""


class Side(Protocol):
    """Something that a cluster is compared with."""

    def prepared(self, spark: SparkSession, count: int) -> AbstractContextManager[Prepared]:
        """Have it ready for the partitions of a cluster with so many."""


def runs_of(count: int, wanted: int) -> list[tuple[int, ...]]:
    """All partitions in about so many runs of neighbours."""
    wanted = max(1, min(wanted, count))
    bounds = [count * number // wanted for number in range(wanted + 1)]
    return [tuple(range(bounds[at], bounds[at + 1])) for at in range(wanted)]


# Another cluster ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OtherCluster:
    """Another running cluster."""

    cluster: Cluster

    @contextmanager
    def prepared(self, spark: SparkSession, count: int) -> Iterator[Prepared]:
        """Its table, as it is now."""
        table = asyncio.run(table_of(self.cluster))
        groups = runs_of(count, cores_of(spark) * TASKS_OF_A_CORE)
        yield Ready(OwnersReader(self.cluster, table), groups)


@dataclass(frozen=True, slots=True)
class Ready:
    """What is prepared."""

    reader: Reader
    groups: Sequence[tuple[int, ...]]


@dataclass
class OwnersReader:
    """Reads another cluster at its owners."""

    cluster: Cluster
    table: Table
    asker: Asker | None = None
    known: dict[int, dict[bytes, Numbers]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As it is told."""
        return self.cluster.endpoints[0]

    def _asker(self) -> Asker:
        if self.asker is None:
            self.asker = Asker(self.cluster, self.table)
        return self.asker

    async def censuses(self, partition: int, count: int, moment: int) -> dict[bytes, Census] | None:
        """As its owner sums it up, where partitions are the same."""
        if len(self.table.holders) != count:
            return None
        owner = await self._asker().owner(partition)
        looked = await self._asker().look(partition, owner, Likeness.CONTENT, moment)
        return {name: each.census for name, each in looked.fragments.items() if each.census.keys}

    async def numbers(self, partition: int, count: int, moment: int) -> dict[bytes, Numbers]:
        """From all partitions over there that have slots of this one."""
        found: dict[bytes, Numbers] = {}
        for other in overlapping(partition, count, len(self.table.holders)):
            for name, numbers in (await self._whole(other, moment)).items():
                mine = {
                    key: number
                    for key, number in numbers.items()
                    if slot_of(key) * count >> SLOT_BITS == partition
                }
                found.setdefault(name, {}).update(mine)
        return found

    async def _whole(self, partition: int, moment: int) -> dict[bytes, Numbers]:
        if partition not in self.known:
            asker = self._asker()
            owner = await asker.owner(partition)
            looked = await asker.look(partition, owner, Likeness.VERSIONS, moment)
            numbers = {
                name: await asker.numbers(partition, owner, name, Likeness.CONTENT, moment)
                for name, each in looked.fragments.items()
                if each.census.keys
            }
            if len(self.known) == REMEMBERED:
                del self.known[min(self.known)]
            self.known[partition] = numbers
        return self.known[partition]

    async def close(self) -> None:
        """Read no more."""
        if self.asker is not None:
            await self.asker.close()
            self.asker = None


def overlapping(partition: int, count: int, other_count: int) -> range:
    """Partitions of another number of them that have slots of this one."""
    first = -(-(partition << SLOT_BITS) // count)
    last = -(-((partition + 1) << SLOT_BITS) // count) - 1
    return range(first * other_count >> SLOT_BITS, (last * other_count >> SLOT_BITS) + 1)


# Files --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilesOf:
    """The files of all members of a cluster, or its backup. What counts of them is sorted in
    `work`, a directory that the driver and all executors share; in one for temporary files without
    it."""

    sources: tuple[str, ...]
    work: Path | None = None
    missing_allowed: bool = False

    @contextmanager
    def prepared(self, spark: SparkSession, count: int) -> Iterator[Prepared]:
        """Sorted by the partitions of the cluster."""
        folder = Path(tempfile.mkdtemp(prefix="holdfast-audit-", dir=self.work))
        try:
            surveys = spread(spark, "surveying files", survey, list(self.sources))
            size = max(GROUP_BYTES_MIN, min(GROUP_BYTES, group_size(surveys, cores_of(spark))))
            sorting = sorting_of(
                together(surveys),
                folder,
                count,
                missing_allowed=self.missing_allowed,
                group_bytes=size,
            )
            given = list(enumerate(self.sources))
            sizes = spread(spark, "sorting keys by their partitions", Sort(sorting), given)
            reader = FilesReader(sorting, tuple(zip(*sizes, strict=True)))
            yield Ready(reader, [tuple(map(int, group)) for group in sorting.groups])
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Sort:
    """Sorts one source."""

    sorting: Sorting

    def __call__(self, given: tuple[int, str]) -> tuple[int, ...]:
        """How much there is for each group."""
        place, source = given
        return spill(self.sorting, place, files_of(source))


@dataclass
class FilesReader:
    """Reads what was sorted, a group at a time."""

    sorting: Sorting
    sizes: tuple[tuple[int, ...], ...]
    number: int = -1
    group: dict[int, dict[bytes, Numbers]] = field(default_factory=dict)
    name: str = "files"

    async def censuses(self, partition: int, count: int, moment: int) -> None:
        """It has to be read."""
        del partition, count, moment

    async def numbers(self, partition: int, count: int, moment: int) -> dict[bytes, Numbers]:
        """Of the group that it is in."""
        number = next(
            number for number, group in enumerate(self.sorting.groups) if partition in group
        )
        if number != self.number:
            self.number, self.group = number, {}
            for name, written in fragments_in(self.sorting, number, self.sizes[number]):
                if name == STAGING:
                    continue
                for key, record in written.entries():
                    if is_value(record, moment):
                        at = self.group.setdefault(slot_of(key) * count >> SLOT_BITS, {})
                        value = number_of_record(record, Likeness.CONTENT)
                        at.setdefault(name, {})[key] = value
        return self.group.get(partition, {})

    async def close(self) -> None:
        """Read no more."""
        self.group, self.number = {}, -1
