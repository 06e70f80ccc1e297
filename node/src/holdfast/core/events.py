"""All that may happen to a node: the inputs of `Node.step`.

Every event is a frozen dataclass. Time is not in them: it is the second argument of `step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.data_messages import FragmentStand, Mutations
from holdfast.core.messages import Message, Origin, Request, StableTable
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import MemberId, Millis, PartitionId, Term


@dataclass(frozen=True, slots=True)
class RecoveredFragment:
    """What the files have of one fragment: the sum of its records."""

    partition: PartitionId
    stand: FragmentStand
    index: int
    clean: bool
    records: dict[bytes, bytes]
    """Whole records by their keys. Whoever loads them has them from then on, and changes them."""
    locks: Mutations = ()
    """Records of locks."""


@dataclass(frozen=True, slots=True)
class Image:
    """What a member's files said when it started; the sum of the records it persisted."""

    incarnation: int
    """The last that was used; a process starts with a greater one."""
    promised: Term
    view: View | None
    rows: tuple[Row, ...]
    stable: StableTable | None
    fragments: tuple[tuple[PartitionId, int, int], ...]
    """Partition, epoch and counter of each partition whose data is on disk."""
    data: tuple[RecoveredFragment, ...] = ()
    damaged: tuple[PartitionId, ...] = ()
    """Partitions of which the files have lost something: whoever had to lead one says so."""
    unsure: bool = False
    """Whether mutations that were persisted last may be missing: they were not on stable storage,
    and more than the process may have ended."""
    ended: bool = False
    """Whether the process ended in order: nobody has anything of it that is not here."""


@dataclass(frozen=True, slots=True)
class Started:
    """The first event of every process. `image` is None without files."""

    image: Image | None


@dataclass(frozen=True, slots=True)
class Received:
    """A message arrived."""

    origin: Origin
    message: Message


@dataclass(frozen=True, slots=True)
class Gathered:
    """Messages of one turn that may be looked at together, in the order of their arrival
    (`turns`)."""

    received: tuple[Received, ...]


@dataclass(frozen=True, slots=True)
class Woke:
    """The time that `Node.wake_at` named has come (or any other reason to look at the clock)."""


@dataclass(frozen=True, slots=True)
class Continued:
    """Go on with the sliced work that `effects.Continue` spoke of."""


@dataclass(frozen=True, slots=True)
class Persisted:
    """Every `Persist` up to this sequence number is on stable storage."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The shell has loaded this member's data from its files."""


@dataclass(frozen=True, slots=True)
class Room:
    """The shell's disk is nearly full, or no more."""

    full: bool


@dataclass(frozen=True, slots=True)
class ConfirmedDead:
    """An arbiter knows that this process is gone (`design/3` §1): a fact, not a suspicion."""

    id: MemberId
    incarnation: int
    """This incarnation and all before it are dead."""
    ago: Millis
    """How long ago it died."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An administrator asks something of the cluster, here."""

    request: Request


Batch = tuple[int, Sequence[list[bytes]]]
"""A client's session, and its commands in order."""


@dataclass(frozen=True, slots=True)
class Commanded:
    """What clients sent in one tick: what it changes goes to each backup in one frame."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """A client has connected. One of whom this was never said is of the cluster port."""

    session: int
    forwards: bool
    """Whether it came to the plain port: any key is answered, by whoever owns it."""
    peer: str
    """Where it comes from, for people."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """A client has gone."""

    session: int


Event = (
    Commanded
    | Opened
    | Disconnected
    | Started
    | Received
    | Gathered
    | Woke
    | Continued
    | Persisted
    | Loaded
    | Room
    | ConfirmedDead
    | Asked
)
