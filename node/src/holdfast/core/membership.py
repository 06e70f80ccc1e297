"""A member's side of the membership: the newest view, the lease, the end of a stay.

Rules (`design/3` §1)
---------------------
* Views are totally ordered by `(term, version)`; a newer one replaces an older one, never the
  other way. Whoever promised a term takes no view of an older one, unless it knows of no view at
  all: then it learns where it belongs, and confirms nothing (`docs/adr/0009`).
* A member serves only while it holds a *lease*. It asks with every heartbeat, naming its own time
  of asking; the grant names it back, and the lease is counted from there, on the member's clock.
  A grant that was long on its way is therefore worth little, never too much.
* With every grant the member *vows* for one lease, counted from its arrival, not to help another
  to become master (`election`). The master learns from the echo of its own time in the next
  heartbeat which grants arrived, and counts its mandate from there (`mastership`).
* Lease and vow end at once when the member promises a newer term.
* A view of another cluster is refused, with two exceptions: a process that looks for a cluster, and
  whose files name none that lists it, takes it; so does one whose own cluster was never seen to
  exist (`View.founding`), if the other is newer (`forming`).
* A stay `(id, incarnation)` that is no longer listed is over for good. The process begins another
  with a greater incarnation, and its table starts unknown: rows of a history that went on without
  it are never compared with the new master's (`table`). Its data stays until it is replaced.
  Only a stay that began by the recovery of the whole cluster keeps its persisted rows. What is held
  of messages when a stay ends is dropped: they would go out in the name of the next (`outbox`).

States
------
        Started                    a view lists me                 Farewell done
    ────────────► LOOKING ───────────────────────────► MEMBER ────────────────────► STOPPED
                     ▲                                    │
                     └────────────────────────────────────┘
                         a view lists me no more, or a restart

What can go wrong
-----------------
* *A process sleeps longer than its lease and goes on.* It compares its lease with the clock before
  it serves anything, so it serves nothing until it is granted a new one, or learns it is out.
* *It hears nothing but is heard.* Its echo stops; the master counts it as silent (`mastership`).
* *An old grant arrives after a promise.* It is of an older term and is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto

from holdfast.core.context import Context
from holdfast.core.effects import NoticeKind, StableRecord
from holdfast.core.events import Image
from holdfast.core.messages import (
    Farewell,
    Fragment,
    Grant,
    Heartbeat,
    MigrationId,
    NewerTerm,
    NewView,
    NotListed,
    Origin,
    StableTable,
)
from holdfast.core.quorums import Electorate, electorates
from holdfast.core.transitions import TransitionTable
from holdfast.core.views import Member, View
from holdfast.ids import MemberId, Millis, PartitionId, Term, Version

HEARTBEAT = "heartbeat"
NEVER = Millis(-1)


class Phase(Enum):
    """Where a process stands towards its cluster."""

    LOOKING = auto()
    MEMBER = auto()
    STOPPED = auto()


class Turn(Enum):
    """What moves a process from one phase to another."""

    LISTED = auto()
    UNLISTED = auto()
    SAID_FAREWELL = auto()


PHASES = TransitionTable(
    "membership",
    {
        (Phase.LOOKING, Turn.LISTED): Phase.MEMBER,
        (Phase.LOOKING, Turn.UNLISTED): Phase.LOOKING,
        (Phase.MEMBER, Turn.LISTED): Phase.MEMBER,
        (Phase.MEMBER, Turn.UNLISTED): Phase.LOOKING,
        (Phase.MEMBER, Turn.SAID_FAREWELL): Phase.STOPPED,
        (Phase.LOOKING, Turn.SAID_FAREWELL): Phase.STOPPED,
    },
)


class Membership:
    """One member's view, lease and vow."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.phase = Phase.LOOKING
        self.lease_until = NEVER
        self.vow_until = NEVER
        self.vowed_to: MemberId | None = None
        self.vowed_stay: int | None = None
        """Of a candidate, the stay that was promised; that of a master stands in its view."""
        self.lease_horizon = NEVER
        """Until when nobody can have removed me from the view that I hold: the end of the last
        lease of this view, promised away or not."""
        self.discounted: frozenset[tuple[MemberId, int]] = frozenset()
        """Dead stays of the view that no majority needs to count."""
        self.loaded = False
        self.fresh = False
        """Whether a stay has just begun; the node takes note and clears it."""
        self.active: tuple[MigrationId, ...] = ()
        self.resumes: tuple[tuple[PartitionId, int], ...] = ()
        """Partitions in whose reign I have written before a restart (`data.holdings`)."""
        self._granted_at = NEVER
        self._counted: tuple[View, tuple[Electorate, ...]] | None = None
        """Who decides in a view, kept as long as that can't change: it is asked all the time."""

    # Starting -------------------------------------------------------------------------------------

    def start(self, image: Image | None) -> None:
        """Take over what the files say; vow as if a grant had arrived just before the crash."""
        context = self.context
        if image is None:
            return
        context.promised = image.promised
        context.view = image.view
        context.table.apply(image.rows)
        context.stable = image.stable
        for partition, epoch, counter in image.fragments:
            context.fragments[partition] = Fragment(epoch, counter)
        if image.view is not None:
            self.vow(image.view.master)
        context.persist_membership()

    # Views ----------------------------------------------------------------------------------------

    def install(self, view: View) -> bool:
        """Take a newer view; whether it was taken."""
        context = self.context
        held = context.view
        if held is not None and (view.term < context.promised or view.key <= held.key):
            return False
        if held is not None and held.cluster != view.cluster and not self._may_change_cluster():
            return False
        new_term = held is None or view.term > held.term
        was_member = self._is_member()
        context.view = view
        context.promised = max(context.promised, view.term)
        if new_term:
            self.lease_until, self._granted_at = NEVER, NEVER
        self.lease_horizon = NEVER if new_term else self.lease_until
        self._forget_discounts(view)
        if context.listed:
            self._enter(fresh=not was_member)
        elif view.master == context.me.id and self.phase is Phase.MEMBER:
            context.tell(context.me.id, "leads a view without itself, to leave")
        else:
            self._leave(was_member=was_member)
        context.persist_membership()
        return True

    def _is_member(self) -> bool:
        """Whether my stay goes on: I am listed, or lead the view that takes me out."""
        view = self.context.view
        if view is None or self.phase is not Phase.MEMBER:
            return False
        return self.context.listed or view.master == self.context.me.id

    @property
    def recovered(self) -> bool:
        """Whether I come from files and the newest view lists a former stay of mine.

        Then I still count by my id: what that stay said, it had persisted first (`election`).
        """
        context = self.context
        if self.phase is not Phase.LOOKING or context.view is None or context.listed:
            return False
        return context.me.persistent and context.view.find(context.me.id) is not None

    def _may_change_cluster(self) -> bool:
        """A process that looks for a cluster may find another; a member may not, unless its own may
        never have come to be: then the newer of the two is the one that may exist (`forming`)."""
        held = self.context.view
        if held is not None and held.founding:
            return True
        return self.phase is Phase.LOOKING and not self.recovered

    def _enter(self, *, fresh: bool) -> None:
        context = self.context
        self.phase = PHASES.next(self.phase, Turn.LISTED, context.story)
        me = None if context.view is None else context.view.find(context.me.id)
        assert me is not None
        context.me = replace(context.me, kind=me.kind)
        if not fresh:
            return
        self.fresh = True
        if not me.recovered:
            context.table.reset()
            context.persist_rows((), fresh=True)
        context.notice(NoticeKind.JOINED, context.me.id, f"incarnation {context.me.incarnation}")

    def _leave(self, *, was_member: bool) -> None:
        context = self.context
        self.phase = PHASES.next(self.phase, Turn.UNLISTED, context.story)
        self.lease_until = NEVER
        context.timers.clear(HEARTBEAT)
        if was_member:
            context.outbox.end_stay()
            context.me = replace(context.me, incarnation=context.me.incarnation + 1)
            context.notice(NoticeKind.EXCLUDED, context.me.id, "the view lists me no more")

    def out_of_office(self) -> None:
        """No master any more: a view that I led without being in it lists me no more."""
        if self.phase is Phase.MEMBER and not self.context.listed:
            self._leave(was_member=True)
            self.context.persist_membership()

    def on_new_view(self, origin: Origin, message: NewView) -> None:
        """The master has a newer view. The heartbeat that follows confirms it."""
        if message.view.term < self.context.promised:
            self.install(message.view)
            self._answer_old_term(origin)
        elif self.install(message.view) or self.context.view == message.view:
            self.context.timers.set(HEARTBEAT, self.context.now)

    def on_not_listed(self, message: NotListed) -> None:
        """Someone with this view does not list me. I confirm to the master that I know it.

        The voters of the view before decide until this one is sealed, so I vow like a member.
        """
        context = self.context
        self.install(message.view)
        view = context.view
        if view != message.view or context.listed or message.sent_at == NEVER:
            return
        if context.promised == view.term:
            self.vow(view.master)
            self._granted_at = message.sent_at
            context.send_member(view.master, self._heartbeat(view))

    def on_newer_term(self, message: NewerTerm) -> None:
        """My term is over somewhere; its view, if known, is mine from now on."""
        if message.view is not None:
            self.install(message.view)

    def _answer_old_term(self, origin: Origin) -> None:
        answer = NewerTerm(self.context.promised, self.context.view)
        self.context.send(origin.address, answer)

    def stop(self) -> None:
        """This stay ends by its own word: tell everyone, then nothing more."""
        context = self.context
        for member in context.others():
            context.send(member.address, Farewell(context.me.incarnation))
        self.phase = PHASES.next(self.phase, Turn.SAID_FAREWELL, context.story)
        self.lease_until = NEVER
        context.timers.clear(HEARTBEAT)
        context.outbox.stop()

    # Lease ----------------------------------------------------------------------------------------

    def has_lease(self) -> bool:
        """Whether I may serve now."""
        return self.phase is Phase.MEMBER and self.context.now < self.lease_until

    def is_led(self) -> bool:
        """Whether a master that may live renews my lease."""
        view = self.context.view
        return self.has_lease() and view is not None and not self._is_gone(view.master)

    def on_grant(self, origin: Origin, message: Grant) -> None:
        """The lease is renewed, counted from when I asked; the vow from now."""
        context = self.context
        view = context.view
        if view is None or not self._is_of_my_master(origin, message.term):
            return
        if message.version != view.version or message.sent_at > context.now:
            return
        lease = context.config.lease_ms
        if message.serve:
            self.lease_until = Millis(max(self.lease_until, message.sent_at + lease))
            self.lease_horizon = Millis(max(self.lease_horizon, self.lease_until))
        self.vow(view.master)
        self._granted_at = message.granted_at
        if self.has_lease():
            self.discount(member for member in view.members if context.is_dead(member))

    def _is_of_my_master(self, origin: Origin, term: Term) -> bool:
        view = self.context.view
        if view is None or self.phase is not Phase.MEMBER:
            return False
        return term == view.term == self.context.promised and origin.id == view.master

    def follows(self, origin: Origin, term: Term) -> bool:
        """Whether a message is from the master whom I follow, in its term.

        An older term is answered, so that a master that was replaced learns it.
        """
        if term < self.context.promised:
            self._answer_old_term(origin)
            return False
        return self._is_of_my_master(origin, term)

    def give_up_lease(self) -> None:
        """I promised a newer term."""
        self.lease_until = NEVER

    def vow(self, to: MemberId, stay: int | None = None) -> None:
        """Help nobody else to become master, for one lease from now."""
        self.vow_until = Millis(self.context.now + self.context.config.lease_ms)
        self.vowed_to, self.vowed_stay = to, stay

    def vow_binds(self, candidate: MemberId) -> bool:
        """Whether I must not help this candidate now.

        A candidate may come from files, and the view list a former stay of it, which is dead.
        """
        context, vowed_to = self.context, self.vowed_to
        if vowed_to is None or context.now >= self.vow_until or candidate == vowed_to:
            return False
        if self.vowed_stay is None:
            return not self._is_gone(vowed_to)
        return context.confirmed.get(vowed_to, -1) < self.vowed_stay

    def _is_gone(self, master: MemberId) -> bool:
        """Whether it is a fact that this master acts no more."""
        if master not in self.context.confirmed:
            return False
        view = self.context.view
        known = () if view is None else (*view.members, *view.departed)
        return any(member.id == master and self.context.is_dead(member) for member in known)

    # Heartbeats -----------------------------------------------------------------------------------

    def advance(self) -> None:
        """Send a heartbeat when it is time, to the master of my view."""
        context = self.context
        view = context.view
        if self.phase is not Phase.MEMBER or view is None or view.master == context.me.id:
            context.timers.clear(HEARTBEAT)
            return
        if not context.timers.running(HEARTBEAT):
            context.timers.set(HEARTBEAT, context.now)
        if context.timers.due(HEARTBEAT, context.now):
            context.timers.set(HEARTBEAT, context.now + context.config.heartbeat_ms)
            if context.promised == view.term:
                context.send_member(view.master, self._heartbeat(view))

    def _heartbeat(self, view: View) -> Heartbeat:
        context = self.context
        stable = context.stable
        return Heartbeat(
            term=view.term,
            version=view.version,
            sent_at=context.now,
            granted_at=self._granted_at,
            stamp=context.table.stamp,
            loaded=self.loaded,
            stable_term=Term(0) if stable is None else stable.term,
            stable_version=Version(0) if stable is None else stable.version,
            active=self.active,
            resumes=self.resumes,
        )

    # The dead -------------------------------------------------------------------------------------

    def confirm_dead(self, member_id: MemberId, incarnation: int, died_at: int) -> None:
        """It is a fact that this stay is over.

        A majority needs not count it if it died while nobody can have removed *me*: up to then the
        view that I hold was the newest, and whoever is alive and counts stands in it. Of two
        voters, neither can have gone on without the other, as long as it lives: this does not
        hold for one that comes back from files (`quorums`, `docs/adr/0003`). While a change is
        not sealed, the voters before it are meant: their quorum alone could withdraw it
        (`mastership`).
        """
        context = self.context
        known = context.confirmed.get(member_id, -1)
        if incarnation <= known:
            return
        context.confirmed[member_id] = incarnation
        context.tell(member_id, f"incarnation {incarnation} is confirmed dead")
        view = context.view
        if view is None:
            return
        counted: tuple[Member, ...] = ()
        if died_at <= self.lease_horizon:
            counted = (*view.voters, *view.base)
        elif self._is_one_of_two(view.base or view.voters):
            counted = view.base or view.voters
        self.discount(m for m in counted if m.id == member_id and context.is_dead(m))

    def _is_one_of_two(self, voters: tuple[Member, ...]) -> bool:
        me = self.context.me
        return len(voters) <= 2 and any(
            voter.id == me.id and voter.incarnation == me.incarnation for voter in voters
        )

    def discount(self, members: Iterable[Member]) -> None:
        """Majorities need not count these."""
        added = frozenset((member.id, member.incarnation) for member in members)
        if not added <= self.discounted:
            self.discounted = self.discounted | added
            self._counted = None

    def _forget_discounts(self, view: View) -> None:
        counted = (*view.members, *view.base)
        listed = frozenset((member.id, member.incarnation) for member in counted)
        self.discounted = self.discounted & listed
        self._counted = None

    def electorates(self, view: View) -> tuple[Electorate, ...]:
        """Who decides in a view, as far as I know who is dead."""
        if self._counted is None or self._counted[0] is not view:
            self._counted = view, electorates(view, self._is_discounted)
        return self._counted[1]

    def _is_discounted(self, member: Member) -> bool:
        return (member.id, member.incarnation) in self.discounted

    # The stable table -----------------------------------------------------------------------------

    def keep_stable(self, stable: StableTable | None) -> None:
        """Remember the stable table, or forget it."""
        if self.context.stable != stable:
            self.context.stable = stable
            self.context.outbox.persist(StableRecord(stable))
