"""A tour of the Spark connector, from nothing: `make spark`, or `python examples/spark_tour.py`.

1. a local cluster of three members starts, with files
2. a Parquet file of a million rows is made, and imported as one job
3. the map is read back with a filter and an aggregation
4. changes are streamed while somebody writes
5. the cluster makes a backup, which becomes the files of five members with 1,021 partitions
6. a cluster of five starts on them, and an audit compares it with the first one

Everything is in a temporary directory, listens on loopback, and is gone at the end, also after
ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from holdfast.client.grid import Grid
from holdfast.errors import HoldfastError
from holdfast.storage.convert import Shape, newcomers_of
from holdfast_spark import FORMAT
from holdfast_spark.jobs.asking import Cluster
from holdfast_spark.jobs.audit import audit
from holdfast_spark.jobs.command import session
from holdfast_spark.jobs.convert import convert
from holdfast_spark.jobs.loading import Choice, Files, Map, import_map
from holdfast_spark.jobs.progress import Shown
from holdfast_spark.jobs.sides import OtherCluster
from holdfast_spark.options import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "orders"
SCHEMA: Final = "key STRING, id LONG, city STRING, amount DOUBLE"
MEMBERS: Final = tuple(f"m{number}=127.0.0.1:{7370 + 10 * number}" for number in range(1, 6))
PARTITIONS: Final = 1_021
WRITE_SECONDS: Final = 4.0
STOP_SECONDS: Final = 30.0
CITIES: Final = "array('Oslo', 'Bergen', 'Turku', 'Malmo', 'Aarhus', 'Tartu', 'Riga')"


class Tour:
    """What is shown on the way."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        """A line, with the time since the beginning."""
        elapsed = time.monotonic() - self.began
        self.console.print(f"[{elapsed:6.1f} s] {text}", highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Local:
    """A cluster on this machine."""

    members: list[dict[str, Any]]

    @property
    def cluster(self) -> Cluster:
        """As Spark's jobs are told of it."""
        return Cluster(tuple(f"http://{at(each, 'http')}" for each in self.members))


def at(member: dict[str, Any], port: str) -> str:
    """Where a member answers."""
    return f"{member['host']}:{member['ports'][port]}"


@contextmanager
def started(folder: Path, members: int, settings: str) -> Iterator[Local]:
    """A cluster with its files there, until it is not needed any more."""
    config = folder.with_suffix(".toml")
    config.write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "holdfast.cli", "dev", "--members", str(members)]
    command += ["--persist", str(folder), "--config", str(config), "--output", "json"]
    log = folder.with_suffix(".log")
    with log.open("wb") as errors:
        # in a session of its own: ctrl-C is for this process, which ends the cluster then
        dev = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    try:
        assert dev.stdout is not None
        line = dev.stdout.readline()
        if not line:
            raise HoldfastError(f"the cluster did not start: {log.read_text().strip()[-500:]}")
        threading.Thread(target=dev.stdout.read, daemon=True).start()  # so that it never waits
        yield Local(json.loads(line)["members"])
    finally:
        dev.send_signal(signal.SIGINT)
        try:
            dev.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            dev.kill()
            dev.wait()


def make_rows(spark: SparkSession, path: Path, count: int) -> None:
    """Orders, the same ones each time."""
    city = f"{CITIES}[id % 7]"
    rows = spark.range(0, count, 1, 4).selectExpr(
        "id", f"{city} AS city", "id % 1000 / 10 AS amount"
    )
    rows.write.parquet(str(path))


def read_back(spark: SparkSession, tour: Tour, where: Map) -> None:
    """A filter and an aggregation."""
    began = time.monotonic()
    frame = spark.read.format(FORMAT).options(**where.options()).schema(SCHEMA).load()
    found = (
        frame.where("city IN ('Oslo', 'Riga')")
        .groupBy("city")
        .agg({"id": "count", "amount": "avg"})
        .orderBy("city")
        .collect()
    )
    took = time.monotonic() - began
    for city, *numbers in found:
        shown = ", ".join(f"{number:,.2f}" for number in numbers)
        tour.say(f"  {city}: {shown}")
    tour.say(f"read back with a filter and an aggregation in {took:.1f} s")


class Writing(threading.Thread):
    """An application that writes orders for some time."""

    def __init__(self, local: Local, first: int) -> None:
        super().__init__(name="writes", daemon=True)
        self.written = 0
        self._addresses = [at(each, "cluster") for each in local.members]
        self._first = first

    def run(self) -> None:
        """Until the time is over."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        until = time.monotonic() + WRITE_SECONDS
        async with await Grid.connect(self._addresses) as grid:
            while time.monotonic() < until:
                numbers = range(self._first + self.written, self._first + self.written + 100)
                orders = [
                    (b"SET", f"{NAME}:{number}".encode(), order_of(number)) for number in numbers
                ]
                await grid.pipeline(orders)
                self.written += len(orders)


def order_of(number: int) -> bytes:
    """A new order."""
    return json.dumps({"id": number, "city": "Narvik", "amount": 1.0}).encode()


def stream(spark: SparkSession, tour: Tour, local: Local, where: Map, first: int) -> None:
    """Follow the map while somebody writes to it."""
    reader = spark.readStream.format(FORMAT).options(**where.options()).option("start", "newest")
    changes = reader.schema(SCHEMA).load().where("city = 'Narvik'")
    query = changes.writeStream.format("memory").queryName("changes").start()
    try:
        query.processAllAvailable()
        writing = Writing(local, first)
        writing.start()
        writing.join()
        query.processAllAvailable()
        seen = spark.table("changes").count()
    finally:
        query.stop()
    tour.say(f"{writing.written:,} orders were written meanwhile; the stream has seen {seen:,}")


async def back_up(cluster: Cluster) -> tuple[str, ...]:
    """A backup of all members; where each keeps its part."""
    async with cluster.client(cluster.endpoints[0]) as client:
        return tuple(part.directory for part in (await client.back_up("tour")).parts)


def go(spark: SparkSession, tour: Tour, shown: Shown, folder: Path, count: int) -> None:
    """All of it."""
    with ExitStack() as stack:
        old = stack.enter_context(started(folder / "old", 3, ""))
        tour.say(f"a cluster of {len(old.members)} is ready: {', '.join(old.cluster.endpoints)}")
        make_rows(spark, folder / "orders.parquet", count)
        where = Map(old.cluster, NAME, Format.JSON)
        began = time.monotonic()
        with shown.of(spark, f"imports {count:,} rows"):
            files = Files(str(folder / "orders.parquet"), "parquet")
            rows = import_map(spark, files, where, Choice(key="id"))
        tour.say(f"{rows:,} rows of Parquet are in the map, in {time.monotonic() - began:.1f} s")
        read_back(spark, tour, where)
        stream(spark, tour, old, where, count)
        parts = asyncio.run(back_up(old.cluster))
        tour.say(f"a backup is made of {len(parts)} parts; writes would have gone on")
        began = time.monotonic()
        shape = Shape(newcomers_of(MEMBERS), PARTITIONS, copies=2)
        with shown.of(spark, "converts"):
            made = convert(spark, parts, folder / "new", shape)
        took = time.monotonic() - began
        tour.say(f"{made.keys:,} keys are in files of {len(MEMBERS)} members, in {took:.1f} s")
        settings = f"partition_count = {PARTITIONS}\n"
        new = stack.enter_context(started(folder / "new", len(MEMBERS), settings))
        tour.say(f"a cluster of {len(new.members)} with {PARTITIONS:,} partitions started on them")
        with shown.of(spark, "compares both"):
            found = audit(spark, new.cluster, OtherCluster(old.cluster))
        verdict = "equal" if found.equal else f"different in {len(found.differences)} keys"
        tour.say(f"both clusters were compared, key by key: {found.keys:,} keys, {verdict}")
        if not found.equal:
            raise HoldfastError("the converted cluster is not what it was made of")


def main() -> int:
    """Show it; the exit code."""
    given = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given.add_argument("--rows", type=int, default=1_000_000)
    given.add_argument("--master", default="local[2]")
    asked = given.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like ctrl-C
    console = Console()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="holdfast-spark-") as folder,
            session(asked.master) as spark,
        ):
            go(spark, Tour(console), Shown(console), Path(folder), asked.rows)
    except HoldfastError as error:
        console.print(f"make spark: {error.message}", style="red", highlight=False)
        return 2
    except KeyboardInterrupt:
        console.print("ended; nothing is left", highlight=False)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
