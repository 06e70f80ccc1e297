"""What members send one another about data. Nobody changes what was sent; those of which a write
makes one are not frozen only because a frozen one takes four times as long to make.

Mutations travel from an owner to whoever holds a copy, in numbered frames (`streams`, `replicas`).
Everything else is about copies that lack something: the owner's check, the copy's question, the
answers to it (`checks`, `pulling`, `giving`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.ids import MemberId, PartitionId

Mutations = tuple[tuple[bytes, bytes], ...]
"""Keys and records, in the order in which the owner made them."""

Points = tuple[tuple[int, int], ...]
"""A lineage: (epoch, counter), oldest first (`vectors`)."""


@dataclass(slots=True)
class Stand:
    """Where the owner of a fragment stands: its vector."""

    epoch: int
    counter: int
    entries: tuple[int, ...]


@dataclass(slots=True)
class MutationRun:
    """Mutations of one fragment that ask for the same number of backups."""

    partition: PartitionId
    name: bytes
    index: int
    """The replica index for which the receiver gets them."""
    backups: int
    before: Stand
    """The owner's vector before the first of them."""
    lineage: Points
    """With the first run of an ownership; else empty."""
    mutations: Mutations


@dataclass(slots=True)
class FragmentStand:
    """A fragment, where its owner stands, and by which ownerships it came there."""

    name: bytes
    stand: Stand
    lineage: Points


@dataclass(frozen=True, slots=True)
class ReplicaCheck:
    """Owner to a backup, now and then: this is what you should have."""

    partition: PartitionId
    reign: int
    fragments: tuple[FragmentStand, ...]


@dataclass(slots=True)
class BackupFrame:
    """One tick's mutations for one member."""

    number: int
    skipped: bool
    """What was between the last frame that arrived and this one will never come."""
    runs: tuple[MutationRun, ...]
    checks: tuple[ReplicaCheck, ...]
    """Where the owner of a new reign stands; the acknowledgement says that the copy does, too."""
    receiver: MemberId
    stay: int
    """Whom it is for: another one may have its address by now, and numbers of its own."""


@dataclass(slots=True)
class BackupAck:
    """Every frame of a stay up to this number is applied, and safe."""

    number: int
    stay: int
    """Of whoever sent the frames: its next stay numbers them anew."""
    doubted: tuple[PartitionId, ...]
    """Partitions whose copies here don't count as backups at this moment."""
    full: bool = False
    """Whether the disk here has too little room for more data."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a copy that is to be brought up to date says of one of its fragments."""

    name: bytes
    whole: tuple[int, int]
    """Up to here nothing is missing; (0, 0) when that is not known."""
    reached: tuple[int, int]
    held: int
    """How many keys are here: what has few of them is sent everything."""
    digest: bytes
    """Of its Merkle tree; empty when nothing is there, and where the point may be enough."""

    @property
    def empty(self) -> bool:
        """Whether nothing is here."""
        return not self.held


@dataclass(frozen=True, slots=True)
class SyncAsk:
    """Holder to owner: bring this partition up to date here."""

    id: int
    partition: PartitionId
    reign: int
    index: int
    fragments: tuple[Claimed, ...]
    """All that are here."""
    recall: bool = False
    """Owner to backup: what do you have beyond this?"""


class Way(StrEnum):
    """How a fragment is brought up to date."""

    NOTHING = "nothing"
    """It has everything."""
    CHANGES = "changes"
    """The owner knows which keys have changed since; their records are in the plan."""
    MANY = "many"
    """The same, where they are too long for a plan: the rest of them comes page by page."""
    LEAVES = "leaves"
    """The trees differ in these leaves: their listings come page by page."""
    WHOLE = "whole"
    """All records come, page by page."""


@dataclass(frozen=True, slots=True)
class FragmentPlan:
    """How one fragment is brought up to date."""

    owner: FragmentStand
    way: Way
    records: Mutations
    locks: Mutations
    """All that there are, unless the way is NOTHING or CHANGES."""
    leaves: tuple[int, ...]
    depth: int
    """Of the owner's tree, whose leaves those are."""
    past: int | None = None
    """Where the owner's journal begins, if that goes along as somebody follows it."""


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """Owner to holder: what you lack and how you get it."""

    id: int
    partition: PartitionId
    reign: int
    fragments: tuple[FragmentPlan, ...]
    reason: str
    """Empty; else why not now."""
    sure: bool = False
    """Of a backup that its owner asks: whether it has everything that was ever acknowledged."""
    compares: bool = False
    """With a reason: whether the same question with digests would be answered."""


@dataclass(frozen=True, slots=True)
class SyncPull:
    """Holder to owner: the next page."""

    id: int
    partition: PartitionId
    name: bytes
    keys: tuple[bytes, ...]
    """The records of these; if empty, what comes at this position."""
    position: int
    past: bool = False
    """The journal up to this mutation, instead."""


@dataclass(frozen=True, slots=True)
class SyncPage:
    """Owner to holder: one page."""

    id: int
    partition: PartitionId
    name: bytes
    position: int
    """Repeats the question."""
    records: Mutations
    """Records, GONE for keys that are not there any more."""
    listed: Mutations
    """Keys and versions of some leaves."""
    leaves: tuple[int, ...]
    """Which leaves `listed` is of."""
    next: int
    """Where the next page begins; 0 when there is none."""
    past: bool = False
    """`records` are mutations, as the journal has them, that end with number `position`; what
    comes before them ends with `next`."""


@dataclass(frozen=True, slots=True)
class SyncEnd:
    """Holder to owner: I have what I wanted; or the other way round: this is over."""

    id: int
    partition: PartitionId


Errand = tuple[int, bytes, int, tuple[list[bytes], ...]]
"""Its number, who it is for, in which dialect, and commands in order."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Member to member: what my clients ask of you, and what of it is wanted still."""

    incarnation: int
    """Of the stay that this is for: another one did not see what was sent before."""
    last: int
    """The newest number that you should have heard of."""
    wanted: tuple[int, ...]
    """Older ones that I have no answer to yet. Of all others up to `last` none is needed."""
    errands: tuple[Errand, ...]


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The other way round: replies to whole errands, in the order of their commands."""

    incarnation: int
    """Of the stay that asked."""
    outcomes: tuple[tuple[int, tuple[bytes, ...]], ...]
    waiting: tuple[int, ...]
    """What is here and waits for a key: it need not be sent again."""


DataMessage = (
    BackupFrame
    | BackupAck
    | ReplicaCheck
    | SyncAsk
    | SyncPlan
    | SyncPull
    | SyncPage
    | SyncEnd
    | Forward
    | Forwarded
)
