"""The owner's rounds through its data: what has had its time goes, without anybody asking for it.

Rules (seed 004: a backup does nothing by itself)
-------------------------------------------------
* Every `expiry_round_ms` the owner looks at each of its partitions in which something may end: a
  value, a lock, an idle key, a job that nobody came back to. A round is bounded, and goes on in the
  next.
* A partition is looked at when the first thing in it has had its time, not before: one that holds
  something for an hour costs a round a comparison.
* Nothing goes while writes are held back.

States
------
The partitions that were written to since nothing in them could end, and the time of the next round.

What can go wrong
-----------------
*The round comes late*: who reads does not see what is over anyway (`stores.access`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.copies import Holding
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.plane import Serves
from holdfast.core.serving import Serving
from holdfast.core.stores import locks, staging
from holdfast.core.stores.command import Call
from holdfast.core.stores.expiry import purge
from holdfast.core.stores.fragment import Fragment
from holdfast.ids import PartitionId

EXPIRY: Final = "end what has had its time"
BUDGET: Final = 64
FAR: Final = 1 << 62
"""No moment of the wall clock is later."""


class Rounds:
    """Ends what is over in the partitions that I own."""

    def __init__(self, context: Context, holdings: Holdings, serves: Serves) -> None:
        self.context = context
        self.holdings = holdings
        self._serves = serves
        self._watched: dict[PartitionId, int] = {}
        """And the moment before which nothing in it ends; 0 where keys end by not being used."""

    def watch_written(self) -> None:
        """What was written to may end."""
        for fragment in self.holdings.written.fragments:
            if fragment.unlimited and not fragment.expiring and not fragment.unlocking:
                continue
            due = self._watched.get(fragment.partition)
            if due is None:
                self.watch((fragment.partition,))
            elif due:
                self._watched[fragment.partition] = min(due, due_in(fragment))

    def watch(self, partitions: Iterable[PartitionId]) -> None:
        """These were written to, or are mine from now on: something in them may end."""
        for partition in partitions:
            holding = self.holdings.get(partition)
            if holding is not None and holding.reign and may_end(holding):
                self._watched[partition] = min(map(due_in, holding.space))
        self._arm()

    def _arm(self) -> None:
        if self._watched and not self.context.timers.running(EXPIRY):
            self.context.timers.set(EXPIRY, self.context.now + self.context.config.expiry_round_ms)

    def advance(self, call: Call) -> None:
        """A round, when it is time."""
        if not self.context.timers.due(EXPIRY, self.context.now):
            return
        watched, self._watched = self._watched, {}
        for partition, due in watched.items():
            holding = self.holdings.get(partition)
            if holding is None or not holding.reign:
                continue
            if due > call.now:
                self._watched[partition] = due
                continue
            self._round(holding, call)
            self.watch((partition,))
        self._arm()

    def _round(self, holding: Holding, call: Call) -> None:
        if self._serves(holding.partition, self.context.now) is Serving.ALL:
            purge(holding.space, call, BUDGET)
            locks.purge(holding.space, call, BUDGET)
            if not self.context.disk_full:
                staging.go_on(holding.space, call)


def may_end(holding: Holding) -> bool:
    """Whether anything in there ends by itself."""
    return any(fragment.may_end() for fragment in holding.space)


def due_in(fragment: Fragment) -> int:
    """Nothing ends before this moment; 0 where it can't be said."""
    if fragment.settings.idle_ms and fragment.records:
        return 0
    return min([heap[0][0] for heap in (fragment.expiring, fragment.unlocking) if heap] or [FAR])
