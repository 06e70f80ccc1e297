"""Pairs of rows to plan between: drawn by Hypothesis, drawn by a seed, or all there are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product

from hypothesis import strategies as st

from holdfast.core.migrations import Step
from holdfast.ids import REPLICA_COUNT_MAX, MemberId, Replicas
from tests.core.plan_checker import PlainMove

LETTERS = "ABCDEFGHIJKLMN"


def plain(steps: Sequence[Step]) -> list[list[PlainMove]]:
    """Steps as the checker takes them, without the planner's types."""
    return [
        [
            (
                move.type.value,
                move.source,
                move.source_current,
                move.source_new,
                move.destination,
                move.destination_current,
                move.destination_new,
            )
            for move in step
        ]
        for step in steps
    ]


def row_of(letters: Sequence[str | None]) -> Replicas:
    """Letters as members."""
    return tuple(None if letter is None else MemberId(letter) for letter in letters)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Replicas, Replicas]:
    """Two rows of one length, dense or with gaps, with many or few members in common."""
    length = draw(st.integers(1, REPLICA_COUNT_MAX))
    pool = LETTERS[: draw(st.integers(length, 2 * length))]
    rows = []
    for _ in range(2):
        members = draw(st.permutations(pool))[:length]
        vacant = draw(st.sets(st.integers(0, length - 1)))
        rows.append(row_of([None if slot in vacant else m for slot, m in enumerate(members)]))
    return rows[0], rows[1]


def random_pair(rng: random.Random) -> tuple[Replicas, Replicas]:
    """The same from a seed, faster: a third dense, a third with some gaps, a third with many."""
    length = rng.randint(1, REPLICA_COUNT_MAX)
    pool = LETTERS[: rng.randint(length, 2 * length)]
    return random_row(rng, pool, length), random_row(rng, pool, length)


def random_row(rng: random.Random, pool: str, length: int) -> Replicas:
    """One row of a random pair."""
    vacant = rng.choice((0.0, 0.2, 0.5))
    members = rng.sample(pool, length)
    return row_of([None if rng.random() < vacant else member for member in members])


def all_pairs(length: int) -> Iterator[tuple[Replicas, Replicas]]:
    """Every pair of rows of a length, but for the names: members are lettered as they appear."""
    for filled in product((True, False), repeat=length):
        current = [
            letter if there else None for letter, there in zip(LETTERS, filled, strict=False)
        ]
        for target in all_targets([letter for letter in current if letter], length, "NOPQRST"):
            yield row_of(current), row_of(target)


def all_targets(known: list[str], length: int, fresh: str) -> Iterator[list[str | None]]:
    """Every row whose members are known ones, or newcomers in the order of `fresh`."""
    if length == 0:
        yield []
        return
    for rest in all_targets(known, length - 1, fresh[1:]):
        yield [None, *rest]
        yield [fresh[0], *rest]
        for member in known:
            if member not in rest:
                yield [member, *rest]
