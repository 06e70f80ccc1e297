"""Group commit: which records may be called persisted, and when the log must be synced. Pure.

Rules (`design/5`, "Group commit"; `core.effects`)
--------------------------------------------------
* Records are written in their order, a tick's in one block. What piled up while the disk was busy
  is written by one `write` and synced by one `fdatasync`.
* A record is *urgent* if it must be on stable storage before it is called persisted: all that was
  promised to others, and mutations of names with `always`. Others count once they are written, so
  that they survive the end of the process; they are synced within a second (`everysec`), or when
  something urgent comes, the segment ends or the log is idle (`off`).
* A sync is of what was written before it began. Writing goes on meanwhile. There is one at a time.
* `Persisted(n)` speaks of everything up to n. So it waits for the last urgent record up to n.

States
------
    queued ── written ──► written, not synced ── a sync begins ──► in it ── it ends ──► stable

What can go wrong
-----------------
*The disk is full.* What could not be written stays first in the queue, nothing overtakes it.
*A sync fails.* There is no next state: what was written may be lost, and nobody knows (`log`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from holdfast.ids import PartitionId

SYNC_EVERY_S: Final = 1.0
BATCH_BYTES_MAX: Final = 8 << 20


class Need(IntEnum):
    """What a record needs, to be called persisted; a greater one includes the smaller."""

    WRITTEN = 0
    """And no sync of its own, ever."""
    WRITTEN_THEN_SYNCED = 1
    """The sync may come later, within a second."""
    SYNCED = 2


@dataclass(frozen=True, slots=True)
class Body:
    """Records of one tick, as they will stand in a block."""

    data: bytes
    count: int
    control: int
    """How many of them are not mutations."""
    last: int
    """Number of the last record in it."""
    need: Need
    touched: dict[PartitionId, int]
    """Bytes of each partition, about."""


class GroupCommit:
    """What waits to be written, to be synced, to be told."""

    __slots__ = (
        "_due",
        "_in_sync",
        "_in_sync_urgent",
        "_queue",
        "_unsynced_urgent",
        "promised",
        "queued_bytes",
        "syncing",
        "unsynced_bytes",
        "written",
    )

    def __init__(self) -> None:
        self._queue: deque[Body] = deque()
        self.queued_bytes = 0
        self.written = 0
        """Number of the last record that is written."""
        self.promised = 0
        """Number up to which everything has what it needs."""
        self._due: float | None = None
        """When what is written must be synced; None when nothing waits for that."""
        self._unsynced_urgent = False
        """Whether anything urgent was written since the last sync began."""
        self.unsynced_bytes = 0
        """What was written since then."""
        self.syncing = False
        self._in_sync = 0
        """Number of the last record that was written before it."""
        self._in_sync_urgent = False
        """Whether the sync that goes on has anything urgent to make stable."""

    def add(self, body: Body) -> None:
        """A tick has ended."""
        self._queue.append(body)
        self.queued_bytes += len(body.data)

    def next(self) -> list[Body]:
        """What is to be written now, at once; it stays first until it `wrote`."""
        batch: list[Body] = []
        size = 0
        for body in self._queue:
            size += len(body.data)
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(body)
        return batch

    def wrote(self, batch: list[Body], now: float) -> None:
        """These are written."""
        for body in batch:
            self._queue.popleft()
            self.queued_bytes -= len(body.data)
            self.unsynced_bytes += len(body.data)
            self.written = body.last
            if body.need is not Need.WRITTEN and self._due is None:
                self._due = now + SYNC_EVERY_S
            if body.need is Need.SYNCED:
                self._unsynced_urgent = True
        if not (self._unsynced_urgent or self._in_sync_urgent):
            self.promised = self.written

    def must_sync(self, now: float) -> bool:
        """Whether a sync is due."""
        return self._unsynced_urgent or (self._due is not None and now >= self._due)

    @property
    def is_urgent(self) -> bool:
        """Whether somebody waits for a sync that has not begun."""
        return self._unsynced_urgent

    def sync_begins(self) -> None:
        """What is written from now on is not in it."""
        self.syncing, self.unsynced_bytes = True, 0
        self._in_sync = self.written
        self._in_sync_urgent, self._unsynced_urgent, self._due = self._unsynced_urgent, False, None

    def synced(self) -> None:
        """Everything that was written before it began is stable."""
        self.syncing = self._in_sync_urgent = False
        up_to = self._in_sync if self._unsynced_urgent else self.written
        self.promised = max(self.promised, up_to)

    def wake_at(self) -> float | None:
        """When a sync will be due by itself."""
        return 0.0 if self._unsynced_urgent else self._due
