"""Which planned steps may start now: serial inside a partition, bounded per member.

Rules (seed 001 §2.2, seed 002 §3.2.3)
--------------------------------------
* Steps of one partition run in the order of the plan, one at a time.
* A member takes part in at most `parallel_max` running steps, as the owner that sends or as a
  destination that receives.
* Partitions whose next step adds a copy (COPY, SHIFT UP) come before those that only move.
* Among equals, queues take turns: a member that joins is given data by all owners at once, not by
  one after the other, each of which its clients would wait for. In a queue, whoever has begun goes
  on; else the order of the plan.

A partition waits in the queue of its *party*: the members that its next step would load. There are
few of these, so that starting a step costs the same with 16,384 partitions waiting as with ten.

States
------
    of a partition:    waiting ──its party has room──► running ──finish──► waiting, or done
                          │                               │
                          └──cancel──► (forgotten)        └──release──► done: its step failed

What can go wrong
-----------------
* *A migration fails.* Its party is released; the rest of the plan is cancelled by whoever made it.
* *The owner changes with a step.* The next step of the partition loads the new one: its place in
  the queues is chosen anew when the step before has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from holdfast.core.migrations import MigrationType, Step
from holdfast.ids import MemberId, PartitionId

Party = tuple[MemberId, ...]
"""The members that a step loads, in a fixed order."""

ADDS_COPIES = (MigrationType.COPY, MigrationType.SHIFT_UP)


def party_of(sender: MemberId | None, step: Step) -> Party:
    """The owner that sends and the destinations that receive, each once."""
    destinations = (move.destination for move in step)
    members = (sender, *destinations)
    return tuple(dict.fromkeys(member for member in members if member is not None))


class Schedule:
    """The steps that are planned and not begun, and the load of the running ones."""

    def __init__(self) -> None:
        self._steps: dict[PartitionId, deque[Step]] = {}
        self._queues: tuple[dict[Party, deque[PartitionId]], ...] = ({}, {})
        self.load: dict[MemberId, int] = {}

    def add(self, partition: PartitionId, steps: Sequence[Step], sender: MemberId | None) -> None:
        """Plan the steps of a partition; its owner is `sender`."""
        if steps:
            self._steps[partition] = deque(steps)
            self._queue(partition, sender).append(partition)

    def _queue(self, partition: PartitionId, sender: MemberId | None) -> deque[PartitionId]:
        """Where a partition waits for its next step."""
        step = self._steps[partition][0]
        urgent = any(move.type in ADDS_COPIES for move in step)
        return self._queues[0 if urgent else 1].setdefault(party_of(sender, step), deque())

    def start(self, parallel_max: int) -> Iterator[tuple[PartitionId, Step, Party]]:
        """Take every step that may start now; each counts as running from here."""
        for queues in self._queues:
            took_some = True
            while took_some:
                took_some = False
                for party in tuple(queues):
                    if self._has_room(party, parallel_max):
                        took_some = True
                        yield self._take(queues, party)

    def _take(
        self, queues: dict[Party, deque[PartitionId]], party: Party
    ) -> tuple[PartitionId, Step, Party]:
        """The first that waits in a queue, which is the last in turn from here."""
        waiting = queues.pop(party)
        partition = waiting.popleft()
        if waiting:
            queues[party] = waiting
        for member in party:
            self.load[member] = self.load.get(member, 0) + 1
        return partition, self._steps[partition].popleft(), party

    def _has_room(self, party: Iterable[MemberId], parallel_max: int) -> bool:
        return all(self.load.get(member, 0) < parallel_max for member in party)

    def finish(self, partition: PartitionId, party: Party, sender: MemberId | None) -> None:
        """A running step ended well; the next of its partition may wait for its turn."""
        self.release(party)
        if self._steps.get(partition):
            self._queue(partition, sender).appendleft(partition)
        else:
            self._steps.pop(partition, None)

    def release(self, party: Party) -> None:
        """A running step ended, whatever comes next."""
        for member in party:
            self.load[member] -= 1
            if not self.load[member]:
                del self.load[member]

    def cancel(self) -> int:
        """Forget what has not begun; how many steps that were."""
        cancelled = self.planned
        self._steps = {}
        self._queues = ({}, {})
        return cancelled

    @property
    def planned(self) -> int:
        """Steps that have not begun."""
        return sum(len(steps) for steps in self._steps.values())

    @property
    def is_done(self) -> bool:
        """Whether every step has begun, and the last of each partition ended well."""
        return not self._steps
