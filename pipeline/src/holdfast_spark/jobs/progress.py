"""How far a job of Spark is: a bar where somebody looks, a line now and then elsewhere.

Spark counts tasks, whoever started them; a thread looks at these counts and shows them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS: Final = 0.25
LINE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Far:
    """Tasks of what runs now."""

    done: int
    total: int


def how_far(spark: SparkSession, before: frozenset[int]) -> Far:
    """Of all stages that were not there before."""
    tracker = spark.sparkContext.statusTracker()
    found = [
        info
        for number in jobs_of(spark) - before
        if (job := tracker.getJobInfo(number)) is not None
        for stage in job.stageIds
        if (info := tracker.getStageInfo(stage)) is not None
    ]
    return Far(sum(each.numCompletedTasks for each in found), sum(each.numTasks for each in found))


def jobs_of(spark: SparkSession) -> frozenset[int]:
    """Every job that Spark remembers and that belongs to nobody in particular."""
    return frozenset(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


class Shown:
    """Where it is shown."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    @contextmanager
    def of(self, spark: SparkSession, what: str) -> Iterator[None]:
        """While something of Spark's runs."""
        over, before = threading.Event(), jobs_of(spark)
        task = self._bar.add_task(what, total=None)

        def look() -> None:
            told = time.monotonic()
            while not over.wait(LOOK_SECONDS):
                far = how_far(spark, before)
                self._bar.update(task, completed=far.done, total=far.total or None)
                if not self.console.is_terminal and time.monotonic() - told >= LINE_SECONDS:
                    told = time.monotonic()
                    line = f"{what}: {far.done} of {far.total} tasks"
                    self.console.print(line, soft_wrap=True, highlight=False)

        watcher = threading.Thread(target=look, name="progress", daemon=True)
        with self._bar:
            watcher.start()
            try:
                yield
            finally:
                over.set()
                watcher.join()
                self._bar.remove_task(task)
