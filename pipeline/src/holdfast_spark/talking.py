"""From Spark's threads, which wait, to the client of the cluster, which does not.

Each use has a loop of its own, in the thread that asked, for as long as it lasts. Errors of the
client become the connector's, and say which map and endpoints they are about.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from holdfast.client.bulk import Bulk
from holdfast.errors import HoldfastError, JournalGap, ProblemReported, Unreachable
from holdfast_spark.errors import ClusterError, SparkError
from holdfast_spark.options import Options
from holdfast_spark.planning.positions import Point

T = TypeVar("T")
REFUSALS = ("not-authorized",)
POINTS_PARALLEL = 8
NOWHERE = "0-0"


class Talk:
    """A connection to a cluster, for a thread that waits."""

    def __init__(self, options: Options, owners: Sequence[str] = ()) -> None:
        self.options = options
        self._runner = asyncio.Runner()
        self._owners = owners
        self.bulk: Bulk = self._runner.run(self._connect())

    async def _connect(self) -> Bulk:
        options = self.options
        with told(options):
            bulk = Bulk(
                options.endpoints,
                owners=self._owners,
                secret=options.secret_bytes(),
                patience_seconds=options.patience_seconds,
                parallel=options.parallel,
                hold_bytes=options.hold_bytes,
            )
            if not self._owners:
                try:
                    await bulk.learn()
                except BaseException:
                    await bulk.close()
                    raise
        return bulk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ask nothing any more."""
        try:
            self._runner.run(self.bulk.close())
        finally:
            self._runner.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What it comes to."""
        with told(self.options):
            return self._runner.get_loop().run_until_complete(work)

    def each(self, source: AsyncIterator[T]) -> Generator[T]:
        """One after the other, as they come."""

        async def following() -> T | None:
            return await anext(source, None)

        try:
            while (found := self.wait(following())) is not None:
                yield found
        finally:
            closing = getattr(source, "aclose", None)
            if closing is not None:
                self._runner.run(closing())

    def owners(self) -> tuple[str, ...]:
        """Of all partitions, as they are now: for tasks, that need not ask for them."""
        return tuple(self.bulk.owner_of(each) for each in range(self.bulk.partition_count))

    def points(self, *, oldest: bool = False) -> tuple[Point, ...]:
        """The newest point of the journal of each partition, or the oldest that can be gone on
        from."""
        return self.wait(self._points(oldest=oldest))

    async def _points(self, *, oldest: bool) -> tuple[Point, ...]:
        found: dict[int, Point] = {}
        wanted = iter(range(self.bulk.partition_count))

        async def work() -> None:
            for partition in wanted:
                found[partition] = await self._point(partition, oldest=oldest)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(POINTS_PARALLEL):
                tasks.create_task(work())
        return tuple(found[partition] for partition in sorted(found))

    async def _point(self, partition: int, *, oldest: bool) -> Point:
        name = self.options.map
        if not oldest:
            return Point.of((await self.bulk.changes(name, partition)).point)
        try:  # nothing is after a point of no history, but the refusal tells the oldest one
            await self.bulk.changes(name, partition, NOWHERE, count=1)
        except JournalGap as gap:
            return Point.of(gap.first)
        return Point.of(NOWHERE)

    def check(self) -> None:
        """Whether the cluster lets us in: told when a use is planned, not in its tasks."""
        self.wait(self.bulk.changes(self.options.map, 0))


@contextmanager
def told(options: Options) -> Iterator[None]:
    """Errors of the client as ours."""
    where = f"map '{options.map}' at {', '.join(options.endpoints)}"
    try:
        yield
    except (SparkError, JournalGap):
        raise
    except Unreachable as error:
        raise ClusterError(f"option 'endpoints': {where}: {error.message}") from error
    except ProblemReported as error:
        if error.kind in REFUSALS:
            raise ClusterError(f"option 'secret': {where}: {error.message}") from error
        raise ClusterError(f"{where}: {error.message}") from error
    except HoldfastError as error:
        raise ClusterError(f"{where}: {error.message}") from error
