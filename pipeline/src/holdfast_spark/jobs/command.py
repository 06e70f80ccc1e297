"""`python -m holdfast_spark`, or `holdfast-spark`: whole jobs from the command line.

    spark-submit --master … path/to/holdfast_spark/__main__.py convert …
    holdfast-spark --master local[2] convert …

Results go to standard output, as text or as a line of JSON; progress and refusals to standard
error.
Exit codes: 0 done; 1 done, and something differs (`audit`); 2 refused or failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from holdfast.errors import HoldfastError
from holdfast.ids import PARTITION_COUNT_DEFAULT, REPLICA_COUNT_MAX
from holdfast.storage.convert import Shape, newcomers_of
from holdfast_spark.errors import OptionError, SparkError
from holdfast_spark.jobs.asking import Cluster
from holdfast_spark.jobs.loading import FILES, Choice, Files, Map, export_map, import_map
from holdfast_spark.jobs.progress import Shown
from holdfast_spark.options import Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

DIFFERS: Final = 1
FAILED: Final = 2
INTERRUPTED: Final = 130
SHOWN: Final = 10
"""Fragments that are named."""
LOCAL: Final = "local[*]"
NO_JAVA: Final = (
    "Spark needs Java 17 or newer, and there is none: install it (on Debian and Ubuntu:"
    " apt install openjdk-17-jre-headless) or set JAVA_HOME"
)


def parser() -> argparse.ArgumentParser:
    """All commands and what they take."""
    top = argparse.ArgumentParser(
        "holdfast-spark", description="Whole jobs between a grid and Spark."
    )
    top.add_argument("--master", default="", help="of Spark; as spark-submit says, or local[*]")
    top.add_argument("--output", choices=("text", "json"), default="text", help="of the result")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    add_convert(commands.add_parser("convert", help="files of one cluster to those of another"))
    add_audit(commands.add_parser("audit", help="compare what should be the same"))
    add_import(commands.add_parser("import", help="Parquet, CSV or JSON to a map"))
    add_export(commands.add_parser("export", help="a map to Parquet, CSV or JSON"))
    return top


def add_convert(one: argparse.ArgumentParser) -> None:
    """`convert`."""
    one.add_argument("sources", nargs="+", help="directories or URIs of members' files, or backups")
    one.add_argument("--target", required=True, type=Path, help="gets a directory for each member")
    one.add_argument(
        "--member", required=True, action="append", help="NAME or NAME=HOST:PORT or ...=GROUP"
    )
    one.add_argument("--partitions", type=int, default=PARTITION_COUNT_DEFAULT)
    one.add_argument("--replicas", type=int, default=REPLICA_COUNT_MAX)
    one.add_argument("--copies", type=int, default=REPLICA_COUNT_MAX, help="that get the data")
    one.add_argument("--allow-missing", action="store_true", help="partitions that nobody has")
    one.set_defaults(run=run_convert)


def run_convert(spark: SparkSession, given: argparse.Namespace, shown: Shown) -> int:
    """Convert, and say what there is now."""
    from holdfast_spark.jobs.convert import convert

    shape = Shape(newcomers_of(given.member), given.partitions, given.replicas, given.copies)
    with shown.of(spark, "converts"):
        made = convert(
            spark, given.sources, given.target, shape, missing_allowed=given.allow_missing
        )
    report = {
        "cluster": made.cluster,
        "members": dict(made.members),
        "partitions": given.partitions,
        "keys": made.keys,
        "locks": made.locks,
        "bytes": made.bytes,
        "missing_partitions": list(made.missing),
    }
    lines = [f"{name}: {given.target / name}" for name in made.members]
    lines.append(f"{made.keys} keys and {made.locks} locks in {given.partitions} partitions")
    if made.missing:
        lines.append(f"{len(made.missing)} partitions of the old cluster were in no directory")
    tell(given, report, lines)
    return 0


# Audit --------------------------------------------------------------------------------------------


def add_cluster(one: argparse.ArgumentParser) -> None:
    """Which cluster."""
    one.add_argument("--endpoints", required=True, help="http://host:8080 of members, with commas")
    one.add_argument("--secret-file", type=Path, help="with the cluster's secret")


def cluster_of(given: argparse.Namespace) -> Cluster:
    """The cluster that is meant."""
    return Cluster(tuple(given.endpoints.split(",")), secret_in(given.secret_file))


def secret_in(path: Path | None) -> str:
    """A secret from its file."""
    try:
        return "" if path is None else path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise OptionError(f"--secret-file: {path}: {error.strerror}") from error


def add_audit(one: argparse.ArgumentParser) -> None:
    """`audit`."""
    add_cluster(one)
    other = one.add_mutually_exclusive_group()
    other.add_argument("--with-endpoints", help="another cluster; without it: copies of this one")
    other.add_argument("--with-files", nargs="+", help="files of all its members, or a backup")
    one.add_argument("--with-secret-file", type=Path, help="of the other cluster")
    one.add_argument("--work", type=Path, help="shared directory in which files are sorted")
    one.add_argument("--save", default="", help="keep both tables there, as Parquet")
    one.set_defaults(run=run_audit)


def run_audit(spark: SparkSession, given: argparse.Namespace, shown: Shown) -> int:
    """Compare, and say what differs."""
    from holdfast_spark.jobs.audit import audit
    from holdfast_spark.jobs.sides import FilesOf, OtherCluster

    other: OtherCluster | FilesOf | None = None
    if given.with_endpoints:
        secret = secret_in(given.with_secret_file)
        other = OtherCluster(Cluster(tuple(given.with_endpoints.split(",")), secret))
    elif given.with_files:
        other = FilesOf(tuple(given.with_files), given.work)
    with shown.of(spark, "compares"):
        found = audit(spark, cluster_of(given), other)
    if given.save:
        found.fragments().write.mode("overwrite").parquet(f"{given.save}/fragments")
        found.keys_that_differ().write.mode("overwrite").parquet(f"{given.save}/keys")
    unequal = [each for each in found.comparisons if not each.equal]
    moving = sum(not each.settled for each in found.comparisons)
    report = {
        "equal": found.equal,
        "fragments": len(found.comparisons),
        "keys": found.keys,
        "unequal_fragments": len(unequal),
        "differing_keys": sum(each.differing for each in unequal),
        "unsettled_fragments": moving,
    }
    lines = [
        f"{each.map.decode(errors='replace') or '(lists)'} in partition {each.partition}:"
        f" {each.differing} keys differ between {each.left} and {each.right}"
        for each in unequal[:SHOWN]
    ]
    if moving:
        lines.append(f"{moving} fragments were being written all the time")
    verdict = "equal" if found.equal else f"{len(unequal)} fragments differ"
    lines.append(f"{verdict}: {report['keys']} keys in {report['fragments']} comparisons")
    tell(given, report, lines)
    return 0 if found.equal else DIFFERS


# Import and export --------------------------------------------------------------------------------


def add_map(one: argparse.ArgumentParser) -> None:
    """Which map, and what kind of files."""
    add_cluster(one)
    one.add_argument("path", help="of the files, as Spark says it")
    one.add_argument("--map", required=True, help="its name")
    one.add_argument("--kind", choices=FILES, default="parquet", help="of the files")
    values = [each.value for each in Format]
    one.add_argument("--values", choices=values, default="raw", help="how values are written")
    one.add_argument("--schema", default="", help="of the files, as DDL: 'id LONG, name STRING'")
    one.add_argument("--where", default="", help="SQL condition: only these rows")
    one.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the files"
    )


def map_of(given: argparse.Namespace) -> Map:
    """The map that is meant."""
    return Map(cluster_of(given), given.map, Format(given.values))


def files_of(given: argparse.Namespace) -> Files:
    """The files that are meant."""
    pairs = [each.partition("=")[::2] for each in given.option]
    return Files(given.path, given.kind, dict(pairs), given.schema)


def add_import(one: argparse.ArgumentParser) -> None:
    """`import`."""
    add_map(one)
    one.add_argument("--key", default="key", help="SQL expression for the key")
    one.add_argument("--value", default="", help="SQL expression; all other columns without it")
    one.add_argument("--ttl", default="", help="SQL expression for the seconds that a row lives")
    one.add_argument("--replace", action="store_true", help="remove what the map had before")
    one.set_defaults(run=run_import)


def run_import(spark: SparkSession, given: argparse.Namespace, shown: Shown) -> int:
    """Import, and say how much."""
    choice = Choice(given.key, given.value, given.ttl, given.where)
    with shown.of(spark, f"imports {given.map}"):
        rows = import_map(spark, files_of(given), map_of(given), choice, replace=given.replace)
    tell(given, {"rows": rows}, [f"{rows} rows from {given.path} in map {given.map}"])
    return 0


def add_export(one: argparse.ArgumentParser) -> None:
    """`export`."""
    add_map(one)
    one.add_argument("--mode", choices=("error", "overwrite", "append"), default="error")
    one.set_defaults(run=run_export)


def run_export(spark: SparkSession, given: argparse.Namespace, shown: Shown) -> int:
    """Export, and say how much."""
    with shown.of(spark, f"exports {given.map}"):
        rows = export_map(spark, map_of(given), files_of(given), where=given.where, mode=given.mode)
    tell(given, {"rows": rows}, [f"{rows} rows of map {given.map} in {given.path}"])
    return 0


# Running ------------------------------------------------------------------------------------------


def tell(given: argparse.Namespace, report: Mapping[str, Any], lines: Sequence[str]) -> None:
    """The result."""
    text = json.dumps(report) if given.output == "json" else "\n".join(lines)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def has_java() -> bool:
    """Whether Spark can be started here."""
    home = os.environ.get("JAVA_HOME")
    return bool(home and Path(home, "bin", "java").exists()) or shutil.which("java") is not None


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """Spark, quiet; that of spark-submit, if it is what started this."""
    if not has_java():
        raise SparkError(NO_JAVA)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    import holdfast_spark

    builder = SparkSession.Builder().appName("holdfast").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master or LOCAL)
        if (master or LOCAL).startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    try:
        holdfast_spark.register(spark)
        yield spark
    finally:
        spark.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; the exit code."""
    given = parser().parse_args(arguments)
    shown = Shown(Console(stderr=True))
    run: Callable[[SparkSession, argparse.Namespace, Shown], int] = given.run
    try:
        with session(given.master) as spark:
            return run(spark, given, shown)
    except HoldfastError as error:
        sys.stderr.write(f"holdfast-spark: {error.message}\n")
    except KeyboardInterrupt:
        return INTERRUPTED
    return FAILED
