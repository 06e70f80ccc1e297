"""Stream write: each micro-batch is a job of its own, named by query and batch.

A batch that is done again, because the driver died before Spark had noted its end, has the same
name: where it is shown already nothing is changed, and the rest is completed. That holds for
`life_seconds` after a batch was shown; Spark never goes back further than one batch.

An abort leaves what was laid aside to its end (`life_seconds`): a mark that says "given up" would
refuse the next try of the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from holdfast_spark.options import Options
from holdfast_spark.planning.columns import layout_of
from holdfast_spark.writing import Laid, attempt_of, job_of, lay_aside, receipts_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch

QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, schema: StructType, options: Options, *, replaces: bool) -> None:
        from holdfast_spark.talking import Talk

        self.options = options
        self.replaces = replaces
        self.layout = layout_of(schema.jsonValue()["fields"], options)
        with Talk(options) as talk:
            talk.check()

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Lay aside what a task has of a batch."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark calls this in its tasks"
        job = f"{context.getLocalProperty(QUERY)}.{context.getLocalProperty(BATCH)}"
        task, attempt = attempt_of(context)
        names = (job, task, attempt)
        return lay_aside(iterator, self.options, self.layout, (), names, resumes=True)

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: ARG002  Spark's name; the tasks have it in the job's
    ) -> None:
        """Show the batch."""
        from holdfast.wire.api.bulk import Mode
        from holdfast_spark.talking import Talk

        laid = [each for each in messages if isinstance(each, Laid)]
        if not laid:
            return
        mode = Mode.REPLACE if self.replaces else Mode.APPEND
        with Talk(self.options) as talk:
            talk.wait(job_of(talk, laid[0].job).commit(receipts_of(laid), mode))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing was shown, and the batch may be tried again."""
