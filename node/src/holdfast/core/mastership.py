"""The master's side of the membership: mandate, leases, one change of the view at a time.

Rules (`design/3` §1; `docs/adr/0002`, `0003` and `0009`)
--------------------------------------------------------
* **Mandate.** A master acts only while a majority of the voters may not promise anybody else. A
  voter's vow began when a grant reached it; the next heartbeat echoes the master's own time of that
  grant. The mandate is the time that a majority has echoed, plus a lease, less the margin.
* **Lease.** A grant is given only with a mandate, to a member that confirmed the newest view and
  has seen the rows that the mastership began with. The master remembers until when, on its own
  clock, the member may serve.
* **Change.** A new version of the view may be made when the one before is *committed*: confirmed by
  a quorum of its voters and of those of the view before it (`quorums`), and by everyone who may
  still hold a lease. So whoever serves knows the newest committed view. One voter more or less at
  a time. A founding is such a change: what it needs is in its view (`View.founding`).
* **Withdrawal.** A change of the voters that can't be committed, since a voter died that it can't
  do without, would bind everyone to that voter for ever. So a master whose mandate ends first makes
  the view before the change once more, as the next version. Whatever could be decided under the
  change needed a quorum of the voters before it too (`View.base`), so nothing that was decided is
  lost; and only the master that made the change knows that it never sealed it.
* **Silence.** A member is taken out when it echoed nothing for a lease, its margin and a heartbeat,
  and the lease that it was granted is over, as long as the rest can commit that; or when its death
  is a fact; or when it comes back as a new stay. A new master gives everyone this time from its
  election: the old master may have granted leases up to then.
* **The old master** itself served by its mandate, and that is over when anybody else is elected;
  nor has anybody who elected heard of it for a lease. So it is given no lease more, and of the
  time of silence only what is left: a margin and a heartbeat.
* A member is let in only when what removed its former stay is known to everyone (`publication`),
  so that a row never names a stay that did not hold it.

States
------
                 ballot won                  everyone reported, settled
     (no master) ──────────► SETTLING ─────────────────────────────► LEADING
                                │                                       │
                                └──────────────► over ◄─────────────────┘
                                 a newer term, or the mandate is lost for good

What can go wrong
-----------------
* *The master sleeps.* Its mandate is over when it wakes; it grants and decides nothing, and learns
  from the first answer that a newer term exists.
* *A change is known to a minority when the master dies.* The next master holds the newest view of a
  majority. The change is there or not; whoever it concerned asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum, auto

from holdfast.core.config import Quorum, RecoveryPolicy
from holdfast.core.context import MASTER, Context
from holdfast.core.effects import NoticeKind
from holdfast.core.election import Ballot, Election, Role
from holdfast.core.membership import Membership
from holdfast.core.messages import Grant, Heartbeat, NewerTerm, NewView, NotListed, Origin
from holdfast.core.quorums import NO_STAY
from holdfast.core.views import Kind, Member, View
from holdfast.ids import MemberId, Millis, Version

REVIEW = MASTER + "review"


class Stage(Enum):
    """How far a mastership is."""

    NONE = auto()
    SETTLING = auto()
    LEADING = auto()


class Mastership:
    """What only the master of a term does about the members."""

    def __init__(
        self,
        context: Context,
        membership: Membership,
        election: Election,
        is_quiet: Callable[[], bool],
        knows_the_beginning: Callable[[MemberId], bool],
    ) -> None:
        self.context = context
        self.is_quiet = is_quiet
        """Whether every member has confirmed every row (`publication`)."""
        self.knows_the_beginning = knows_the_beginning
        """Whether a member has seen the rows that this mastership began with (`publication`)."""
        self.membership = membership
        self.election = election
        self.stage = Stage.NONE
        self.elected_at = Millis(0)
        self.echoed: dict[MemberId, Millis] = {}
        """My time of the newest grant (or claim) that each member is known to have received."""
        self.leased_until: dict[MemberId, Millis] = {}
        self.confirmed_by: dict[MemberId, int] = {}
        """Members that hold the newest view, with the incarnation that said so."""
        self.heartbeats: dict[MemberId, Heartbeat] = {}
        self.left_at: dict[MemberId, Millis] = {}
        self.restarted: dict[MemberId, int] = {}
        """Stays that are over because a newer one asks to be let in."""
        self.removed: tuple[Member, ...] = ()
        """Taken out by the change under way; their leases must be over before it is committed."""
        self._before: View | None = None
        """The view before the change of voters under way, as I made that change myself."""

    # Taking office --------------------------------------------------------------------------------

    def take_office(self, ballot: Ballot) -> None:
        """A ballot is won: publish a view of my term, and begin to settle."""
        context = self.context
        self.stage = Stage.SETTLING
        self.elected_at = context.now
        view = self._first_view(ballot)
        self._reset(view)
        self._expect_no_more(ballot.view)
        self._install(view)
        detail = f"term {view.term}, {len(view.members)} members"
        context.notice(NoticeKind.BECAME_MASTER, context.me.id, detail)

    def _first_view(self, ballot: Ballot) -> View:
        context, old = self.context, ballot.view
        term = context.promised
        if ballot.founding:
            members = tuple(self._founders(ballot))
            cluster = f"{context.me.id}.{context.me.incarnation}"
            level, state = context.config.level, old.state
            context.notice(NoticeKind.FOUNDED, cluster, f"by {len(members)} members")
            first = View(term, Version(1), context.me.id, cluster, level, state, members)
            return replace(first, founding=ballot.electorates[0].majority)
        members = tuple(self._stays(old))
        promises = self.election.promises.values()
        recovering = self.membership.recovered and all(promise.recovered for promise in promises)
        return replace(
            old,
            term=term,
            version=Version(old.version + 1),
            master=context.me.id,
            members=members,
            recovering=old.recovering or recovering,
        )

    def _founders(self, ballot: Ballot) -> Iterator[Member]:
        for voter in ballot.voters:
            if voter.id == self.context.me.id:
                yield self.context.me
            elif voter.id in self.election.promises:
                yield self.election.promises[voter.id].voter

    def _stays(self, view: View) -> Iterator[Member]:
        """The members; those that come back from files with the stay that promised."""
        for member in view.members:
            promise = self.election.promises.get(member.id)
            if member.id == self.context.me.id:
                yield back_from_files(member, self.context.me)
            elif promise is not None:
                yield back_from_files(member, promise.voter)
            else:
                yield member

    def _reset(self, view: View) -> None:
        context = self.context
        waits = Millis(context.now + context.config.lease_ms + context.config.lease_margin_ms)
        self.echoed = {member.id: context.now for member in view.members}
        self.leased_until = {member.id: waits for member in view.members}
        for promise in self.election.promises.values():
            self.echoed[promise.voter.id] = promise.sent_at
            self.leased_until[promise.voter.id] = context.now
        self.confirmed_by = {}
        self.heartbeats = {}
        self.left_at = {member.id: context.now for member in view.departed}
        self.restarted = {}
        self.removed = ()
        self._before = None

    def _expect_no_more(self, before: View) -> None:
        """The master of the view before serves no more, and was silent for a lease already."""
        config, former = self.context.config, before.master
        if former not in self.leased_until or config.quorum is Quorum.ANY:
            return
        if former != self.context.me.id and former not in self.election.promises:
            self.leased_until[former] = self.context.now
            silence = config.lease_ms - config.heartbeat_ms
            self.echoed[former] = Millis(self.context.now - silence)

    def lead(self) -> None:
        """Settled: from now on leases are granted and members let in."""
        self.stage = Stage.LEADING

    # Mandate --------------------------------------------------------------------------------------

    def mandate(self, view: View) -> Millis:
        """Until when nobody else can be master."""
        context = self.context
        if context.config.quorum is Quorum.ANY:
            return Millis(context.now + context.config.lease_ms)
        electorates = self.membership.electorates(view)
        never = Millis(context.now - context.config.lease_ms)
        quorums = (each.reached_at(self._echo, never) for each in electorates)
        echoed = min(quorums, default=context.now)
        return Millis(echoed + context.config.lease_ms - context.config.lease_margin_ms)

    def _echo(self, member: Member) -> Millis:
        if member.id == self.context.me.id:
            return self.context.now
        return self.echoed.get(member.id, Millis(-self.context.config.lease_ms))

    def may_act(self) -> bool:
        """Whether I am master and have a mandate at this moment."""
        view = self.context.view
        if self.stage is Stage.NONE or view is None or view.master != self.context.me.id:
            return False
        return self.context.now < self.election.mandate_until

    @property
    def leading(self) -> bool:
        """Settled, and with a mandate."""
        return self.stage is Stage.LEADING and self.may_act()

    # Heartbeats -----------------------------------------------------------------------------------

    def on_heartbeat(self, origin: Origin, message: Heartbeat) -> None:
        """Renew a lease; or tell the sender what it has missed."""
        context, view = self.context, self.context.view
        if view is None or message.term < view.term or message.term < context.promised:
            context.send(origin.address, NewerTerm(context.promised, view))
            return
        if self.stage is Stage.NONE or message.term > view.term:
            return
        if not view.has(origin.id, origin.incarnation):
            self._hear_former(view, origin, message)
            return
        self._hear(view, origin, message)

    def _hear_former(self, view: View, origin: Origin, message: Heartbeat) -> None:
        """Whoever was taken out confirms that: it serves no more, and as a voter it agrees."""
        known = (*view.base, *self.removed)
        former = next((member for member in known if member.id == origin.id), None)
        if message.version != view.version:
            self.context.send(origin.address, NotListed(view, self.context.now))
        elif former is not None and former.incarnation <= origin.incarnation:
            self.confirmed_by[former.id] = former.incarnation
            self.leased_until[former.id] = self.context.now
            self._note_echo(former.id, message)

    def _note_echo(self, member: MemberId, message: Heartbeat) -> None:
        if message.granted_at <= self.context.now:
            known = self.echoed.get(member, message.granted_at)
            self.echoed[member] = Millis(max(known, message.granted_at))

    def _hear(self, view: View, origin: Origin, message: Heartbeat) -> None:
        context = self.context
        self._note_echo(origin.id, message)
        self.heartbeats[origin.id] = message
        if message.version != view.version:
            context.send(origin.address, NewView(view))
            return
        self.confirmed_by[origin.id] = origin.incarnation
        self._refresh_mandate(view)
        member = view.find(origin.id)
        if self.may_act() and member is not None and not self._has_gone_deaf(view, member):
            self._grant(view, origin, message)

    def grant_at_last(self, origin: Origin) -> None:
        """It has seen the rows that it lacked: what it asked for last is granted now."""
        view, asked = self.context.view, self.heartbeats.get(origin.id)
        if (
            view is not None
            and asked is not None
            and self.leading
            and view.has(origin.id, origin.incarnation)
        ):
            self._hear(view, origin, asked)

    def grant_who_lacks_nothing(self) -> None:
        """I am settled: who knows all rows need not wait for its next heartbeat."""
        for member in self.context.others():
            if self.knows_the_beginning(member.id):
                self.grant_at_last(Origin(member.id, member.incarnation, member.address))

    def _has_gone_deaf(self, view: View, member: Member) -> bool:
        """It speaks and hears nothing: another lease would keep it listed, and not serving."""
        silent_at = self._silent_at(view, member)
        return silent_at is not None and self.context.now >= silent_at

    def _grant(self, view: View, origin: Origin, message: Heartbeat) -> None:
        config, now = self.context.config, self.context.now
        serve = self.stage is Stage.LEADING and self.knows_the_beginning(origin.id)
        if serve:
            self.leased_until[origin.id] = Millis(now + config.lease_ms + config.lease_margin_ms)
        grant = Grant(view.term, view.version, message.sent_at, now, serve, self.is_quiet())
        self.context.send(origin.address, grant)

    def _refresh_mandate(self, view: View) -> None:
        self.election.mandate_until = self.mandate(view)

    # Changing the view ----------------------------------------------------------------------------

    def committed(self) -> bool:
        """Whether the newest view is committed, so that another may be made."""
        view = self.context.view
        if view is None or not self.may_act():
            return False
        others = [m for m in (*view.members, *self.removed) if not self._agrees(m)]
        if not others and view.sealed:
            return True  # whoever has a say agrees
        if not all(map(self._lease_over, others)):
            return False
        if self.context.config.quorum is Quorum.ANY:
            return True
        return all(each.agree(self._agreed) for each in self.membership.electorates(view))

    def seal(self) -> None:
        """The newest view is committed: the voters before it have no say any more."""
        view = self.context.view
        assert view is not None
        if not view.sealed and self.committed():
            self._before = None
            version = Version(view.version + 1)
            self._install(replace(view, version=version, base=(), founding=0))

    def withdraw(self) -> bool:
        """Take back the change of voters under way, if it is mine and is not committed."""
        view, before, self._before = self.context.view, self._before, None
        if view is None or before is None or view.term != self.context.promised:
            return False
        self.removed = tuple(member for member in view.members if before.find(member.id) is None)
        for member in before.members:
            self.left_at.pop(member.id, None)
        detail = f"version {view.version} can't be committed"
        self.context.notice(NoticeKind.CHANGE_WITHDRAWN, view.cluster, detail)
        self._install(replace(before, version=Version(view.version + 1)))
        return True

    def _agrees(self, member: Member) -> bool:
        if member.id == self.context.me.id:
            return True
        return self.confirmed_by.get(member.id) == member.incarnation

    def _agreed(self, member: Member) -> int:
        return member.incarnation if self._agrees(member) else NO_STAY

    def _lease_over(self, member: Member) -> bool:
        if self._is_over(member):
            return True
        return self.context.now >= self.leased_until.get(member.id, self.context.now)

    def _is_over(self, member: Member) -> bool:
        """It is a fact that this stay serves no more."""
        return (
            self.context.is_dead(member) or self.restarted.get(member.id, -1) > member.incarnation
        )

    def known_to_all(self) -> bool:
        """Whether every member confirmed the newest view (`design/3` §8)."""
        view = self.context.view
        return view is not None and all(self._agrees(member) for member in view.members)

    def change(self, view: View) -> None:
        """Make the next version of the view. Only when `committed`."""
        old = self.context.view
        assert old is not None
        base = () if ids_of(old.voters) == ids_of(view.voters) else old.voters
        gone = tuple(m for m in old.members if view.find(m.id) is None)
        self.removed = gone
        for member in gone:
            self.left_at[member.id] = self.context.now
            self.context.notice(NoticeKind.MEMBER_LEFT, member.id, member.name)
        self._before = replace(old, base=(), founding=0) if base else None
        self._install(replace(view, version=Version(old.version + 1), base=base))

    def welcome(self, member: Member) -> None:
        """A stay begins: it has a lease's time to be heard, and holds no lease yet."""
        self.echoed[member.id] = self.context.now
        self.leased_until[member.id] = self.context.now
        self.heartbeats.pop(member.id, None)
        self.left_at.pop(member.id, None)
        self.context.notice(NoticeKind.MEMBER_JOINED, member.id, member.name)

    def _install(self, view: View) -> None:
        self.confirmed_by = {}
        self.membership.install(view)
        self._refresh_mandate(view)
        self.announce()

    def announce(self) -> None:
        """Send the newest view to whoever has not confirmed it, and to whom it took out."""
        context, view = self.context, self.context.view
        assert view is not None
        for member in context.others():
            if not self._agrees(member):
                context.send(member.address, NewView(view))
        for former in {member.id: member for member in (*view.base, *self.removed)}.values():
            if view.find(former.id) is None:
                context.send(former.address, NotListed(view, context.now))

    # Time -----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Take office when a ballot is won; end with the role; take out who is gone."""
        context, election = self.context, self.election
        if election.won is not None:
            ballot, election.won = election.won, None
            self.take_office(ballot)
        if election.role is not Role.MASTER:
            self.stage = Stage.NONE
            return
        view = context.view
        assert view is not None
        self.discount_the_dead(view)
        self._refresh_mandate(view)
        if not context.timers.running(REVIEW) or context.timers.due(REVIEW, context.now):
            self.announce()
            context.timers.set(REVIEW, self._next_review(view))

    def _next_review(self, view: View) -> int:
        """When to look again: to repeat the view, or because someone's time will be over."""
        config, now = self.context.config, self.context.now
        ends = [
            end
            for member in view.members
            if member.id != self.context.me.id
            for end in (self._silent_at(view, member), self.leased_until.get(member.id, now))
            if end is not None and end > now
        ]
        return min((now + config.retry_ms, *ends))

    def discount_the_dead(self, view: View) -> None:
        """With a mandate, nobody can have gone on without me: the dead need not be counted."""
        if self.may_act():
            known = (*view.members, *view.base)
            dead = [member for member in known if self.context.is_dead(member)]
            if dead:
                self.membership.discount(dead)

    def gone(self) -> Member | None:
        """The member to take out next, if any: the surely dead before the silent."""
        view = self.context.view
        assert view is not None
        others = [member for member in view.members if member.id != self.context.me.id]
        over = [m for m in others if self._is_over(m) and not self.awaited_from_files(view, m)]
        silent = [member for member in others if self._silent(view, member)]
        return next((m for m in (*over, *silent) if self._can_go_on_without(view, m)), None)

    def _can_go_on_without(self, view: View, member: Member) -> bool:
        """Whether enough of the rest were heard just now to commit the view without it.

        With two of three silent, taking out one would leave a view that the other must confirm; so
        would taking out who has restarted, where the third is silent: that one is to go first.
        """
        if self.context.config.quorum is Quorum.ANY:
            return True
        rest = view.without_member(member.id)
        return all(each.agree(self._heard_just_now) for each in self.membership.electorates(rest))

    def next_voter(self) -> Member | None:
        """A newcomer that has confirmed the view, and with which a quorum was heard just now."""
        view = self.context.view
        assert view is not None
        for member in view.members:
            if member.newcomer and self._agrees(member):
                grown = view.with_changed(replace(member, newcomer=False))
                if all(
                    each.agree(self._heard_just_now) for each in self.membership.electorates(grown)
                ):
                    return member
        return None

    def _heard_just_now(self, member: Member) -> int:
        heard = self._echo(member) >= self.context.now - 2 * self.context.config.heartbeat_ms
        return member.incarnation if heard else NO_STAY

    def awaited_from_files(self, view: View, member: Member) -> bool:
        """A whole cluster comes back: whoever has data may take long to start (`recovery`)."""
        has_data = member.persistent and member.kind is Kind.DATA
        return self.stage is Stage.SETTLING and view.recovering and has_data

    def _silent(self, view: View, member: Member) -> bool:
        now = self.context.now
        if now < self.leased_until.get(member.id, now):
            return False
        silent_at = self._silent_at(view, member)
        return silent_at is not None and now >= silent_at

    def _silent_at(self, view: View, member: Member) -> int | None:
        """When a member that says nothing more is taken out; None for never."""
        config = self.context.config
        patience = config.lease_ms + config.lease_margin_ms
        if self.stage is Stage.LEADING:
            patience += config.heartbeat_ms
        silent_at = self.echoed.get(member.id, self.elected_at) + patience
        if self.awaited_from_files(view, member):
            if config.recovery_policy is RecoveryPolicy.FULL:
                return None
            return max(silent_at, self.elected_at + config.validation_timeout_ms)
        return silent_at

    def restart_of(self, member: Member) -> None:
        """A newer stay of a listed member asks to be let in: the listed one is over."""
        known = self.restarted.get(member.id, -1)
        self.restarted[member.id] = max(known, member.incarnation)


def ids_of(members: tuple[Member, ...]) -> frozenset[MemberId]:
    """Who they are, in whatever stay and order."""
    return frozenset(member.id for member in members)


def back_from_files(listed: Member, now: Member) -> Member:
    """The entry of a listed member that is here with this stay: a later one comes from files."""
    if listed.incarnation == now.incarnation:
        return listed
    return replace(
        now,
        kind=listed.kind,
        drain=listed.drain,
        newcomer=listed.newcomer,
        recovered=True,
    )
