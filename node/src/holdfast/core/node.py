"""The node: one door for everything that happens, and the machines behind it.

    event ──► step(event, now) ──► check ──► machine of that event ──► every machine looks at the
                                                                       clock and at the others
    effects ◄── outbox ◄───────────────────────────────────────────────────────┘

Rules (`design/3` §11: every step of a protocol is a crash point)
-----------------------------------------------------------------
* `step` is the only way in. It is given the time; it returns effects and does nothing itself.
* An event that can't be (before the start, a clock that runs backwards, a message that does not
  fit the table) is refused with an error of the tree before anything has changed.
* After the event's own machine, every machine is asked to *advance*: it looks at what is so now and
  does what follows. So nothing depends on having seen an event at the right moment, and a lost
  message costs time, never correctness.
* What a node sends to itself is handled in the same step.
* Messages of one turn that are about single partitions may come as one event: each is handled as if
  it were alone, and the machines look once (`turns`).

States
------
Not started, running, stopped. Each machine documents its own.

What can go wrong
-----------------
Two machines that undo each other would never end a step; the rounds of a step are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Final

from holdfast.core import events
from holdfast.core.config import Config
from holdfast.core.context import Context
from holdfast.core.data.service import DataService
from holdfast.core.data_messages import (
    BackupAck,
    BackupFrame,
    Forward,
    Forwarded,
    ReplicaCheck,
    SyncAsk,
    SyncEnd,
    SyncPage,
    SyncPlan,
    SyncPull,
)
from holdfast.core.effects import Effect
from holdfast.core.election import Election
from holdfast.core.forming import Forming
from holdfast.core.front.facts import Facts
from holdfast.core.front.service import Front
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.guards import check_event
from holdfast.core.joining import ABOUT
from holdfast.core.leadership import Leadership
from holdfast.core.locking import Locking
from holdfast.core.membership import NEVER, Membership, Phase
from holdfast.core.messages import (
    Abort,
    Claim,
    CommitAck,
    CommitRequest,
    Completed,
    Farewell,
    Fetch,
    Fragment,
    FragmentAck,
    FragmentPush,
    Grant,
    Heartbeat,
    Hello,
    JoinRequest,
    Migration,
    MigrationReady,
    MigrationRequest,
    NewerTerm,
    NewView,
    NotListed,
    Origin,
    Prepare,
    PrepareAck,
    Promise,
    Publication,
    PublicationAck,
    Redirect,
    Refusal,
    Report,
    Request,
    RequestDone,
    RequestPending,
    StablePublication,
    StableTable,
    Versions,
    VersionsRequest,
)
from holdfast.core.participation import Part, Participation
from holdfast.core.requests import Requests
from holdfast.core.serving import Serving
from holdfast.core.table import Table
from holdfast.core.turns import QUIET
from holdfast.core.views import Member, View
from holdfast.errors import LocalProtocolError, RemoteProtocolError
from holdfast.ids import MemberId, Millis, PartitionId

ROUNDS_MAX: Final = 64
Handler = Callable[..., object]


class Node:
    """One member: the pure core of a process."""

    def __init__(self, config: Config, me: Member, chance: Random) -> None:
        self.context = Context(config, me)
        self.membership = Membership(self.context)
        self.election = Election(self.context, self.membership)
        self.forming = Forming(self.context, self.membership, self.election)
        self.participation = Participation(self.context, self.membership)
        self.locking = Locking(self.context, self.membership, self.participation)
        self.requests = Requests(self.context, self.membership)
        self.leadership = Leadership(
            self.context, self.membership, self.election, self.participation
        )
        self.data = DataService(
            self.context,
            self.membership,
            self.participation,
            self.serving,
            self._may_serve_until,
            chance,
        )
        self.front = Front(
            Surroundings(
                self.context, self.membership, self.participation, self.requests, self.data
            )
        )
        self.started = False
        self.refused: list[str] = []
        """Which of the messages of the last step fitted no state of this node, and why."""
        self._quiet_until = NEVER
        """The data plane may be on its own for so long, unless a deadline comes first."""
        self._seen: View | None = None
        self._handlers = self._handler_table()
        self._events = self._event_table()

    def _event_table(self) -> dict[type, Callable[..., object]]:
        return {
            events.Started: self._on_started,
            events.Received: self._on_received,
            events.Gathered: self._on_gathered,
            events.Woke: lambda _: None,
            events.Continued: lambda _: self.leadership.on_continued(),
            events.Loaded: self._on_loaded,
            events.Room: self._on_room,
            events.ConfirmedDead: self._on_confirmed_dead,
            events.Commanded: lambda event: self.data.execute(event.batches),
            events.Opened: self.front.open,
            events.Disconnected: lambda event: self.front.close(event.session),
            events.Asked: lambda event: self.requests.on_asked(event.request),
        }

    # What a shell and the simulator read ----------------------------------------------------------

    @property
    def me(self) -> Member:
        """This member, in its present stay."""
        return self.context.me

    @property
    def facts(self) -> Facts:
        """What the shell writes down about its process; the node only tells it."""
        return self.front.around.facts

    @property
    def origin(self) -> Origin:
        """What goes with each message that this node sends."""
        me = self.context.me
        return Origin(me.id, me.incarnation, me.address)

    @property
    def view(self) -> View | None:
        """The newest view."""
        return self.context.view

    @property
    def table(self) -> Table:
        """The partition table as this member knows it."""
        return self.context.table

    @property
    def stable(self) -> StableTable | None:
        """The stable table, in a state that keeps one."""
        return self.context.stable

    @property
    def fragments(self) -> dict[PartitionId, Fragment]:
        """The data that is here."""
        return self.context.fragments

    @property
    def phase(self) -> Phase:
        """Looking, member, or stopped."""
        return self.membership.phase

    @property
    def stopped(self) -> bool:
        """Whether this process has left for good."""
        return self.membership.phase is Phase.STOPPED

    @property
    def is_master(self) -> bool:
        """A settled master with a mandate, at the time of the last step."""
        return self.leadership.is_master()

    def leads(self, now: Millis) -> bool:
        """A settled master with a mandate, at this moment."""
        return self.is_master and now < self.election.mandate_until

    @property
    def wake_at(self) -> Millis | None:
        """When to give `Woke`, if nothing else happens before."""
        return None if self.stopped else self.context.timers.next(self.context.now)

    def serving(self, partition: PartitionId, now: Millis) -> Serving:
        """What this member may answer for a partition at this moment (`design/3` §1, §3, §4)."""
        context, view = self.context, self.context.view
        if view is None or view.recovering or self.membership.phase is not Phase.MEMBER:
            return Serving.NONE
        if now >= self._may_serve_until():
            return Serving.NONE
        row = context.table.row(partition)
        if row.replicas[0] != context.me.id or not self.data.leads(row):
            return Serving.NONE
        if partition not in context.fragments:
            return Serving.NONE
        active = self.participation.active.get(partition)
        if active is not None and active.part is Part.CLOSING:
            return Serving.READS
        if active is not None and active.part is Part.HANDED_OVER:
            return Serving.NONE if context.config.stale_read_disabled else Serving.READS
        if partition in self.participation.unpublished:
            return Serving.NONE
        return Serving.ALL if view.attributes.accepts_writes else Serving.READS

    def _may_serve_until(self) -> Millis:
        if self.leadership.is_master():
            return self.election.mandate_until
        return self.membership.lease_until

    def active_migrations(self) -> tuple[Migration, ...]:
        """Migrations in which this member takes part and whose end it does not know."""
        return tuple(active.migration for active in self.participation.active.values())

    def running_load(self) -> dict[MemberId, int]:
        """As a master: in how many running migrations each member takes part."""
        return dict(self.leadership.execution.schedule.load)

    def withheld(self) -> Collection[PartitionId]:
        """Rows that it owns and that others are to hear of first: it does not go by them yet."""
        return self.participation.withheld

    def known_ends(self) -> Mapping[PartitionId, tuple[Completed, ...]]:
        """As a master: the completed migrations that it still tells of."""
        return self.leadership.publisher.completed

    def story(self, about: str | None = None) -> tuple[str, ...]:
        """What happened here, oldest first."""
        return self.context.story(about)

    # The door -------------------------------------------------------------------------------------

    def step(self, event: events.Event, now: Millis) -> list[Effect]:
        """Take one event; return what is to be done about it, in order."""
        if self.is_quiet(event, now):
            return self._step_quietly(event, now)
        self._check(event, now)
        if isinstance(event, events.Persisted):  # it lets out what waited, and tells nobody else
            self.context.outbox.persisted(event.sequence)
            return self.context.outbox.take()
        self.context.now = now
        self.data.look_anew()
        if self.membership.phase is not Phase.STOPPED:
            self._events[type(event)](event)
        if self.membership.phase is not Phase.STOPPED:
            self._advance()
        return self.context.outbox.take()

    def is_quiet(self, event: events.Event, now: Millis) -> bool:
        """Whether this concerns nothing but the data, and no time is over since the last step."""
        kind: type = type(event)
        if isinstance(event, events.Received):
            kind = type(event.message)
        context = self.context
        return (
            kind in QUIET
            and context.now <= now < context.timers.quiet_until
            and now < self._quiet_until
        )

    def _step_quietly(self, event: events.Event, now: Millis) -> list[Effect]:
        """The machines of the control plane need not look: for them nothing has changed, unless a
        migration has waited for just this."""
        self.context.now = now
        turns = self.participation.turns
        self._events[type(event)](event)
        if not self.data.pulling.wanted:
            self.participation.look_at_data()
            self.data.go_on()
            self.front.go_on()
        if self.context.loopback or self.data.pulling.wanted or self.participation.turns != turns:
            self._advance()
        return self.context.outbox.take()

    def _check(self, event: events.Event, now: Millis) -> None:
        if isinstance(event, events.Started) is self.started:
            what = "started twice" if self.started else "not started yet"
            raise LocalProtocolError(f"{type(event).__name__}: {what}", story=self.story())
        if now < self.context.now:
            message = f"the clock went from {self.context.now} back to {now} ms"
            raise LocalProtocolError(message, story=self.story())
        check_event(event, self.context)

    def _advance(self) -> None:
        for _ in range(ROUNDS_MAX):
            role = self.election.role
            self._deliver_loopback()
            self._note_view()
            self.requests.advance()
            self.membership.advance()
            self.forming.advance()
            self.election.advance()
            self.leadership.advance()
            self.participation.advance()
            self.locking.advance()
            self.front.advance()
            self.data.advance()
            self.front.go_on()
            settled = self.context.view is self._seen and self.election.role is role
            if settled and not self.context.loopback:
                self._note_quiet()
                return
        raise LocalProtocolError("a step does not come to an end", story=self.story())

    def _note_quiet(self) -> None:
        """All machines have looked: until when they need not look again."""
        self.context.timers.settle(self.context.now)
        self._quiet_until = NEVER if self.stopped else self._may_serve_until()

    def _deliver_loopback(self) -> None:
        loopback = self.context.loopback
        while loopback:
            self._dispatch(self.origin, loopback.popleft())

    def _note_view(self) -> None:
        """A newer view was installed, by whatever way."""
        context, view = self.context, self.context.view
        if self.membership.fresh:
            self.membership.fresh = False
            self.participation.reset()
            self.data.reset()
            self.front.reset()
            self.participation.begin_with_rows()
        if view is None or view is self._seen:
            return
        self._seen = view
        self.election.yield_to(view)
        if view.stable == (0, 0):
            self.membership.keep_stable(None)
        elif view.stable == view.key and context.listed:
            rows = self.locking.table_for(view)
            if rows is not None:  # who lacks it gets the master's (`leadership`)
                self.membership.keep_stable(StableTable(view.term, view.version, rows))
        self.participation.sweep()

    # Events ---------------------------------------------------------------------------------------

    def _on_started(self, event: events.Started) -> None:
        self.started = True
        self.front.around.since = self.context.now
        if event.image is not None:
            self.data.holdings.recover(event.image)
        self.membership.start(event.image)

    def _on_room(self, event: events.Room) -> None:
        self.data.room(full=event.full)

    def _on_loaded(self, _: events.Loaded) -> None:
        self.membership.loaded = True

    def _on_confirmed_dead(self, event: events.ConfirmedDead) -> None:
        died_at = self.context.now - event.ago
        self.membership.confirm_dead(event.id, event.incarnation, died_at)

    def _on_received(self, event: events.Received) -> None:
        self._dispatch(event.origin, event.message)

    def _on_gathered(self, event: events.Gathered) -> None:
        """One message after the other; one that can't be is left out, like one that was lost."""
        self.refused = []
        for received in event.received:
            try:
                check_event(received, self.context)
            except RemoteProtocolError as error:
                self.refused.append(error.message)
                continue
            self._on_received(received)
            self._deliver_loopback()
            self.data.look_anew()

    def _dispatch(self, origin: Origin, message: object) -> None:
        self._handlers[type(message)](origin, message)

    # Messages -------------------------------------------------------------------------------------

    def _handler_table(self) -> dict[type, Handler]:
        lead = self.leadership
        return {
            Hello: self.forming.on_hello,
            JoinRequest: lead.joining.on_join,
            Redirect: lambda _, message: self.forming.on_redirect(message),
            Refusal: self._on_refusal,
            Claim: self.election.on_claim,
            Promise: lambda _, message: self.election.on_promise(message),
            NewView: self.membership.on_new_view,
            NotListed: lambda _, message: self.membership.on_not_listed(message),
            NewerTerm: self._on_newer_term,
            Farewell: self._on_farewell,
            Heartbeat: lead.mastership.on_heartbeat,
            Grant: self._on_grant,
            Fetch: lead.settlement.on_fetch,
            Report: lead.settlement.on_report,
            Publication: self._on_publication,
            PublicationAck: self._on_publication_ack,
            VersionsRequest: self._on_versions_request,
            Versions: self._on_versions,
            StablePublication: self._on_stable,
            MigrationRequest: self.participation.on_request,
            FragmentPush: self.participation.on_push,
            FragmentAck: self.participation.on_fragment_ack,
            MigrationReady: lambda _, message: lead.execution.on_ready(message),
            CommitRequest: self.participation.on_commit,
            CommitAck: lambda origin, message: lead.execution.on_commit_ack(origin.id, message),
            BackupFrame: self.data.replicas.on_frame,
            BackupAck: self.data.replication.on_ack,
            ReplicaCheck: self.data.checks.on_check,
            SyncAsk: self.data.giving.on_ask,
            SyncPlan: self.data.pulling.on_plan,
            SyncPull: self.data.giving.on_pull,
            SyncPage: self.data.pulling.on_page,
            SyncEnd: self.data.giving.on_end,
            Forward: self.front.on_forward,
            Forwarded: self.front.on_forwarded,
            Request: lead.service.on_request,
            RequestDone: lambda _, message: self.requests.on_done(message),
            RequestPending: lambda _, message: self.requests.on_pending(message),
            Prepare: self.locking.on_prepare,
            PrepareAck: lead.transition.on_prepare_ack,
            Abort: self.locking.on_abort,
        }

    def _on_refusal(self, origin: Origin, message: Refusal) -> None:
        if message.about == ABOUT:
            self.forming.on_refusal(origin, message)
        else:
            self.requests.on_refusal(message)

    def _on_newer_term(self, _: Origin, message: NewerTerm) -> None:
        self.membership.on_newer_term(message)
        self.election.on_newer_term(message)

    def _on_farewell(self, origin: Origin, message: Farewell) -> None:
        self.membership.confirm_dead(origin.id, message.incarnation, self.context.now)

    def _on_grant(self, origin: Origin, message: Grant) -> None:
        self.membership.on_grant(origin, message)
        if message.quiet and self.membership.has_lease():
            self.participation.forget_completed()

    def _on_publication(self, origin: Origin, message: Publication) -> None:
        if self.membership.follows(origin, message.term):
            self.participation.take(message.rows, message.completed)
            self.context.send(origin.address, PublicationAck(message.term, message.sequence))

    def _on_publication_ack(self, origin: Origin, message: PublicationAck) -> None:
        view = self.context.view
        if view is None or view.term != message.term:
            return
        if self.leadership.publisher.on_ack(origin.id, message):
            self.leadership.mastership.grant_at_last(origin)

    def _on_versions_request(self, origin: Origin, message: VersionsRequest) -> None:
        if self.membership.follows(origin, message.term):
            self.context.send(origin.address, Versions(message.term, self.table.versions))

    def _on_versions(self, origin: Origin, message: Versions) -> None:
        view = self.context.view
        if view is None or view.term != message.term or not self.is_master:
            return
        if not self.leadership.publisher.on_versions(origin.id, message):
            self.election.abdicate(f"{origin.id} knows of a newer table")

    def _on_stable(self, origin: Origin, message: StablePublication) -> None:
        view = self.context.view
        stable = message.stable
        if view is None or not self.membership.follows(origin, view.term):
            return
        if (stable.term, stable.version) == view.stable:
            self.membership.keep_stable(stable)
