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
*A row names a member that is not listed* (a state in which nothing is promoted): nobody waits for
it; when it comes back, its copy is behind, and it knows by the first mutation that it gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.copies import Copy, Holding, points_of, stand_of
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.streams import Stay, Stream
from holdfast.core.data.tickets import Desk, Ticket
from holdfast.core.data_messages import BackupAck, BackupFrame, MutationRun, ReplicaCheck
from holdfast.core.messages import Origin
from holdfast.core.participation import Participation
from holdfast.core.table import Row
from holdfast.ids import MemberId, PartitionId

SEND_AGAIN: Final = "send frames again"
FRAME_OVERHEAD: Final = 64
NOBODY: Final = -1
"""The session of tickets that no client waits for."""


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
        self.touched: dict[PartitionId, None] = {}
        """Partitions with mutations that are not in a frame yet."""
        self.barriers: dict[PartitionId, Ticket] = {}
        """Partitions whose backups may not have yet what my reign began with."""
        self._begun: dict[PartitionId, None] = {}
        """Reigns that no frame has told of yet."""

    def reset(self) -> None:
        """A new stay begins: nobody acknowledges what the last one wrote."""
        for stream in self.streams.values():
            for ticket in stream.waiting():
                self.desk.fail(ticket)
        self.streams.clear()
        self.touched.clear()
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
        self.await_backups(row, backups, barrier)
        if barrier.done:
            del self.barriers[partition]

    # Who gets what --------------------------------------------------------------------------------

    def stream_to(self, member: MemberId) -> Stream | None:
        """The stream to the stay of a member that is listed."""
        view = self.context.view
        listed = None if view is None else view.find(member)
        if listed is None or member == self.context.me.id:
            return None
        stay = (member, listed.incarnation)
        stream = self.streams.get(stay)
        if stream is None:
            stream = self.streams[stay] = Stream()
        return stream

    def takers_of(self, partition: PartitionId) -> tuple[tuple[MemberId, int], ...]:
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

    def await_backups(self, row: Row, backups: int, ticket: Ticket) -> None:
        """Have a batch wait for the synchronous backups of a partition that it wrote to."""
        for member in row.replicas[1 : backups + 1]:
            stream = None if member is None else self.stream_to(member)
            if stream is not None and (row.partition, ticket) not in stream.open.needs:
                stream.open.needs.append((row.partition, ticket))
                ticket.needs += 1

    # The end of a tick ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Put everything that was changed since the last time into frames, and send them."""
        touched, self.touched = self.touched, {}
        begun, self._begun = self._begun, {}
        runs: dict[MemberId, list[MutationRun]] = {}
        for partition in touched:
            holding = self.holdings.get(partition)
            if holding is not None:
                self._collect(holding, runs)
        checks = self._checks(begun)
        for member in dict.fromkeys((*runs, *checks)):
            stream = self.stream_to(member)
            if stream is not None:
                self._send(member, stream, runs.get(member, []), checks.get(member, []))

    def _checks(self, begun: Iterable[PartitionId]) -> dict[MemberId, list[ReplicaCheck]]:
        checks: dict[MemberId, list[ReplicaCheck]] = {}
        for partition in begun:
            holding = self.holdings.get(partition)
            if holding is not None and holding.reign:
                for member, index in self.takers_of(partition):
                    if index:
                        checks.setdefault(member, []).append(holding.check_for(index))
        return checks

    def _collect(self, holding: Holding, runs: dict[MemberId, list[MutationRun]]) -> None:
        takers = self.takers_of(holding.partition)
        for fragment in tuple(holding.space):
            if not fragment.pending:
                continue
            copy = holding.copy(fragment.name)
            backups = fragment.settings.copies - 1
            run = self._run(holding, copy, backups, tuple(fragment.take()))
            self.context.persist_mutations(copy.record(holding.partition, run.mutations))
            for member, index in _hottest(takers, backups):
                runs.setdefault(member, []).append(replace(run, index=index))

    def _run(
        self, holding: Holding, copy: Copy, backups: int, mutations: tuple[tuple[bytes, bytes], ...]
    ) -> MutationRun:
        vector, journal = copy.vector, copy.journal
        began = copy.lineage.segments[-1]
        lineage = points_of(copy.lineage) if vector.counter == began.counter else ()
        before = stand_of(vector)
        for number, (key, record) in enumerate(mutations, vector.counter + 1):
            journal.append(number, key, record)
        vector.advance_run(backups, len(mutations))
        return MutationRun(holding.partition, copy.name, 0, backups, before, lineage, mutations)

    def _send(
        self,
        member: MemberId,
        stream: Stream,
        runs: list[MutationRun],
        checks: list[ReplicaCheck],
    ) -> None:
        size = sum(
            FRAME_OVERHEAD + sum(len(key) + len(record) for key, record in run.mutations)
            for run in runs
        )
        if stream.kept and stream.kept_bytes + size > self.context.config.backup_bytes_max:
            stream.skip()
        if not stream.kept:
            stream.heard_at = self.context.now
        frame = stream.close_frame(runs, checks, size)
        self.context.send_member(member, frame)
        self._wake()

    def _wake(self) -> None:
        if not self.context.timers.running(SEND_AGAIN):
            at = self.context.now + self.context.config.resend_ms
            self.context.timers.set(SEND_AGAIN, at)

    # Answers and time -----------------------------------------------------------------------------

    def on_ack(self, origin: Origin, ack: BackupAck) -> None:
        """A member has our mutations."""
        stream = self.streams.get((origin.id, origin.incarnation))
        if stream is not None and stream.acknowledge(ack, self.desk.met):
            stream.heard_at = self.context.now

    def advance(self) -> None:
        """Send again what nobody has acknowledged for a while; forget those who are gone."""
        now, view = self.context.now, self.context.view
        for stay in tuple(self.streams):
            if view is None or not view.has(*stay):
                self._gone(stay)
        for partition in [each for each, barrier in self.barriers.items() if barrier.done]:
            del self.barriers[partition]
        if not self.context.timers.due(SEND_AGAIN, now):
            return
        silent_since = now - self.context.config.resend_ms
        for stay, stream in self.streams.items():
            if stream.heard_at > silent_since:
                continue
            if stream.kept:
                stream.heard_at = now
                for frame in _frames(stream):
                    self.context.send_member(stay[0], frame)
            elif stream.doubted:
                self._send(stay[0], stream, [], [])  # to hear whether the doubts are over
        if any(stream.kept or stream.doubted for stream in self.streams.values()):
            self._wake()

    def _gone(self, stay: Stay) -> None:
        for ticket in self.streams.pop(stay).waiting():
            self.desk.met(ticket)

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


def _hottest(
    takers: tuple[tuple[MemberId, int], ...], backups: int
) -> Iterator[tuple[MemberId, int]]:
    """Each member once, at the hottest of its indexes that gets this."""
    indexes: dict[MemberId, int] = {}
    for member, index in takers:
        if index <= backups:
            indexes[member] = min(index, indexes.get(member, index))
    return iter(indexes.items())


def _frames(stream: Stream) -> Iterator[BackupFrame]:
    for flight in stream.kept:
        if flight.frame is not None:
            yield flight.frame
