"""What a message must keep beyond its types, so that nothing malformed reaches the core.

Rules
-----
* `codec` has checked the types: every field is there, every enum value is known, every integer
  fits 64 bits. This module checks ranges and shapes, by the *declared* type of each field: a
  `PartitionId` is a partition wherever it stands, so a new message is covered without a line here.
* Integers stay within 2^53 - 1, so that adding to one never leaves 64 bits; versions stay within
  31 bits, because the stamp packs them into 32 (`core.table.stamp_of`).
* `Replicas` are checked by `core.table.check_replicas`: the rule of the table is written once.
* A check raises `MessageError` and changes nothing.

States
------
None. The checks of a message's class are compiled from its annotations, once.

What can go wrong
-----------------
The content may still be *wrong* (an old version, an unknown member): that is for the machine that
handles the message, which knows the state. Here is only what no state could make right.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any, Final, NewType, Union, get_args, get_origin, get_type_hints

from holdfast.core.data_messages import Stand
from holdfast.core.messages import Migration
from holdfast.core.migrations import apply_step
from holdfast.core.states import ClusterState
from holdfast.core.table import check_replicas
from holdfast.core.views import View
from holdfast.errors import MessageError, TableError
from holdfast.ids import (
    NO_INDEX,
    PARTITION_COUNT_MAX,
    REPLICA_COUNT_MAX,
    Millis,
    PartitionId,
    Replicas,
    Term,
    Version,
)

Check = Callable[[Any], None]
"""Raises `MessageError` for a value that can't be."""

_COMPILED: Final[dict[type, Check | None]] = {}
"""By class of message, filled when its first one arrives."""

INTEGER_MAX: Final = 2**53 - 1
VERSION_MAX: Final = 2**31 - 1

RANGES: Final[dict[Any, tuple[int, int]]] = {
    int: (0, INTEGER_MAX),
    Term: (0, INTEGER_MAX),
    Millis: (-1, INTEGER_MAX),
    Version: (-1, VERSION_MAX),
    PartitionId: (0, PARTITION_COUNT_MAX - 1),
}
"""What an integer may be, by its declared type. A `Version` of -1 is a row never heard of, a
time of -1 one that never was."""

INDEX: Final = (NO_INDEX, REPLICA_COUNT_MAX - 1)
STAMP: Final = (-(2**63), 2**63 - 1)

EXCEPTIONS: Final[dict[tuple[str, str], tuple[int, int]]] = {
    ("Move", "source_current"): INDEX,
    ("Move", "source_new"): INDEX,
    ("Move", "destination_current"): INDEX,
    ("Move", "destination_new"): INDEX,
    ("JoinRequest", "partition_count"): (1, PARTITION_COUNT_MAX),
    ("JoinRequest", "replica_count"): (1, REPLICA_COUNT_MAX),
}
"""Fields whose range is not that of their type. Every field named `stamp` is a hash of 64 bits."""

HINTS: Final[dict[tuple[str, str], Any]] = {("Versions", "versions"): tuple[Version, ...]}
"""Fields that are declared more widely than what they may hold."""


def validate(message: object) -> None:
    """Refuse a message that no state of the cluster could make right."""
    kind = type(message)
    try:
        check = _COMPILED[kind]
    except KeyError:
        check = _COMPILED[kind] = checker_of(kind)
    if check is not None:
        check(message)


def checker_of(kind: Any) -> Check | None:
    """The checks of a dataclass, compiled from its annotations; None when there are none."""
    hints = get_type_hints(kind)
    ranges: dict[str, tuple[int, int]] = {}
    parts: list[tuple[str, Check]] = []
    for field in fields(kind):
        hint = HINTS.get((kind.__name__, field.name), hints[field.name])
        limits = range_of(kind, field.name, hint)
        part = None if limits else check_of(hint)
        if limits is not None:
            ranges[field.name] = limits
        elif part is not None:
            parts.append((field.name, part))
    checks = [ranges_check(kind, ranges)] if ranges else []
    checks += [part_check(name, part) for name, part in parts]
    if kind in SHAPES:
        checks.append(SHAPES[kind])
    return all_of(checks)


def range_of(kind: type, name: str, hint: Any) -> tuple[int, int] | None:
    """The limits of an integer field; None for any other field."""
    if name == "stamp":
        return STAMP
    return EXCEPTIONS.get((kind.__name__, name)) or RANGES.get(hint)


def check_of(hint: Any) -> Check | None:
    """The check of a value declared as `hint`; None when its type says enough."""
    if hint == Replicas:
        return check_row
    if isinstance(hint, NewType) or get_origin(hint) is None:
        return scalar_check(hint)
    if get_origin(hint) is list:
        return tuple_check(get_args(hint)[0])
    if get_origin(hint) is tuple:
        first, *more = get_args(hint)
        return tuple_check(first) if more == [Ellipsis] else record_check((first, *more))
    assert get_origin(hint) in (Union, types.UnionType), f"no rule for {hint}"
    return optional_check(hint)


def scalar_check(hint: Any) -> Check | None:
    """An integer by its range, a dataclass by its fields; the rest is checked by its type."""
    if hint in RANGES:
        several = range_check(*RANGES[hint])
        return lambda value: several((value,))
    return checker_of(hint) if is_dataclass(hint) else None


def range_check(low: int, high: int) -> Check:
    """Integers by their range, all at once: a vector has six, and each write comes with one."""

    def check(values: tuple[int, ...]) -> None:
        for value in values:
            if not low <= value <= high:
                raise MessageError(f"{value} is not in {low}..{high}")

    return check


def tuple_check(hint: Any) -> Check | None:
    """Every element by the check of its type."""
    if hint in RANGES:
        return range_check(*RANGES[hint])
    inner = check_of(hint)
    if inner is None:
        return None

    def check(values: tuple[Any, ...]) -> None:
        for value in values:
            inner(value)

    return check


def record_check(hints: tuple[Any, ...]) -> Check | None:
    """Each element of a tuple of fixed length by the check of its own type."""
    places = [
        (place, check) for place, hint in enumerate(hints) if (check := check_of(hint)) is not None
    ]
    if not places:
        return None

    def check_places(values: tuple[Any, ...]) -> None:
        for place, check in places:
            check(values[place])

    return check_places


def optional_check(hint: Any) -> Check | None:
    """`X | None`: nothing to check in a None."""
    (present,) = (part for part in get_args(hint) if part is not type(None))
    inner = check_of(present)
    if inner is None:
        return None

    def check(value: Any) -> None:
        if value is not None:
            inner(value)

    return check


def ranges_check(kind: type, ranges: dict[str, tuple[int, int]]) -> Check:
    """All integer fields of a dataclass at once."""
    table = tuple((name, low, high) for name, (low, high) in ranges.items())

    def check(value: object) -> None:
        for name, low, high in table:
            number = getattr(value, name)
            if not low <= number <= high:
                raise MessageError(f"{kind.__name__}.{name} is {number}, not {low}..{high}")

    return check


def part_check(name: str, inner: Check) -> Check:
    """One field by the check of its type."""
    read = attrgetter(name)

    def check(value: object) -> None:
        inner(read(value))

    return check


def all_of(checks: list[Check]) -> Check | None:
    """One check that makes all of them, in order."""
    if len(checks) <= 1:
        return checks[0] if checks else None
    several = tuple(checks)

    def check(value: object) -> None:
        for one in several:
            one(value)

    return check


def check_row(replicas: Replicas) -> None:
    """A row of the partition table, by the table's own rule."""
    try:
        check_replicas(replicas)
    except TableError as error:
        raise MessageError(error.message) from error


def check_view(view: View) -> None:
    """No member twice, and no state that is never stored (`core.states`)."""
    ids = frozenset(member.id for member in view.members)
    if len(ids) != len(view.members):
        raise MessageError(f"a member stands twice in view {view.key}")
    if view.state is ClusterState.IN_TRANSITION:
        raise MessageError(f"view {view.key} is in a state that is never stored")


def check_migration(migration: Migration) -> None:
    """Its moves lead from `before` to `after`."""
    length = len(migration.before)
    if any(index >= length for move in migration.moves for index in move.indexes()):
        raise MessageError(f"a move of migration {migration.id} leaves the row")
    try:
        after = apply_step(migration.before, migration.moves)
    except AssertionError as error:
        raise MessageError(f"migration {migration.id}: {error}") from error
    if after != migration.after:
        raise MessageError(f"migration {migration.id} leads to {after}, not {migration.after}")


def check_stand(stand: Stand) -> None:
    """A vector has an entry for each backup that there can be."""
    if len(stand.entries) != REPLICA_COUNT_MAX - 1:
        raise MessageError(
            f"a vector has {REPLICA_COUNT_MAX - 1} entries, not {len(stand.entries)}"
        )


SHAPES: Final[dict[type, Check]] = {
    View: check_view,
    Migration: check_migration,
    Stand: check_stand,
}
"""What must hold between the fields of one value."""
