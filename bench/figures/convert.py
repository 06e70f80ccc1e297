"""`convert`: files of three members become those of five with 1,021 partitions.

The same files each round, of 1 KB values with one backup: by one process (`holdfast convert`), and
as a job of Spark on two cores; the session of Spark has been started before. A rate is of the bytes
of all source files: of what they have twice, one copy is read and passed over. Afterwards every
file is verified; that is not in the time.
"""

from __future__ import annotations

import random
import uuid
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.outcomes import Goal, Outcome, measured
from bench.running import Figure, Plan, say
from holdfast.core.config import LEVEL_MAX
from holdfast.core.data.plane import slot_of
from holdfast.core.states import ClusterState
from holdfast.core.stores.record import Kind, build, version_at
from holdfast.core.stores.space import Space
from holdfast.core.views import View
from holdfast.ids import MemberId, PartitionId, Term, Version
from holdfast.storage import convert as steps
from holdfast.storage import fresh
from holdfast.storage.files import RealFiles
from holdfast.storage.fresh import Beginning
from holdfast.storage.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD: Final = ("m1", "m2", "m3")
NEW: Final = ("n1", "n2", "n3", "n4", "n5")
OLD_PARTITIONS: Final = 271
NEW_PARTITIONS: Final = 1_021
VALUE_BYTES: Final = 1_000
COPIES: Final = 2
GOAL: Final = Goal(100.0, "MB/s")
QUICK_SHARE: Final = 5
Work = Callable[[Sequence[Path], Path], object]


def shape_of(names: Sequence[str], partitions: int) -> steps.Shape:
    """A cluster with one backup."""
    return steps.Shape(steps.newcomers_of(names), partitions, 3, COPIES)


def make_sources(folder: Path, megabytes: int) -> int:
    """Files of three members; how long all of them are."""
    shape = shape_of(OLD, OLD_PARTITIONS)
    cluster = str(uuid.uuid4())
    members = tuple(steps.member_of(each, cluster) for each in shape.newcomers)
    rows = steps.table_of(members, shape.partition_count, shape.replica_count, 1)
    first = MemberId(members[0].id)
    view = View(Term(1), Version(1), first, cluster, LEVEL_MAX, ClusterState.ACTIVE, members)
    count = megabytes * 1_000_000 // VALUE_BYTES
    beginning = Beginning(view, rows, 1, count, COPIES, members)
    fresh.begin(folder, beginning)
    chance = random.Random(1)
    spaces = {
        PartitionId(number): Space(lambda _: steps.SETTINGS, 1) for number in range(OLD_PARTITIONS)
    }
    for number in range(count):
        key = b"users:%d" % number
        record = build(version_at(1, number + 1), Kind.STRING, 0, chance.randbytes(VALUE_BYTES))
        spaces[PartitionId(slot_of(key) * OLD_PARTITIONS >> 14)].home(key).apply(key, record)
    fresh.end(folder, beginning, [fresh.write(folder, beginning, spaces)])
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def alone(sources: Sequence[Path], target: Path) -> object:
    """As `holdfast convert` does it."""
    shape = shape_of(NEW, NEW_PARTITIONS)
    return steps.convert(
        sources,
        target,
        shape.newcomers,
        partition_count=shape.partition_count,
        replica_count=shape.replica_count,
        copies=shape.copies,
    )


@contextmanager
def spark() -> Iterator[Work]:
    """As a job of Spark does it; a first job of nothing has started its workers."""
    from holdfast_spark.jobs.command import session
    from holdfast_spark.jobs.convert import convert

    with session("local[2]") as started:
        context: Any = started.sparkContext
        context.parallelize(range(4), 4).map(int).collect()
        yield lambda sources, target: convert(
            started, [str(each) for each in sources], target, shape_of(NEW, NEW_PARTITIONS)
        )


def rate(work: Work, sources: Sequence[Path], target: Path, size: int) -> float:
    """Megabytes of sources a second; what is made is verified, and goes."""
    began = time.monotonic()
    work(sources, target)
    took = time.monotonic() - began
    for name in NEW:
        found = verify(RealFiles(target / name, lock=False))
        assert found.sound, found.problems
    shutil.rmtree(target)
    return size / took / 1e6


def measure(plan: Plan) -> Iterable[Outcome]:
    """Both, in turns."""
    megabytes = max(1, plan.megabytes // QUICK_SHARE if plan.quick else plan.megabytes)
    with tempfile.TemporaryDirectory(prefix="bench-convert-") as place, spark() as job:
        folder = Path(place)
        say(f"making files with {megabytes} MB of values")
        size = make_sources(folder / "old", megabytes)
        sources = [folder / "old" / name for name in OLD]
        ones, jobs = [], []
        for number in plan.each_round("convert"):
            ones.append(rate(alone, sources, folder / f"one{number}", size))
            jobs.append(rate(job, sources, folder / f"job{number}", size))
    note = f"{size / 1e6:.0f} MB of files, {megabytes} MB of values; every file verified"
    yield measured("convert by Spark on 2 cores", GOAL, jobs, "MB/s", note)
    yield measured("convert by one process", None, ones, "MB/s", note)


FIGURES: Iterable[Figure] = (Figure("convert", "files of three members to those of five", measure),)
