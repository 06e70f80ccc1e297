"""Batch write: tasks lay their rows aside at the cluster, and the commit shows all of them.

A writer is one job. Every attempt of a task has blocks of its own, under the numbers that Spark
gives to tasks and attempts; Spark tells the driver of one attempt for each task, and only that one
counts. Nothing is shown before all of it is there; an abort leaves nothing behind, and what a
driver that died has left is forgotten after `life_seconds`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from holdfast_spark.options import Options
from holdfast_spark.planning.columns import Layout, layout_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark import TaskContext

    from holdfast.client.bulk_jobs import Job, Receipt
    from holdfast_spark.talking import Talk


@dataclass
class Laid(WriterCommitMessage):
    """What a task has laid aside."""

    job: str
    receipt: Receipt
    rows: int


class Writer(DataSourceArrowWriter):
    """One job."""

    def __init__(self, schema: StructType, options: Options, *, replaces: bool) -> None:
        from holdfast_spark.talking import Talk

        self.options = options
        self.replaces = replaces
        self.layout = layout_of(schema.jsonValue()["fields"], options)
        self.job = f"spark-{uuid.uuid4().hex}"
        with Talk(options) as talk:
            talk.check()
            self.owners = talk.owners()

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Lay aside what a task has."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark calls this in its tasks"
        names = (self.job, *attempt_of(context))
        return lay_aside(iterator, self.options, self.layout, self.owners, names)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Show all of it."""
        from holdfast.wire.api.bulk import Mode
        from holdfast_spark.talking import Talk

        mode = Mode.REPLACE if self.replaces else Mode.APPEND
        with Talk(self.options) as talk:
            talk.wait(job_of(talk, self.job).commit(receipts_of(messages), mode))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Leave nothing behind, of whichever attempt."""
        from holdfast_spark.talking import Talk

        with Talk(self.options) as talk:
            talk.wait(job_of(talk, self.job).abort())


def attempt_of(context: TaskContext) -> tuple[str, str]:
    """What the cluster calls this task and attempt. Spark counts attempts from 0 in each driver,
    so there is chance in it: the try of another driver may still be writing."""
    return str(context.partitionId()), f"{context.taskAttemptId()}-{uuid.uuid4().hex}"


def job_of(talk: Talk, job: str, *, resumes: bool = False) -> Job:
    """The job as the client has it."""
    from holdfast.client.bulk_jobs import Job

    options = talk.options
    life = options.life_seconds
    return Job(talk.bulk, job, options.map, life_seconds=life, resumes=resumes)


def receipts_of(messages: Sequence[WriterCommitMessage | None]) -> list[Receipt]:
    """One for each task, in their order."""
    found = {each.receipt.task: each.receipt for each in messages if isinstance(each, Laid)}
    return [found[task] for task in sorted(found, key=int)]


def lay_aside(
    batches: Iterator[RecordBatch],
    options: Options,
    layout: Layout,
    owners: Sequence[str],
    names: tuple[str, str, str],
    *,
    resumes: bool = False,
) -> Laid:
    """What a task does."""
    from holdfast_spark.blocks import Blocks
    from holdfast_spark.talking import Talk

    job, task, attempt = names
    rows = 0

    def counted() -> Iterator[RecordBatch]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield batch

    with Talk(options, owners) as talk:
        staging = job_of(talk, job, resumes=resumes).task(task, attempt)
        try:
            for partition, make in Blocks(layout, options, talk.bulk.partition_of).of(counted()):
                talk.wait(staging.lay_aside(partition, make))
            return Laid(job, talk.wait(staging.finish()), rows)
        finally:
            staging.close()
