"""The cluster as Redis Cluster would have it: masters with ranges of slots, and their replicas.

Rules (`design/4`, "What a member offers to the outside")
---------------------------------------------------------
* Who owns a partition is a master of its slots. Partitions side by side with the same owner are one
  range. Where the owner has just been taken out, it is who comes first after it: for as long as
  nobody leads there, clients are told to try again. Left out, its slots would make clients that
  want all of them give up. The state of the cluster is not ok meanwhile.
* A member that owns nothing and is a backup is the replica of the master that it has most of. One
  that owns something is no replica of others, although it holds backups: clients take a node for
  one or the other, and would overlook masters.
* A node's name is 40 hexadecimal digits that follow from the member's id alone.
* Where a member is reached is its endpoint of the cluster port, on whichever port one asks; a
  member that says none is named by its address.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.gates import SLOTS
from holdfast.core.table import Row
from holdfast.core.views import Member, View
from holdfast.ids import Address, MemberId, PartitionId


@lru_cache(maxsize=1024)
def node_name(member: MemberId) -> str:
    """What Redis calls a node's id."""
    return hashlib.sha1(member.encode(), usedforsecurity=False).hexdigest()


def first_slot(partition: int, partitions: int) -> int:
    """The lowest slot of a partition."""
    return -(-partition * SLOTS // partitions)


def partition_of_slot(slot: int, partitions: int) -> PartitionId:
    """Where a slot lies."""
    return PartitionId(slot * partitions >> 14)


def split_address(address: Address) -> tuple[str, int]:
    """Host and port; port 0 where none is said."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0


@dataclass(frozen=True, slots=True)
class Range:
    """Slots side by side of one master."""

    first: int
    last: int
    owner: MemberId


@dataclass(frozen=True, slots=True)
class Shape:
    """Who is what at this moment."""

    members: tuple[Member, ...]
    ranges: tuple[Range, ...]
    masters: dict[MemberId, MemberId]
    """Of each replica, its master."""
    slots: int
    """How many slots have an owner that is listed."""

    def ranges_of(self, member: MemberId) -> list[Range]:
        """The slots that a member owns."""
        return [each for each in self.ranges if each.owner == member]

    def replicas_of(self, member: MemberId) -> list[Member]:
        """Its replicas."""
        return [each for each in self.members if self.masters.get(each.id) == member]


NOTHING: Final = Shape((), (), {}, 0)


def owner_or_heir(row: Row, view: View) -> MemberId | None:
    """Who is asked for a partition: the first in its row who is listed."""
    return next((each for each in row.holders if view.find(each) is not None), None)


def shape_of(context: Context) -> Shape:
    """The cluster as I know it."""
    view = context.view
    if view is None:
        return NOTHING
    partitions = len(context.table)
    ranges: list[Range] = []
    slots = 0
    backed: dict[MemberId, dict[MemberId, int]] = {}
    for row in context.table.rows:
        owner = owner_or_heir(row, view)
        if owner is None:
            continue
        first = first_slot(row.partition, partitions)
        last = first_slot(row.partition + 1, partitions) - 1
        slots += last - first + 1 if owner == row.owner else 0
        if ranges and ranges[-1].owner == owner and ranges[-1].last == first - 1:
            ranges[-1] = Range(ranges[-1].first, last, owner)
        else:
            ranges.append(Range(first, last, owner))
        for backup in row.replicas[1:]:
            if backup is not None and backup != owner:
                owners = backed.setdefault(backup, {})
                owners[owner] = owners.get(owner, 0) + 1
    owning = {each.owner: None for each in ranges}
    masters = {
        backup: max(owners, key=lambda owner: owners[owner])
        for backup, owners in backed.items()
        if backup not in owning
    }
    return Shape(view.members, tuple(ranges), masters, slots)
