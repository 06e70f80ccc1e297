"""`import` and `export`: files of Parquet, CSV or JSON to a map, and a map to such files.

Rules (`design/7`)
------------------
* Key, time to live, value and filter are SQL expressions over the columns of the source. Without an
  expression for the value, all other columns are fields of it, as JSON or msgpack; a source with
  the columns of an export is taken as what it is.
* An import is one job of the sink: it is shown whole or not at all, and `replace` removes what the
  map had before.
* An export has key, value and expiry, or the columns of a schema that is given; what a version is
  means nothing anywhere else. CSV has no bytes: there values are text.
* What Spark says in a page is told in a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from holdfast_spark import FORMAT
from holdfast_spark.errors import SchemaError
from holdfast_spark.jobs.asking import Cluster
from holdfast_spark.jobs.tasks import plainly
from holdfast_spark.options import Format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES: Final = ("parquet", "csv", "json")
RESERVED: Final = ("key", "value", "version", "expires_at")
EXACT: Final = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
"""Of CSV: a value is what it is, to its last blank."""
TTL: Final = "_ttl_seconds"
COUNTED: Final = "rows"


@dataclass(frozen=True, slots=True)
class Map:
    """A map of a cluster."""

    cluster: Cluster
    name: str
    format: Format = Format.RAW

    def options(self) -> dict[str, str]:
        """As the source takes them."""
        found = {
            "endpoints": ",".join(self.cluster.endpoints),
            "map": self.name,
            "format": self.format.value,
        }
        return found | ({"secret": self.cluster.secret} if self.cluster.secret else {})


@dataclass(frozen=True, slots=True)
class Files:
    """Files that Spark reads or writes."""

    path: str
    kind: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""
    """As DDL; what the files say without it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the files goes into the map, as what."""

    key: str = "key"
    value: str = ""
    ttl: str = ""
    """In seconds; null: as the map says."""
    where: str = ""


def import_map(
    spark: SparkSession, files: Files, target: Map, choice: Choice, *, replace: bool = False
) -> int:
    """Write all of it into the map; how many rows there were."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    with plainly("import"):
        reader = spark.read.format(files.kind).options(**files.options)
        frame = (reader.schema(files.schema) if files.schema else reader).load(files.path)
        rows = Observation()
        chosen = chosen_of(frame, target, choice)
        counted = chosen.observe(rows, sql.count(sql.lit(1)).alias(COUNTED))
        writer = counted.write.format(FORMAT).options(**target.options())
        if choice.ttl:
            writer = writer.option("ttl_column", TTL)
        writer.mode("overwrite" if replace else "append").save()
        return int(rows.get[COUNTED])


def chosen_of(frame: DataFrame, target: Map, choice: Choice) -> DataFrame:
    """The columns that the sink takes."""
    if choice.where:
        frame = frame.where(choice.where)
    columns = [f"string({choice.key}) AS key"]
    if choice.value:
        columns.append(f"({choice.value}) AS value")
    else:
        columns += columns_of(frame.columns, target, choice)
    if choice.ttl:
        columns.append(f"double({choice.ttl}) AS {TTL}")
    return frame.selectExpr(*columns)


def columns_of(there: list[str], target: Map, choice: Choice) -> list[str]:
    """Of the value, where no expression says what it is."""
    others = [name for name in there if name not in RESERVED]
    if "value" in there and not others:
        ends = "expires_at" in there and not choice.ttl
        return ["value", "expires_at"] if ends else ["value"]
    if target.format is Format.RAW:
        raise SchemaError(
            f"import: columns {', '.join(there)}: say which is the value, or as what they are its"
            " fields (json or msgpack)"
        )
    taken = [name for name in there if name in RESERVED and name != "key"]
    if taken or ("key" in there and choice.key != "key"):
        raise SchemaError(
            f"import: column '{(taken or ['key'])[0]}' can't be a field of a value, as it has a"
            " meaning of its own: give an expression for the value, such as struct(...)"
        )
    return [f"`{name}`" for name in others]


def export_map(
    spark: SparkSession, source: Map, files: Files, *, where: str = "", mode: str = "error"
) -> int:
    """Write the map to files; how many rows there were."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    with plainly("export"):
        reader = spark.read.format(FORMAT).options(**source.options())
        if files.schema:
            frame = reader.schema(files.schema).load()
        else:
            frame = reader.option("columns", "key,value,expires_at").load()
        if where:
            frame = frame.where(where)
        if files.kind == "csv":
            frame = as_text(frame)
        rows = Observation()
        counted = frame.observe(rows, sql.count(sql.lit(1)).alias(COUNTED))
        options = {**EXACT, **files.options} if files.kind == "csv" else files.options
        counted.write.format(files.kind).options(**options).mode(mode).save(files.path)
        return int(rows.get[COUNTED])


def as_text(frame: DataFrame) -> DataFrame:
    """Bytes as the text that they are."""
    return frame.selectExpr(
        *(
            f"decode(`{name}`, 'UTF-8') AS `{name}`" if kind == "binary" else f"`{name}`"
            for name, kind in frame.dtypes
        )
    )
