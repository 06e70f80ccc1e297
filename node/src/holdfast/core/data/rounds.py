"""The owner's rounds through its data: what has had its time goes, without anybody asking for it.

Rules (seed 004: a backup does nothing by itself)
-------------------------------------------------
* Every `expiry_round_ms` the owner looks at each of its partitions in which something may end: a
  value, a lock, an idle key. A round is bounded, and goes on in the next.
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
from holdfast.core.data.replication import Replication
from holdfast.core.serving import Serving
from holdfast.core.stores import locks
from holdfast.core.stores.command import Call
from holdfast.core.stores.expiry import next_expiry, purge
from holdfast.ids import PartitionId

EXPIRY: Final = "end what has had its time"
BUDGET: Final = 64


class Rounds:
    """Ends what is over in the partitions that I own."""

    def __init__(
        self, context: Context, holdings: Holdings, replication: Replication, serves: Serves
    ) -> None:
        self.context = context
        self.holdings = holdings
        self.replication = replication
        self._serves = serves
        self._watched: dict[PartitionId, None] = {}

    def watch(self, partitions: Iterable[PartitionId]) -> None:
        """These were written to, or are mine from now on: something in them may end."""
        for partition in partitions:
            holding = self.holdings.get(partition)
            if holding is not None and holding.reign and may_end(holding):
                self._watched[partition] = None
        if self._watched and not self.context.timers.running(EXPIRY):
            self.context.timers.set(EXPIRY, self.context.now + self.context.config.expiry_round_ms)

    def advance(self, call: Call) -> None:
        """A round, when it is time."""
        if not self.context.timers.due(EXPIRY, self.context.now):
            return
        watched, self._watched = self._watched, {}
        for partition in watched:
            holding = self.holdings.get(partition)
            if holding is not None and holding.reign:
                self._round(holding, call)
                self.watch((partition,))

    def _round(self, holding: Holding, call: Call) -> None:
        if self._serves(holding.partition, self.context.now) is Serving.ALL:
            purge(holding.space, call, BUDGET)
            locks.purge(holding.space, call, BUDGET)
            self.replication.touched[holding.partition] = None


def may_end(holding: Holding) -> bool:
    """Whether anything in there ends by itself."""
    idle = any(fragment.settings.idle_ms and fragment for fragment in holding.space)
    return idle or next_expiry(holding.space) > 0
