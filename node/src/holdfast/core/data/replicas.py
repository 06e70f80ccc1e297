"""The receiver's side of replication: frames are taken in order; a copy that misses one knows it.

Rules (seed 004; `design/3` §4, §5)
-----------------------------------
* Frames of one sender are taken in the order of their numbers. One that comes before its turn is
  not kept: the sender repeats it. One that came before is acknowledged again.
* A frame is of an ownership (*reign*). I apply and acknowledge it only when I know of that
  ownership from the master: then whoever settles the table after a death learns of it from me.
  A frame of one that I don't know yet waits for the master's publication, and so do those behind
  it. It overtakes that with every change of an owner, as they come by different connections; if
  the others were not kept, everybody who writes would wait until the sender repeats them.
* A frame of an ownership that has been replaced is not applied; its partition is *doubted*, also
  where the same member owns it again, until a frame of the present ownership finds it in sync.
* By the vector each run is next, stale, or after a gap (`vectors`). A copy that misses something,
  or that could not apply a change, is dirty: its partition is doubted until it is in sync again.

    frame n + 1 ─► reign unknown: queue      ─► known: apply each run ─► ack n + 1, with doubts
    others      ─► ack n

What can go wrong
-----------------
*A sender skips frames.* Whatever it owns may lack something here: all of it is dirty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from holdfast.core.context import Context
from holdfast.core.data.content import changes_of
from holdfast.core.data.copies import Copy, Holding, lineage_of, vector_of
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.streams import Stay
from holdfast.core.data.vectors import UNKNOWN_LINEAGE
from holdfast.core.data_messages import (
    BackupAck,
    BackupFrame,
    MutationRun,
    Mutations,
    ReplicaCheck,
)
from holdfast.core.messages import Origin
from holdfast.ids import PartitionId

WAITING_MAX: Final = 256
"""Frames that wait for the master's word: the ticks of about a quarter of a second. Their bytes are
bounded by what the sender keeps."""


class Lacking(Protocol):
    """Whom to tell that a copy of a partition lacks something (`pulling`)."""

    def __call__(self, partition: PartitionId, *, at_once: bool = False) -> None: ...


@dataclass(slots=True)
class Sender:
    """What came from one stay of a member."""

    number: int = 0
    waiting: deque[BackupFrame] = field(default_factory=deque)
    """The next frames; the first is of an ownership that I do not know yet."""
    doubted: dict[PartitionId, int] = field(default_factory=dict)
    """Each with the ownership that has to be heard of before the doubt can be over, or 0."""


class Replicas:
    """All copies that others own."""

    def __init__(self, context: Context, holdings: Holdings, lacking: Lacking) -> None:
        self.context = context
        self.holdings = holdings
        self.senders: dict[Stay, Sender] = {}
        self._lacking = lacking

    def reset(self) -> None:
        """A new stay begins."""
        self.senders.clear()

    def on_frame(self, origin: Origin, frame: BackupFrame) -> None:
        """A tick's mutations of one owner."""
        me = self.context.me
        if not self.context.listed or (frame.receiver, frame.stay) != (me.id, me.incarnation):
            return
        view = self.context.view
        if view is None or not view.has(origin.id, origin.incarnation):
            return
        sender = self.senders.setdefault((origin.id, origin.incarnation), Sender())
        waiting = sender.waiting
        last = waiting[-1].number if waiting else sender.number
        if frame.number == last + 1 or (frame.skipped and frame.number > last):
            if frame.skipped:
                waiting.clear()  # all that they tell of is in doubt
            if len(waiting) < WAITING_MAX:
                waiting.append(frame)
            self._take_known(origin, sender)
        else:
            self._acknowledge(origin, sender)

    def _listed(self) -> Iterator[tuple[Origin, Sender]]:
        """Who is to hear of me; nobody, as long as my stay is over and no new one has begun."""
        view = self.context.view
        if not self.context.listed:
            return
        for stay, sender in self.senders.items():
            member = None if view is None else view.find(stay[0])
            if member is not None and member.incarnation == stay[1]:
                yield Origin(member.id, member.incarnation, member.address), sender

    def tell_room(self) -> None:
        """The disk is full, or not any more: owners should not accept what I can't keep."""
        for origin, sender in self._listed():
            self._acknowledge(origin, sender)

    def look_again(self) -> None:
        """Rows were published: frames that waited for them, doubts that are over."""
        for origin, sender in self._listed():
            if self._take_known(origin, sender):
                continue
            if sender.doubted and self._forget_doubts(origin, sender):
                self._acknowledge(origin, sender)

    def _take_known(self, origin: Origin, sender: Sender) -> bool:
        """Take what waits, up to the first frame of an ownership that I don't know; whether there
        was any."""
        waiting, before = sender.waiting, sender.number
        while waiting and self._is_known(waiting[0]):
            self._take(origin, sender, waiting.popleft())
        if sender.number == before:
            return False
        self._acknowledge(origin, sender)
        return True

    def _is_known(self, frame: BackupFrame) -> bool:
        """Whether the master has told me of every ownership that it is of."""
        row = self.context.table.row
        return all(row(run.partition).reign >= run.before.epoch for run in frame.runs) and all(
            row(check.partition).reign >= check.reign for check in frame.checks
        )

    def _take(self, origin: Origin, sender: Sender, frame: BackupFrame) -> None:
        sender.number = frame.number
        if frame.skipped:
            self._doubt_all(origin, sender)
        for run in frame.runs:
            whole = self._take_run(origin, run)
            self._note(sender, run.partition, run.before.epoch, whole=whole)
        for check in frame.checks:
            whole = self._take_check(origin, check)
            self._note(sender, check.partition, check.reign, whole=whole)

    def _note(self, sender: Sender, partition: PartitionId, reign: int, *, whole: bool) -> None:
        """What a frame of an ownership says of a partition."""
        present = self.context.table.row(partition).reign
        if reign < present:
            sender.doubted[partition] = present
        elif not whole or partition in sender.doubted:
            sender.doubted[partition] = 0

    def _take_check(self, origin: Origin, check: ReplicaCheck) -> bool:
        """Whether I have what the new owner has."""
        holding = self.holdings.under(origin.id, check.partition, check.reign)
        if holding is None or holding.index < 1:
            return False
        if holding.fall_behind(check):
            self._lacking(check.partition, at_once=True)
        return not holding.lacking()

    def _acknowledge(self, origin: Origin, sender: Sender) -> None:
        self._forget_doubts(origin, sender)
        doubted = tuple(sender.doubted)
        ack = BackupAck(sender.number, origin.incarnation, doubted, self.context.disk_full)
        self.context.send(origin.address, ack)

    def _forget_doubts(self, origin: Origin, sender: Sender) -> bool:
        """Whether any doubt is over."""
        known = (place for place, awaited in sender.doubted.items() if not awaited)
        over = [place for place in known if not self._is_doubted(origin, place)]
        for place in over:
            del sender.doubted[place]
        return bool(over)

    def _is_doubted(self, origin: Origin, partition: PartitionId) -> bool:
        row = self.context.table.row(partition)
        holding = self.holdings.get(partition)
        if holding is None or row.owner != origin.id or holding.index < 1:
            return True
        return holding.lacking()

    def _doubt_all(self, origin: Origin, sender: Sender) -> None:
        for partition, holding in self.holdings.here.items():
            if self.context.table.row(partition).owner == origin.id and holding.index > 0:
                sender.doubted.setdefault(partition, 0)
                holding.doubts += 1
                self._lacking(partition)

    # Runs -----------------------------------------------------------------------------------------

    def _take_run(self, origin: Origin, run: MutationRun) -> bool:
        """Whether the copy that the row asks for has everything up to here."""
        holding = self.holdings.under(origin.id, run.partition, run.before.epoch)
        if holding is None:
            return False
        if holding.index < 1 and holding.target < 0:
            return False
        if run.backups < (holding.index if holding.target < 0 else holding.target):
            return not holding.lacking()  # it was for an index that I was to have
        copy = holding.copy(run.name)
        if self._judge(copy, run):
            self._apply(holding, copy, run)
        lacking = holding.lacking()
        if lacking or holding.arriving():
            self._lacking(run.partition)
        return not lacking

    def _judge(self, copy: Copy, run: MutationRun) -> bool:
        """Whether to apply it: for what the copy is, or for what a migration makes of it."""
        lineage = lineage_of(run.lineage) if run.lineage else UNKNOWN_LINEAGE
        first = last = vector_of(run.before)
        first.advance_run(run.backups, 1)
        if len(run.mutations) != 1:  # most runs are one write
            last = vector_of(run.before)
            last.advance_run(run.backups, len(run.mutations))
        applies = dirties = False
        for backup in (copy.backup, copy.arrival):
            if backup is not None:
                verdict = backup.receive_run(first, last, lineage)
                applies, dirties = applies or verdict.applies, dirties or verdict.dirties
        if dirties and copy.incoming is not None:
            copy.incoming.miss()
        return applies

    def _apply(self, holding: Holding, copy: Copy, run: MutationRun) -> None:
        incoming = copy.incoming
        if incoming is not None:
            for key, record in run.mutations:
                incoming.mutation(key, record)
            self.persist_changes(holding, copy, run.mutations)
        else:
            apply, fits = copy.fragment.apply, True
            for key, record in run.mutations:
                fits = apply(key, record) and fits
            if not fits:
                breaks(copy)
            if self.context.outbox.persistent:  # else it is made for nothing
                self.context.persist_mutations(copy.record(holding.partition, run.mutations))
        copy.keep(run.before.counter, run.mutations)

    def persist_changes(self, holding: Holding, copy: Copy, mutations: Mutations) -> None:
        """Keep what has become of what these changed, if they were taken at all."""
        if mutations and self.context.outbox.persistent:
            records = changes_of(copy.fragment, mutations)
            self.context.persist_mutations(copy.record(holding.partition, records))


def breaks(copy: Copy) -> None:
    """A change could not be applied: only a sync that is made from now on repairs it."""
    for backup in (copy.backup, copy.arrival):
        if backup is not None:
            backup.touch()
            backup.needed = backup.held.counter
