"""Sums over records, as members make them over their copies: for who reads rows and compares."""

from __future__ import annotations

from holdfast.core.data.likeness import (
    Likeness,
    number_of_content,
    number_of_record,
    number_of_version,
    weight_of,
)
from holdfast.core.data.merkle import PRIME
from holdfast.core.data.plane import slot_of
from holdfast.core.stores.record import Kind, expiry_of, kind_of
from holdfast.core.stores.space import STAGING
from holdfast.wire.rows import Row

SLOT_BITS = 14

__all__ = [
    "PRIME",
    "SLOT_BITS",
    "STAGING",
    "Likeness",
    "is_value",
    "number_of_record",
    "number_of_row",
    "slot_of",
    "weight_of",
]


def number_of_row(row: Row, likeness: Likeness) -> int:
    """What is compared of a row."""
    if likeness is Likeness.VERSIONS:
        return number_of_version(row.version)
    return number_of_content(row.kind, row.expiry, row.value)


def is_value(record: bytes, moment: int) -> bool:
    """Whether it is no lock, and has not expired by then."""
    expiry = expiry_of(record)
    return kind_of(record) is not Kind.LOCK and not (expiry and expiry <= moment)
