"""The format as Spark sees it: options are checked here, and each use has a module of its own."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from holdfast_spark import FORMAT
from holdfast_spark.following import StreamReader
from holdfast_spark.options import Options, Use
from holdfast_spark.planning.shape import default_schema
from holdfast_spark.reading import reader_for
from holdfast_spark.sinking import StreamWriter
from holdfast_spark.writing import Writer


class HoldfastSource(DataSource):
    """A map of a cluster."""

    @classmethod
    def name(cls) -> str:
        """What it is asked for by."""
        return FORMAT

    def schema(self) -> str:
        """Where none is declared."""
        return default_schema(Options.of(self.options, Use.READ, Use.FOLLOW))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a batch read."""
        return reader_for(schema, Options.of(self.options, Use.READ))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For a batch write."""
        return Writer(schema, Options.of(self.options, Use.WRITE), replaces=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For a stream read."""
        return StreamReader(schema, Options.of(self.options, Use.FOLLOW))

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamArrowWriter:
        """For a stream write."""
        return StreamWriter(schema, Options.of(self.options, Use.SINK), replaces=overwrite)
