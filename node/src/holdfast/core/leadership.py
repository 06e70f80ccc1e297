"""The master's round: settle, then lead. Puts the master's machines together, in their order.

Rules (`design/3` §1, §2; seed 002 §1.2)
----------------------------------------
* Everything here happens only with a mandate (`mastership`). A master whose mandate is over takes
  back what it could not commit. If it has no mandate even so, it gives up its office at once and
  stands again: who granted nothing for that long can't know what became of the leases.
* While settling (`settlement`): members that say nothing are taken out, and when everyone else has
  reported and the view is committed, the table is settled.
* While leading, in this order: who is gone is taken out, the table is repaired and planned
  (`rebalancing`), running migrations go on (`execution`), a state change goes on (`transition`),
  requests are answered (`service`), one more is let in (`joining`), what changed is published.

States
------
`mastership.Stage`: NONE, SETTLING, LEADING; each change of it resets the machines here.

What can go wrong
-----------------
*A member is taken out while a change of the view is not committed.* It waits for its turn; one
change at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.core.config import RecoveryPolicy
from holdfast.core.context import MASTER, Context
from holdfast.core.effects import NoticeKind
from holdfast.core.election import Election, Role
from holdfast.core.execution import Execution
from holdfast.core.joining import Joining
from holdfast.core.mastership import Mastership, Stage
from holdfast.core.membership import Membership, Phase
from holdfast.core.messages import StablePublication
from holdfast.core.participation import Participation
from holdfast.core.publication import STAMPS, Publisher
from holdfast.core.rebalancing import Rebalancing
from holdfast.core.service import Service
from holdfast.core.settlement import Settlement
from holdfast.core.transition import Transition
from holdfast.core.versioning import resumed, versions_are_global
from holdfast.core.views import Member, View
from holdfast.ids import MemberId, Millis, PartitionId

RECOVERY_WAITS = MASTER + "recovery waits"
LOAD_ENDS = MASTER + "load ends"


class Leadership:
    """All that only a master does."""

    def __init__(
        self,
        context: Context,
        membership: Membership,
        election: Election,
        participation: Participation,
    ) -> None:
        self.context = context
        self.membership = membership
        self.election = election
        self.publisher = Publisher(context, participation)
        self.mastership = Mastership(
            context,
            membership,
            election,
            self.publisher.is_quiet,
            self.publisher.knows_the_beginning,
        )
        self.settlement = Settlement(context, membership, participation, self.publisher)
        self.execution = Execution(context, self.publisher)
        self.rebalancing = Rebalancing(
            context,
            self.mastership,
            self.publisher,
            self.execution,
            self._asks_until,
        )
        self.transition = Transition(
            context, self.mastership, self.publisher, self.execution, self.rebalancing
        )
        self.service = Service(context, self.mastership, self.transition, self._data_may_ask)
        self.joining = Joining(
            context, self.mastership, self.publisher, self.rebalancing, self.transition
        )
        self._stage = Stage.NONE

    def _data_may_ask(self) -> bool:
        return self.joining.data_may_ask()

    def _asks_until(self, member: MemberId) -> Millis | None:
        return self.joining.asks_until(member)

    def advance(self) -> None:
        """One round."""
        if self.membership.phase is Phase.STOPPED:
            return  # I have left with what this very step began with
        mastership = self.mastership
        mastership.advance()
        self._note_stage()
        if mastership.stage is Stage.NONE:
            return
        if not mastership.may_act() and not self._withdraw():
            self.election.abdicate("my mandate is over")
            mastership.advance()
            self._note_stage()
            return
        mastership.seal()
        if mastership.stage is Stage.SETTLING:
            self._settle()
        else:
            self._lead()

    def _withdraw(self) -> bool:
        """Go on with the voters before the change under way, if there is one of mine; whether I
        have a mandate of these."""
        if self.mastership.withdraw():
            self.service.withdrawn()
        return self.mastership.may_act()

    def _note_stage(self) -> None:
        """A mastership began or ended: every machine of it starts afresh."""
        stage, self._stage = self._stage, self.mastership.stage
        if stage is self._stage:
            return
        if self._stage is not Stage.LEADING:
            self.publisher.begin()
            self.rebalancing.begin()
            self.service.begin()
            self.joining.begin()
        self.context.timers.clear_all(MASTER)
        if self._stage is Stage.SETTLING:
            self.settlement.begin()

    # Settling -------------------------------------------------------------------------------------

    def _settle(self) -> None:
        self.settlement.advance()
        self._take_out_the_gone()
        missing = self.settlement.missing()
        if not missing and self.mastership.committed():
            self.settlement.settle()
            self.mastership.lead()
            self._note_stage()
            self.mastership.grant_who_lacks_nothing()
            self._lead()
        elif missing:
            self._tell_who_is_waited_for(missing)

    def _tell_who_is_waited_for(self, missing: tuple[Member, ...]) -> None:
        context, view = self.context, self.context.view
        assert view is not None
        if not view.recovering:
            return
        if not context.timers.running(RECOVERY_WAITS):
            after = context.config.validation_timeout_ms
            context.timers.set(RECOVERY_WAITS, context.now + after)
        elif context.timers.due(RECOVERY_WAITS, context.now):
            names = ", ".join(member.name for member in missing)
            context.notice(NoticeKind.RECOVERY_WAITS, view.cluster, f"not back yet: {names}")

    def _take_out_the_gone(self) -> None:
        if not self.mastership.committed():
            return
        gone = self.mastership.gone()
        if gone is not None:
            view = self.context.view
            assert view is not None
            self.mastership.change(self._without(view, gone))

    def _without(self, view: View, gone: Member) -> View:
        """The view without a member; whoever departed and is not awaited is forgotten."""
        left = view.without_member(gone.id)
        kept = tuple(
            member
            for member in left.departed
            if member.id == gone.id or self.rebalancing.awaited(member.id)
        )
        return replace(left, departed=kept)

    # Leading --------------------------------------------------------------------------------------

    def _lead(self) -> None:
        if self._is_out():
            self.election.abdicate("I left the view, and was asked no more to leave")
            return
        self._take_out_the_gone()
        self._mind_members()
        self._resume_owners(self.membership.resumes, self.context.me.id)
        for member, heartbeat in self.mastership.heartbeats.items():
            if heartbeat.resumes:
                self._resume_owners(heartbeat.resumes, member)
        self._finish_recovery()
        self.rebalancing.advance()
        self.execution.advance()
        self.transition.advance()
        self.service.advance()
        self.joining.advance()
        self._compare()
        self.publisher.flush(more=bool(self.execution.running))

    def on_continued(self) -> None:
        """The turn is over: what waited for that goes on."""
        self.publisher.on_continued()
        self.rebalancing.on_continued()

    def _is_out(self) -> bool:
        """I took myself out to leave (`service`), and whoever asked for it gave up waiting."""
        context, view = self.context, self.context.view
        assert view is not None
        gave_up = not context.listed and not context.leaving
        return gave_up and view.sealed and self.mastership.committed()

    def _mind_members(self) -> None:
        """Publish to everyone in the view, to nobody else. Once it is certain that nobody goes by
        a former one, migrations fail of whoever has left."""
        view, publisher = self.context.view, self.publisher
        assert view is not None
        publisher.forget([left for left in publisher.subscribers if view.find(left) is None])
        publisher.wait_no_more()
        for member in self.context.others():
            if not publisher.has(member.id):
                publisher.subscribe(member.id, [-1] * len(self.context.table))
        if self.execution.running and self.mastership.committed():
            self.execution.go_on_with(frozenset(member.id for member in view.members))

    def _resume_owners(self, wanted: Iterable[tuple[PartitionId, int]], owner: MemberId) -> None:
        """Begin a reign for an owner that can't go on in the one before its restart. What moves
        has its next version already, and of what others are to hear first it does not know yet: it
        waits for the end of that, and is asked for again."""
        view, table, moving = self.context.view, self.context.table, self.execution.running
        assert view is not None
        if moving and versions_are_global(view.level):
            return
        partitions = [
            partition
            for partition, reign in wanted
            if partition not in moving
            and not self.publisher.holds_back(partition)
            and table.row(partition).owner == owner
            and table.row(partition).reign == reign
        ]
        if partitions:
            self.publisher.change(resumed(table, view.level, view.term, partitions))

    def _finish_recovery(self) -> None:
        """Everyone has loaded: the state that was persisted holds again."""
        view, timers, now = self.context.view, self.context.timers, self.context.now
        assert view is not None
        if not view.recovering:
            return
        if not timers.running(LOAD_ENDS):
            timers.set(LOAD_ENDS, now + self.context.config.data_load_timeout_ms)
        loading = [member for member in view.members if not self._has_loaded(member)]
        if not self.mastership.committed():
            return
        if not loading:
            timers.clear(LOAD_ENDS)
            self.mastership.change(replace(view, recovering=False))
        elif timers.due(LOAD_ENDS, now):
            self._give_up_loading(view, loading)

    def _give_up_loading(self, view: View, loading: list[Member]) -> None:
        """Where the policy is content with some, go on without; never without the master."""
        slow = [member for member in loading if member.id != self.context.me.id]
        if self.context.config.recovery_policy is RecoveryPolicy.FULL or not slow:
            names = ", ".join(member.name for member in loading)
            detail = f"not loaded in time: {names}"
            self.context.notice(NoticeKind.RECOVERY_WAITS, view.cluster, detail)
        else:
            self.mastership.change(self._without(view, slow[0]))

    def _has_loaded(self, member: Member) -> bool:
        if member.id == self.context.me.id:
            return self.membership.loaded
        heartbeat = self.mastership.heartbeats.get(member.id)
        return heartbeat is not None and heartbeat.loaded

    def _compare(self) -> None:
        """Stamps now and then; the stable table for whoever lacks it."""
        context, view = self.context, self.context.view
        assert view is not None
        if not context.timers.running(STAMPS):
            context.timers.set(STAMPS, context.now + context.config.stamp_check_ms)
        if not context.timers.due(STAMPS, context.now):
            return
        heartbeats = self.mastership.heartbeats
        self.publisher.compare_stamps({member: hb.stamp for member, hb in heartbeats.items()})
        self._send_stable(view)

    def _send_stable(self, view: View) -> None:
        stable = self.context.stable
        if stable is None:
            return
        for member in self.context.others():
            heartbeat = self.mastership.heartbeats.get(member.id)
            if heartbeat is None:
                continue
            if (heartbeat.stable_term, heartbeat.stable_version) != view.stable:
                self.context.send(member.address, StablePublication(stable))

    def is_master(self) -> bool:
        """Settled, and with a mandate."""
        return (
            self.mastership.stage is Stage.LEADING
            and self.mastership.may_act()
            and self.election.role is Role.MASTER
            and self.membership.phase is Phase.MEMBER
        )
