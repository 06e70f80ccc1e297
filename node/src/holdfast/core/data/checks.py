"""The owner's round: it tells every backup now and then what that should have.

Rules (seed 004, "periodic task running on each primary replica"; `design/3` §5)
--------------------------------------------------------------------------------
* Every `sync_interval_ms` an owner sends each backup of a partition where each of its fragments
  stands. When its ownership begins, the same goes with its stream (`replication`).
* A backup gathers every fragment in which it is behind and asks for all at once (`pulling`).

States
------
None but the time of the next round.

What can go wrong
-----------------
*The check overtakes mutations that are under way*: the backup asks, and learns that it lacks
nothing by the time the plan is made. *It is lost*: the next round comes.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.copies import Holding
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.pulling import Pulling
from holdfast.core.data_messages import ReplicaCheck
from holdfast.core.messages import Origin

CHECK: Final = "compare versions with backups"


class Checks:
    """Both sides of the round."""

    def __init__(self, context: Context, holdings: Holdings, pulling: Pulling) -> None:
        self.context = context
        self.holdings = holdings
        self.pulling = pulling

    def advance(self) -> None:
        """A round, when it is time."""
        timers, now = self.context.timers, self.context.now
        if timers.due(CHECK, now) or not timers.running(CHECK):
            timers.set(CHECK, now + self.context.config.sync_interval_ms)
            for holding in tuple(self.holdings.here.values()):
                self.tell(holding)

    def tell(self, holding: Holding) -> None:
        """Tell the backups of a partition that I own."""
        if not holding.reign or not holding.copies:
            return
        row = self.context.table.row(holding.partition)
        for index, member in enumerate(row.replicas):
            if index and member is not None:
                self.context.send_member(member, holding.check_for(index))

    def on_check(self, origin: Origin, check: ReplicaCheck) -> None:
        """The owner of a partition says what I should have."""
        holding = self.holdings.under(origin.id, check.partition, check.reign)
        if holding is not None and holding.index > 0 and holding.fall_behind(check):
            self.pulling.want(check.partition)
