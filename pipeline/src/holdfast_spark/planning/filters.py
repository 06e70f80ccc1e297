"""Filters that the connector applies itself, so that what they leave out never reaches Spark.

Spark gives a list, all of which have to hold. What is understood here (`understand`) is applied to
the columns; the rest stays with Spark. A null compares as unknown, and a row of which a filter is
unknown is left out, as in SQL; `<=>` knows nulls.

Not understood, on purpose: fractions (Spark holds all NaN for equal and for the greatest, Arrow
doesn't), decimals, text with a collation, and whatever is nested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from holdfast_spark.options import Keys, Options
from holdfast_spark.planning.shape import Column, Role, Shape

COMPARISONS: Final = {
    "EqualTo": "equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
}
TEXTS: Final = {
    "StringStartsWith": "starts_with",
    "StringEndsWith": "ends_with",
    "StringContains": "match_substring",
}
RANGES: Final = {"byte": 7, "short": 15, "integer": 31, "long": 63}


@dataclass(frozen=True, slots=True)
class Condition:
    """One filter: a function of Arrow's, or `is_in`, `is_null`, `same`; negated or not."""

    column: str
    function: str
    value: Any = None
    negated: bool = False


def understand(given: Any, shape: Shape) -> Condition | None:
    """One of Spark's filters; None when it is left to Spark."""
    name = type(given).__name__
    if name == "Not":
        inner = understand(given.child, shape)
        if inner is None or inner.negated:
            return None
        return Condition(inner.column, inner.function, inner.value, negated=True)
    column = _column(given, shape)
    if column is None:
        return None
    if name in ("IsNull", "IsNotNull"):
        return Condition(column.name, "is_null", negated=name == "IsNotNull")
    if name == "In":
        fits = all(each is None or _fits(column, each) for each in given.value)
        # `x IN (1, NULL)` is unknown where x is not 1: for NOT IN that leaves nothing
        return Condition(column.name, "is_in", tuple(given.value)) if fits else None
    if name == "EqualNullSafe":
        fits = given.value is None or _fits(column, given.value)
        return Condition(column.name, "same", given.value) if fits else None
    if name in TEXTS:
        return Condition(column.name, TEXTS[name], given.value) if column.type == "string" else None
    if name in COMPARISONS and _fits(column, given.value):
        return Condition(column.name, COMPARISONS[name], given.value)
    return None


def _column(given: Any, shape: Shape) -> Column | None:
    path: Sequence[str] = given.attribute
    found = [column for column in shape.columns if (column.name,) == tuple(path)]
    return found[0] if found and found[0].role is not Role.PROBLEM else None


def _fits(column: Column, value: Any) -> bool:
    """Whether the column can be compared with it as it is."""
    kind = column.type
    if not isinstance(kind, str):
        return False
    if kind in RANGES:
        return type(value) is int and -(1 << RANGES[kind]) <= value < 1 << RANGES[kind]
    if kind == "timestamp":
        return isinstance(value, datetime) and value.tzinfo is not None
    if kind == "date":
        return type(value) is date
    wanted: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "binary": (bytes, bytearray),
        "boolean": (bool,),
    }
    return isinstance(value, wanted.get(kind, ()))


def split(conditions: Iterable[Condition], shape: Shape) -> tuple[list[Condition], list[Condition]]:
    """Those that need no value, and those that do."""
    of_value = {each.name for each in shape.columns if each.role in (Role.FIELD, Role.VALUE)}
    every = list(conditions)
    early = [each for each in every if each.column not in of_value]
    return early, [each for each in every if each.column in of_value]


def keys_of(conditions: Iterable[Condition], shape: Shape, options: Options) -> list[bytes] | None:
    """The only keys that can be among what is wanted; None when that can be any."""
    names = {column.name for column in shape.columns if column.role is Role.KEY}
    found: set[bytes] | None = None
    for each in conditions:
        if each.column not in names or each.negated:
            continue
        if each.function in ("equal", "same"):
            values = (each.value,)
        elif each.function == "is_in":
            values = each.value
        else:
            continue
        keys = {_bytes(value) for value in values if value is not None}
        found = keys if found is None else found & keys
    prefix = f"{options.map}:".encode() if options.keys is Keys.SHORT else b""
    return None if found is None else sorted(prefix + key for key in found)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
