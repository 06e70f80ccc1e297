"""Cluster states as attributes: what may move, decided by properties and never by names.

Rules (seed 000 "Manual Control of Partition Migration", `design/3` §7)
-----------------------------------------------------------------------
Every decision of the core asks one of these attributes. Nothing outside this module compares a
state with a name, so that a new state is a new row here and nothing else.

    state           joins      rebalance  repair     promote  writes
    ACTIVE          anyone     yes        yes        yes      yes
    NO_MIGRATION    anyone     no         no         yes      yes
    STABLE_CLUSTER  expected   reclaim    if late    yes      yes
    FROZEN          expected   no         no         no       yes
    PASSIVE         expected   no         no         no       no
    IN_TRANSITION   nobody     no         no         no       yes

* *joins*: who the master lets in. `expected` are members of the stable table, or that left while
  the state did not promote on loss (their partitions wait for them).
* *rebalance*: whether partitions may move to balance the load; `reclaim` gives back to a returning
  member what the stable table says, and moves nothing else.
* *repair*: whether missing backups are copied to other members; `if late` only after
  `stable_repair_after`.
* *promote*: whether a backup takes over when its owner leaves.

States
------
The value that an administrator asks for is one of the five `ASKABLE`. `IN_TRANSITION` is what a
member answers between the two phases of a change (`transition`); it is never stored in a view.

What can go wrong
-----------------
An attribute that is forgotten in a new state can't be: the dataclass has no defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ClusterState(StrEnum):
    """What the cluster may do now (seed 000, seed 003)."""

    ACTIVE = "ACTIVE"
    NO_MIGRATION = "NO_MIGRATION"
    STABLE_CLUSTER = "STABLE_CLUSTER"
    FROZEN = "FROZEN"
    PASSIVE = "PASSIVE"
    IN_TRANSITION = "IN_TRANSITION"


class Joins(StrEnum):
    """Whom the master lets in."""

    ANYONE = "anyone"
    EXPECTED = "expected"
    NOBODY = "nobody"


class Rebalance(StrEnum):
    """Whether partitions may move to even out the load."""

    YES = "yes"
    RECLAIM = "reclaim"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Attributes:
    """One row of the table above. Seed 000 calls two of them `joinAllowed`, `migrationAllowed`."""

    joins: Joins
    rebalance: Rebalance
    repairs_backups: bool
    promotes_on_loss: bool
    accepts_writes: bool
    keeps_stable_table: bool

    @property
    def join_allowed(self) -> bool:
        """Seed 000's `joinAllowed`: anyone may join."""
        return self.joins is Joins.ANYONE

    @property
    def migration_allowed(self) -> bool:
        """Seed 000's `migrationAllowed`: rebalancing and re-replication may run."""
        return self.rebalance is Rebalance.YES and self.repairs_backups


ATTRIBUTES: Final[dict[ClusterState, Attributes]] = {
    ClusterState.ACTIVE: Attributes(
        joins=Joins.ANYONE,
        rebalance=Rebalance.YES,
        repairs_backups=True,
        promotes_on_loss=True,
        accepts_writes=True,
        keeps_stable_table=False,
    ),
    ClusterState.NO_MIGRATION: Attributes(
        joins=Joins.ANYONE,
        rebalance=Rebalance.NO,
        repairs_backups=False,
        promotes_on_loss=True,
        accepts_writes=True,
        keeps_stable_table=False,
    ),
    ClusterState.STABLE_CLUSTER: Attributes(
        joins=Joins.EXPECTED,
        rebalance=Rebalance.RECLAIM,
        repairs_backups=False,
        promotes_on_loss=True,
        accepts_writes=True,
        keeps_stable_table=True,
    ),
    ClusterState.FROZEN: Attributes(
        joins=Joins.EXPECTED,
        rebalance=Rebalance.NO,
        repairs_backups=False,
        promotes_on_loss=False,
        accepts_writes=True,
        keeps_stable_table=False,
    ),
    ClusterState.PASSIVE: Attributes(
        joins=Joins.EXPECTED,
        rebalance=Rebalance.NO,
        repairs_backups=False,
        promotes_on_loss=False,
        accepts_writes=False,
        keeps_stable_table=False,
    ),
    ClusterState.IN_TRANSITION: Attributes(
        joins=Joins.NOBODY,
        rebalance=Rebalance.NO,
        repairs_backups=False,
        promotes_on_loss=False,
        accepts_writes=True,
        keeps_stable_table=False,
    ),
}

ASKABLE: Final = tuple(state for state in ClusterState if state is not ClusterState.IN_TRANSITION)
"""The states that can be asked for."""


def attributes_of(state: ClusterState) -> Attributes:
    """The attributes that decisions read."""
    return ATTRIBUTES[state]
