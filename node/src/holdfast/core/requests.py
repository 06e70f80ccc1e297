"""What an administrator asks, from the member that was asked to the answer.

Rules
-----
* Every request that is asked here gets exactly one answer, unless this process ends first.
* Whoever is to leave and was taken out asks no more to be let in, unless the master calls it back
  for the data that only it has (`service`), and until it is listed again.
* A request that is wrong whoever is master is refused at once. The others go to the master, and are
  repeated until it answers; the master knows them by their id, so a repetition is harmless.
* State and level changes and departures outlive a change of the master: the asker finds the next
  one. A promotion does not (seed 000: "if local member list update fails, which means master has
  changed during promotion, then method will fail"); asking again is safe.

States
------
    ASKED ──sent to the master, repeated──► answered (done, refused, time is up)

What can go wrong
-----------------
*No master answers in time.* The request may have been done all the same, or may be later, while a
change waits: the outcome is unknown, which is no refusal.

*The answer is lost.* The request is repeated; the master finds its effect in the view: done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.context import Context
from holdfast.core.membership import Membership, Phase
from holdfast.core.messages import Ask, Refusal, Request, RequestDone, RequestPending
from holdfast.core.states import ASKABLE
from holdfast.core.versioning import LEVEL_PROMOTION
from holdfast.core.views import Kind, View
from holdfast.errors import IllegalArgument, IllegalState, RefusedError, UnsupportedOperation
from holdfast.ids import Millis, Term

REPEAT = "repeat requests"
ABOUT_MYSELF = (Ask.PROMOTE, Ask.DEMOTE)
UNANSWERED = "no answer from a master in time; look at what is so, then ask again"


Listener = Callable[[str, str], None]
"""Is given an error's name, or nothing, and what it says."""


@dataclass(slots=True)
class Open:
    """A request that was asked here and has no answer yet."""

    request: Request
    term: Term
    deadline: Millis
    called_back: bool = False
    """Of a departure: whether I have to be let in first."""


class Requests:
    """The asker's side."""

    def __init__(self, context: Context, membership: Membership) -> None:
        self.context = context
        self.membership = membership
        self.open: dict[str, Open] = {}
        self._listeners: dict[str, Listener] = {}
        """Who is told the answers that are not for the shell."""

    def ask(self, request: Request, listener: Listener) -> None:
        """Somebody here asks, and is told the answer itself."""
        self._listeners[request.id] = listener
        self.on_asked(request)

    def _tell(self, request_id: str, error: str = "", message: str = "") -> None:
        listener = self._listeners.pop(request_id, None)
        if listener is None:
            self.context.outbox.answer(request_id, error, message)
        else:
            listener(error, message)

    def on_asked(self, request: Request) -> None:
        """Refuse at once what is wrong whoever is master; carry the rest there."""
        context = self.context
        if request.id in self.open:
            return
        try:
            self._check(request, context.view)
        except RefusedError as error:
            self._tell(request.id, type(error).__name__, error.message)
            return
        if request.ask is Ask.LEAVE and not self._counts():
            self._tell(request.id)
            self._stop()
            return
        view = context.view
        term = Term(0) if view is None else view.term
        patience = max(request.wait_ms, context.config.request_timeout_ms)
        self.open[request.id] = Open(request, term, Millis(context.now + patience))
        context.timers.set(REPEAT, context.now)

    def _check(self, request: Request, view: View | None) -> None:
        if request.ask is Ask.STATE and request.state not in ASKABLE:
            raise IllegalArgument(f"{request.state} can't be asked for")
        if request.ask not in ABOUT_MYSELF:
            return
        me = None if view is None else view.find(self.context.me.id)
        if view is None or me is None or self.membership.phase is not Phase.MEMBER:
            raise IllegalState("this member is in no cluster")
        if view.level < LEVEL_PROMOTION:
            raise UnsupportedOperation(f"level {view.level} has no promotion of lite members")
        wanted = Kind.DATA if request.ask is Ask.PROMOTE else Kind.LITE
        if me.kind is wanted:
            raise IllegalState(f"this is a {wanted} member already")

    def _counts(self) -> bool:
        """Whether the cluster has to be asked before I go: I am listed, or was by my id; or I have
        data that it may miss."""
        view = self.context.view
        if view is None:
            return False
        known = (*view.members, *view.base)
        return bool(self.context.fragments) or any(m.id == self.context.me.id for m in known)

    # Answers --------------------------------------------------------------------------------------

    def on_refusal(self, message: Refusal) -> None:
        """The master says no."""
        if message.about in self.open:
            self._answer(message.about, message.error, message.message)

    def on_pending(self, message: RequestPending) -> None:
        """The master has it, and it waits."""
        entry = self.open.get(message.id)
        if entry is None:
            return
        entry.called_back = entry.request.ask is Ask.LEAVE
        if message.id not in self._listeners:
            self.context.outbox.pending(message.id, message.reason)

    def on_done(self, message: RequestDone) -> None:
        """Done. Of a promotion the new list must be newer than mine, else the master changed."""
        entry = self.open.get(message.id)
        if entry is None:
            return
        view = self.context.view
        self.membership.install(message.view)
        if entry.request.ask in ABOUT_MYSELF and view is not None and message.view.term < view.term:
            self._answer(message.id, "IllegalState", "the master has changed; ask again")
        else:
            self._answer(message.id, "", "")

    def _answer(self, request_id: str, error: str, message: str) -> None:
        entry = self.open.pop(request_id)
        self._tell(request_id, error, message)
        if entry.request.ask is Ask.LEAVE and not error:
            self._stop()

    def _stop(self) -> None:
        """This member has left; whatever else was asked of it ends here."""
        for entry in self.open.values():
            error = "" if entry.request.ask is Ask.LEAVE else "IllegalState"
            message = "" if not error else "this member has left the cluster"
            self._tell(entry.request.id, error, message)
        self.open = {}
        self.membership.stop()

    # Time -----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Repeat; give up in time; a departure is done when no view lists me."""
        context = self.context
        for entry in tuple(self.open.values()):
            self._look_at(entry)
        if not self.open:
            context.timers.clear(REPEAT)
            context.leaving = False
            return
        if context.timers.due(REPEAT, context.now):
            context.timers.set(REPEAT, context.now + context.config.retry_ms)
            self._repeat()
        departures = [entry for entry in self.open.values() if entry.request.ask is Ask.LEAVE]
        called_back = any(entry.called_back for entry in departures)
        context.leaving = bool(departures) and not called_back

    def _repeat(self) -> None:
        """To the master; one who is out of the view, and may not know the newest, asks around."""
        context, view = self.context, self.context.view
        if view is None:
            return
        is_member = self.membership.phase is Phase.MEMBER
        around = [m for m in view.members if not is_member and m.id != view.master]
        for entry in tuple(self.open.values()):
            context.send_member(view.master, entry.request)
            for member in around:
                context.send(member.address, entry.request)

    def _look_at(self, entry: Open) -> None:
        context, request = self.context, entry.request
        view = context.view
        if self.membership.phase is Phase.MEMBER:
            entry.called_back = False
        if request.ask in ABOUT_MYSELF and view is not None and view.term != entry.term:
            self._answer(request.id, "IllegalState", "the master has changed; ask again")
        elif context.now >= entry.deadline:
            self._answer(request.id, "OutcomeUnknown", UNANSWERED)
