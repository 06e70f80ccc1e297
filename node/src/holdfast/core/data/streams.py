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
  it, and is told with the next one that some were *skipped*: it then doubts all its copies.

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
from dataclasses import dataclass, field

from holdfast.core.data.tickets import Ticket
from holdfast.core.data_messages import BackupAck, BackupFrame, MutationRun, ReplicaCheck
from holdfast.ids import MemberId, PartitionId

Need = tuple[PartitionId, Ticket]


@dataclass(slots=True)
class Flight:
    """A frame under way, and who waits for it."""

    frame: BackupFrame | None = None
    size: int = 0
    needs: list[Need] = field(default_factory=list)


class Stream:
    """Frames to one stay of a member."""

    def __init__(self) -> None:
        self.number = 0
        self.open = Flight()
        self.kept: deque[Flight] = deque()
        self.kept_bytes = 0
        self.doubted: list[Need] = []
        self.skipped = False
        self.acknowledged = 0
        self.heard_at = 0
        """When it acknowledged something last, or the first of those that are kept went out."""

    def close_frame(
        self, runs: list[MutationRun], checks: list[ReplicaCheck], size: int
    ) -> BackupFrame:
        """The open frame is full; needs that were added to it wait for it now."""
        self.number += 1
        frame = BackupFrame(self.number, self.skipped, tuple(runs), tuple(checks))
        self.skipped = False
        flight, self.open = self.open, Flight()
        flight.frame, flight.size = frame, size
        self.kept.append(flight)
        self.kept_bytes += size
        return frame

    def acknowledge(self, ack: BackupAck, met: Callable[[Ticket], None]) -> bool:
        """The receiver has everything up to a number, with doubts; whether that was news."""
        if ack.number < self.acknowledged:
            return False  # an answer that was overtaken: its doubts are of another time
        self.acknowledged = ack.number
        kept = len(self.kept)
        needs, self.doubted = self.doubted, []
        while self.kept:
            frame = self.kept[0].frame
            if frame is None or frame.number > ack.number:
                break
            flight = self.kept.popleft()
            self.kept_bytes -= flight.size
            needs += flight.needs
        for need in needs:
            if need[0] in ack.doubted:
                self.doubted.append(need)
            else:
                met(need[1])
        return len(self.kept) < kept

    def skip(self) -> None:
        """Keep nothing any more: what was not acknowledged is doubted from now on."""
        for flight in self.kept:
            self.doubted += flight.needs
        self.kept.clear()
        self.kept_bytes = 0
        self.skipped = True

    def waiting(self) -> list[Ticket]:
        """Everyone who waits for this member, once for each need."""
        flights = (need for flight in (*self.kept, self.open) for need in flight.needs)
        return [ticket for _, ticket in (*self.doubted, *flights)]

    def release(self, partition: PartitionId) -> list[Ticket]:
        """This member need not have this partition any more: who has waited for that."""
        freed = [ticket for place, ticket in self.doubted if place == partition]
        self.doubted = [need for need in self.doubted if need[0] != partition]
        for flight in (*self.kept, self.open):
            freed += [ticket for place, ticket in flight.needs if place == partition]
            flight.needs = [need for need in flight.needs if need[0] != partition]
        return freed


Stay = tuple[MemberId, int]
"""A member and the incarnation of it that is listed."""
