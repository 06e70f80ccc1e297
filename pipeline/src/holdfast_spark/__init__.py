"""Holdfast as a Spark data source: plan without importing Spark, then read and write blocks.

`register(spark)` makes the format `holdfast` known; docs/spark.md says what can be done with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__version__ = "0.1.0"

FORMAT = "holdfast"
"""What `spark.read.format` and its like are given."""


def register(spark: SparkSession) -> None:
    """Make the format known to this session. Executors need this distribution too."""
    from holdfast_spark.source import HoldfastSource

    spark.dataSource.register(HoldfastSource)


__all__ = ["FORMAT", "register"]
