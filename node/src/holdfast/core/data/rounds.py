"""The owner's rounds through its data: what has had its time goes, without anybody asking for it.

Rules (seed 004: a backup does nothing by itself)
-------------------------------------------------
* Every `expiry_round_ms` the owner looks at each of its partitions in which something may end: a
  value, a lock, an idle key. A round is bounded, and goes on in the next.
* Nothing goes while writes are held back.

States
------
None but the time of the next round, which is set while there is anything to end.

What can go wrong
-----------------
*The round comes late*: who reads does not see what is over anyway (`stores.access`).
"""

from __future__ import annotations

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

    def advance(self, call: Call) -> None:
        """A round, when it is time."""
        timers, now = self.context.timers, self.context.now
        owned = [each for each in self.holdings.here.values() if each.reign and may_end(each)]
        if not owned:
            timers.clear(EXPIRY)
        elif not timers.running(EXPIRY):
            timers.set(EXPIRY, now + self.context.config.expiry_round_ms)
        elif timers.due(EXPIRY, now):
            for holding in owned:
                self._round(holding, call)
            timers.set(EXPIRY, now + self.context.config.expiry_round_ms)

    def _round(self, holding: Holding, call: Call) -> None:
        if self._serves(holding.partition, self.context.now) is Serving.ALL:
            purge(holding.space, call, BUDGET)
            locks.purge(holding.space, call, BUDGET)
            self.replication.touched[holding.partition] = None


def may_end(holding: Holding) -> bool:
    """Whether anything in there ends by itself."""
    idle = any(fragment.settings.idle_ms and fragment for fragment in holding.space)
    return idle or next_expiry(holding.space) > 0
