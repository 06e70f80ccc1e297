"""Looking for a cluster: finding its master, or founding one with others that look.

Rules (`design/3` §1)
---------------------
* A process knows a list of initial addresses. It asks there, and at every address that it learnt,
  to be let in; any member sends it on to the master.
* Who knows of no cluster and may found one greets the initial addresses. When a majority of that
  list has met, the lowest name among them claims to be the founder (`election`), after a while of
  patience for the rest. Each promises once, and a founding claim is promised only by someone who
  knows of no cluster; so simultaneous starts never make two.
* A member without files can't know whether its cluster was founded before. Whoever runs the members
  does, and says so by `may_found` (`docs/adr/0004`).
* **A cluster exists once a majority of the list has confirmed its first view** in one term
  (`View.founding`); before that nobody is granted a lease in it. Terms and views are here what
  ballots and accepted values are in Paxos, with the list for acceptors: whoever has taken a view
  promises no founding any more, and who claims a term for a first view is refused by everyone who
  holds a newer one. So at most one cluster ever exists, and who holds the first view of another
  leaves it for a newer one (`docs/adr/0009`).
* Whoever is listed and comes back from files asks to be let in even if it was asked to leave: a
  recovery may wait for its rows.

States
------
    LOOKING ──redirect, listed──► (membership) MEMBER
       └─────majority met, lowest name──► (election) PROBING ──► ... ──► founder

What can go wrong
-----------------
* *The founder dies in the middle.* Who promised it knows of no cluster yet, greets again, and the
  next lowest name claims a higher term.
* *The founder lives, and its view reached nobody.* The others found a cluster without it. When it
  asks them for their votes, they answer with the view of theirs.
* *A refusal.* It is told once for each new reason, and asking goes on: the state may change.
"""

from __future__ import annotations

from holdfast.core.config import PROTOCOL
from holdfast.core.context import Context
from holdfast.core.effects import NoticeKind
from holdfast.core.election import Ballot, Election, Role
from holdfast.core.membership import Membership, Phase
from holdfast.core.messages import Hello, JoinRequest, Origin, Redirect, Refusal
from holdfast.core.quorums import Electorate, majority
from holdfast.core.states import ClusterState
from holdfast.core.views import Member, View
from holdfast.ids import Address, MemberId, Millis, Term, Version

LOOK = "look for a cluster"
FOUND_AT = "found"


class Forming:
    """One process that looks for a cluster."""

    def __init__(self, context: Context, membership: Membership, election: Election) -> None:
        self.context = context
        self.membership = membership
        self.election = election
        self.initial = context.config.initial or (context.me.address,)
        self._met: dict[Address, tuple[Member, Millis]] = {}
        self._refused = ""

    @property
    def unfounded(self) -> bool:
        """Whether I know of no cluster and may help to found one."""
        return self.context.view is None and self.context.config.may_found

    def advance(self) -> None:
        """Ask to be let in, greet, found."""
        context = self.context
        given_up = context.leaving and not self.membership.recovered
        if self.membership.phase is not Phase.LOOKING or given_up:
            context.timers.clear(LOOK)
            context.timers.clear(FOUND_AT)
            return
        if not context.timers.running(LOOK):
            context.timers.set(LOOK, context.now)
        if context.timers.due(LOOK, context.now):
            context.timers.set(LOOK, context.now + context.config.retry_ms)
            for address in self._contacts():
                context.send(address, self._join_request())
                if self.unfounded:
                    context.send(address, self._hello(answer_wanted=True))
        if self.unfounded:
            self._found_if_my_turn()

    def _contacts(self) -> tuple[Address, ...]:
        context, view = self.context, self.context.view
        known = () if view is None else tuple(m.address for m in (*view.members, *view.departed))
        addresses = dict.fromkeys((*self.initial, *known))
        addresses.pop(context.me.address, None)
        return tuple(addresses)

    def _join_request(self) -> JoinRequest:
        context, view = self.context, self.context.view
        return JoinRequest(
            member=context.me,
            cluster_name=context.config.cluster_name,
            cluster="" if view is None or view.founding else view.cluster,
            protocol=PROTOCOL,
            partition_count=context.config.partition_count,
            replica_count=context.config.replica_count,
        )

    def on_redirect(self, message: Redirect) -> None:
        """Ask the master."""
        if self.membership.phase is Phase.LOOKING:
            self.context.send(message.master, self._join_request())

    def on_refusal(self, origin: Origin, message: Refusal) -> None:
        """Tell why I am not let in, once for each reason."""
        if message.message != self._refused:
            self._refused = message.message
            detail = f"{message.error}: {message.message}"
            self.context.notice(NoticeKind.REFUSED, origin.id, detail)

    # Founding -------------------------------------------------------------------------------------

    def _hello(self, *, answer_wanted: bool) -> Hello:
        return Hello(
            member=self.context.me,
            cluster_name=self.context.config.cluster_name,
            unfounded=self.unfounded,
            answer_wanted=answer_wanted,
        )

    def on_hello(self, origin: Origin, message: Hello) -> None:
        """Someone else looks for a cluster."""
        context = self.context
        if not self.unfounded or message.cluster_name != context.config.cluster_name:
            return
        if message.unfounded and origin.address in self.initial:
            self._met[origin.address] = (message.member, context.now)
        if message.answer_wanted:
            context.send(origin.address, self._hello(answer_wanted=False))

    def _found_if_my_turn(self) -> None:
        context = self.context
        met = self._recently_met()
        if len(met) < majority(len(self.initial)) or self.election.role is not Role.FOLLOWING:
            context.timers.clear(FOUND_AT)
            return
        if met[0].id != context.me.id:
            return
        if context.me.address not in self.initial or not any(m.votes for m in met):
            return
        if not context.timers.running(FOUND_AT):
            context.timers.set(FOUND_AT, context.now + context.config.forming_patience_ms)
        if len(met) == len(self.initial) or context.timers.due(FOUND_AT, context.now):
            context.timers.clear(FOUND_AT)
            self.election.stand(self._ballot(met))

    def _recently_met(self) -> tuple[Member, ...]:
        """Whom I heard lately, and I, by name."""
        context = self.context
        oldest = context.now - 4 * context.config.retry_ms
        self._met = {a: (m, at) for a, (m, at) in self._met.items() if at >= oldest}
        others = tuple(member for member, _ in self._met.values())
        return tuple(sorted((*others, context.me), key=lambda member: (member.name, member.id)))

    def _ballot(self, met: tuple[Member, ...]) -> Ballot:
        nothing = View(
            term=Term(0),
            version=Version(0),
            master=MemberId(""),
            cluster="",
            level=self.context.config.level,
            state=ClusterState.ACTIVE,
            members=(),
        )
        everyone = Electorate(met, majority(len(self.initial)))
        return Ballot(nothing, (everyone,), founding=True, patient=True)
