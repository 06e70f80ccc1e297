"""Who becomes master: claims, promises, terms.

Rules (`design/3` §1)
---------------------
* At most one member is master in a *term*. A candidate becomes master with promises of a majority
  of the data members of the newest view that it holds; a voter promises each term once, and keeps
  the promise over a restart.
* A voter refuses a candidate whose view is older than its own. Views change by one voter at a time
  and a change counts only when a majority of the new view holds it (`mastership`), so any two
  majorities that ever decide anything have a voter in common. These are the rules of MongoDB's
  logless reconfiguration (`docs/adr/0002`).
* A voter refuses while its vow binds it (`membership`): as long as a master may still grant leases
  on the strength of that voter, nobody replaces it. A vow to a master that is surely dead is void.
* Before it claims, a candidate *probes*: would you promise? A probe changes nothing, so a member
  that merely hears nothing can't end a mastership that works.
* The oldest member claims first; each next one waits a step longer.
* Members that come from files vote by their id: they kept their promises, and they wait one lease
  before they promise again, as the last vow may have been given just before the crash.
* Founding is a claim among the initial members that have met (`forming`), for a view that lists
  nobody yet.

States
------
                 lease and vow are over        majority would        majority promised
      FOLLOWING ──────────────────────► PROBING ──────────► CLAIMING ─────────────────► MASTER
          ▲                                │                    │                         │
          └────────────────────────────────┴────────────────────┴─────────────────────────┘
                            time is up, a newer term or view, a promise to another

What can go wrong
-----------------
* *Two candidates in one term.* Each needs a majority, each voter promises once: one wins at most.
* *A promise arrives after the candidate gave up.* It names the term; an older one is ignored.
* *A late grant reaches a candidate that probes.* With it goes a vow, and the master may count on it
  as soon as it is told; so the candidate, a voter like the others, goes no further.
* *A voter restarts.* With files it remembers; without, it is a new member and no voter.
* *A voter lost its files, and I have its address.* Nobody answers there but me, and a refusal of my
  own would end my candidacy each time: I ask nobody at my own address.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from holdfast.core.config import Quorum
from holdfast.core.context import Context
from holdfast.core.effects import NoticeKind
from holdfast.core.membership import Membership, Phase
from holdfast.core.messages import Claim, NewerTerm, NewView, Origin, Promise
from holdfast.core.quorums import NO_STAY, Agreed, Electorate
from holdfast.core.transitions import TransitionTable
from holdfast.core.views import Member, View
from holdfast.ids import MemberId, Millis, Term

CLAIM_AT = "claim"
CLAIM_ENDS = "claim ends"
CLAIM_AGAIN = "claim again"
FREE_AT = "lease and vow are over"
PROBES = 3
"""So often a candidate asks who would promise before it is the next one's turn."""


class Role(Enum):
    """What a member is towards the mastership."""

    FOLLOWING = auto()
    PROBING = auto()
    CLAIMING = auto()
    MASTER = auto()


class Cue(Enum):
    """What changes a role."""

    PROBES = auto()
    WOULD_WIN = auto()
    WINS = auto()
    GIVES_UP = auto()


ROLES = TransitionTable(
    "election",
    {
        (Role.FOLLOWING, Cue.PROBES): Role.PROBING,
        (Role.PROBING, Cue.WOULD_WIN): Role.CLAIMING,
        (Role.CLAIMING, Cue.WINS): Role.MASTER,
        (Role.FOLLOWING, Cue.GIVES_UP): Role.FOLLOWING,
        (Role.PROBING, Cue.GIVES_UP): Role.FOLLOWING,
        (Role.CLAIMING, Cue.GIVES_UP): Role.FOLLOWING,
        (Role.MASTER, Cue.GIVES_UP): Role.FOLLOWING,
    },
)


@dataclass(frozen=True, slots=True)
class Ballot:
    """A candidacy: the view it is for, and who must agree."""

    view: View
    electorates: tuple[Electorate, ...]
    founding: bool
    patient: bool
    """Whether to hear everyone who answers in time before counting (`design/3` §1: founding, and
    `quorum=any`)."""

    @property
    def voters(self) -> tuple[Member, ...]:
        """Everyone whose promise counts, each once."""
        found = {voter.id: voter for each in self.electorates for voter in each.voters}
        return tuple(found.values())

    def won_by(self, agreed: Agreed) -> bool:
        """Whether every electorate agrees."""
        return all(each.agree(agreed) for each in self.electorates)


class Election:
    """One member's part in choosing masters."""

    def __init__(self, context: Context, membership: Membership) -> None:
        self.context = context
        self.membership = membership
        self.role = Role.FOLLOWING
        self.mandate_until = Millis(-1)
        """Set by the mastership: until when I may act as a master, on my clock."""
        self.promises: dict[MemberId, Promise] = {}
        self.won: Ballot | None = None
        """The ballot that made me master; taken by the mastership."""
        self._ballot: Ballot | None = None
        self._term = Term(0)
        self._seen = Term(0)
        """The highest term that anyone named; the next claim is beyond it."""
        self._sent_at = Millis(0)
        self._failures = 0

    # Voting ---------------------------------------------------------------------------------------

    def on_claim(self, origin: Origin, message: Claim) -> None:
        """Promise, or say why not by what I know."""
        context = self.context
        granted = self._would_promise(origin, message)
        if granted and not message.probe:
            self._promise(message.term, origin)
        view = context.view
        newer = view is not None and view.key > (message.view_term, message.view_version)
        context.send(
            origin.address,
            Promise(
                claimed=message.term,
                granted=granted,
                probe=message.probe,
                sent_at=message.sent_at,
                term=context.promised,
                view=view if newer else None,
                voter=context.me,
                recovered=self.membership.recovered,
            ),
        )

    def _would_promise(self, origin: Origin, message: Claim) -> bool:
        context = self.context
        if message.term <= context.promised or self.membership.phase is Phase.STOPPED:
            return False
        if self.role is Role.MASTER and context.now < self.mandate_until:
            return False
        if message.founding:
            return context.view is None and context.config.may_found
        return self._votes_for_view(message) and not self.membership.vow_binds(origin.id)

    def _votes_for_view(self, message: Claim) -> bool:
        view = self.context.view
        if view is None or view.key > (message.view_term, message.view_version):
            return False
        return self.is_voter(view)

    def is_voter(self, view: View) -> bool:
        """Whether my promise counts for this view. An id is one memory: the same process, or the
        same files; so the stay does not matter. Founders count, of whatever kind, and any member
        where nobody is left who may vote (`quorums`)."""
        known = (*view.voters, *view.base, *(view.members if view.founding else ()))
        counted = (voter for each in self.membership.electorates(view) for voter in each.voters)
        return any(voter.id == self.context.me.id for voter in (*known, *counted))

    def _promise(self, term: Term, origin: Origin) -> None:
        context = self.context
        self._step_down(f"promised term {term} to {origin.id}")
        context.promised = term
        self.membership.give_up_lease()
        self.membership.vow(origin.id, origin.incarnation)
        context.persist_membership()

    # Standing -------------------------------------------------------------------------------------

    def stand(self, ballot: Ballot) -> None:
        """Begin a candidacy by asking who would promise."""
        self.role = ROLES.next(self.role, Cue.PROBES, self.context.story)
        self.context.timers.clear(FREE_AT)
        self._ballot = ballot
        self._ask(self._next_term())

    def _next_term(self) -> Term:
        return Term(max(self.context.promised, self._seen) + 1)

    def _ask(self, term: Term) -> None:
        context = self.context
        self._term = term
        self._sent_at = context.now
        self.promises = {}
        context.timers.set(CLAIM_ENDS, context.now + 2 * context.config.retry_ms)
        if self.role is Role.CLAIMING:
            context.promised = term
            self.membership.give_up_lease()
            context.persist_membership()
        self._send_claims()
        self._count()

    def _send_claims(self) -> None:
        context, ballot = self.context, self._ballot
        assert ballot is not None
        context.timers.set(CLAIM_AGAIN, context.now + self._patience())
        claim = Claim(
            term=self._term,
            view_term=ballot.view.term,
            view_version=ballot.view.version,
            founding=ballot.founding,
            probe=self.role is Role.PROBING,
            sent_at=self._sent_at,
        )
        for voter in ballot.voters:
            if voter.address != context.me.address and voter.id not in self.promises:
                context.send(voter.address, claim)
        if claim.probe:
            self._ask_around(ballot, claim)

    def _patience(self) -> int:
        """Before whoever has not agreed is asked again. A vow that still binds when the first one's
        is over ends within a heartbeat, so whoever only probes asks often."""
        config = self.context.config
        return config.retry_ms if self.role is Role.CLAIMING else config.claim_step_ms // PROBES

    def _ask_around(self, ballot: Ballot, claim: Claim) -> None:
        """Whoever knows a newer view answers with it, be it no voter of mine."""
        asked = [self.context.me.address, *(voter.address for voter in ballot.voters)]
        others = (member.address for member in ballot.view.members)
        for address in dict.fromkeys((*self.context.config.initial, *others)):
            if address not in asked:
                self.context.send(address, claim)

    def on_promise(self, message: Promise) -> None:
        """Count it, or learn from the refusal."""
        if self.role not in (Role.PROBING, Role.CLAIMING) or message.claimed != self._term:
            return
        if message.probe is not (self.role is Role.PROBING) or message.sent_at != self._sent_at:
            return
        if message.granted:
            self.promises[message.voter.id] = message
            self._count()
        elif message.view is not None and self.membership.install(message.view):
            self._give_up("a voter knows a newer view")
        elif message.term < self._term:
            assert self._ballot is not None
            self.context.send(message.voter.address, NewView(self._ballot.view))
        else:
            self._seen = max(self._seen, message.term)
            self._give_up(f"a voter knows term {message.term}")

    def _count(self) -> None:
        """Go on when enough have promised. A founder waits for everyone it met, for a while."""
        ballot = self._ballot
        assert ballot is not None
        everyone = all(self._promised_by(voter) != NO_STAY for voter in ballot.voters)
        if (everyone or not ballot.patient) and ballot.won_by(self._promised_by):
            self._reach()

    def _promised_by(self, voter: Member) -> int:
        """The stay in which a voter has promised."""
        if voter.id == self.context.me.id:
            return self.context.me.incarnation
        promise = self.promises.get(voter.id)
        return NO_STAY if promise is None else promise.voter.incarnation

    def _reach(self) -> None:
        if self.role is Role.PROBING:
            if self.membership.vow_binds(self.context.me.id):
                self._give_up("a grant has arrived meanwhile")
                return
            self.role = ROLES.next(self.role, Cue.WOULD_WIN, self.context.story)
            self._ask(self._next_term())
        else:
            self.role = ROLES.next(self.role, Cue.WINS, self.context.story)
            self._clear_timers()
            self._failures = 0
            self.won = self._ballot

    # Time -----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Stand when the master is gone and it is my turn; repeat, or give up in time."""
        context = self.context
        if self.role in (Role.PROBING, Role.CLAIMING):
            if context.timers.due(CLAIM_ENDS, context.now):
                self._time_is_up()
            elif context.timers.due(CLAIM_AGAIN, context.now):
                self._send_claims()
        if self.role is Role.FOLLOWING:
            self._wait_for_turn()

    def _time_is_up(self) -> None:
        ballot = self._ballot
        assert ballot is not None
        if ballot.patient and ballot.won_by(self._promised_by):
            self._reach()
        else:
            self._give_up("not enough promises in time")

    def _wait_for_turn(self) -> None:
        context, view = self.context, self.context.view
        if view is None or not self._may_stand(view):
            context.timers.clear(CLAIM_AT)
            self._look_when_free()
            return
        context.timers.clear(FREE_AT)
        if not context.timers.running(CLAIM_AT):
            context.timers.set(CLAIM_AT, context.now + self._delay(view))
        if context.timers.due(CLAIM_AT, context.now):
            self.stand(self._ballot_for(view))

    def _look_when_free(self) -> None:
        """Lease and vow end between two heartbeats: that is the moment to look."""
        free_at = max(self.membership.lease_until, self.membership.vow_until)
        if free_at > self.context.now:
            self.context.timers.set(FREE_AT, free_at)
        else:
            self.context.timers.clear(FREE_AT)

    def _may_stand(self, view: View) -> bool:
        membership = self.membership
        if membership.phase is Phase.STOPPED or membership.is_led():
            return False
        if not (self.context.listed or (membership.recovered and self.is_voter(view))):
            return False
        return not membership.vow_binds(self.context.me.id)

    def _delay(self, view: View) -> int:
        """My turn: the oldest first; the later the more attempts failed."""
        elders = [m for m in view.members if m.id != view.master and not self.context.is_dead(m)]
        ids = [member.id for member in elders]
        mine = self.context.me.id
        rank = ids.index(mine) if mine in ids else 0
        return (rank + self._failures * (rank + 1)) * self.context.config.claim_step_ms

    def _ballot_for(self, view: View) -> Ballot:
        electorates = self.membership.electorates(view)
        any_will_do = self.context.config.quorum is Quorum.ANY
        if any_will_do:
            electorates = tuple(replace(each, majority=1) for each in electorates)
        return Ballot(view, electorates, founding=False, patient=any_will_do)

    # Stepping down --------------------------------------------------------------------------------

    def on_newer_term(self, message: NewerTerm) -> None:
        """Someone promised a term beyond mine."""
        if message.term > self.context.promised:
            self.context.promised = message.term
            self.context.persist_membership()
            self._step_down(f"term {message.term} exists")
            self.membership.give_up_lease()

    def yield_to(self, view: View) -> None:
        """A view of another's mastership was installed."""
        if view.master != self.context.me.id:
            self._step_down(f"{view.master} is master in term {view.term}")

    def abdicate(self, reason: str) -> None:
        """End my own mastership or candidacy."""
        self._step_down(reason)

    def _step_down(self, reason: str) -> None:
        if self.role is Role.MASTER:
            self.context.notice(NoticeKind.LOST_MASTERSHIP, self.context.me.id, reason)
            self.membership.give_up_lease()
            self.membership.out_of_office()
        self._drop(reason)
        self._failures = 0

    def _give_up(self, reason: str) -> None:
        self._drop(reason)
        self._failures = min(self._failures + 1, 8)

    def _drop(self, reason: str) -> None:
        if self.role is not Role.FOLLOWING:
            self.context.tell("election", f"{self.role.name} ends: {reason}")
        self.role = ROLES.next(self.role, Cue.GIVES_UP, self.context.story)
        self.mandate_until = Millis(-1)
        self.won = None
        self._ballot = None
        self._clear_timers()

    def _clear_timers(self) -> None:
        for name in (CLAIM_AT, CLAIM_ENDS, CLAIM_AGAIN, FREE_AT):
            self.context.timers.clear(name)
