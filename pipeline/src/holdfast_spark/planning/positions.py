"""Where a stream is: a point of the journal for each partition, as Spark keeps it in checkpoints.

    {"version": 1, "map": "users", "points": ["7-4711", "7-4650", ...]}

Rules (`design/7` "stream read"; docs/protocol/bulk.md)
-------------------------------------------------------
* A point is `epoch-number`; it means the same at every member, and numbers go on when an owner
  dies. A change has the point of its version. So a micro-batch is, for each partition, the changes
  after one point up to another: the same ones however often it is read, and none twice.
* `snapshot:` before a point stands for a partition of which nothing has been given out yet: all
  rows up to that point come first. Rows that were changed after it while they were read are left
  out then: they come as changes.
* How many changes lie between two points is at most the difference of their numbers. Limits go by
  that, and are shared out so that no partition falls behind the others for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast_spark.errors import ChangesLost, SparkError

VERSION: Final = 1
SNAPSHOT: Final = "snapshot:"
EPOCH_BYTES: Final = 4
NUMBER_BYTES: Final = 6


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A moment of a partition's history."""

    epoch: int
    number: int

    @classmethod
    def of(cls, text: str) -> Point:
        """As it is written."""
        epoch, dash, number = text.partition("-")
        if not (dash and epoch.isdecimal() and number.isdecimal()):
            raise SparkError(f"{text!r} in a stream's offset is no point of a journal")
        return cls(int(epoch), int(number))

    def __str__(self) -> str:
        return f"{self.epoch}-{self.number}"

    def version(self) -> bytes:
        """As changes and rows have it; it compares as bytes."""
        return self.epoch.to_bytes(EPOCH_BYTES, "big") + self.number.to_bytes(NUMBER_BYTES, "big")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stream is in one partition."""

    point: Point
    whole: bool = False
    """Nothing has been given out yet: the partition as it is comes first."""

    @classmethod
    def of(cls, text: str) -> Place:
        """As it is written."""
        return cls(Point.of(text.removeprefix(SNAPSHOT)), text.startswith(SNAPSHOT))

    def __str__(self) -> str:
        return f"{SNAPSHOT if self.whole else ''}{self.point}"


@dataclass(frozen=True, slots=True)
class Position:
    """Where a stream is."""

    places: tuple[Place, ...]

    @classmethod
    def of(cls, offset: Mapping[str, Any], name: str) -> Position:
        """As Spark gives it back."""
        if offset.get("version") != VERSION or offset.get("map") != name:
            raise SparkError(
                f"map '{name}': the checkpoint is of another stream: version"
                f" {offset.get('version')!r}, map {offset.get('map')!r}"
            )
        return cls(tuple(map(Place.of, offset["points"])))

    def offset(self, name: str) -> dict[str, Any]:
        """For Spark to keep."""
        return {"version": VERSION, "map": name, "points": [str(each) for each in self.places]}


def lag(start: Position, newest: Sequence[Point]) -> list[int]:
    """For each partition, how many changes there are at most."""
    return [
        max(0, new.number - place.point.number)
        for place, new in zip(start.places, newest, strict=True)
    ]


def shares(waiting: Sequence[int], limit: int) -> list[int]:
    """How many of each, together at most `limit`: small ones whole, large ones alike."""
    found = [0] * len(waiting)
    left = limit
    order = sorted(range(len(waiting)), key=lambda at: waiting[at])
    for turn, at in enumerate(order):
        fair = -(-left // (len(order) - turn)) if left else 0
        found[at] = min(waiting[at], fair, left)
        left -= found[at]
    return found


def advance(start: Position, newest: Sequence[Point], limit: int | None) -> Position:
    """Where the next micro-batch ends, as far as points can be told without reading: a partition
    whose owner has changed since is taken whole. A partition of which nothing was given out counts
    nothing: there is no part of it."""
    waiting = lag(start, newest)
    countable = [
        0 if place.whole else count for place, count in zip(start.places, waiting, strict=True)
    ]
    if limit is None or sum(countable) <= limit:
        return Position(tuple(map(Place, newest)))
    taken = shares(countable, limit)
    return Position(
        tuple(
            Place(_next(place, new, count))
            for place, new, count in zip(start.places, newest, taken, strict=True)
        )
    )


def _next(place: Place, newest: Point, count: int) -> Point:
    if place.whole:
        return place.point
    if count >= newest.number - place.point.number or place.point.epoch != newest.epoch:
        return newest if count else place.point
    return Point(newest.epoch, place.point.number + count)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a task reads of one partition."""

    partition: int
    start: Place
    end: Point


def stretches(start: Position, end: Position) -> list[Stretch]:
    """Where something is to be read."""
    if len(start.places) != len(end.places):
        raise ChangesLost(
            f"the cluster had {len(start.places)} partitions and has {len(end.places)}: it is"
            " another one; begin the stream anew, with a new checkpoint"
        )
    return [
        Stretch(partition, one, other.point)
        for partition, (one, other) in enumerate(zip(start.places, end.places, strict=True))
        if one.whole or one.point != other.point
    ]
