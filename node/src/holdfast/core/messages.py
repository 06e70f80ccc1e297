"""Every message that members send one another, as frozen dataclasses.

A message is plain data: it knows nothing of how it is encoded (`holdfast.wire`) nor of who may
send it when (that is in the machine which handles it, named beside each group). `Origin` travels
with each message and says which stay of which member sent it.

The network may lose, delay, reorder and repeat messages. Hence every message is either idempotent
or carries the number (term, view version, partition version, sequence) that makes an old copy
harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.data_messages import DataMessage, FragmentStand
from holdfast.core.migrations import Move
from holdfast.core.states import ClusterState
from holdfast.core.table import Row
from holdfast.core.views import Member, View
from holdfast.ids import Address, MemberId, Millis, PartitionId, Replicas, Term, Version


@dataclass(frozen=True, slots=True)
class Origin:
    """The stay of the member that sent a message, and where it can be answered."""

    id: MemberId
    incarnation: int
    address: Address


@dataclass(frozen=True, slots=True)
class Fragment:
    """The data of one partition, opaque here: which history it is of, and how far it got."""

    epoch: int
    counter: int


@dataclass(frozen=True, slots=True)
class MigrationId:
    """A master's number for one migration; never used twice."""

    term: Term
    sequence: int


@dataclass(frozen=True, slots=True)
class Migration:
    """One atomic step for one partition: the row changes by all of its moves at once."""

    id: MigrationId
    partition: PartitionId
    version_before: Version
    moves: tuple[Move, ...]
    before: Replicas
    after: Replicas

    @property
    def sender(self) -> MemberId | None:
        """The owner sends the data (`design/3` §3)."""
        return self.before[0]

    @property
    def destinations(self) -> tuple[MemberId, ...]:
        """Who must commit before the master does; the new owner last."""
        moved = tuple(move.destination for move in self.moves if move.destination is not None)
        backups = tuple(member for member in moved if member != self.after[0])
        return (*backups, *(member for member in moved if member == self.after[0]))

    @property
    def version_committed(self) -> Version:
        """+1 for a change (`design/3` §2)."""
        return Version(self.version_before + 1)

    @property
    def version_failed(self) -> Version:
        """+2: past the version that a destination may have committed (seed 002 §2.1, step 4)."""
        return Version(self.version_before + 2)


class Outcome(StrEnum):
    """How a migration ended."""

    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Completed:
    """An entry of the completed-migrations list (seed 002 §2.1)."""

    migration: Migration
    outcome: Outcome

    @property
    def version_after(self) -> Version:
        """The version that the partition has since."""
        if self.outcome is Outcome.SUCCESS:
            return self.migration.version_committed
        return self.migration.version_failed


@dataclass(frozen=True, slots=True)
class StableTable:
    """The table at the transition to a state that keeps one (seed 003, "Partitioning")."""

    term: Term
    version: Version
    rows: tuple[Row, ...]


# Finding one another and founding a cluster (`forming`) -------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """Who I am, and whether I look for others to found a cluster with."""

    member: Member
    cluster_name: str
    unfounded: bool
    """Nothing founded is known to me, and I may help to found."""
    answer_wanted: bool


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """Let me in."""

    member: Member
    cluster_name: str
    cluster: str
    """The cluster that I was a member of, or empty."""
    protocol: int
    partition_count: int
    replica_count: int


@dataclass(frozen=True, slots=True)
class Redirect:
    """I am not the master; ask there."""

    master: Address


@dataclass(frozen=True, slots=True)
class Refusal:
    """No, with the name of an error of the tree and a sentence. `about` repeats the request."""

    about: str
    error: str
    message: str


# Terms, leases, views (`election`, `mastership`, `membership`) ------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """I want to be master in this term; my newest view is this.

    A `probe` asks whether the claim would be granted and binds nobody, so that a member which
    merely hears nothing does not end a mastership that works.
    """

    term: Term
    view_term: Term
    view_version: Version
    founding: bool
    probe: bool
    sent_at: Millis
    """The candidate's clock; comes back in the promise."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Answer to a claim. When refused, `term` is the highest that the voter knows."""

    claimed: Term
    granted: bool
    probe: bool
    sent_at: Millis
    term: Term
    view: View | None
    """The voter's view where it is newer than the candidate's."""
    voter: Member
    recovered: bool
    """The voter comes from files: what it holds is what it had persisted."""


@dataclass(frozen=True, slots=True)
class NewView:
    """The master's newest view. Its receipt is confirmed by a heartbeat that names it."""

    view: View


@dataclass(frozen=True, slots=True)
class NotListed:
    """This view does not list you (any more): confirm that you know, then join again."""

    view: View
    sent_at: Millis
    """The master's clock, echoed by the confirmation; -1 from anyone else."""


@dataclass(frozen=True, slots=True)
class NewerTerm:
    """Your message was of a term that is over here."""

    term: Term
    view: View | None


@dataclass(frozen=True, slots=True)
class Farewell:
    """This stay of mine is over, by my own word: nothing of it will act again."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Member to master, every `heartbeat_ms`: I live, I hold this; renew my lease."""

    term: Term
    version: Version
    sent_at: Millis
    """The member's clock; comes back in the grant."""
    granted_at: Millis
    """The master's clock of the last grant that arrived here; -1 for none."""
    stamp: int
    loaded: bool
    stable_term: Term
    stable_version: Version
    active: tuple[MigrationId, ...]
    """Migrations whose end this member has not learnt."""
    resumes: tuple[tuple[PartitionId, int], ...] = ()
    """Partitions that I own and in whose present reign I have written before a restart."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Master to member: I heard you; serve for one lease, counted from your `sent_at`."""

    term: Term
    version: Version
    sent_at: Millis
    granted_at: Millis
    serve: bool
    """False while the master settles: the vow is renewed, the lease is not."""
    quiet: bool
    """Every change of the table is known to every member: completed migrations may be forgotten."""


# The partition table (`publication`, `settlement`) ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fetch:
    """A new master asks every member what it knows (seed 002 §1.2)."""

    view: View
    stamp: int


@dataclass(frozen=True, slots=True)
class Report:
    """What one member knows: the answer to `Fetch`."""

    term: Term
    stamp: int
    rows: tuple[Row, ...]
    """All rows, or none when the stamp equals the asker's."""
    completed: tuple[Completed, ...]
    active: tuple[Migration, ...]
    unpublished: tuple[PartitionId, ...]
    """Rows that the member has and knows of no master's word for."""
    stable: StableTable | None


@dataclass(frozen=True, slots=True)
class Publication:
    """Changed rows, with the ends of the migrations that changed them."""

    term: Term
    sequence: int
    rows: tuple[Row, ...]
    completed: tuple[Completed, ...]


@dataclass(frozen=True, slots=True)
class PublicationAck:
    """The publication of this sequence number is applied, or was already obsolete."""

    term: Term
    sequence: int


@dataclass(frozen=True, slots=True)
class VersionsRequest:
    """Our stamps differ although nothing is under way: what do you hold?"""

    term: Term


@dataclass(frozen=True, slots=True)
class Versions:
    """All versions in partition order."""

    term: Term
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StablePublication:
    """The stable table, for a member that lacks it."""

    stable: StableTable


# Migrations (`execution`, `participation`) --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MigrationRequest:
    """Master to owner: copy the partition to the destinations and hand over."""

    migration: Migration
    completed: tuple[Completed, ...]


@dataclass(frozen=True, slots=True)
class FragmentPush:
    """Owner to destination: take the data of this history from me (`data.pulling`)."""

    migration: Migration
    completed: tuple[Completed, ...]
    fragment: Fragment
    standing: tuple[FragmentStand, ...] = ()
    """Where each fragment stands."""
    closing: bool = False
    """Nothing is written any more: this is where they stand at the end."""


@dataclass(frozen=True, slots=True)
class FragmentAck:
    """Destination to owner: I have everything, or why not."""

    id: MigrationId
    partition: PartitionId
    reason: str
    """Empty when all is well."""
    reached: tuple[tuple[bytes, int], ...] = ()
    """Of each fragment, the entry of my new index that I have."""


@dataclass(frozen=True, slots=True)
class MigrationReady:
    """Owner to master: every destination has the data and I hold back writes; or why not."""

    id: MigrationId
    partition: PartitionId
    reason: str


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Master to destination: the migration is decided; take the new row (seed 002 §2.1)."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class CommitAck:
    """Destination to master: committed, and it will survive my restart."""

    id: MigrationId
    partition: PartitionId
    taken: int = 0
    """Bytes of keys and values that came over for it."""


# State changes (`transition`), promotion and leaving (`requests`) ---------------------------------


class Ask(StrEnum):
    """What an administrator may ask of the cluster through any member."""

    STATE = "state"
    LEVEL = "level"
    PROMOTE = "promote"
    DEMOTE = "demote"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Request:
    """An administrator's request, carried to the master."""

    id: str
    ask: Ask
    state: ClusterState
    """The target of `STATE`; ignored otherwise."""
    level: int
    """The target of `LEVEL`; ignored otherwise."""
    wait_ms: Millis
    """How long running migrations may delay it; 0 refuses at once."""
    stamp: int
    """The asker's table, as seed 001 §3.1 wants it checked."""


@dataclass(frozen=True, slots=True)
class RequestDone:
    """Master to asker: it is done."""

    id: str
    view: View


@dataclass(frozen=True, slots=True)
class RequestPending:
    """Master to asker: accepted, but it waits, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """First phase of a state change: lock, if you see what I see."""

    id: str
    term: Term
    version: Version
    stamp: int
    lock_ms: Millis


@dataclass(frozen=True, slots=True)
class PrepareAck:
    """Locked, or why not."""

    id: str
    term: Term
    reason: str


@dataclass(frozen=True, slots=True)
class Abort:
    """The change is off: unlock."""

    id: str
    term: Term


Message = (
    DataMessage
    | Hello
    | JoinRequest
    | Redirect
    | Refusal
    | Claim
    | Promise
    | NewView
    | NotListed
    | NewerTerm
    | Farewell
    | Heartbeat
    | Grant
    | Fetch
    | Report
    | Publication
    | PublicationAck
    | VersionsRequest
    | Versions
    | StablePublication
    | MigrationRequest
    | FragmentPush
    | FragmentAck
    | MigrationReady
    | CommitRequest
    | CommitAck
    | Request
    | RequestDone
    | RequestPending
    | Prepare
    | PrepareAck
    | Abort
)
"""All that may travel between members."""
