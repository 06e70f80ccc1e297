"""Work that is spread over executors: each piece once, its errors told as they were raised.

Rules
-----
* A piece of work is a function of one argument that can be pickled, and so can what it returns.
* What Holdfast refuses (a damaged file, an unknown member) is refused again by the next attempt. So
  it is brought back as a value, with its own words, and raised at the driver; anything else is
  Spark's affair: the task is tried again.
* Results come in the order of what was asked for, and `told` is called as they do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from holdfast.errors import HoldfastError
from holdfast_spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a piece of work can't be done, whoever tries."""

    reason: str


@dataclass(frozen=True, slots=True)
class Guarded(Generic[Given, Result]):
    """A piece of work that brings its refusal back."""

    work: Callable[[Given], Result]

    def __call__(self, given: Given) -> Result | Refusal:
        """Do it."""
        try:
            return self.work(given)
        except HoldfastError as error:
            return Refusal(error.message)


TASKS_OF_A_CORE: Final = 4
"""So that cores end at about the same time."""


def cores_of(spark: SparkSession) -> int:
    """How much is done at the same time, as far as Spark knows."""
    return max(1, spark.sparkContext.defaultParallelism)


def spread(
    spark: SparkSession,
    what: str,
    work: Callable[[Given], Result],
    given: Sequence[Given],
) -> list[Result]:
    """Do it for each of these, each as a task of its own."""
    if not given:
        return []
    context = spark.sparkContext
    context.setJobDescription(what)
    try:
        with plainly(what):
            found = context.parallelize(given, len(given)).map(Guarded(work)).collect()
    finally:
        context.setJobDescription(cast("Any", None))
    for each in found:
        if isinstance(each, Refusal):
            raise SparkError(f"{what}: {each.reason}")
    return cast("list[Result]", found)


@contextmanager
def plainly(what: str) -> Iterator[None]:
    """What Spark says, in a line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise SparkError(f"{what}: {line_of(str(error))}") from error


OURS: Final = re.compile(r"holdfast(?:_spark)?\.errors\.\w+: (.+)")


def line_of(text: str) -> str:
    """Our own error within what Spark has made of it; else its first line."""
    found: list[str] = OURS.findall(text)
    return found[-1].strip() if found else text.strip().partition("\n")[0]
