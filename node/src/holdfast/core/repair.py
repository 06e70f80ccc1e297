"""What becomes of a row when members of it have left. Pure functions; the master applies them.

Rules (seed 002 §1.1 and §3.2 step 2; seed 003 "Partitioning"; `design/3` §2, §7)
---------------------------------------------------------------------------------
* An index whose member left is set to vacant. If it was the owner's, the hottest living replica
  becomes owner: it has all that the colder ones have.
* When every replica of a row has left, the row stays as it is while one of them is *awaited*: it
  may come back with the data. The same when everyone has left who has every name that asks for
  backups: whoever stands at a colder index lacks names, and to promote it would lose what is on the
  disks of those who left. Otherwise the partition is *lost*: new members get it, empty, and
  everyone is told the highest index that was lost.
* A row that never had an owner is assigned, which loses nothing.

States
------
    whole ──some left──► vacant indexes ──rebalancing──► whole
      └──all left who had everything──► awaiting ──one came back──► whole
                             └─────nobody awaited──► lost, assigned anew

What can go wrong
-----------------
* *A stale replica comes back first.* It is not in the row any more, so it can't become the owner of
  what it holds; the row waits for those that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.core.table import Row
from holdfast.ids import REPLICA_COUNT_MAX, MemberId, PartitionId, Replicas

Judge = Callable[[MemberId], bool]
"""Whether a member is present, or awaited."""


@dataclass(slots=True)
class Repair:
    """What has to change in a table."""

    changes: dict[PartitionId, Replicas] = field(default_factory=dict)
    lost: dict[PartitionId, int] = field(default_factory=dict)
    """Partitions to be given away, with the highest index that had a replica; -1: had none."""


def repaired(replicas: Replicas, present: Judge) -> Replicas:
    """The row without those who are not present, led by its hottest living replica."""
    row = [member if member is not None and present(member) else None for member in replicas]
    if row[0] is None:
        heir = next((index for index, member in enumerate(row) if member is not None), None)
        if heir is not None:
            row[0], row[heir] = row[heir], None
    return tuple(row)


def keeping(target: Replicas, now: Replicas) -> Replicas:
    """The target, with its vacant indexes held by whoever has a copy now: first by those who stand
    there already, backups also where the target has a colder place for them, then by those that
    have no place in it."""
    row = list(target)
    for index, member in enumerate(now):
        hotter = row if index == 0 else row[:index]
        if member is not None and row[index] is None and member not in hotter:
            row = [None if held == member else held for held in row]
            row[index] = member
    for member in now:
        if member is not None and member not in row and None in row:
            row[row.index(None)] = member
    return tuple(row)


def repair_table(
    rows: Sequence[Row], present: Judge, awaited: Judge, warm: int = REPLICA_COUNT_MAX
) -> Repair:
    """Look at every row; so many indexes have everything. Whoever is in `lost` needs an owner
    (`give_away`)."""
    repair = Repair()
    for row in rows:
        holders = row.holders
        if holders and all(present(member) for member in holders) and row.owner is not None:
            continue
        if any(present(member) for member in holders):
            if _waits(row.replicas[:warm], present, awaited):
                continue
            repair.changes[row.partition] = repaired(row.replicas, present)
        elif not any(awaited(member) for member in holders):
            highest = max((row.index_of(member) for member in holders), default=-1)
            repair.lost[row.partition] = highest
    return repair


def _waits(warm: Replicas, present: Judge, awaited: Judge) -> bool:
    """Whether only who is not here has everything, and may come back."""
    holders = [member for member in warm if member is not None]
    return not any(map(present, holders)) and any(map(awaited, holders))


def rests_on(row: Row, member: MemberId, present: Judge, warm: int) -> bool:
    """Whether only this member can bring back what the row had, of those who may still come."""
    if member not in row.replicas:
        return False
    peers = row.replicas[:warm] if member in row.replicas[:warm] else row.replicas
    return not any(peer not in (None, member) and present(peer) for peer in peers)


def give_away(
    lost: Sequence[PartitionId],
    owned: Mapping[MemberId, int],
    candidates: Sequence[MemberId],
    replica_count: int,
) -> dict[PartitionId, Replicas]:
    """Owners for lost partitions: whoever owns least, the oldest among equals."""
    load = {member: owned.get(member, 0) for member in candidates}
    rows: dict[PartitionId, Replicas] = {}
    if not load:
        return rows
    for partition in lost:
        owner = min(load, key=lambda member: load[member])
        load[owner] += 1
        rows[partition] = (owner, *(None,) * (replica_count - 1))
    return rows
