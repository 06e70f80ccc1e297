"""How many items SRANDMEMBER, HRANDFIELD, SPOP and LPOP are asked for, and which they get."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from holdfast.core.stores.numbers import INTEGER_MAX, parse_integer
from holdfast.errors import CommandError

NOT_POSITIVE: Final = "ERR value is out of range, must be positive"
NOT_BETWEEN: Final = (
    f"ERR value is out of range, value must between {-INTEGER_MAX} and {INTEGER_MAX}"
)
REPEATED_BYTES_MAX: Final = 64 << 20
TOO_OFTEN: Final = "ERR value is out of range, the reply would be longer than 64 MiB"
REPLY_OVERHEAD: Final = 16


def parse_count(text: bytes) -> int:
    """How many to take: none or more."""
    count = parse_integer(text, NOT_POSITIVE)
    if count < 0:
        raise CommandError(NOT_POSITIVE)
    return count


def parse_sample(text: bytes) -> int:
    """How many to choose; negative: each choice is made among all."""
    count = parse_integer(text)
    if count < -INTEGER_MAX:
        raise CommandError(NOT_BETWEEN)
    return count


def sample(rng: Random, items: Sequence[bytes], count: int) -> Sequence[bytes]:
    """Different ones, at most all; or, if negative, so many of which some may be the same.

    A small request must not make a reply without bound, so the latter are limited by what they
    take on the average.
    """
    if count >= len(items):
        return items
    if count >= 0:
        return rng.sample(items, count)
    average = sum(map(len, items)) // len(items) + REPLY_OVERHEAD
    if -count * average > REPEATED_BYTES_MAX:
        raise CommandError(TOO_OFTEN)
    return rng.choices(items, k=-count)
