"""Members and views: who belongs to the cluster, in which order, under which term.

A `View` is the list of members with all that the whole cluster must agree on: its term and
version, its compatibility level, its state. It is replaced whole, never changed; views are totally
ordered by `(term, version)`, and only the master of the term makes a new version (`mastership`).

Members stand in order of seniority: the oldest first. A member that comes back stands last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from holdfast.core.states import Attributes, ClusterState, attributes_of
from holdfast.ids import Address, MemberId, Term, Version

ViewKey = tuple[int, int]
"""`(term, version)`: the order of views."""


class Kind(StrEnum):
    """A data member owns partitions; a lite member owns none (seed 000)."""

    DATA = "data"
    LITE = "lite"


class Drain(StrEnum):
    """Why a data member is being emptied, if it is."""

    NONE = "none"
    LEAVING = "leaving"
    DEMOTING = "demoting"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a member is reached by whoever is no member; empty where it does not listen."""

    plain: Address = Address("")
    """Redis, any key (`design/4`)."""
    cluster: Address = Address("")
    """Redis Cluster: its own keys only."""
    http: Address = Address("")


NO_ENDPOINTS: Final = Endpoints()


@dataclass(frozen=True, slots=True)
class Member:
    """One stay of one member in the cluster. `(id, incarnation)` never comes twice."""

    id: MemberId
    incarnation: int
    name: str
    address: Address
    group: str
    """Failure domain: no two replicas of a partition in one, while groups suffice."""
    kind: Kind
    persistent: bool
    """Whether it keeps its data and its promises over a restart."""
    level_max: int
    """Newest compatibility level that it speaks."""
    drain: Drain = Drain.NONE
    recovered: bool = False
    """This stay began by the recovery of the cluster from files, not by joining: the rows that
    the member had persisted count (`membership`)."""

    newcomer: bool = False
    """Let in, and it has not confirmed that yet: no voter and no holder of partitions, so that
    one which dies at the door costs nobody a majority (`joining`)."""

    endpoints: Endpoints = NO_ENDPOINTS

    @property
    def votes(self) -> bool:
        """Majorities are counted among data members (`design/3` §1)."""
        return self.kind is Kind.DATA and not self.newcomer

    @property
    def takes_partitions(self) -> bool:
        """Whether an assignment may use it."""
        return self.votes and self.drain is Drain.NONE


@dataclass(frozen=True)
class View:
    """What every member must agree on. Compare by `key`.

    What is derived is kept, as a view lives long and is asked for every row of the table.
    """

    term: Term
    version: Version
    master: MemberId
    cluster: str
    """Identity of this cluster, made when it was founded; two clusters never mix."""
    level: int
    state: ClusterState
    members: tuple[Member, ...]
    departed: tuple[Member, ...] = ()
    """Members that left and may be expected back; see `repair.expected`."""
    recovering: bool = False
    """A whole cluster comes back: everything is PASSIVE until all have loaded."""
    stable: ViewKey = (0, 0)
    """Key of the view at which the stable table was taken; (0, 0) when there is none."""
    base: tuple[Member, ...] = ()
    """The voters of the view before, as long as it is not certain that this one is committed;
    empty from then on. They have a say in who becomes master (`quorums`)."""
    founding: int = 0
    """How many of the members must confirm before this cluster exists: a majority of the initial
    list. 0 once it does (`forming`)."""
    change: str = ""
    """The last state change that was applied, by its request; tells an asker the outcome."""

    @property
    def key(self) -> ViewKey:
        """Place of this view in the order of all views."""
        return (self.term, self.version)

    @property
    def sealed(self) -> bool:
        """Whether it is certain that this view, or the one that it repeats, is committed."""
        return not self.base and not self.founding

    @cached_property
    def attributes(self) -> Attributes:
        """What may happen now; PASSIVE's while recovering (seed 003, "Recovery mode")."""
        return attributes_of(ClusterState.PASSIVE if self.recovering else self.state)

    @cached_property
    def voters(self) -> tuple[Member, ...]:
        """The members whose majority decides."""
        return tuple(member for member in self.members if member.votes)

    @cached_property
    def candidates(self) -> tuple[Member, ...]:
        """The members that an assignment may use."""
        return tuple(member for member in self.members if member.takes_partitions)

    def find(self, member_id: MemberId) -> Member | None:
        """The member of this id, whatever its incarnation."""
        return self._by_id.get(member_id)

    @cached_property
    def _by_id(self) -> dict[MemberId, Member]:
        return {member.id: member for member in self.members}

    def find_or_base(self, member_id: MemberId) -> Member | None:
        """The same; while this view is not sealed, of those that it takes out as well."""
        return self._by_id.get(member_id) or self._base_by_id.get(member_id)

    @cached_property
    def _base_by_id(self) -> dict[MemberId, Member]:
        return {member.id: member for member in self.base}

    def has(self, member_id: MemberId, incarnation: int) -> bool:
        """Whether this very stay of the member is listed."""
        member = self.find(member_id)
        return member is not None and member.incarnation == incarnation

    def with_member(self, member: Member) -> View:
        """Add a member, the youngest; it is no longer among the departed."""
        departed = tuple(gone for gone in self.departed if gone.id != member.id)
        return replace(self, members=(*self.members, member), departed=departed)

    def without_member(self, member_id: MemberId) -> View:
        """Take a member out and remember that it left."""
        gone = tuple(member for member in self.members if member.id == member_id)
        kept = tuple(member for member in self.members if member.id != member_id)
        departed = tuple(member for member in self.departed if member.id != member_id)
        return replace(self, members=kept, departed=(*departed, *gone))

    def with_changed(self, member: Member) -> View:
        """Replace the entry of a member, keeping its seniority."""
        members = tuple(member if old.id == member.id else old for old in self.members)
        return replace(self, members=members)
