"""One number for everything in a copy: two that are alike have the same, others hardly ever.

It is that of `merkle`, without a tree: the sum of `key hash * what` over all records, modulo the
prime. *What* is the version of a record, as in the trees: copies of one history are compared so. Or
it is its content, so that data can be compared with other data that came about in another way:
kind, expiry and value, those of sets and hashes in an order that does not depend on how they were
filled.

Sums can be added: the number of a name is the sum of those of its fragments, however many there
are.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from itertools import chain
from typing import Final

import mmh3

from holdfast.core.data.merkle import HASH_SEED, PRIME, hash_of
from holdfast.core.stores.fragment import Mutation
from holdfast.core.stores.packing import pack, unpack
from holdfast.core.stores.record import (
    VERSION_BYTES,
    Kind,
    body_of,
    expiry_of,
    kind_of,
)

WEIGHT_MAX: Final = PRIME - 1


class Likeness(StrEnum):
    """What makes two records the same."""

    VERSIONS = "versions"
    CONTENT = "content"


def number_of_content(kind: int, expiry: int, body: bytes) -> int:
    """Of what a record says, whenever it was written; never 0."""
    if kind == Kind.SET:
        body = pack(sorted(unpack(body)))
    elif kind == Kind.HASH:
        items = unpack(body)
        body = pack(chain.from_iterable(sorted(zip(items[::2], items[1::2], strict=True))))
    said = b"%c%b%b" % (kind, expiry.to_bytes(8, "big"), body)
    return mmh3.mmh3_x64_128_utupledigest(said, HASH_SEED)[0] or 1


def number_of_version(version: bytes) -> int:
    """Of when a record was written; never 0."""
    return int.from_bytes(version, "big")


def number_of_record(record: bytes, likeness: Likeness) -> int:
    """What is compared of a record."""
    if likeness is Likeness.VERSIONS:
        return number_of_version(record[:VERSION_BYTES])
    return number_of_content(kind_of(record), expiry_of(record), body_of(record))


def weight_of(key: bytes, number: int) -> int:
    """What a key adds to the sum."""
    return hash_of(key) * number % PRIME


def weigh(records: Iterable[Mutation], likeness: Likeness, before: int = 0) -> int:
    """The sum, with what was summed up before."""
    numbers = (hash_of(key) * number_of_record(record, likeness) for key, record in records)
    return (before + sum(numbers)) % PRIME
