"""Whom the master lets in, when, and what it answers to the others.

Rules (`design/3` §1, §7; seed 000 `joinAllowed`; seed 003 "Cluster membership")
--------------------------------------------------------------------------------
* Any member redirects to the master. The master checks the cluster's name and identity, the
  protocol, the level, the shape of the table, and that the state lets this member in. Each refusal
  has its own words. A stay whose end is a fact asks no more; what comes of it is late.
* A member that is listed with an older stay is taken out first: that stay is over, by its own word.
  While a new master settles, a member that comes back from files takes its listed place instead:
  it was never out, and the rows it persisted count.
* Nobody is let in before the rows that changed with the last departure are known to everyone: a row
  must never name a stay that did not hold it.
* Nobody waits yet where a mastership begins, for none is queued before; nor, of those that it
  refused, when the state changes whom it lets in. For two repetitions of a request from then on
  data may ask that was not heard, and the last voter does not leave (`service`).
* Members come in one by one, the longest waiting first. A data member is a *newcomer* until it has
  confirmed the view: it does not vote and holds nothing. Then it is made a voter, one at a time.

States
------
    asked ──► refused
       └────► waiting ──► listed ──confirmed──► voter

What can go wrong
-----------------
*A request is repeated after it was granted.* The asker is listed; it gets the view again.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.config import PROTOCOL
from holdfast.core.context import Context
from holdfast.core.mastership import Mastership, Stage, back_from_files
from holdfast.core.messages import JoinRequest, NewView, Origin, Redirect, Refusal
from holdfast.core.publication import Publisher
from holdfast.core.rebalancing import Rebalancing
from holdfast.core.states import Joins
from holdfast.core.transition import Transition
from holdfast.core.views import Drain, Kind, Member, View
from holdfast.errors import IllegalArgument, IllegalState, RefusedError, UnsupportedOperation
from holdfast.ids import MemberId, Millis

ABOUT = "join"


class Joining:
    """Admission, by the master."""

    def __init__(
        self,
        context: Context,
        mastership: Mastership,
        publisher: Publisher,
        rebalancing: Rebalancing,
        transition: Transition,
    ) -> None:
        self.context = context
        self.mastership = mastership
        self.publisher = publisher
        self.rebalancing = rebalancing
        self.transition = transition
        self._waiting: dict[MemberId, tuple[Member, Millis]] = {}
        """Who asked, and when last: whoever asks no more is not let in."""
        self._door: tuple[Joins, Millis] | None = None
        """Whom this mastership lets in, and since when."""

    def begin(self) -> None:
        """A mastership begins, or ends."""
        self._waiting = {}
        self._door = None

    @property
    def _counts_ms(self) -> int:
        """For so long a request counts: until it could have been repeated twice."""
        return 2 * self.context.config.retry_ms

    def asks_until(self, member_id: MemberId) -> Millis | None:
        """Until when someone that asked to be let in counts as asking; None if it did not."""
        waiting = self._waiting.get(member_id)
        if waiting is None:
            return None
        return Millis(waiting[1] + self._counts_ms)

    def data_asks(self) -> bool:
        """Whether anybody with data asks to be let in."""
        now = self.context.now
        return any(
            member.kind is Kind.DATA and now < asked_at + self._counts_ms
            for member, asked_at in self._waiting.values()
        )

    def data_may_ask(self) -> bool:
        """The same, or whether it may do so and not have been heard yet."""
        view = self.context.view
        assert view is not None
        heard_at = self._open_since(view) + self._counts_ms
        return self.context.now < heard_at or self.data_asks()

    def on_join(self, origin: Origin, message: JoinRequest) -> None:
        """Redirect, refuse, or put in the queue."""
        context, view = self.context, self.context.view
        if view is None or not context.listed or context.is_dead(message.member):
            return
        if view.master != context.me.id:
            master = view.find(view.master)
            if master is not None and not context.is_dead(master):
                context.send(origin.address, Redirect(master.address))
            return
        if self.mastership.stage is Stage.SETTLING:
            self._recover(view, message)
        elif self.mastership.leading:
            self._consider(view, origin, message)

    def _consider(self, view: View, origin: Origin, message: JoinRequest) -> None:
        try:
            self._check(view, message)
        except RefusedError as error:
            refusal = Refusal(ABOUT, type(error).__name__, error.message)
            self.context.send(origin.address, refusal)
            return
        listed = view.find(message.member.id)
        if listed is not None and listed.incarnation == message.member.incarnation:
            self.context.send(origin.address, NewView(view))
        elif listed is None or listed.incarnation < message.member.incarnation:
            self._waiting[message.member.id] = (message.member, self.context.now)
            if listed is not None:
                self.mastership.restart_of(message.member)

    def _check(self, view: View, message: JoinRequest) -> None:
        config, member = self.context.config, message.member
        if message.cluster_name != config.cluster_name:
            raise IllegalArgument(
                f"this is cluster {config.cluster_name}, not {message.cluster_name}"
            )
        if message.cluster not in ("", view.cluster):
            raise IllegalState("its files are of another cluster; give it an empty directory")
        if message.protocol != PROTOCOL:
            raise UnsupportedOperation(f"this cluster speaks protocol {PROTOCOL}")
        if member.level_max < view.level:
            raise UnsupportedOperation(
                f"the cluster is at level {view.level}, the member speaks {member.level_max}"
            )
        theirs = (message.partition_count, message.replica_count)
        if theirs != (config.partition_count, config.replica_count):
            raise IllegalArgument(
                f"the cluster has {config.partition_count} partitions of {config.replica_count}"
                f" replicas, the member {theirs[0]} of {theirs[1]}"
            )
        if view.find(member.id) is None and not self._lets_in(view, member.id):
            raise IllegalState(f"the state {view.state} lets in only members that it expects")

    def _lets_in(self, view: View, member_id: MemberId) -> bool:
        joins = view.attributes.joins
        if joins is Joins.ANYONE:
            return True
        if any(gone.id == member_id for gone in view.departed):
            return True
        stable = self.context.stable
        rows = self.context.table.rows if stable is None else stable.rows
        return any(member_id in row.replicas for row in rows)

    def _recover(self, view: View, message: JoinRequest) -> None:
        """While settling: a listed member that restarted takes its place again."""
        member = message.member
        listed = view.find(member.id)
        if listed is None or listed.incarnation >= member.incarnation:
            return
        if not member.persistent or message.cluster not in ("", view.cluster):
            return
        if self.mastership.committed():
            back = back_from_files(listed, member)
            self.mastership.welcome(back)
            self.mastership.change(view.with_changed(back))

    def advance(self) -> None:
        """Make a newcomer a voter, or let the next one in, if the time is right."""
        view = self.context.view
        assert view is not None
        self._open_since(view)  # noted whether anybody asks or not
        if not (self._waiting or any(member.newcomer for member in view.members)):
            return
        if not self._may_change(view):
            return
        voter = self.mastership.next_voter()
        if voter is not None:
            self.mastership.change(view.with_changed(replace(voter, newcomer=False)))
        elif self._waiting:
            member = self._next_waiting(view)
            if member is not None:
                self._let_in(view, member)

    def _open_since(self, view: View) -> Millis:
        """Since when this mastership lets in whom it lets in now."""
        joins = view.attributes.joins
        if self._door is None or self._door[0] is not joins:
            self._door = joins, self.context.now
        return self._door[1]

    def _next_waiting(self, view: View) -> Member | None:
        """Who waits longest and still asks; whoever is listed with an older stay waits for that."""
        oldest = self.context.now - self._counts_ms
        for member_id, (member, asked_at) in tuple(self._waiting.items()):
            late = asked_at < oldest or self.context.is_dead(member)
            if late or view.find(member_id) is None:
                del self._waiting[member_id]
                if not late:
                    return member
        return None

    def _let_in(self, view: View, member: Member) -> None:
        if self._lets_in(view, member.id):
            newcomer = member.kind is Kind.DATA
            joined = replace(member, drain=Drain.NONE, recovered=False, newcomer=newcomer)
            self.mastership.welcome(joined)
            self.mastership.change(view.with_member(joined))
            self.context.tell(member.id, f"let in as incarnation {member.incarnation}")

    def _may_change(self, view: View) -> bool:
        if self.transition.under_way or not self.mastership.committed():
            return False
        return self.rebalancing.repaired_key == view.key and self.publisher.is_quiet()
