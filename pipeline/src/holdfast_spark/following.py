"""Stream read: what has changed, from the journal of each partition.

The driver asks for the newest point of each partition, and plans a micro-batch up to there, or as
far as the limit lets it. Tasks read just what lies between two points, so a micro-batch that is
read again has the same changes. A member that dies in between costs time; its backup has the same
journal. Where it has not (or what comes next is not kept any more), that is never passed over:
by option `gap` it is an error, or the partition is read anew as it is, after a row that says so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from holdfast_spark.errors import ChangesLost
from holdfast_spark.options import Gap, Options, Start
from holdfast_spark.planning.groups import group
from holdfast_spark.planning.positions import (
    Place,
    Point,
    Position,
    Stretch,
    advance,
    stretches,
)
from holdfast_spark.planning.shape import shape_of
from holdfast_spark.reading import tell

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from holdfast.wire.rows import Rows
    from holdfast_spark.talking import Talk

PAGE_ROWS = 8_192
EMPTIED = 6
"""The kind of a row that says so."""


@dataclass
class GroupOfStretches(InputPartition):
    """What a task gets."""

    stretches: tuple[Stretch, ...]
    owners: tuple[str, ...]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a map."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self.schema = schema
        self.options = options
        self.shape = shape_of(schema.jsonValue()["fields"], options, follows=True)
        self._target: tuple[Point, ...] | None = None
        self._talk: Talk | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks have connections of their own."""
        return self.__dict__ | {"_talk": None}

    @property
    def talk(self) -> Talk:
        """The driver's connection, kept from batch to batch."""
        from holdfast_spark.talking import Talk

        if self._talk is None:
            self._talk = Talk(self.options)
            self._talk.check()
        return self._talk

    def stop(self) -> None:
        """The query has ended."""
        if self._talk is not None:
            self._talk.close()
            self._talk = None

    # Where it is ----------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        start = self.options.start
        if start is Start.OLDEST:
            points: Sequence[Point] = self.talk.points(oldest=True)
        else:
            points = self.talk.points()
        whole = start is Start.SNAPSHOT
        return Position(tuple(Place(each, whole) for each in points)).offset(self.options.map)

    def getDefaultReadLimit(self) -> ReadLimit:
        """By option `max_changes`."""
        limit = self.options.max_changes
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes later is not for this run."""
        self._target = self.talk.points()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends."""
        name = self.options.map
        newest = self.talk.points() if self._target is None else self._target
        at_most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return advance(Position.of(start, name), newest, at_most).offset(name)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The newest point of each partition, for whoever watches the query."""
        newest = self.talk.points()
        return Position(tuple(map(Place, newest))).offset(self.options.map)

    # What it reads --------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """A task for each group of partitions of one owner in which something has changed."""
        name = self.options.map
        wanted = {
            each.partition: each
            for each in stretches(Position.of(start, name), Position.of(end, name))
        }
        owners = self.talk.owners()
        return [
            GroupOfStretches(tuple(wanted[partition] for partition in each.partitions), owners)
            for each in group(owners, wanted, self.options.tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The changes of a group."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from holdfast_spark.arrow import Batches
        from holdfast_spark.talking import Talk

        assert isinstance(partition, GroupOfStretches), "they are ours"
        schema = to_arrow_schema(self.schema, timezone="UTC")
        with Talk(self.options, partition.owners) as talk:
            for stretch in partition.stretches:
                batches = Batches(self.shape, self.options, schema, until=stretch.end.number)
                blocks = follow(talk, stretch, self.options)
                with closing(blocks):
                    yield from batches.of(blocks)
                tell(self.options.map, (stretch.partition,), batches.counts)


def follow(talk: Talk, stretch: Stretch, options: Options) -> Generator[Rows]:
    """The blocks of one partition from one point to another."""
    from holdfast.errors import JournalGap

    if stretch.start.whole:
        yield from _as_it_is(talk, stretch, options)
        return
    at, end = stretch.start.point, stretch.end
    while at.number < end.number or at == stretch.start.point:
        try:
            count = min(PAGE_ROWS, max(1, end.number - at.number))
            work = talk.bulk.changes(options.map, stretch.partition, str(at), count=count)
            changes = talk.wait(work)
        except JournalGap as gap:
            if options.gap is Gap.FAIL:
                raise ChangesLost(
                    f"map '{options.map}', partition {stretch.partition}: changes after {at} are"
                    f" not kept any more, or are of another history: {gap.message}; option 'gap'"
                    " says what becomes of that: fail, or reread the partition as it is"
                ) from gap
            yield from _anew(talk, stretch, options)
            return
        after = Point.of(changes.point)
        yield changes.rows
        if after == at:
            break
        at = after
    if at.number < end.number:
        raise ChangesLost(
            f"map '{options.map}', partition {stretch.partition}: the journal ends at {at}, and the"
            f" changes up to {end}, which were there, are lost"
        )


def _as_it_is(talk: Talk, stretch: Stretch, options: Options) -> Iterator[Rows]:
    source = talk.bulk.read_partition(options.map, stretch.partition)
    with closing(talk.each(source)) as blocks:
        yield from blocks


def _anew(talk: Talk, stretch: Stretch, options: Options) -> Iterator[Rows]:
    """A row that says that nothing is left, and all that is there."""
    from holdfast.wire.rows import About, decode, encode

    version = stretch.end.version()
    emptied = [(b"", version + bytes([EMPTIED]))]
    about = About(stretch.partition, stretch.end.epoch, stretch.end.number)  # type: ignore[arg-type]
    yield decode(encode(about, emptied))
    yield from _as_it_is(talk, stretch, options)
