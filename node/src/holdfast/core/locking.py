"""A member's side of a state change: the lock between its two phases.

Rules (seed 001 §3.1; `design/3` §7; `transition` has the whole)
----------------------------------------------------------------
* A member locks when it sees what the master sees: the same term and view, the same stamp, no
  migration whose end it does not know, no other change.
* Locked, it takes part in no new migration and calls itself IN_TRANSITION.
* What the table was when it locked, it keeps until the lock ends: rows may go on before the view
  with the change arrives, and a stable table is that of the change (`table_for`).
* The lock ends with the view that carries the change, with an abort, with a newer term, or when
  `change_lock_ms` is over. The last is safe: only the master could use the time, and it either
  commits by a view, which needs no lock, or has given up.

States
------
    FREE ──prepare──► LOCKED ──new view, abort, newer term, time──► FREE

What can go wrong
-----------------
An abort that arrives before its prepare leaves a lock behind; its time ends it.
"""

from __future__ import annotations

from holdfast.core.context import Context
from holdfast.core.membership import Membership
from holdfast.core.messages import Abort, Origin, Prepare, PrepareAck
from holdfast.core.participation import Participation
from holdfast.core.states import ClusterState
from holdfast.core.table import Row
from holdfast.core.views import View

UNLOCK = "unlock"


class Locking:
    """The lock of one member."""

    def __init__(
        self, context: Context, membership: Membership, participation: Participation
    ) -> None:
        self.context = context
        self.membership = membership
        self.participation = participation
        self.change: str | None = None
        self._key = (0, 0)
        self._rows: tuple[Row, ...] = ()

    def on_prepare(self, origin: Origin, message: Prepare) -> None:
        """Lock, or say why not."""
        if not self.membership.follows(origin, message.term):
            return
        reason = self._why_not(message)
        if not reason:
            view = self.context.view
            assert view is not None
            self.change = message.id
            self._key = view.key
            self._rows = self.context.table.rows
            self.participation.locked = True
            self.context.timers.set(UNLOCK, self.context.now + message.lock_ms)
        self.context.send(origin.address, PrepareAck(message.id, message.term, reason))

    def _why_not(self, message: Prepare) -> str:
        view = self.context.view
        if view is None or view.version != message.version:
            return "I hold another view"
        if self.change not in (None, message.id):
            return "another change is under way"
        if self.context.table.stamp != message.stamp:
            return "my partition table differs"
        if self.participation.active:
            return "a migration is under way here"
        return ""

    def on_abort(self, origin: Origin, message: Abort) -> None:
        """The change is off."""
        if self.membership.follows(origin, message.term) and self.change == message.id:
            self._unlock()

    def advance(self) -> None:
        """The lock ends with its view, or in time."""
        if self.change is None:
            return
        view = self.context.view
        due = self.context.timers.due(UNLOCK, self.context.now)
        if due or view is None or view.key != self._key:
            self._unlock()

    def table_for(self, view: View) -> tuple[Row, ...] | None:
        """The table that the change of this view was made on; None where that is not known here.
        The master of the view has just made it; others have it if they are locked for it."""
        if view.master == self.context.me.id:
            return self.context.table.rows
        return self._rows if self.change is not None and self.change == view.change else None

    def _unlock(self) -> None:
        self.change = None
        self._rows = ()
        self.participation.locked = False
        self.context.timers.clear(UNLOCK)

    @property
    def state(self) -> ClusterState | None:
        """The state as this member sees it; None outside a cluster."""
        if self.change is not None:
            return ClusterState.IN_TRANSITION
        return None if self.context.view is None else self.context.view.state
