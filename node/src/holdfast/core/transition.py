"""Changing the state, or the level, of the whole cluster: all or nothing.

Rules (seed 001 §3.1; seed 003 "Partitioning"; `design/3` §7)
-------------------------------------------------------------
* Any member may be asked; the master leads. The same state is a no-op.
* **Checked first, and again under the lock**: start-up is complete, every member has confirmed the
  newest view, all stamps are equal, no other change, no migration runs.
* *Phase 1*: every member locks (`locking`), if it sees the same view and table. One refusal, or a
  member that leaves now, undoes everything.
* *Phase 2*: the next version of the view carries the new state or level. From here a member that
  leaves changes nothing.
* If migrations run, the asker may have chosen to **wait**: no new one starts, running ones end,
  then the change goes on. Meanwhile it is pending, with its reason. Else it is refused.
* A state that keeps a stable table takes it from the table of that moment: the stamps are equal,
  hence every member can take its own, the one that it locked with. The master's rows may go on as
  soon as a majority has the view; whoever gets the view later has no lock, or an older table in it.
* At levels 1 and 2 equal stamps mean equal table versions (`versioning`), so the check is the same.

States
------
            asked           checks hold          all locked         checks hold still
    IDLE ─────────► WAITING ───────────► LOCKING ───────────► (view is changed) ──► IDLE
     ▲                 │                    │
     └─────────────────┴────────────────────┘
      refused, time is up, a member left, a newer term

What can go wrong
-----------------
* *The master dies in phase 1.* Locks end with the newer term; nothing has changed. The asker asks
  the next master.
* *It dies in phase 2.* The view with the change is known to a majority or not; the next master's
  view says which. `View.change` tells the asker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from holdfast.core.context import MASTER, Context
from holdfast.core.effects import NoticeKind
from holdfast.core.execution import Execution
from holdfast.core.mastership import Mastership
from holdfast.core.messages import Abort, Ask, Origin, Prepare, PrepareAck, Request
from holdfast.core.publication import Publisher
from holdfast.core.rebalancing import Rebalancing
from holdfast.core.states import attributes_of
from holdfast.core.transitions import TransitionTable
from holdfast.core.views import View, ViewKey
from holdfast.ids import MemberId, Millis

DEADLINE = MASTER + "change deadline"
PREPARE_AGAIN = MASTER + "prepare again"


class Phase(Enum):
    """How far a change is."""

    IDLE = auto()
    WAITING = auto()
    LOCKING = auto()


class Signal(Enum):
    """What moves it."""

    ASKED = auto()
    CHECKED = auto()
    ENDED = auto()


PHASES = TransitionTable(
    "transition",
    {
        (Phase.IDLE, Signal.ASKED): Phase.WAITING,
        (Phase.WAITING, Signal.CHECKED): Phase.LOCKING,
        (Phase.WAITING, Signal.ENDED): Phase.IDLE,
        (Phase.LOCKING, Signal.ENDED): Phase.IDLE,
    },
)


@dataclass(slots=True)
class Ended:
    """The outcome of a change, for its asker: the name of an error, or nothing."""

    request: Request
    error: str
    message: str


class Transition:
    """The master's side of a state change."""

    def __init__(
        self,
        context: Context,
        mastership: Mastership,
        publisher: Publisher,
        execution: Execution,
        rebalancing: Rebalancing,
    ) -> None:
        self.context = context
        self.mastership = mastership
        self.publisher = publisher
        self.execution = execution
        self.rebalancing = rebalancing
        self.phase = Phase.IDLE
        self.request: Request | None = None
        self.reason = ""
        """Why the change is pending."""
        self._locked: dict[MemberId, int] = {}
        self._key: ViewKey = (0, 0)
        self._stamp = 0
        self._ended: Ended | None = None

    @property
    def under_way(self) -> bool:
        """Whether a change is open."""
        return self.phase is not Phase.IDLE

    def take_ended(self) -> Ended | None:
        """The outcome of the last change, once."""
        ended, self._ended = self._ended, None
        return ended

    def begin(self, request: Request) -> None:
        """Open a change. Only when none is open."""
        self.phase = PHASES.next(self.phase, Signal.ASKED, self.context.story)
        self.request = request
        self.reason = ""
        wait = max(request.wait_ms, self.context.config.change_lock_ms)
        self.context.timers.set(DEADLINE, self.context.now + wait)

    def drop(self) -> None:
        """My mastership ended: the change is nobody's; its asker finds the next master."""
        self._ended = None
        if self.under_way:
            self._close()

    # Checks ---------------------------------------------------------------------------------------

    def _not_yet(self, view: View) -> str:
        """What the change still waits for, or empty."""
        if view.recovering:
            return "the cluster is still starting"
        if not self.mastership.committed() or not self.mastership.known_to_all():
            return "a change of the members is not known to everyone yet"
        if self.execution.running:
            return f"{len(self.execution.running)} migrations are running"
        if not self.publisher.is_quiet():
            return "the partition table is not known to everyone yet"
        return ""

    # Phase 1 --------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Bring an open change on."""
        view, request = self.context.view, self.request
        if request is None or view is None:
            return
        if self.phase is Phase.WAITING:
            self._wait(view, request)
        if self.phase is Phase.LOCKING:
            self._lock(view, request)

    def _wait(self, view: View, request: Request) -> None:
        self.rebalancing.held = True
        self.reason = self._not_yet(view)
        if not self.reason:
            self._prepare(view, request)
        elif self.execution.running and not request.wait_ms:
            self._end("IllegalState", f"{self.reason}; ask to wait, or ask again later")
        elif self.context.timers.due(DEADLINE, self.context.now):
            self._end("IllegalState", f"gave up waiting: {self.reason}")

    def _prepare(self, view: View, request: Request) -> None:
        self.phase = PHASES.next(self.phase, Signal.CHECKED, self.context.story)
        self._key, self._stamp = view.key, self.context.table.stamp
        self._locked = {}
        self.context.timers.set(DEADLINE, self.context.now + self.context.config.change_lock_ms)
        self._ask_to_lock(view, request)

    def _ask_to_lock(self, view: View, request: Request) -> None:
        context = self.context
        context.timers.set(PREPARE_AGAIN, context.now + context.config.retry_ms)
        lock_ms = Millis(2 * context.config.change_lock_ms)
        prepare = Prepare(request.id, view.term, view.version, self._stamp, lock_ms)
        for member in view.members:
            if self._locked.get(member.id) != member.incarnation:
                context.send(member.address, prepare)

    def on_prepare_ack(self, origin: Origin, message: PrepareAck) -> None:
        """A member is locked, or refuses."""
        request = self.request
        if self.phase is not Phase.LOCKING or request is None or message.id != request.id:
            return
        if message.term != self._key[0]:
            return
        if message.reason:
            self._undo("IllegalState", f"{origin.id}: {message.reason}")
        else:
            self._locked[origin.id] = origin.incarnation

    def _lock(self, view: View, request: Request) -> None:
        """Under the lock everything is checked again; then the view carries the change."""
        if view.key != self._key:
            self._undo("IllegalState", "the members changed meanwhile")
        elif self.context.table.stamp != self._stamp or self.execution.running:
            self._undo("IllegalState", "the partition table changed meanwhile")
        elif all(self._locked.get(m.id) == m.incarnation for m in view.members):
            self._commit(view, request)
        elif self.context.timers.due(DEADLINE, self.context.now):
            self._undo("IllegalState", "not every member locked in time")
        elif self.context.timers.due(PREPARE_AGAIN, self.context.now):
            self._ask_to_lock(view, request)

    # Phase 2 --------------------------------------------------------------------------------------

    def _commit(self, view: View, request: Request) -> None:
        changed = replace(view, change=request.id)
        if request.ask is Ask.STATE:
            changed = replace(changed, state=request.state)
            keeps = attributes_of(request.state).keeps_stable_table
            next_key = (view.term, view.version + 1)
            changed = replace(changed, stable=next_key if keeps else (0, 0))
            self.context.notice(NoticeKind.STATE_CHANGED, view.cluster, request.state)
        else:
            changed = replace(changed, level=request.level)
            self.context.notice(NoticeKind.LEVEL_CHANGED, view.cluster, str(request.level))
        self.mastership.change(changed)
        self._end("", "")

    def _undo(self, error: str, message: str) -> None:
        view, request = self.context.view, self.request
        assert view is not None
        assert request is not None
        for member in view.members:
            self.context.send(member.address, Abort(request.id, view.term))
        self._end(error, message)

    def _end(self, error: str, message: str) -> None:
        assert self.request is not None
        self._ended = Ended(self.request, error, message)
        self._close()

    def _close(self) -> None:
        self.phase = PHASES.next(self.phase, Signal.ENDED, self.context.story)
        self.request = None
        self.rebalancing.held = False
        self.rebalancing.again()
        self.context.timers.clear(DEADLINE)
        self.context.timers.clear(PREPARE_AGAIN)
