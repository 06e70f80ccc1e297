"""What the master does with requests: promotion, demotion, departures, state and level changes.

Rules (seed 000 "Lite Member Promotion Algorithm"; `design/3` §7, §8, §9)
-------------------------------------------------------------------------
* Who is not master, or has not settled, refuses a promotion with `IllegalState`; an asker that the
  view does not list with `IllegalArgument`. Where the state moves no data, promotion and demotion
  are refused with `IllegalState`; where it only gives back, all but the promotion of a member that
  the stable table names (`docs/adr/0029`).
* A *promotion* changes the member's kind in the view, is answered when that is committed, and
  triggers an assignment once every member knows (`rebalancing`). One that is data already is done:
  a retry is safe. The member has seen the table first, like a newcomer (`joining`): a voter may be
  the only one left, and where no row is known, all partitions would begin without a word.
* A *demotion* and a *departure* drain first, where the state moves data: the member is marked in
  the view, gets no partition any more, and its own move away. When it holds no index it becomes
  lite; or is taken out, after the moment in which applications learn from it where all that is now
  (`docs/adr/0039`). The mark lasts as long as its request is repeated: when the asker gave up,
  the member takes partitions again, or is marked for the other one of the two.
* Where the state moves nothing a departure is taken out at once; its copies elsewhere are in sync.
  The master takes itself out last of all, and leads that view until it is committed. The last data
  member can't be demoted; it may depart, and *stays listed if it has files*: they are all that is
  left of the cluster, and a view that lists nobody could be led by nobody who comes back. The last
  voter waits for newcomers to become voters: a view of newcomers alone could decide nothing. It
  waits as well for data members that ask to be let in: without it they could form no cluster.
* Who was taken out, and is asked to leave before it is back, has left already; but where the state
  moves data and rows rest on it alone, it is called back first, to give that away (`requests`).
* A state or level change is led by `transition`. The state that holds already is a no-op.
* A change of the view waits its turn: one at a time (`mastership`).

States
------
    asked ──► (waits for its turn) ──► view changed ──► committed ──► told done
                    └── refused                └── drained ──► view changed again ──►

What can go wrong
-----------------
*The master dies while a member drains.* The mark is in the view; the next master goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from holdfast.core.context import MASTER, Context
from holdfast.core.mastership import Mastership
from holdfast.core.messages import (
    Ask,
    NotListed,
    Origin,
    Refusal,
    Request,
    RequestDone,
    RequestPending,
)
from holdfast.core.repair import rests_on
from holdfast.core.states import Rebalance
from holdfast.core.transition import Ended, Transition
from holdfast.core.versioning import LEVEL_PROMOTION
from holdfast.core.views import Drain, Kind, Member, View
from holdfast.errors import IllegalArgument, IllegalState, RefusedError, UnsupportedOperation
from holdfast.ids import Address, MemberId, Millis

LOOK_AT_DRAINED: Final = MASTER + "look at who drained"
LOOK_MS: Final = 20
ENDED_MAX: Final = 256
CALLED_BACK: Final = "the cluster went on without this member, which alone has some of the data"
DRAINS: Final = {Ask.LEAVE: Drain.LEAVING, Ask.DEMOTE: Drain.DEMOTING}
ASKS_REPEATS: Final = 2
"""Whoever has asked within so many repetitions of a request asks still."""
DRAIN_REPEATS: Final = 10
"""So many repetitions of a request may be lost before it counts as given up."""


class Service:
    """The master's side of requests."""

    def __init__(
        self,
        context: Context,
        mastership: Mastership,
        transition: Transition,
        data_may_ask: Callable[[], bool],
    ) -> None:
        self.context = context
        self.data_may_ask = data_may_ask
        """Whether anybody with data asks to be let in, or may do so and was not heard yet
        (`joining`)."""
        self.mastership = mastership
        self.transition = transition
        self._waiting: dict[str, Address] = {}
        """Whom to tell, by request, when the newest view is committed."""
        self._askers: dict[str, Address] = {}
        """Whom to tell, by request, when the change under way has ended."""
        self._drain_asked_at: dict[tuple[MemberId, Drain], Millis] = {}
        self._draining: dict[MemberId, tuple[Origin, Request]] = {}
        """What members that drain have asked last."""
        self._emptied: dict[MemberId, Millis] = {}
        """Since when members that leave have nothing left."""
        self._ended: dict[str, str] = {}
        """Changes that were given up, with the reason: a repetition must not open them again."""

    def begin(self) -> None:
        """A mastership begins, or ends."""
        self._waiting = {}
        self._askers = {}
        self._ended = {}
        self._drain_asked_at = {}
        self._draining = {}
        self._emptied = {}
        self.transition.drop()

    def withdrawn(self) -> None:
        """A change of the view was taken back: who waits for it asks again."""
        self._waiting = {}

    def on_request(self, origin: Origin, request: Request) -> None:
        """Decide what can be decided at once; the rest is looked at again when it is repeated, or
        when a member has drained."""
        if request.ask in DRAINS:
            self._drain_asked_at[origin.id, DRAINS[request.ask]] = self.context.now
        self._decide(origin, request)

    def _decide(self, origin: Origin, request: Request) -> None:
        self._draining.pop(origin.id, None)
        try:
            done = self._serve(origin, request)
        except RefusedError as error:
            refusal = Refusal(request.id, type(error).__name__, error.message)
            self.context.send(origin.address, refusal)
        else:
            if done:
                self._waiting[request.id] = origin.address
            elif request.ask in DRAINS:
                self._draining[origin.id] = origin, request

    def _serve(self, origin: Origin, request: Request) -> bool:
        view = self.context.view
        if view is None or not self.mastership.leading:
            if request.ask in (Ask.PROMOTE, Ask.DEMOTE):
                raise IllegalState("this member is not the master, or not yet")
            if view is not None and view.find(origin.id) is None:
                self.context.send(origin.address, NotListed(view, Millis(-1)))
            return False
        if request.id in self._ended:
            raise IllegalState(self._ended[request.id])
        if request.ask is Ask.LEAVE:
            return self._leave(view, origin, request)
        if request.ask in (Ask.PROMOTE, Ask.DEMOTE):
            member = self._lister(view, origin)
            self._check_moves(view, member, request.ask)
            change = self._promote if request.ask is Ask.PROMOTE else self._demote
            return change(view, member)
        return self._change(view, origin, request)

    def _lister(self, view: View, origin: Origin) -> Member:
        member = view.find(origin.id)
        if member is None or member.incarnation != origin.incarnation:
            raise IllegalArgument(f"{origin.id} is not a member of this cluster")
        if view.level < LEVEL_PROMOTION:
            raise UnsupportedOperation(f"level {view.level} has no promotion of lite members")
        return member

    def _check_moves(self, view: View, member: Member, ask: Ask) -> None:
        """A change of kind moves data. Where the state gives back what was had, and nothing else,
        only a member with a share of that may get it."""
        rebalance, stable = view.attributes.rebalance, self.context.stable
        shares = () if stable is None else stable.rows
        is_back = ask is Ask.PROMOTE and any(member.id in row.replicas for row in shares)
        if rebalance is Rebalance.NO or (rebalance is Rebalance.RECLAIM and not is_back):
            raise IllegalState("the cluster's state moves no data; change it first")

    def _free(self) -> bool:
        """Whether a change of the view may be made now."""
        return self.mastership.committed() and not self.transition.under_way

    # Promotion, demotion, departure ---------------------------------------------------------------

    def _promote(self, view: View, member: Member) -> bool:
        if member.kind is Kind.DATA:
            return True
        if self._free() and self._knows_the_table(member):
            promoted = replace(member, kind=Kind.DATA, drain=Drain.NONE)
            self.mastership.change(view.with_changed(promoted))
            return True
        return False

    def _knows_the_table(self, member: Member) -> bool:
        is_me = member.id == self.context.me.id
        return is_me or self.mastership.knows_the_beginning(member.id)

    def _demote(self, view: View, member: Member) -> bool:
        if member.kind is Kind.LITE:
            return True
        if not any(other.id != member.id for other in view.candidates):
            raise IllegalState("the last data member can't be demoted")
        if member.drain is Drain.NONE and self._free():
            self.mastership.change(view.with_changed(replace(member, drain=Drain.DEMOTING)))
        elif member.drain is Drain.DEMOTING and self._is_empty(member.id) and self._free():
            lite = replace(member, kind=Kind.LITE, drain=Drain.NONE)
            self.mastership.change(view.with_changed(lite))
            return True
        return False

    def _leave(self, view: View, origin: Origin, request: Request) -> bool:
        member = view.find(origin.id)
        if member is None or member.incarnation != origin.incarnation:
            missed = self._is_missed(view, origin.id)
            if missed:
                self.context.send(origin.address, RequestPending(request.id, CALLED_BACK))
            return not missed
        if not self._free() or self._would_abandon(view, member):
            return False
        if self._is_last(view, member):
            return True
        if self._drains(view, member):
            if member.drain is not Drain.LEAVING:
                leaving = replace(member, drain=Drain.LEAVING)
                self.mastership.change(view.with_changed(leaving))
                return False
            if not self._has_lingered(member.id):
                return False
        self.mastership.change(view.without_member(member.id))
        return True

    def _would_abandon(self, view: View, member: Member) -> bool:
        """Whether no voter would be left, and someone who is about to become one, or to be let
        in."""
        if any(other.id != member.id for other in view.voters):
            return False
        return any(other.newcomer for other in view.members) or self.data_may_ask()

    @staticmethod
    def _is_last(view: View, member: Member) -> bool:
        """Whether its files are all that will be left of the cluster."""
        others = any(other.id != member.id for other in view.voters)
        return member.persistent and member in view.voters and not others

    def _is_missed(self, view: View, gone: MemberId) -> bool:
        """Whether it has what nobody in the view has, and could give it away."""
        if view.attributes.rebalance is not Rebalance.YES:
            return False
        others = frozenset(member.id for member in view.members if member.id != gone)
        warm = self.context.config.warm_indexes
        rows = self.context.table.rows
        return any(rests_on(row, gone, others.__contains__, warm) for row in rows)

    @staticmethod
    def _drains(view: View, member: Member) -> bool:
        """Whether its copies can go elsewhere before it does."""
        others = any(other.id != member.id for other in view.voters)
        moves = view.attributes.rebalance is Rebalance.YES
        return member.kind is Kind.DATA and moves and others

    def _is_empty(self, member: MemberId) -> bool:
        return all(member not in row.replicas for row in self.context.table.rows)

    def _has_lingered(self, member: MemberId) -> bool:
        """Whether it had nothing left for so long that applications know where all of it is. One
        that is gone at once is dialled in vain by all who have not asked for the new owners yet."""
        if not self._is_empty(member):
            self._emptied.pop(member, None)
            return False
        since = self._emptied.setdefault(member, self.context.now)
        return self.context.now >= since + self.context.config.leave_linger_ms

    # State and level ------------------------------------------------------------------------------

    def _change(self, view: View, origin: Origin, request: Request) -> bool:
        if self._holds(view, request):
            return True
        self._check_level(view, request)
        transition = self.transition
        if transition.request is None:
            transition.begin(request)
        elif transition.request.id != request.id:
            raise IllegalState("another change of the state is under way")
        elif transition.reason:
            self.context.send(origin.address, RequestPending(request.id, transition.reason))
        self._askers[request.id] = origin.address
        return False

    @staticmethod
    def _holds(view: View, request: Request) -> bool:
        """Whether it was done already, or is so anyway."""
        if view.change == request.id:
            return True
        if request.ask is Ask.STATE:
            return view.state is request.state and not view.recovering
        return view.level == request.level

    @staticmethod
    def _check_level(view: View, request: Request) -> None:
        if request.ask is not Ask.LEVEL:
            return
        if request.level < view.level:
            raise UnsupportedOperation(f"the level {view.level} can't be lowered")
        unable = [member.name for member in view.members if member.level_max < request.level]
        if unable:
            names = ", ".join(unable)
            raise UnsupportedOperation(f"level {request.level} is not spoken by {names}")

    def _tell(self, ended: Ended) -> None:
        address = self._askers.pop(ended.request.id)
        if ended.error:
            self._ended[ended.request.id] = ended.message
            while len(self._ended) > ENDED_MAX:
                del self._ended[next(iter(self._ended))]
            self.context.send(address, Refusal(ended.request.id, ended.error, ended.message))
        else:
            self._waiting[ended.request.id] = address

    # Time -----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Tell who waits for a committed view, or for the end of a change."""
        ended = self.transition.take_ended()
        if ended is not None:
            self._tell(ended)
        view = self.context.view
        assert view is not None
        self._forget_drains(view)
        self._look_at_drained()
        if not self._waiting or not view.sealed or not self.mastership.committed():
            return
        waiting, self._waiting = self._waiting, {}
        for request_id, address in waiting.items():
            self.context.send(address, RequestDone(request_id, view))

    def _look_at_drained(self) -> None:
        """Whoever has nothing left need not ask once more."""
        timers, now = self.context.timers, self.context.now
        if timers.due(LOOK_AT_DRAINED, now):
            self._decide_drained(now)
        if self._draining and not timers.running(LOOK_AT_DRAINED):
            timers.set(LOOK_AT_DRAINED, now + LOOK_MS)

    def _decide_drained(self, now: Millis) -> None:
        lately = now - ASKS_REPEATS * self.context.config.retry_ms
        for member, (origin, request) in tuple(self._draining.items()):
            if self._drain_asked_at[member, DRAINS[request.ask]] < lately:
                del self._draining[member]
            elif self._free() and self._is_empty(member):
                self._decide(origin, request)

    def _forget_drains(self, view: View) -> None:
        """Whoever is marked and no longer asks for it is a data member like any other again."""
        config, now = self.context.config, self.context.now
        for member in view.members:
            if member.drain is Drain.NONE:
                continue
            asked_at = self._drain_asked_at.setdefault((member.id, member.drain), now)
            if now >= asked_at + DRAIN_REPEATS * config.retry_ms and self._free():
                self.mastership.change(view.with_changed(replace(member, drain=Drain.NONE)))
                return
