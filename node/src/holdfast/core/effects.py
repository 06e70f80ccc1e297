"""All that a node asks of its shell: the outputs of `Node.step`, in the order to be carried out.

The order contract
------------------
1. Effects of one step are carried out in the order of the list, and steps in their order.
2. `Persist` is numbered. The shell writes records in order and answers with
   `Persisted(sequence)` once they are on stable storage. It need not wait for that before it
   carries out what follows: a message which must not leave before a record is safe is not in the
   list at all until the node has been told `Persisted` (`outbox`).
3. `Answer` ends a request that was `Asked` here; each gets exactly one, `Pending` any number.

Nobody changes an effect; those of which every write makes one are not frozen only because a frozen
one takes four times as long to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.data_messages import FragmentStand, Mutations
from holdfast.core.messages import Fragment, Message, StableTable
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import Address, PartitionId, Term


@dataclass(slots=True)
class Send:
    """Send a message; it may be lost."""

    to: Address
    message: Message


@dataclass(frozen=True, slots=True)
class MembershipRecord:
    """To survive a restart: what was promised, and the newest view."""

    incarnation: int
    promised: Term
    view: View | None


@dataclass(frozen=True, slots=True)
class RowsRecord:
    """Rows of the table. `fresh` says that all rows before it count no more."""

    rows: tuple[Row, ...]
    fresh: bool


@dataclass(frozen=True, slots=True)
class StableRecord:
    """The stable table, or that there is none any more."""

    stable: StableTable | None


@dataclass(frozen=True, slots=True)
class FragmentRecord:
    """The data of a partition as it is now, or that it is dropped."""

    partition: PartitionId
    fragment: Fragment | None


@dataclass(slots=True)
class MutationsRecord:
    """Changes of one fragment, and where it stands after them."""

    partition: PartitionId
    generation: int
    """The history that this belongs to; what is on disk of another one is over."""
    name: bytes
    mutations: Mutations
    stand: FragmentStand
    index: int
    """Of the replica whose entries those are."""
    clean: bool
    """Whether nothing before these is missing."""


Record = MembershipRecord | RowsRecord | StableRecord | FragmentRecord | MutationsRecord


@dataclass(slots=True)
class Persist:
    """Write a record to stable storage, then say `Persisted`."""

    sequence: int
    record: Record


@dataclass(frozen=True, slots=True)
class Continue:
    """There is sliced work left: give `Continued` after whatever is waiting."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a request that was asked here; `error` is empty when it was done."""

    request: str
    error: str
    """Name of an error of the tree, or empty."""
    message: str


@dataclass(frozen=True, slots=True)
class Pending:
    """A request that was asked here waits, and why."""

    request: str
    reason: str


class NoticeKind(StrEnum):
    """What an operator or a log wants to know."""

    FOUNDED = "founded"
    JOINED = "joined"
    MEMBER_JOINED = "member joined"
    MEMBER_LEFT = "member left"
    CHANGE_WITHDRAWN = "change withdrawn"
    REFUSED = "refused"
    BECAME_MASTER = "became master"
    LOST_MASTERSHIP = "lost mastership"
    STATE_CHANGED = "state changed"
    LEVEL_CHANGED = "level changed"
    PARTITION_LOST = "partition lost"
    WRITES_LOST = "writes may be lost"
    """The best copy that was left did not have everything (`data.holdings`)."""
    MIGRATIONS_PLANNED = "migrations planned"
    MIGRATION_ENDED = "migration ended"
    MIGRATIONS_DONE = "migrations done"
    RECOVERY_WAITS = "recovery waits"
    RECOVERED = "recovered"
    EXCLUDED = "excluded"
    MEMORY_FULL = "memory full"
    MEMORY_FREE = "memory free"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened; `about` is a member, partition or migration."""

    kind: NoticeKind
    about: str
    detail: str


@dataclass(frozen=True, slots=True)
class Stop:
    """This member has left the cluster in good order; the process may end."""


@dataclass(slots=True)
class Reply:
    """Bytes for a client, in the order of its commands."""

    session: int
    data: bytes


@dataclass(frozen=True, slots=True)
class HangUp:
    """A client has said QUIT, and was answered: close its connection, then say `Disconnected`."""

    session: int


Effect = Reply | HangUp | Send | Persist | Continue | Answer | Pending | Notice | Stop
