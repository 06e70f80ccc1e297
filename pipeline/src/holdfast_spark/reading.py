"""Batch read: planned on the driver, carried out by one task for each group of partitions.

There are two readers. Spark refuses one that takes filters while its conf
(`spark.sql.python.filterPushdown.enabled`) is off, so that one is made only where Spark asks for
filters. And it is made only if option `pushdown` says so: Spark 4.3 keeps a reader with the filters
that it was given, and uses it for every later query of the same DataFrame, also for those without
a filter, and for two branches of one query. Without the option each reader gives all rows, and
Spark filters.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from holdfast_spark.options import Options
from holdfast_spark.planning.filters import Condition, keys_of, understand
from holdfast_spark.planning.groups import Group, group
from holdfast_spark.planning.shape import shape_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from holdfast_spark.arrow import Counts

log = logging.getLogger(__name__)
PUSHES = "pyspark.sql.worker.data_source_pushdown_filters"


@dataclass
class GroupOfPartitions(InputPartition):
    """What a task gets: what it reads, and who owned what when that was planned."""

    group: Group
    owners: tuple[str, ...]


class Reader(DataSourceReader):
    """Reads all rows."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self.schema = schema
        self.options = options
        self.shape = shape_of(schema.jsonValue()["fields"], options)
        self.conditions: list[Condition] = []

    def partitions(self) -> list[InputPartition]:
        """Groups of partitions, each of one owner; says here what can't work at all."""
        from holdfast_spark.talking import Talk

        with Talk(self.options) as talk:
            talk.check()
            bulk = talk.bulk
            owners = talk.owners()
            keys = keys_of(self.conditions, self.shape, self.options)
            wanted = range(len(owners)) if keys is None else map(bulk.partition_of, keys)
            groups = group(owners, wanted, self.options.tasks)
        return [GroupOfPartitions(each, owners) for each in groups or [Group("", ())]]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a group."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from holdfast_spark.arrow import Batches
        from holdfast_spark.talking import Talk

        assert isinstance(partition, GroupOfPartitions), "they are ours"
        mine = partition.group
        if not mine.partitions:
            return
        schema = to_arrow_schema(self.schema, timezone="UTC")
        batches = Batches(self.shape, self.options, schema, self.conditions)
        name, values = self.options.map, self.shape.needs_values
        with (
            Talk(self.options, partition.owners) as talk,
            closing(talk.each(talk.bulk.read(name, mine.partitions, values=values))) as blocks,
        ):
            yield from batches.of(blocks)
        tell(name, mine.partitions, batches.counts)


class PushingReader(Reader):
    """Takes filters as well."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep what is understood; what is not stays with Spark."""
        self.conditions = []
        for each in filters:
            found = understand(each, self.shape)
            if found is None:
                yield each
            else:
                self.conditions.append(found)


def reader_for(schema: StructType, options: Options, depth: int = 2) -> Reader:
    """The reader that Spark takes here: filters are pushed only where its planner asks for them."""
    spec: Any = sys._getframe(depth).f_globals.get("__spec__")
    asks = getattr(spec, "name", "") == PUSHES
    kind = PushingReader if options.pushdown and asks else Reader
    return kind(schema, options)


def tell(name: str, partitions: tuple[int, ...], counts: Counts) -> None:
    """What was not given out is said in the executor's log."""
    if counts.undecodable:
        log.warning(
            "map '%s', partitions %s: %d values can't be decoded, the first of key %s",
            name,
            ",".join(map(str, partitions)),
            counts.undecodable,
            counts.first,
        )
