"""Which table a whole cluster comes back with: three policies, and a settlement per partition.

Rules (seed 001 §3.2, third change; seed 003 "Recovery mode"; `design/3` §9)
----------------------------------------------------------------------------
* Members with the same table form a group. Tables are compared by stamp and *ordered* by the sum
  of their versions (a stamp has no order).
* FULL: every member that the persisted view lists must be back.
  MOST_RECENT: the group with the greatest sum leads. MOST_COMPLETE: the largest group leads; of two
  equally large ones the more recent. The partial policies start with whoever is back when the
  validation time is over.
* Beyond the seed, which supports orderly shutdowns only: any crash may have gone before. So each
  *partition* takes the row with the greatest version that anyone has; the leading group is the tie
  breaker and tells which members are `behind`. These are not discarded: their data joins by
  differential sync.

States
------
None: a pure function from reports to a choice. Who is waited for is `settlement`'s.

What can go wrong
-----------------
* *Nobody reports rows.* Then there is nothing to recover, which is a `RecoveryError`.
* *Two reports hold the same version with different content.* Impossible while only one master
  exists in a term; it is refused, never settled by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.config import RecoveryPolicy
from holdfast.core.table import Row, stamp_of
from holdfast.errors import RecoveryError
from holdfast.ids import MemberId


@dataclass(frozen=True, slots=True)
class Choice:
    """The table to go on with, and why."""

    rows: tuple[Row, ...]
    leaders: tuple[MemberId, ...]
    """Members whose own table this is, or the one that it was settled from."""
    behind: tuple[MemberId, ...]
    """Members with another table."""
    overruled: int
    """Partitions for which a member outside the leading group knew a newer row."""


def choose(
    policy: RecoveryPolicy, tables: Mapping[MemberId, Sequence[Row]], missing: Sequence[MemberId]
) -> Choice:
    """Choose among the tables that members have; `missing` are listed and not back."""
    if policy is RecoveryPolicy.FULL and missing:
        raise RecoveryError(f"policy full: waiting for {', '.join(missing)}")
    if not tables:
        raise RecoveryError("no member has a table to recover")
    leaders = _leaders(policy, tables)
    base = tuple(tables[leaders[0]])
    rows = settle_rows(tables)
    return Choice(
        rows=rows,
        leaders=leaders,
        behind=tuple(member for member in tables if member not in leaders),
        overruled=sum(row.version > led.version for row, led in zip(rows, base, strict=True)),
    )


def _leaders(
    policy: RecoveryPolicy, tables: Mapping[MemberId, Sequence[Row]]
) -> tuple[MemberId, ...]:
    groups: dict[int, list[MemberId]] = {}
    for member, rows in tables.items():
        groups.setdefault(stamp_of([row.version for row in rows]), []).append(member)

    def rank(members: Iterable[MemberId]) -> tuple[int, int]:
        members = tuple(members)
        recent = sum(row.version for row in tables[members[0]])
        size = len(members)
        return (size, recent) if policy is RecoveryPolicy.MOST_COMPLETE else (recent, size)

    return tuple(max(groups.values(), key=rank))


def settle_rows(tables: Mapping[MemberId, Sequence[Row]]) -> tuple[Row, ...]:
    """For each partition the row with the greatest version that anyone has."""
    settled: list[Row] = []
    for candidates in zip(*tables.values(), strict=True):
        newest = max(candidates, key=lambda row: row.version)
        for row in candidates:
            if row.version == newest.version and row.replicas != newest.replicas:
                raise RecoveryError(
                    f"partition {row.partition}: version {row.version} means {row.replicas} to one"
                    f" member and {newest.replicas} to another"
                )
        settled.append(newest)
    return tuple(settled)
