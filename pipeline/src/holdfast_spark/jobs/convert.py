"""`convert`: files of one cluster become those of another, as a job of Spark.

    survey ──► plan ──► begin ──► spill ──► write ──► finish
    a task a   driver   driver    a task a  a task a  driver
    source                        source    group

The steps are those of `holdfast.storage.convert`, which the command line does one after the other
in one process; what the result is does not depend on who did them. Sources are read where they are.
The target, and what is spilled on the way, is a directory that the driver and all executors share:
on `local[*]` any; elsewhere a volume that all of them mount.

Whatever goes wrong, nothing of it stays in the target. A task that is tried again, or twice at the
same time, writes files of its own, and what it says of them names one of them.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.storage import convert as steps
from holdfast.storage.convert import Converted, Plan, Shape
from holdfast.storage.fresh import Made
from holdfast.storage.outline import GROUP_BYTES
from holdfast.storage.past import Survey, surveyed, together
from holdfast.storage.sorting import spill
from holdfast_spark.errors import SparkError
from holdfast_spark.jobs.places import files_of
from holdfast_spark.jobs.tasks import TASKS_OF_A_CORE, cores_of, spread

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

GROUP_BYTES_MIN: Final = 8 << 20


def convert(
    spark: SparkSession,
    sources: Sequence[str],
    target: str | Path,
    shape: Shape,
    *,
    missing_allowed: bool = False,
    group_bytes: int = 0,
) -> Converted:
    """Read all of the sources, and write a directory for each new member into the target.

    `group_bytes` is what a task makes at once, about, and keeps in memory; without it, it follows
    from what there is and how many tasks run at the same time.
    """
    if not sources:
        raise SparkError("convert: no directory of files was given")
    place = Path(target).absolute()
    steps.refuse_if_used(place)
    surveys = spread(spark, "surveying the old files", survey, list(sources))
    size = group_bytes or group_size(surveys, cores_of(spark))
    past = together(surveys)
    plan = steps.plan_of(past, place, shape, missing_allowed=missing_allowed, group_bytes=size)
    with steps.workplace(plan):
        shared = spark.sparkContext.broadcast(plan)
        try:
            spills = [Spilling(each, number) for number, each in enumerate(sources)]
            sizes = spread(spark, "sorting keys by their new partitions", Spill(shared), spills)
            writes = [Writing(number, each) for number, each in enumerate(zip(*sizes, strict=True))]
            made = spread(spark, "writing the new files", Write(shared), writes)
        finally:
            shared.destroy()
        return steps.finish(plan, made)


def group_size(surveys: Sequence[Survey], cores: int) -> int:
    """So that all cores have something to do, and none has more than fits its memory."""
    total = sum(sum(each.sizes.values()) for each in surveys)
    return max(GROUP_BYTES_MIN, min(GROUP_BYTES, total // (cores * TASKS_OF_A_CORE)))


def survey(source: str) -> Survey:
    """Of one member's files."""
    return surveyed(files_of(source), source)


@dataclass(frozen=True, slots=True)
class Spilling:
    """One source to be sorted."""

    source: str
    place: int


@dataclass(frozen=True, slots=True)
class Writing:
    """One group to be written, and what was spilled for it."""

    group: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spill:
    """Sorts one source."""

    plan: Broadcast[Plan]

    def __call__(self, given: Spilling) -> tuple[int, ...]:
        """How much there is for each group."""
        return spill(reached(self.plan.value).sorting, given.place, files_of(given.source))


@dataclass(frozen=True, slots=True)
class Write:
    """Writes one group."""

    plan: Broadcast[Plan]

    def __call__(self, given: Writing) -> Made:
        """The bases that it has become."""
        return steps.write(reached(self.plan.value), given.group, given.sizes)


def reached(plan: Plan) -> Plan:
    """The plan, if what it speaks of can be seen from here."""
    if not plan.sorting.folder.is_dir():
        raise SparkError(
            f"{plan.folder.parent} is not the driver's directory at {socket.gethostname()}: the"
            " target has to be on a volume that the driver and all executors share"
        )
    return plan
