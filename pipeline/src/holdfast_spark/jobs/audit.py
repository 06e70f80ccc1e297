"""`audit`: whether what should be the same is: copies of a cluster, two clusters, files and one.

Rules (`design/7`; `holdfast.core.data.likeness`)
-------------------------------------------------
* *Copies of one cluster* are compared by versions, each backup with its owner, fragment by
  fragment, on as many holders as the settings of the name ask for. Copies that stand at different
  points of their history are being written: they are looked at again, a few times; what does not
  come to rest is told as not settled.
* *Two clusters*, or files and a cluster, are compared by content: kind, expiry and value. What has
  expired, or will within a minute, counts nowhere. Nothing of that needs the same number of
  partitions; where it is the same, equal fragments cost a line each, and not their data.
* The result is two tables: one line for each fragment that was compared, and the keys that differ.
* Every task looks at a few partitions, one after the other, beside the applications' own work.

What can go wrong
-----------------
*Somebody writes* while two clusters are compared: they are read at different moments, and that
shows. Compare them while nobody does (`holdfast state set PASSIVE` refuses all writes).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

from holdfast.client.likeness import Likeness
from holdfast_spark.jobs.asking import Asker, Cluster, Holder, Kept, Looked, Table, table_of
from holdfast_spark.jobs.comparing import (
    Census,
    Comparison,
    Difference,
    Found,
    How,
    Numbers,
    Pair,
    Stand,
    census_of,
    differing,
)
from holdfast_spark.jobs.sides import Reader, Side
from holdfast_spark.jobs.tasks import TASKS_OF_A_CORE, cores_of, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOKS: Final = 20
LOOK_SECONDS: Final = 0.2
KEYS_MAX: Final = 1_000
"""Differing keys that are listed of one fragment."""
SOON_MS: Final = 60_000
NOTHING: Final = Kept(Census(), Stand(0, 0, clean=True), 0)
FRAGMENTS: Final = (
    "map binary, partition int, left string, right string, left_keys long, right_keys long,"
    " left_weight string, right_weight string, equal boolean, settled boolean, differing long"
)
DIFFERENCES: Final = "map binary, partition int, left string, right string, key binary, how string"


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found."""

    comparisons: tuple[Comparison, ...]
    differences: tuple[Difference, ...]
    spark: SparkSession

    @property
    def equal(self) -> bool:
        """Whether everything that was compared is the same."""
        return all(each.equal for each in self.comparisons)

    @property
    def keys(self) -> int:
        """How many keys the left side has."""
        first = {(each.map, each.partition): each.left_keys for each in self.comparisons}
        return sum(first.values())

    def fragments(self) -> DataFrame:
        """A line for each fragment and pair of places. The map of lists and queues is empty: they
        share a fragment. A weight is the root of a tree, as 16 hexadecimal digits."""
        rows = []
        for each in self.comparisons:
            weights = f"{each.left_weight:016x}", f"{each.right_weight:016x}"
            row = astuple(each)
            rows.append((*row[:6], *weights, *row[8:]))
        return self.spark.createDataFrame(rows, FRAGMENTS)

    def keys_that_differ(self) -> DataFrame:
        """A line for each key that is not the same: at most `KEYS_MAX` of a fragment."""
        rows = [(*astuple(each)[:5], each.how.value) for each in self.differences]
        return self.spark.createDataFrame(rows, DIFFERENCES)


def audit(spark: SparkSession, cluster: Cluster, other: Side | None = None) -> Audit:
    """The copies of a cluster with one another, or a cluster with something else."""
    table = asyncio.run(table_of(cluster))
    partitions = list(range(len(table.holders)))
    if other is None:
        tasks = grouped(partitions, cores_of(spark) * TASKS_OF_A_CORE)
        found = spread(spark, "comparing copies", Copies(cluster, table), tasks)
    else:
        moment = round(time.time() * 1_000) + SOON_MS
        with other.prepared(spark, len(partitions)) as prepared:
            work = Against(cluster, table, prepared.reader, moment)
            found = spread(spark, "comparing contents", work, prepared.groups)
    comparisons = tuple(one for each in found for one in each.comparisons)
    return Audit(comparisons, tuple(one for each in found for one in each.differences), spark)


def grouped(partitions: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """About so many groups, as even as can be."""
    count = max(1, min(count, len(partitions)))
    return [tuple(partitions[start::count]) for start in range(count)]


# Copies of one cluster ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copies:
    """Compares all copies of some partitions."""

    cluster: Cluster
    table: Table

    def __call__(self, partitions: tuple[int, ...]) -> Found:
        """One partition after the other."""
        return asyncio.run(self._all(partitions))

    async def _all(self, partitions: tuple[int, ...]) -> Found:
        found = Found()
        async with Asker(self.cluster, self.table) as asker:
            for partition in partitions:
                await compare_copies(asker, partition, found)
        return found


async def compare_copies(asker: Asker, partition: int, found: Found) -> None:
    """Each backup with the owner, once they stand still."""
    owner, pairs = await at_rest(asker, partition)
    for pair, holder, mine, theirs in pairs:
        keys = None
        if mine.census != theirs.census:
            keys = await keys_of(asker, pair, owner, holder)
        stands = settled(mine, theirs)
        found.note(pair, mine.census, theirs.census, settled=stands, keys=keys, limit=KEYS_MAX)


async def at_rest(asker: Asker, partition: int) -> tuple[Holder, list[Paired]]:
    """The owner, and all pairs, when nothing is under way between them; or as they were last."""
    for left in reversed(range(LOOKS)):
        owner = await asker.owner(partition)
        holders = [owner, *asker.table.holders[partition][1:]]
        looks = [asker.look(partition, each, Likeness.VERSIONS, 0) for each in holders]
        looked = await asyncio.gather(*looks)
        pairs = pairs_of(partition, holders, looked)
        as_said = all(one.index == each.index for one, each in zip(looked, holders, strict=True))
        if not left or (as_said and all(settled(mine, theirs) for _, _, mine, theirs in pairs)):
            return owner, pairs
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError("the last look returns")


Paired = tuple[Pair, Holder, Kept, Kept]


def pairs_of(partition: int, holders: Sequence[Holder], looked: Sequence[Looked]) -> list[Paired]:
    """What has to be the same: every fragment of the owner's, wherever its settings want it."""
    owner, mine = holders[0], looked[0]
    return [
        (
            Pair(name, partition, owner.name, holder.name),
            holder,
            kept,
            theirs.fragments.get(name, NOTHING),
        )
        for holder, theirs in zip(holders[1:], looked[1:], strict=True)
        for name, kept in sorted(mine.fragments.items())
        if holder.index < kept.copies
    ]


def settled(mine: Kept, theirs: Kept) -> bool:
    """Whether nothing is under way between them."""
    if not mine.census.keys and not theirs.census.keys:
        return True
    return theirs.stand.clean and mine.stand == theirs.stand


async def keys_of(asker: Asker, pair: Pair, owner: Holder, holder: Holder) -> dict[bytes, How]:
    """Which keys they do not have alike."""
    mine, theirs = [
        await asker.numbers(pair.partition, each, pair.map, Likeness.VERSIONS, 0)
        for each in (owner, holder)
    ]
    return dict(differing(mine, theirs))


# A cluster and something else ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Against:
    """Compares some partitions of a cluster with the other side."""

    cluster: Cluster
    table: Table
    reader: Reader
    moment: int

    def __call__(self, partitions: tuple[int, ...]) -> Found:
        """One partition after the other."""
        return asyncio.run(self._all(partitions))

    async def _all(self, partitions: tuple[int, ...]) -> Found:
        found = Found()
        try:
            async with Asker(self.cluster, self.table) as asker:
                for partition in partitions:
                    await self._one(asker, partition, found)
        finally:
            await self.reader.close()
        return found

    async def _one(self, asker: Asker, partition: int, found: Found) -> None:
        owner = await asker.owner(partition)
        looked = await asker.look(partition, owner, Likeness.CONTENT, self.moment)
        mine = {name: each.census for name, each in looked.fragments.items() if each.census.keys}
        count = len(self.table.holders)
        theirs = await self.reader.censuses(partition, count, self.moment)
        numbers: dict[bytes, Numbers] | None = None
        if theirs is None:
            numbers = await self.reader.numbers(partition, count, self.moment)
            theirs = {name: census_of(each) for name, each in numbers.items() if each}
        keys: dict[bytes, dict[bytes, How]] = {}
        if mine != theirs:
            if numbers is None:
                numbers = await self.reader.numbers(partition, count, self.moment)
            keys = await self._keys(asker, partition, owner, mine, numbers)
        for name in sorted(mine.keys() | theirs.keys()):
            left, right = mine.get(name, Census()), theirs.get(name, Census())
            pair = Pair(name, partition, owner.name, self.reader.name)
            listed = None if left == right else keys.get(name, {})
            found.note(pair, left, right, keys=listed, limit=KEYS_MAX)

    async def _keys(
        self,
        asker: Asker,
        partition: int,
        owner: Holder,
        mine: dict[bytes, Census],
        theirs: dict[bytes, Numbers],
    ) -> dict[bytes, dict[bytes, How]]:
        """By the fragment in which a key lives here, or there if it is not here: on the other side
        it may be in another one, where there are too many names for a partition."""
        left: Numbers = {}
        at = {key: name for name, each in theirs.items() for key in each}
        for name in mine:
            found = await asker.numbers(partition, owner, name, Likeness.CONTENT, self.moment)
            left |= found
            at |= dict.fromkeys(found, name)
        right = {key: number for each in theirs.values() for key, number in each.items()}
        keys: dict[bytes, dict[bytes, How]] = {}
        for key, how in differing(left, right):
            keys.setdefault(at[key], {})[key] = how
        return keys
