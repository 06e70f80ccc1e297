"""Replica version vectors: how a backup notices that it missed something.

Rules (seed 004; `design/3` §5)
-------------------------------
A fragment is the data of one namespace in one partition. Its owner keeps a vector of six entries,
one for each replica index 1..6, and beside them a counter of all its mutations, which numbers them.
A mutation with n backups raises the counter and the first n entries. The vector goes along with
each backup operation; a replica keeps the entries from its own index on, the others are zero.

    owner, 3 backups   [A+1, B+1, C+1, D, E, F]      replica 2 keeps   [0, B+1, C+1, D, E, F]

A backup compares the entry of its own index (`judge`):

    incoming          verdict   what the document says
    held + 1          NEXT      "backup operation is applied and versions are set"
    held or less      STALE     "backup operation is ignored and versions are kept intact"
    held + 2 or more  GAP       "applied and versions are set. But also replica is marked as dirty
                                and a replica sync request is sent"
    any, when dirty   ...       "regardless of version in operation, a new replica sync request is
                                sent": the verdict of above, and `asks`

The document says "less than" for stale and nothing of equal; an equal one has been applied already.

Epochs
------
Each ownership has its epoch, greater than all before it, so two histories with equal counters never
look equal. An operation of an older epoch is STALE. One of a newer epoch is a GAP, unless what is
held is *known* to be exactly what the new owner began with; then it goes on as if nothing had
happened. What is known is a `Lineage`: the epochs that a history passed through, each with the
counter at which it began.

        epoch 1         4           9
        ├───────────────┼───────────┼────────▶        Lineage((1, 0), (4, 7), (9, 12))
        0               7           12
                        └──▶ (1, 8): written by the owner of epoch 1, unknown to the one of 4

Promotion (`Backup.promoted`). At index i the entries below i are unknown. They are not needed: in a
new epoch *all six entries start at the counter*. That promises every index the whole history up to
there; who has another counter has a GAP with the first operation. From this follows what else must
be known: **a replica is whole where its entry equals the counter.** Whoever lacks mutations that
asked for fewer backups than its index has an entry that is behind, in every epoch; its data is what
it was promised, but no prefix of the history.

States of a backup (`Backup`)
-----------------------------
Clean or dirty. Dirty begins with a GAP and ends with a sync that is recent enough: it must contain
what the last GAP skipped (`needed`). An older one, which was under way when that GAP came, is taken
but does not clean. `known` is what a replica may claim without a look at its content: everything up
to `whole`, and nothing that came after `reached`. A journal can bring it up to date from `whole` if
*both* are on the owner's history. A sync in blocks that ends half way leaves nothing to claim.

What can go wrong
-----------------
* After a GAP the vector equals the owner's, though something is missing. Hence whoever compares
  to save a transfer looks at `known`, never at the vector alone.
* A dirty replica has more than it is sure of. Of (4, 9) and later ones up to (4, 12), an owner that
  began at (4, 10) has a journal since 9, but it does not know of what came after 10 there. So where
  an epoch comes that does not reach all that is held, nothing is known any more.
* A replica with holes is promoted, as nobody better lives. Then its counter says that it has what
  it has not. So it begins a lineage without past: everybody else's point is unknown there, and
  they compare by content. The same for one that is not whole.
* A page is made later than its plan, so it may have brought a mutation whose turn in the stream
  has not come, and never does where the owner dies. Until it comes the replica is *ahead*: it
  claims nothing, and begins a lineage without past if it is promoted.
* The past is forgotten, oldest first (`LENGTH_MAX`). A forgotten point is an unknown one: it costs
  a comparison by content, never correctness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from holdfast.errors import LocalProtocolError
from holdfast.ids import REPLICA_COUNT_MAX

ENTRY_COUNT: Final = REPLICA_COUNT_MAX - 1
"""One entry for each backup: the owner's own count is `Vector.counter`."""

LENGTH_MAX: Final = 32
"""Epochs that a lineage remembers. A member that missed more promotions compares by content."""

ANYWHERE: Final = 1 << 62
"""A number that no mutation reaches."""


class Point(NamedTuple):
    """A place in a history: after this many mutations, in this ownership."""

    epoch: int
    counter: int


class Known(NamedTuple):
    """What a replica may claim: everything up to `whole`, and nothing that is after `reached`."""

    whole: Point
    reached: Point


@dataclass(frozen=True, slots=True)
class Lineage:
    """The epochs of a history with the counters at which they began; oldest first.

    The oldest one may have begun earlier: it is known from there on.
    """

    segments: tuple[Point, ...] = ()

    @classmethod
    def starting(cls, epoch: int, counter: int) -> Lineage:
        """A history of which nothing earlier is known."""
        return cls((Point(epoch, counter),))

    def extended(self, epoch: int, counter: int) -> Lineage:
        """The same history under its next owner, who began with this many mutations."""
        if self.segments:
            newest = self.segments[-1]
            if epoch <= newest.epoch or counter < newest.counter:
                raise LocalProtocolError(f"{Point(epoch, counter)} can't follow {newest}")
        return Lineage((*self.segments, Point(epoch, counter))[-LENGTH_MAX:])

    def reaches(self, epoch: int, counter: int) -> bool:
        """Whether that point is on this history. A point that is forgotten is not.

        In the newest epoch nobody but its owner makes points, so all of them are.
        """
        end: int | None = None
        for segment in reversed(self.segments):
            if segment.epoch == epoch:
                return segment.counter <= counter and (end is None or counter <= end)
            end = segment.counter
        return False

    def includes(self, known: Known) -> bool:
        """Whether a replica that claims this lacks nothing but later mutations of this history."""
        return self.reaches(*known.whole) and self.reaches(*known.reached)

    def epoch_of(self, counter: int) -> int:
        """The ownership that wrote this mutation, which must not be forgotten."""
        for segment in reversed(self.segments):
            if segment.counter < counter:
                return segment.epoch
        raise LocalProtocolError(f"mutation {counter} is older than {self.segments[:1]}")


UNKNOWN_LINEAGE: Final = Lineage()
"""Reaches nothing, so nothing is taken for known."""


@dataclass(slots=True)
class Vector:
    """The versions of one fragment, as its owner raises them and its backups keep them."""

    epoch: int
    """The ownership that made this vector."""

    counter: int = 0
    """Mutations of this history; the number of the last one. Without backups it is all there is."""

    entries: list[int] = field(default_factory=lambda: [0] * ENTRY_COUNT)
    """Index i of the replicas stands at i - 1."""

    def advance(self, backups: int) -> None:
        """The owner has mutated the fragment, with 0..6 backups. Called with every write."""
        self.counter += 1
        entries = self.entries
        for place in range(backups):
            entries[place] += 1

    def advance_run(self, backups: int, count: int) -> None:
        """So many mutations with this number of backups."""
        self.counter += count
        entries = self.entries
        for place in range(backups):
            entries[place] += count

    def at(self, index: int) -> int:
        """What the replica at this index compares: whoever is to be the owner needs everything."""
        return self.entries[index - 1] if index else self.counter

    def trimmed(self, index: int) -> Vector:
        """What the replica at `index` keeps; a copy. The owner, at 0, keeps everything."""
        entries = self.entries[:]
        for place in range(index - 1):
            entries[place] = 0
        return Vector(self.epoch, self.counter, entries)

    @property
    def point(self) -> Point:
        """Where in the history this vector stands."""
        return Point(self.epoch, self.counter)


class Verdict(Enum):
    """What a backup does with a backup operation."""

    NEXT = (True, False, False)
    STALE = (False, False, False)
    GAP = (True, True, True)
    NEXT_WHILE_DIRTY = (True, False, True)
    STALE_WHILE_DIRTY = (False, False, True)

    @property
    def applies(self) -> bool:
        """The operation is applied and the vector set; otherwise neither."""
        return self.value[0]

    @property
    def dirties(self) -> bool:
        """Something before this operation is missing."""
        return self.value[1]

    @property
    def asks(self) -> bool:
        """A sync is asked for, as far as the limits on requests allow."""
        return self.value[2]


def judge(
    held: Vector,
    incoming: Vector,
    index: int,
    *,
    dirty: bool = False,
    lineage: Lineage = UNKNOWN_LINEAGE,
) -> Verdict:
    """The four rules. `lineage` is that of the operation's owner, as far as it is known here."""
    version = incoming.at(index)
    if incoming.epoch == held.epoch:
        expected = held.at(index) + 1
    elif incoming.epoch < held.epoch:
        return Verdict.STALE_WHILE_DIRTY if dirty else Verdict.STALE
    elif not dirty and goes_on(held, index, incoming.epoch, lineage):
        expected = held.counter + 1
    else:
        return Verdict.GAP
    if version == expected:
        return Verdict.NEXT_WHILE_DIRTY if dirty else Verdict.NEXT
    if version < expected:
        return Verdict.STALE_WHILE_DIRTY if dirty else Verdict.STALE
    return Verdict.GAP


def is_whole(held: Vector, index: int) -> bool:
    """Whether a clean replica at `index` has *every* mutation up to its counter."""
    return held.at(index) == held.counter


def goes_on(held: Vector, index: int, epoch: int, lineage: Lineage) -> bool:
    """Whether a clean replica has exactly what the owner of a newer epoch began with."""
    return (
        is_whole(held, index)
        and lineage.segments[-1:] == (Point(epoch, held.counter),)
        and lineage.reaches(held.epoch, held.counter)
    )


@dataclass(slots=True)
class Backup:
    """One replica of a fragment, and what it knows of itself.

    Its index is 1..6, or 0 for one that is being made the next owner.
    """

    index: int
    held: Vector
    lineage: Lineage
    """The history that `held` belongs to; its newest epoch is that of `held`."""

    dirty: bool = False
    whole: Point | None = None
    """While dirty: up to here nothing is missing. `None`: nobody knows."""

    needed: int = 0
    """While dirty: counter that a sync of this epoch must have at least, to clean."""

    ahead: int = 0
    """The data may hold mutations up to this one, beyond what `held` says: from part of a sync, or
    from a page that was newer than its plan."""

    @classmethod
    def returned(cls, index: int, owner: Vector, lineage: Lineage) -> Backup:
        """Somebody who was the owner and is a backup now: others may have gone on without it."""
        return cls(index, owner.trimmed(index), lineage, dirty=True, whole=owner.point)

    @property
    def known(self) -> Known | None:
        """What may be claimed when a sync is asked for; `None`: only the content can tell."""
        if self.ahead:
            return None
        if self.dirty:
            return self.whole and Known(self.whole, self.held.point)
        whole = is_whole(self.held, self.index)
        return Known(self.held.point, self.held.point) if whole else None

    def receive(self, incoming: Vector, lineage: Lineage = UNKNOWN_LINEAGE) -> Verdict:
        """A backup operation has come. Whoever calls does to the data what the verdict says."""
        return self.receive_run(incoming, incoming, lineage)

    def receive_run(self, first: Vector, last: Vector, lineage: Lineage) -> Verdict:
        """Several operations without a gap between them: the verdict of the first is theirs."""
        if self.ahead and first.epoch > self.held.epoch:
            self._miss(first)
        verdict = judge(self.held, first, self.index, dirty=self.dirty, lineage=lineage)
        if not verdict.applies:
            return verdict
        if first.epoch != self.held.epoch:
            self.lineage = _lineage_at(first, lineage)
        if verdict.dirties:
            self._miss(first)
        self.held = last.trimmed(self.index)
        if self.ahead:
            self._catch_up()
        return verdict

    def moved(self, index: int) -> Backup:
        """The same replica at another index. Of a hotter one's entries it knows nothing."""
        held, dirty, whole = self.held, self.dirty, self.whole
        if index < self.index and not dirty:
            dirty, whole = True, held.point if is_whole(held, self.index) else None
        needed = held.counter  # a sync that is under way may be too old
        trimmed = held.trimmed(index)
        return Backup(index, trimmed, self.lineage, dirty, whole, needed, self.ahead)

    def accepts(self, owner: Vector) -> bool:
        """Whether a sync that was made at this vector may touch the data: no older owner's may."""
        return owner.epoch >= self.held.epoch

    def touch(self) -> None:
        """The first of several blocks of a sync is applied. Before the last nothing is certain."""
        self.dirty, self.whole = True, None

    def loosen(self) -> None:
        """A block of a sync for another index is applied: what is held is there, and maybe more."""
        self.ahead = ANYWHERE

    def lag(self, owner: Vector) -> None:
        """Something before this is missing: only a sync brings it."""
        if not self.dirty:
            known = self.known
            self.dirty, self.whole = True, known and known.whole
        self.needed = max(self.needed, owner.counter)

    def behind(self, owner: Vector, lineage: Lineage) -> bool:
        """The owner's periodic message: whether a sync is to be asked for.

        Where the owner merely began a new epoch with what is held here, the epoch is taken over.
        """
        if owner.epoch < self.held.epoch:
            return self.dirty
        entry = owner.at(self.index)
        if owner.epoch == self.held.epoch:
            return self.dirty or entry > self.held.at(self.index)
        unknown = self.dirty or self.ahead
        if unknown or not goes_on(self.held, self.index, owner.epoch, lineage):
            return True
        if entry != self.held.counter:
            return True
        self.held = owner.trimmed(self.index)
        self.lineage = lineage
        return False

    def synced(self, owner: Vector, lineage: Lineage, reached: int = 0) -> None:
        """A sync that is accepted is complete.

        The data is that of the owner at this vector now, but for what came later in its epoch: by
        pages some of what it has made up to `reached`.
        """
        newer = owner.epoch > self.held.epoch
        if newer or owner.counter >= self.needed:
            self.dirty, self.whole, self.needed = False, None, 0
            self.ahead = reached
        else:
            self.whole = owner.point
        if newer or owner.counter >= self.held.counter:
            self.held = owner.trimmed(self.index)
        self._catch_up()
        self.lineage = lineage

    def promoted(self, epoch: int) -> tuple[Vector, Lineage]:
        """The vector and the history of this replica as the owner of a new epoch."""
        if epoch <= self.held.epoch:
            raise LocalProtocolError(f"epoch {epoch} can't follow {self.held.epoch}")
        counter = self.held.counter
        exact = self.known == Known(self.held.point, self.held.point)
        past = self.lineage if exact else UNKNOWN_LINEAGE
        return Vector(epoch, counter, [counter] * ENTRY_COUNT), past.extended(epoch, counter)

    def _catch_up(self) -> None:
        """What was ahead may have come in its turn."""
        if self.held.counter >= self.ahead:
            self.ahead = 0

    def _miss(self, incoming: Vector) -> None:
        """Dirty, from now on or still; called before the vector is set."""
        known = self.known
        if known and known.whole != known.reached and not self.lineage.reaches(*known.reached):
            known = None
        self.whole = known and known.whole
        self.dirty = True
        self.needed = incoming.counter - 1


def _lineage_at(incoming: Vector, lineage: Lineage) -> Lineage:
    """The lineage of an epoch that has begun here; from this operation on if it is not known."""
    if lineage.segments and lineage.segments[-1].epoch == incoming.epoch:
        return lineage
    return Lineage.starting(incoming.epoch, incoming.counter - 1)
