"""The owner's side of replication: one stream of frames to each member that holds copies.

Rules (`design/2` "Two planes", `design/3` §4)
----------------------------------------------
* All mutations of one tick for one member go in one frame. Frames are numbered, kept until they
  are acknowledged, and sent again from the first one that is not, when nothing was heard for a
  while. The receiver takes them in order, so one number acknowledges all up to it.
* A *need* is a batch's wait for one frame on behalf of one partition. It is met by the
  acknowledgement of the frame, unless the receiver says that its copy of this partition does not
  count at the moment (*doubted*): then by the first acknowledgement without that doubt.
* A partition's row decides who has to have a write. A member that is no synchronous backup of it
  any more is not waited for.
* Memory is bounded. A receiver that says nothing for too long loses the frames that were kept for
  it, and is told with the next one that some were *skipped*: it then doubts all its copies. An
  acknowledgement of an earlier one says nothing of that.

    tick ─► open frame ─► kept, sent ─► acknowledged ─► needs met
                            │  ▲ retry                    └► doubted ─► needs met later
                            └──┘

What can go wrong
-----------------
*The receiver is another process of the same member by now.* Streams are between stays: frames of
an old stay are never acknowledged, and the view drops that stay in time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.data.tickets import Ticket
from holdfast.core.data_messages import BackupAck, BackupFrame, MutationRun, ReplicaCheck
from holdfast.ids import MemberId, PartitionId

Partitions = dict[PartitionId, None]
"""In the order in which they were written to."""


Needs = dict[Ticket, Partitions]
"""Batches that wait for a frame; a need for each of these partitions."""


@dataclass(slots=True)
class Flight:
    """A frame under way, and who waits for it."""

    frame: BackupFrame
    size: int
    needs: Needs


class Stream:
    """Frames to one stay of a member."""

    def __init__(self, receiver: MemberId, stay: int, number: int = 0) -> None:
        """`number` is that of the last frame that this stay was ever sent: one that was taken out
        and is listed again remembers it, and would take a frame with a lower one for known."""
        self.receiver, self.stay = receiver, stay
        self.number = number
        self.open: Needs = {}
        """Who waits for the frame that is not closed yet."""
        self.kept: deque[Flight] = deque()
        self.kept_bytes = 0
        self.doubted: list[tuple[int, Ticket, Partitions]] = []
        """Who waits for the end of a doubt, and of which frame on the receiver speaks of it."""
        self.skipped = number > 0
        self.full = False
        """Whether the disk of the receiver is, as it said last."""
        self.acknowledged = number
        self.heard_at = 0
        """When it acknowledged something last, or the first of those that are kept went out."""
        self.tried_at = 0
        """The same, or when they were sent again."""

    def need(self, ticket: Ticket, partition: PartitionId) -> None:
        """Have a batch wait for the open frame on behalf of a partition that it wrote to."""
        partitions = self.open.setdefault(ticket, {})
        if partition not in partitions:
            partitions[partition] = None
            ticket.needs += 1

    def close_frame(
        self, runs: list[MutationRun], checks: list[ReplicaCheck], size: int
    ) -> BackupFrame:
        """The open frame is full; needs that were added to it wait for it now."""
        self.number += 1
        frame = BackupFrame(
            self.number, self.skipped, tuple(runs), tuple(checks), self.receiver, self.stay
        )
        self.skipped = False
        needs, self.open = self.open, {}
        self.kept.append(Flight(frame, size, needs))
        self.kept_bytes += size
        return frame

    def acknowledge(self, ack: BackupAck, met: Callable[[Ticket, int], None]) -> bool:
        """The receiver has everything up to a number, with doubts; whether that was news."""
        if ack.number < self.acknowledged:
            return False  # an answer that was overtaken: its doubts are of another time
        self.acknowledged = ack.number
        kept = len(self.kept)
        spoken, self.doubted = self.doubted, []
        needs = []
        for doubt in spoken:
            if doubt[0] <= ack.number:
                needs.append(doubt[1:])
            else:
                self.doubted.append(doubt)
        while self.kept:
            if self.kept[0].frame.number > ack.number:
                break
            flight = self.kept.popleft()
            self.kept_bytes -= flight.size
            needs += flight.needs.items()
        for ticket, partitions in needs:
            count = len(partitions)
            if ack.doubted:
                left = {each: None for each in partitions if each in ack.doubted}
                count -= len(left)
                if left:
                    self.doubted.append((ack.number, ticket, left))
            if count:
                met(ticket, count)
        return len(self.kept) < kept

    def skip(self) -> None:
        """Keep nothing any more: what was not acknowledged is doubted from now on, and the next
        frame tells the receiver."""
        told = self.number + 1
        for flight in self.kept:
            self.doubted += ((told, *need) for need in flight.needs.items())
        self.kept.clear()
        self.kept_bytes = 0
        self.skipped = True

    def waiting(self) -> list[Ticket]:
        """Everyone who waits for this member, once for each need."""
        return [ticket for ticket, partitions in self._needs() for _ in partitions]

    def is_awaited(self, partition: PartitionId) -> bool:
        """Whether anybody waits for this member to have a write to this partition."""
        return any(partition in partitions for _, partitions in self._needs())

    def release(self, partition: PartitionId) -> list[Ticket]:
        """This member need not have this partition any more: who has waited for that."""
        freed = []
        for ticket, partitions in self._needs():
            if partition in partitions:
                del partitions[partition]
                freed.append(ticket)
        return freed

    def _needs(self) -> list[tuple[Ticket, Partitions]]:
        kept = (each for flight in self.kept for each in flight.needs.items())
        doubted = (doubt[1:] for doubt in self.doubted)
        return [*doubted, *kept, *self.open.items()]


Stay = tuple[MemberId, int]
"""A member and the incarnation of it that is listed."""
