"""One partition's data at one member: its fragments, and what each copy is known to be worth.

Rules (seed 004; `design/3` §3 to §6)
-------------------------------------
* The data of a partition begins empty, at every index, with the row that first assigned it; until
  it is lost, all that follows is one history (`vectors`). What was lost is never mixed with it.
* A copy is the owner's, or a backup's at an index. An owner numbers mutations; a backup applies
  them, and notices by the numbers when it missed some: then it is *dirty* until a sync.
* While a migration is under way, its destination prepares the copy of its new index beside what it
  is by the row (`arrival`): the row decides whose acknowledgement counts, until it changes.
* What a copy is worth, here and on disk, is said for an index to which its name goes: only there
  every mutation counts. Where that is not the row's, it is the migration's.

States
------
           published: I am the owner
    backup ─────────────────────────► owner          each with or without an arrival
       ▲                                │
       └────────────────────────────────┘
           published: somebody else is (dirty: others may have gone on without me)

What can go wrong
-----------------
*A copy that was fenced for long comes back to an index.* Its history tells how far it got: it is
dirty from the first mutation on, and the sync finds out what it lacks.

*A destination that is at an index to which a name does not go ends.* For that index no mutation
counts, so a vector of it stays where the sync left it, while the data goes on. Such a copy would
come back from the files as one that is sure to have nothing of what it has.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.data.following import Following
from holdfast.core.data.journal import Journal
from holdfast.core.data.vectors import Backup, Lineage, Point, Vector
from holdfast.core.data_messages import (
    FragmentPlan,
    FragmentStand,
    Mutations,
    Points,
    ReplicaCheck,
    Stand,
)
from holdfast.core.effects import MutationsRecord
from holdfast.core.events import RecoveredFragment
from holdfast.core.stores.fragment import Fragment, Written
from holdfast.core.stores.incoming import Incoming
from holdfast.core.stores.record import ABSENT, FREE, NEVER, Kind, build
from holdfast.core.stores.space import SettingsOf, Space
from holdfast.ids import NO_INDEX, MemberId, PartitionId


def stand_of(vector: Vector) -> Stand:
    """A vector as it travels."""
    return Stand(vector.epoch, vector.counter, tuple(vector.entries))


def vector_of(stand: Stand) -> Vector:
    """A vector that arrived."""
    return Vector(stand.epoch, stand.counter, list(stand.entries))


def lineage_of(points: Points) -> Lineage:
    """A lineage that arrived."""
    return Lineage(tuple(Point(*point) for point in points))


class Copy:
    """One fragment here, and what is known of it."""

    __slots__ = (
        "arrival",
        "backup",
        "fragment",
        "generation",
        "incoming",
        "journal",
        "lineage",
        "vector",
    )

    def __init__(self, fragment: Fragment, generation: int) -> None:
        self.fragment = fragment
        self.generation = generation
        self.vector = Vector(generation)
        """The owner's; a backup's is in `backup`."""
        self.lineage = Lineage.starting(generation, 0)
        self.backup: Backup | None = None
        """None at the owner."""
        self.arrival: Backup | None = None
        """What a migration makes of it."""
        self.incoming: Incoming | None = None
        """The transfer that brings it up to date, while there is one."""
        settings = fragment.settings
        self.journal = Journal(
            self.lineage,
            0,
            entries_max=settings.journal_entries,
            size_max_bytes=settings.journal_bytes,
        )

    @property
    def name(self) -> bytes:
        """The fragment's."""
        return self.fragment.name

    def receive(self) -> Incoming:
        """What comes is compared with what is heard meanwhile, from now to the transfer's end."""
        if self.incoming is None:
            self.incoming = Incoming(self.fragment)
        return self.incoming

    def lead(self, reign: int) -> None:
        """I am the owner from now on."""
        if self.backup is not None:
            self.vector, self.lineage = self.backup.promoted(reign)
            self.backup = None
            self.fragment.counter = self.vector.counter
        elif reign > self.vector.epoch:
            self.lineage = self.lineage.extended(reign, self.vector.counter)
            self.vector = Vector(reign, self.vector.counter, [self.vector.counter] * 6)
        self.arrival = None
        self.journal.begin(self.lineage)
        self.fragment.reign(reign)

    def follow(self, index: int) -> None:
        """I am a backup at this index from now on."""
        if self.backup is None:
            if self.vector.counter == 0:
                self.backup = Backup(index, self.vector, self.lineage)
            else:
                self.backup = Backup.returned(index, self.vector, self.lineage)
        elif self.backup.index != index:
            self.backup = self.backup.moved(index)

    def began(self) -> bool:
        """Whether nothing was written in my ownership yet."""
        return self.vector.counter == self.lineage.segments[-1].counter

    def expect(self, index: int) -> None:
        """A migration is to give me this index."""
        if self.backup is None:
            self.follow(index)
        assert self.backup is not None
        self.arrival = self.backup.moved(index)

    def arrived(self) -> None:
        """The migration is committed: the row has my new index."""
        if self.arrival is not None:
            self.backup, self.arrival = self.arrival, None

    def failed(self) -> None:
        """The migration is over without success. What went on for that alone has more than the
        row's index says."""
        if self.backup is not None and self.worth is not self.backup:
            self.backup.loosen()
        self.arrival = None

    def keep(self, before: int, mutations: Mutations) -> None:
        """Note what a backup has applied, for whoever asks later what has changed."""
        lineage, journal = self.worth.lineage, self.journal
        if lineage is not journal.lineage and lineage != journal.lineage:
            journal.begin(lineage)
        known = journal.counter - before
        if known > 0:
            before, mutations = before + known, mutations[known:]
        journal.extend(before, mutations)

    @property
    def worth(self) -> Backup:
        """What is known of a backup's copy: at its index by the row, or at that of a migration
        where the name goes to no other."""
        assert self.backup is not None, "an owner's copy is what the others are measured by"
        if self.arrival is None or self.goes_to(self.backup.index):
            return self.backup
        return self.arrival

    def goes_to(self, index: int) -> bool:
        """Whether the replica at this index has this fragment."""
        return index < self.fragment.settings.copies

    def record(self, partition: PartitionId, mutations: Mutations) -> MutationsRecord:
        """Changes as they are written to disk."""
        backup, stand = None if self.backup is None else self.worth, self.standing()
        clean = backup is None or not (backup.dirty or backup.ahead)
        index = 1 if backup is None else backup.index
        return MutationsRecord(
            partition, self.generation, self.name, mutations, stand, index, clean
        )

    def recover(self, found: RecoveredFragment) -> None:
        """Take what the files have."""
        self.fragment.load(found.records, found.locks)
        held, lineage = vector_of(found.stand.stand), lineage_of(found.stand.lineage)
        self.backup = Backup(found.index, held, lineage, dirty=not found.clean)
        self.journal.begin(lineage)
        self.journal.mark_gap(held.counter)

    def synced(self) -> None:
        """A sync is complete: what it brought is not in the journal; what was heard since it was
        planned is."""
        worth = self.worth
        if worth.lineage != self.journal.lineage:
            self.journal.begin(worth.lineage)
        if worth.held.counter != self.journal.counter:
            self.journal.mark_gap(worth.held.counter)

    def lacks_past(self, plan: FragmentPlan) -> int | None:
        """Up to which mutation the journal lacks what the owner's has, if that goes along.

        What is here is kept in the end where it reaches from before the plan to beyond it.
        """
        journal, planned = self.journal, plan.owner.stand.counter
        is_kept = journal.lineage == lineage_of(plan.owner.lineage)
        is_kept = is_kept and journal.counter >= planned
        begins = min(journal.oldest.counter, planned) if is_kept else planned
        return begins if plan.past is not None and plan.past < begins else None

    def standing(self) -> FragmentStand:
        """Where I stand, as the owner or as a backup."""
        if self.backup is None:
            vector, lineage = self.vector, self.lineage
        else:
            vector, lineage = self.worth.held, self.worth.lineage
        return FragmentStand(self.name, stand_of(vector), lineage.segments)

    def is_sound(self) -> bool:
        """Whether a backup has everything up to where it stands, and nothing else."""
        broken = self.incoming is not None and self.incoming.broken
        return not broken and not self.worth.dirty and self.worth.known is not None


class Holding:
    """All copies of one partition's fragments here."""

    def __init__(
        self,
        partition: PartitionId,
        settings_of: SettingsOf,
        generation: int,
        written: Written | None = None,
    ) -> None:
        self.partition = partition
        self.generation = generation
        self.space = Space(settings_of, generation, partition, written)
        self.reign = 0
        """Of my ownership; 0 while I am not the owner."""
        self.index = NO_INDEX
        """By the row, as far as published."""
        self.target = NO_INDEX
        """By a migration under way."""
        self.copies: dict[bytes, Copy] = {}
        self.doubts = 0
        """How often mutations were missed, may be of fragments that I don't even know."""
        self.settled = 0
        """How many of these doubts are over."""
        self.unverified = False
        """Whether it comes from files or an earlier stay, and nobody has said yet that it is
        current."""
        self.damaged = False
        """Whether the files have lost something of it, and no owner has said yet what."""
        self.unsure = False
        """Whether what was written last may be missing, and nobody has said yet what it was."""
        self.heard: dict[MemberId, None] = {}
        """Backups that have said what they have beyond it (`recalls`)."""
        self.vouched = False
        """Whether one of them is sure to have had everything."""
        self.unvouched = False
        """Whether all were heard, and none of them was sure."""
        self.owned = 0
        """The reign in which I owned it before a restart, by my files."""
        self.renews = False
        """Whether I may have written more in it than they say."""
        self.resuming = False
        """Whether I owned it before a restart, and wait for a reign to go on in."""
        self.awaited = False
        """Whether the data of a migration has not been asked for yet."""
        self.transfers = False
        """Whether it is being brought up to date: so is each copy that begins meanwhile. Not
        any more, if that was for a migration that has failed (`pulling`)."""
        self.taken = 0
        """Bytes of keys and values that came over since a migration began."""
        self.following = Following()

    def __iter__(self) -> Iterator[Copy]:
        return iter(self.copies.values())

    def copy(self, name: bytes) -> Copy:
        """The copy of a name; what nobody has written yet begins empty."""
        copy = self.copies.get(name)
        if copy is None:
            copy = self.copies[name] = Copy(self.space.named(name), self.generation)
            if self.reign:
                copy.lead(self.reign)
            elif self.index > 0 or self.recalls:
                copy.follow(max(self.index, 1))
            if self.target != NO_INDEX and copy.goes_to(self.target):
                copy.expect(self.target)
            if self.transfers:
                copy.receive()
        return copy

    @property
    def doubtful(self) -> bool:
        """Whether mutations may be missing of which nobody has said since that they are here."""
        return self.doubts != self.settled

    def lead(self, reign: int) -> None:
        """I am the owner, as the master has published."""
        if self.reign == reign:
            return
        self.settle()
        self.awaited = self.resuming = self.unvouched = False
        self.reign, self.index, self.target = reign, 0, NO_INDEX
        self.space.reign(reign)
        for copy in self:
            copy.lead(reign)

    def may_lead(self, reign: int) -> bool:
        """Whether nothing can have been written in this reign by an earlier process of mine."""
        if self.reign == reign:
            return True
        if self.unsure or (self.renews and reign <= self.owned):
            return False
        return all(copy.backup is None or copy.backup.held.epoch < reign for copy in self)

    @property
    def recalls(self) -> bool:
        """Whether I am to lead, and ask my backups first what I may have lost."""
        return self.resuming and self.unsure

    @property
    def unsettled(self) -> bool:
        """Whether another process of mine would have to ask again: also where all were heard, but
        it could not be said yet what is missing."""
        return self.unsure or self.resuming

    def recalled(self) -> None:
        """Every backup was heard, as far as there are any."""
        self.unsure, self.unvouched = False, not self.vouched
        self.damaged = self.damaged and self.unvouched

    def check_for(self, index: int) -> ReplicaCheck:
        """Where I stand as the owner, for the backup at this index."""
        standing = tuple(copy.standing() for copy in self if copy.goes_to(index))
        return ReplicaCheck(self.partition, self.reign, standing)

    def follow(self, index: int) -> None:
        """I am a backup, or nothing any more (`NO_INDEX`)."""
        self.reign, self.index, self.resuming = 0, index, False
        for copy in self:
            if index > 0:
                copy.follow(index)
            elif copy.backup is None:
                copy.follow(1)

    def superfluous(self) -> tuple[Copy, ...]:
        """Names that have no backup at my index: such a copy would not be kept up to date."""
        if self.index < 1:
            return ()
        hottest = self.index if self.target == NO_INDEX else min(self.index, self.target)
        return tuple(copy for copy in self if not copy.goes_to(hottest))

    def forget(self, name: bytes) -> MutationsRecord:
        """Have a name no more; what is to be written about it: a copy that never had anything. As
        far as the last one had come, an empty one would look whole after a restart, and might be
        chosen for the owner's."""
        locks = tuple((key, FREE) for key in self.copies.pop(name).fragment.locks)
        self.space.forget(name)
        emptied = build(ABSENT, Kind.EMPTIED, NEVER, b"")  # which leaves locks where they are
        begun = Lineage.starting(self.generation, 0).segments
        stand = FragmentStand(name, stand_of(Vector(self.generation)), begun)
        return MutationsRecord(
            self.partition, self.generation, name, ((b"", emptied), *locks), stand, 1, clean=True
        )

    def expect(self, index: int) -> None:
        """A migration is to give me this index."""
        self.target = index
        self.taken = 0
        for copy in self:
            if copy.goes_to(index):
                copy.expect(index)

    def compare(self, standing: tuple[FragmentStand, ...]) -> None:
        """Find out what is missing for that, by where the owner stands."""
        named = {each.name: each for each in standing}
        self.awaited = any(
            copy.fragment and copy.name not in named and copy.goes_to(self.target) for copy in self
        )
        for name, each in named.items():
            arrival = self.copy(name).arrival
            assert arrival is not None, "every copy expects what its partition expects"
            _measure(arrival, each)

    def fall_behind(self, check: ReplicaCheck) -> bool:
        """Find out what is missing here; whether anything is."""
        for each in check.fragments:
            _measure(self.copy(each.name).worth, each)
        self.unverified = self.unsure = False
        lacking = self.lacking()
        self.damaged = self.damaged and lacking
        return lacking

    def arrived(self) -> None:
        """It is committed."""
        for copy in self:
            copy.arrived()
        self.index, self.target = self.target, NO_INDEX
        self.settle()

    def settle(self, doubts: int | None = None) -> None:
        """What is here is current, as of when there were so many doubts; or altogether."""
        self.settled = self.doubts if doubts is None else max(self.settled, doubts)
        self.unverified = self.damaged = self.unsure = False

    def unexpected(self) -> None:
        """It has failed."""
        self.target, self.awaited, self.transfers = NO_INDEX, False, False
        for copy in self:
            copy.failed()

    def lacking(self) -> bool:
        """Whether any copy that counts here lacks something."""
        if self.doubtful or self.unverified:
            return True
        for copy in self.copies.values():
            backup = copy.backup
            if backup is not None and backup.dirty:
                return True
        return False

    def arriving(self) -> bool:
        """Whether any copy that a migration makes lacks something."""
        if self.awaited:
            return True
        for copy in self.copies.values():
            arrival = copy.arrival
            if arrival is not None and arrival.dirty:
                return True
        return False

    def wanting(self) -> bool:
        """Whether the owner is to be asked, for the index of the row or that of a migration, which
        is never a colder one."""
        return self.lacking() if self.target < 0 else self.arriving() or self.doubtful


def _measure(backup: Backup, owner: FragmentStand) -> None:
    """Have it know whether it lacks something, by where the owner stands."""
    vector = vector_of(owner.stand)
    if backup.behind(vector, lineage_of(owner.lineage)):
        backup.lag(vector)
