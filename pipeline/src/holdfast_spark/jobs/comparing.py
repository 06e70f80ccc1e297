"""What is compared, and how it is told; no cluster, no Spark.

A *census* is everything of one fragment at one place: how many keys, and the sum over them
(`holdfast.core.data.likeness`, as `holdfast.client.likeness` shows it). Two that are equal have the
same records; only where they are not, keys are listed, each with the number of its version or of
its content, and compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from holdfast.client.likeness import PRIME, weight_of

INTERNAL: Final = b""
"""The fragment that lists and queues of all names share."""


class How(StrEnum):
    """How a key differs."""

    LEFT_ONLY = "left only"
    RIGHT_ONLY = "right only"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a copy stands in the history of its fragment."""

    epoch: int
    counter: int
    clean: bool


@dataclass(frozen=True, slots=True)
class Census:
    """One fragment at one place."""

    keys: int = 0
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """One fragment of one partition, at two places."""

    map: bytes
    partition: int
    left: str
    right: str
    left_keys: int
    right_keys: int
    left_weight: int
    right_weight: int
    equal: bool
    settled: bool
    """Whether both stood at the same point of their history; true where there is none to compare,
    and whoever asks knows that nobody writes."""
    differing: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One key that is not the same."""

    map: bytes
    partition: int
    left: str
    right: str
    key: bytes
    how: How


Numbers = dict[bytes, int]
"""Of each key, what is compared."""


def census_of(numbers: Mapping[bytes, int]) -> Census:
    """The sum over these."""
    weight = sum(weight_of(key, number) for key, number in numbers.items()) % PRIME
    return Census(len(numbers), weight)


def differing(left: Mapping[bytes, int], right: Mapping[bytes, int]) -> Iterator[tuple[bytes, How]]:
    """The keys that are not the same, in order."""
    for key in sorted(left.keys() | right.keys()):
        if key not in right:
            yield key, How.LEFT_ONLY
        elif key not in left:
            yield key, How.RIGHT_ONLY
        elif left[key] != right[key]:
            yield key, How.DIFFERENT


@dataclass(slots=True)
class Found:
    """What a task has compared."""

    comparisons: list[Comparison] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    def note(
        self,
        about: Pair,
        left: Census,
        right: Census,
        *,
        settled: bool = True,
        keys: Mapping[bytes, How] | None = None,
        limit: int,
    ) -> None:
        """One fragment; where keys were listed, they decide."""
        equal = left == right if keys is None else not keys
        listed = {} if keys is None else keys
        self.comparisons.append(
            Comparison(
                about.map,
                about.partition,
                about.left,
                about.right,
                left.keys,
                right.keys,
                left.weight,
                right.weight,
                equal,
                settled,
                len(listed),
            )
        )
        for key, how in tuple(listed.items())[:limit]:
            self.differences.append(
                Difference(about.map, about.partition, about.left, about.right, key, how)
            )


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared with what."""

    map: bytes
    partition: int
    left: str
    right: str
