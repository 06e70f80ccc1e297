"""The owner's mutations on their way: which member gets which, and who waits for it.

Rules (seed 004; `design/3` §3, §4)
-----------------------------------
* A name's settings say how many backups a write of it has, synchronous ones first. They are the
  members at indexes 1, 2 ... of the partition's row.
* The destination of a migration gets the same mutations as a backup at its new index, from the
  moment at which I take part in the migration. Nobody waits for it before the hand-over.
* A new owner may hold writes that its predecessor could not get confirmed. Its reign begins with a
  *barrier*: until every synchronous backup stands where it stands, nobody gets an answer.
* When the row changes, whoever is no synchronous backup of it any more is waited for no longer.
  When I lose the partition, nobody here knows what becomes of the writes that still wait.

States: those of each stream.

What can go wrong
-----------------
*A view that takes a member out is not committed.* Then another master may come, to whom the member
is a backup like any other: it is waited for until the view is sealed (`View.base`).

*A view takes me out as well as a backup.* Whoever made it may have given my partitions away: that a
backup is gone says nothing then, and what waited for it is answered *outcome unknown*.

*A row names a member that is not listed* (a state in which nothing is promoted): nobody waits for
it; when it comes back, its copy is behind, and it knows by the first mutation that it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from holdfast.core.context import Context
from holdfast.core.data.copies import Copy, Holding
from holdfast.core.data.gates import Gate
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.streams import Stay, Stream
from holdfast.core.data.tickets import Desk, Ticket
from holdfast.core.data_messages import (
    BackupAck,
    MutationRun,
    Mutations,
    ReplicaCheck,
    Stand,
)
from holdfast.core.messages import Origin
from holdfast.core.participation import Participation
from holdfast.core.stores.fragment import Fragment
from holdfast.core.table import Row
from holdfast.ids import MemberId, PartitionId

SEND_AGAIN: Final = "send frames again"
FRAME_OVERHEAD: Final = 64
BYTES_A_MS: Final = 32 << 10
"""So much a link carries in a millisecond, at the least: a quarter of a gigabit a second."""
NOBODY: Final = -1
"""The session of tickets that no client waits for."""


Takers = tuple[tuple[MemberId, int], ...]
"""Members and the indexes at which they take mutations."""


class Outlet(NamedTuple):
    """Where the mutations of one fragment go, as long as no row, view or migration changes."""

    partition: PartitionId
    copy: Copy
    backups: int
    takers: Takers


@dataclass(slots=True)
class Draft:
    """What the next frame for a member has in it."""

    runs: list[MutationRun] = field(default_factory=list)
    checks: list[ReplicaCheck] = field(default_factory=list)
    size: int = 0


class Replication:
    """All streams, and what is to go into them at the end of the tick."""

    def __init__(
        self, context: Context, holdings: Holdings, participation: Participation, desk: Desk
    ) -> None:
        self.context = context
        self.holdings = holdings
        self.participation = participation
        self.desk = desk
        self.streams: dict[Stay, Stream] = {}
        self._ended: dict[Stay, int] = {}
        """The last numbers of streams to stays that were taken out."""
        self.barriers: dict[PartitionId, Ticket] = {}
        """Partitions whose backups may not have yet what my reign began with."""
        self.on_room: Callable[[], None] = lambda: None
        """Called when the disk of a backup is full, or is not any more."""
        self._begun: dict[PartitionId, None] = {}
        """Reigns that no frame has told of yet."""
        self._outlets: dict[Fragment, Outlet] = {}

    def reset(self) -> None:
        """A new stay begins: nobody acknowledges what the last one wrote. It may have the number
        of the last one, where a view that took me out was taken back."""
        for stay, stream in self.streams.items():
            self._ended[stay] = stream.number
            for ticket in stream.waiting():
                self.desk.fail(ticket)
        self.streams.clear()
        self.barriers.clear()
        self._begun.clear()

    def begin_reign(self, holding: Holding) -> None:
        """Let nobody see what I have before every synchronous backup has it, too: it may hold
        writes of the owner before me that these have not."""
        partition = holding.partition
        barrier = self.barriers[partition] = Ticket(NOBODY, 0)
        row = self.context.table.row(partition)
        backups = max((copy.fragment.settings.backups for copy in holding), default=0)
        self._begun[partition] = None
        gate = Gate(partition, holding.space, self.synchronous(row, backups))
        self.await_backups((gate,), barrier)
        if barrier.done:
            del self.barriers[partition]

    # Who gets what --------------------------------------------------------------------------------

    def stream_to(self, member: MemberId) -> Stream | None:
        """The stream to the stay of a member that is listed, or not surely taken out."""
        view = self.context.view
        listed = None if view is None else view.find_or_base(member)
        if listed is None or member == self.context.me.id:
            return None
        stay = (member, listed.incarnation)
        stream = self.streams.get(stay)
        if stream is None:
            stream = self.streams[stay] = Stream(*stay, self._ended.pop(stay, 0))
        return stream

    def look_anew(self) -> None:
        """Rows, the view or migrations may have changed."""
        self._outlets.clear()

    def _outlet(self, fragment: Fragment) -> Outlet | None:
        """Where the mutations of a fragment go; None if it is here no more."""
        holding = self.holdings.get(fragment.partition)
        if holding is None or holding.space.fragments.get(fragment.name) is not fragment:
            return None
        backups = fragment.settings.copies - 1
        takers = _hottest(self.takers_of(fragment.partition), backups)
        outlet = Outlet(holding.partition, holding.copy(fragment.name), backups, takers)
        self._outlets[fragment] = outlet
        return outlet

    def takers_of(self, partition: PartitionId) -> Takers:
        """Members and the indexes at which they take this partition's mutations."""
        row = self.context.table.row(partition)
        takers = {member: index for index, member in enumerate(row.replicas) if index and member}
        active = self.participation.active.get(partition)
        pairs = list(takers.items())
        if active is not None and active.migration.before[0] == self.context.me.id:
            after = active.migration.after
            pairs += [
                (member, after.index(member))
                for member in active.migration.destinations
                if member != self.context.me.id and takers.get(member) != after.index(member)
            ]
        return tuple(pairs)

    def synchronous(self, row: Row, backups: int) -> tuple[Stream, ...]:
        """The streams to the members that have to have a write before it is acknowledged."""
        members = (each for each in row.replicas[1 : backups + 1] if each is not None)
        streams = (self.stream_to(member) for member in members)
        return tuple(stream for stream in streams if stream is not None)

    def await_backups(self, unsafe: Iterable[Gate], ticket: Ticket) -> None:
        """Have a batch wait for the synchronous backups of partitions that it wrote to."""
        for gate in unsafe:
            for stream in gate.streams:
                stream.need(ticket, gate.partition)

    def is_awaited(self, partition: PartitionId) -> bool:
        """Whether anybody waits for a backup of a write to this partition."""
        return any(stream.is_awaited(partition) for stream in self.streams.values())

    # The end of a tick ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Put everything that was changed since the last time into frames, and send them."""
        written, begun = self.holdings.written.fragments, self._begun
        if not written and not begun:
            return
        drafts: dict[MemberId, Draft] = {}
        outlets = self._outlets
        for fragment in written:
            outlet = outlets.get(fragment) or self._outlet(fragment)
            mutations = tuple(fragment.take())
            if outlet is not None and mutations:
                self._collect(outlet, mutations, drafts)
        written.clear()
        if begun:
            self._begun = {}
            self._add_checks(begun, drafts)
        for member, draft in drafts.items():
            stream = self.stream_to(member)
            if stream is not None:
                self._send(member, stream, draft)

    def _add_checks(self, begun: Iterable[PartitionId], drafts: dict[MemberId, Draft]) -> None:
        for partition in begun:
            holding = self.holdings.get(partition)
            if holding is not None and holding.reign:
                for member, index in self.takers_of(partition):
                    if index:
                        draft = drafts.setdefault(member, Draft())
                        draft.checks.append(holding.check_for(index))

    def _collect(self, outlet: Outlet, mutations: Mutations, drafts: dict[MemberId, Draft]) -> None:
        partition, copy, backups, takers = outlet
        vector = copy.vector
        first = vector.counter
        size = copy.journal.extend(first, mutations)
        if takers:
            lineage = copy.lineage.segments if copy.began() else ()
            before = Stand(vector.epoch, first, tuple(vector.entries))
            name = copy.name
            for member, index in takers:
                run = MutationRun(partition, name, index, backups, before, lineage, mutations)
                draft = drafts.get(member)
                if draft is None:
                    draft = drafts[member] = Draft()
                draft.runs.append(run)
                draft.size += FRAME_OVERHEAD + size
        vector.advance_run(backups, len(mutations))
        if self.context.outbox.persistent:
            self.context.persist_mutations(copy.record(partition, mutations))

    def _send(self, member: MemberId, stream: Stream, draft: Draft) -> None:
        if stream.kept and stream.kept_bytes + draft.size > self.context.config.backup_bytes_max:
            stream.skip()
        if not stream.kept:
            stream.heard_at = stream.tried_at = self.context.now
        frame = stream.close_frame(draft.runs, draft.checks, draft.size)
        self.context.send_frame(member, frame)
        self._wake()

    def _wake(self) -> None:
        if not self.context.timers.running(SEND_AGAIN):
            at = self.context.now + self.context.config.resend_ms
            self.context.timers.set(SEND_AGAIN, at)

    # Answers and time -----------------------------------------------------------------------------

    def on_ack(self, origin: Origin, ack: BackupAck) -> None:
        """A member has our mutations. What it says of frames of an earlier stay is of no use."""
        stream = self.streams.get((origin.id, origin.incarnation))
        if stream is None or ack.stay != self.context.me.incarnation:
            return
        if stream.full is not ack.full:
            stream.full = ack.full
            self.on_room()
            self._wake()
        if stream.acknowledge(ack, self.desk.met):
            stream.heard_at = stream.tried_at = self.context.now
        self._end_barriers()

    def _end_barriers(self) -> None:
        if not self.barriers:
            return
        for partition in [each for each, barrier in self.barriers.items() if barrier.done]:
            del self.barriers[partition]

    def advance(self) -> None:
        """Send again what nobody has acknowledged for a while; forget those who are gone."""
        now, view = self.context.now, self.context.view
        for stay in tuple(self.streams):
            listed = None if view is None else view.find_or_base(stay[0])
            if listed is None or listed.incarnation != stay[1]:
                self._gone(stay)
        self._end_barriers()
        if not self.context.timers.due(SEND_AGAIN, now):
            return
        for stay, stream in self.streams.items():
            if now - stream.tried_at < self._patience(stream):
                continue
            if stream.kept:
                stream.tried_at = now
                for flight in stream.kept:
                    self.context.send_frame(stay[0], flight.frame)
            elif stream.doubted or stream.full:
                self._send(stay[0], stream, Draft())  # to hear whether that is over
        if any(each.kept or each.doubted or each.full for each in self.streams.values()):
            self._wake()

    def _patience(self, stream: Stream) -> int:
        """What is long takes long, on the way as well; twice on the way it takes twice as long."""
        return self.context.config.resend_ms + stream.kept_bytes // BYTES_A_MS

    def _gone(self, stay: Stay) -> None:
        stream = self.streams.pop(stay)
        self._ended[stay] = stream.number
        settle = self.desk.met if self.context.listed else self.desk.fail
        for ticket in stream.waiting():
            settle(ticket)

    def published(self, row: Row) -> None:
        """The master has changed a row."""
        mine = row.owner == self.context.me.id
        if not mine:
            self.barriers.pop(row.partition, None)
        settle = self.desk.met if mine else self.desk.fail
        for (member, _), stream in self.streams.items():
            if mine and member in row.replicas[1:]:
                continue
            for ticket in stream.release(row.partition):
                settle(ticket)


def _hottest(takers: Iterable[tuple[MemberId, int]], backups: int) -> Takers:
    """Each member once, at the hottest of its indexes that gets this."""
    indexes: dict[MemberId, int] = {}
    for member, index in takers:
        if index <= backups:
            indexes[member] = min(index, indexes.get(member, index))
    return tuple(indexes.items())
