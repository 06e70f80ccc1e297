"""Snapshots that sessions read at their leisure: one for each, and not too many at a member."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.data.vectors import Point
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.snapshot import Snapshot
from holdfast.errors import CommandError
from holdfast.ids import PartitionId

SNAPSHOTS_MAX: Final = 64
NO_PARTITION: Final = "ERR there is no such partition"
BUSY: Final = f"TRYAGAIN {SNAPSHOTS_MAX} readers are here already; come again"


def hold(around: Surroundings, session: int, take: Callable[[], Snapshot]) -> Snapshot:
    """Take one for a session, in the place of what it had."""
    let_go(around, session)
    if len(around.snapshots) >= SNAPSHOTS_MAX:
        raise CommandError(BUSY)
    snapshot = around.snapshots[session] = take()
    return snapshot


def let_go(around: Surroundings, session: int) -> None:
    """Whoever reads there reads no more."""
    snapshot = around.snapshots.pop(session, None)
    if snapshot is not None:
        snapshot.close()


def partition_in(around: Surroundings, args: list[bytes]) -> PartitionId:
    """The partition that is spoken of."""
    number = parse_integer(args[2])
    if not 0 <= number < len(around.context.table):
        raise CommandError(NO_PARTITION)
    return PartitionId(number)


def text_of(point: Point) -> bytes:
    """`epoch-number`."""
    return b"%d-%d" % (point.epoch, point.counter)


def point_of(text: bytes) -> Point:
    """The same back."""
    epoch, _, counter = text.partition(b"-")
    return Point(max(0, parse_integer(epoch)), max(0, parse_integer(counter)))
