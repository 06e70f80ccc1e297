"""What the files of some members say together: what is missing of the others."""

from __future__ import annotations

import pytest

from holdfast.core.stores.space import STAGING
from holdfast.core.table import Row
from holdfast.ids import MemberId, PartitionId, Term, Version
from holdfast.storage.format.manifest import Identity
from holdfast.storage.past import Stood, Survey, together

A, B, C = MemberId("a"), MemberId("b"), MemberId("c")
ROWS = ((A, B, C), (B, C, A), (C, A, B))
"""Who stands in the row of each of three partitions."""
STANDS = Stood(1, 1, 5, clean=True)

Reach = dict[bytes, int]
"""Names, each with how many backups it has."""


def survey(of: MemberId, reach: Reach, rows: tuple[tuple[MemberId | None, ...], ...]) -> Survey:
    """What a member's files have: every partition, and of names what their backups ask for."""
    stood = {
        PartitionId(number): {
            name: STANDS
            for name, backups in reach.items()
            if of in replicas[: backups + 1] or name == STAGING
        }
        for number, replicas in enumerate(rows)
    }
    known = tuple(
        Row(PartitionId(number), Version(1), replicas, Version(1), 1)
        for number, replicas in enumerate(rows)
    )
    identity = Identity(of, 1, len(rows), 3)
    held = dict.fromkeys(stood, 1)
    return Survey(identity, None, Term(1), known, held, stood, {}, 5, 100)


@pytest.mark.parametrize(
    ("reach", "members", "missing"),
    [
        ({b"users": 1}, (A,), (1,)),
        ({b"users": 1, STAGING: 2}, (A,), (1,)),
        ({b"users": 1}, (A, B), ()),
        ({b"users": 2}, (A,), ()),
        ({b"users": 0}, (A,), (1, 2)),
        ({b"users": 1, b"temporary": 0}, (A, B), (2,)),
        ({b"users": 1, b"temporary": 0}, (A, B, C), ()),
        ({}, (A,), (1, 2)),
    ],
)
def test_who_stands_beyond_the_backups_of_the_names_does_not_count(
    reach: Reach, members: tuple[MemberId, ...], missing: tuple[int, ...]
) -> None:
    past = together([survey(each, reach, ROWS) for each in members])
    assert past.missing() == missing


def test_what_nobody_owned_is_missing_only_if_nobody_has_it() -> None:
    rows = ((None, A, None), (B, None, None))
    past = together([survey(A, {b"users": 1}, rows), survey(B, {b"users": 1}, rows)])
    assert past.missing() == ()
