"""How a change of the table raises versions: per partition, or the whole table at once.

Rules (seed 001 §1.1, §1.2, §3.3)
---------------------------------
* At compatibility level 3 every partition has a version of its own: a change raises the version of
  the rows that it changes, and only these are published.
* At levels 1 and 2 the table has one version. It is kept as the version of *every* row: a change
  raises all rows to the same new version, and the whole table is published. Then "my table version
  equals the migration's" and "my row's version equals the migration's" are the same comparison,
  equal stamps mean equal table versions, and at the change to level 3 "all partition versions are
  set to the latest table version" has already happened.
* So the two paths differ in three things, all of them here: which rows a change raises, how many
  migrations run at a time, and whether the next may start before everyone knows the last.

States
------
A table is *global* (all versions equal) below level 3; from then on rows go their own ways, and it
never becomes global again: a level is never lowered.

What can go wrong
-----------------
A member that speaks only level 2 would read a level-3 table as one of many versions. It is refused
at the join (`joining`), and the level is raised only while every member speaks the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from holdfast.core.table import Row, Table
from holdfast.ids import PartitionId, Replicas, Term, Version

LEVEL_PROMOTION: Final = 2
"""First level with promotion of lite members and namespaces (seed 000, "since 3.9")."""

LEVEL_PARTITION_VERSIONS: Final = 3
"""First level with per-partition versions (seed 001, "since 4.1")."""

LIGHT_TIMES: Final = 16
"""Migrations that move nothing take so many times less of a member (`docs/adr/0038`)."""
LIGHT_STEP: Final = 4
"""Each more that has moved nothing says that the next ones will hardly move much."""


def versions_are_global(level: int) -> bool:
    """Whether the table has one version (levels 1 and 2)."""
    return level < LEVEL_PARTITION_VERSIONS


def raised(
    table: Table,
    level: int,
    term: Term,
    changes: Mapping[PartitionId, Replicas],
    *,
    anew: bool = False,
) -> tuple[Row, ...]:
    """The rows that a change of the master makes; `anew` when their data begins with it."""
    if versions_are_global(level):
        version = Version(max(0, *table.versions) + 1)
        rows = [
            row.changed(version, changes.get(row.partition, row.replicas), term)
            for row in table.rows
        ]
    else:
        old = [table.row(partition) for partition in changes]
        rows = [
            row.changed(Version(max(row.version, 0) + 1), changes[row.partition], term)
            for row in old
        ]
    if anew:
        rows = [
            replace(row, epoch=Version(row.reign)) if row.partition in changes else row
            for row in rows
        ]
    return tuple(rows)


def resumed(
    table: Table, level: int, term: Term, partitions: Collection[PartitionId]
) -> tuple[Row, ...]:
    """The rows that a change makes by which owners go on after a restart."""
    rows = raised(table, level, term, {each: table.row(each).replicas for each in partitions})
    return tuple(
        row.resumed(row.version, term) if row.partition in partitions else row for row in rows
    )


def decided(table: Table, level: int, row: Row) -> tuple[Row, ...]:
    """The rows that go with a row whose version a migration has fixed."""
    if not versions_are_global(level):
        return (row,)
    return tuple(
        row if other.partition == row.partition else replace(other, version=row.version)
        for other in table.rows
    )


def parallel_max(level: int, configured: int, light: int) -> int:
    """How many migrations one member may take part in (seed 001 §2.1, §2.2), when so many of them
    have ended one after the other that moved nothing."""
    if versions_are_global(level):
        return 1
    beyond = LIGHT_STEP * (light - configured)
    return min(max(beyond, configured), light_max(configured))


def light_max(configured: int) -> int:
    """The same of migrations that move nothing. Whoever wants one at a time gets one at a time."""
    return configured if configured == 1 else configured * LIGHT_TIMES


def one_at_a_time(level: int) -> bool:
    """Whether a migration must be known to everyone before the next one starts."""
    return versions_are_global(level)


def levelled(table: Table, level: int) -> tuple[Row, ...]:
    """The rows without which the table would have more than one version, where it has one: a new
    master has found a row that had reached only those who committed it."""
    if not versions_are_global(level):
        return ()
    newest = Version(max(table.versions))
    return tuple(replace(row, version=newest) for row in table.rows if row.version != newest)
