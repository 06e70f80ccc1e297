"""Bringing a partition up to date here: the holder asks, the owner answers.

One way for everything that a copy may lack (seed 003 "Differential migration data
synchronization"; seed 004; `design/3` §3, §6): a backup that missed a mutation, a destination of a
migration, a member that returned with its files.

Rules
-----
* I ask for a whole partition at once, and say of each fragment how far I am sure to have come, with
  the digest of its tree if I am not sure. The owner answers with a plan, fragment by fragment:
  nothing, the records that changed, the leaves that differ, or everything. Where what I am sure of
  is not enough for it, it says so, and I ask at once with all digests: a tree is made from all keys
  that are here, so a member that missed little must not pay for one.
* Mutations go on coming meanwhile, in their stream. Records merge by their versions, and what went
  while records are under way is remembered (`stores.incoming`), so the order does not matter.
* A fragment is up to date with the vector at which its plan was made, once all pages are here, plus
  the mutations that came in the stream. If any of those was missed, it is dirty still (`vectors`).
* At most `syncs_parallel_max` partitions are asked for at a time (and as many recalled, see below);
  after each answer that brings nothing one more of those of which I am sure where I stand, until
  an answer brings something: what has nothing yet will take pages. A backup's partition
  is asked for once an interval and reign: a new owner has not been asked yet. A migration's is as
  often as it takes.

* Where somebody follows a fragment's changes the owner's journal comes last, and joins what was
  heard since the plan: readers go on here without a gap.

    asked ─► planned ─► fragment by fragment, page by page ─► done: end
     │ └── no answer: ask again        └── no page: pull again
     └── refused: ask again later; at once, if digests are lacking

* An owner that comes back from files that may lack what it wrote last *recalls* before it leads: it
  asks its listed backups, one after the other, what they have beyond that, in the same way. Then it
  asks for a new reign (`holdings`). So what a backup acknowledged outlives the owner's disk.

What can go wrong
-----------------
*A backup that is asked so never answers*: it is listed no more in the end, and is not waited for.
*The owner changes.* Its answers are of another reign: the pull is off, and begins again with the
new owner. *It dies*: the same, once the table says who comes after it.
*A migration fails, and the next one begins in the same turn.* Owner, reign and index are as they
were. But what the first one brought is gone (`holdings`), and so is the memory of what was heard
meanwhile: the rest of its answer would make a copy that looks whole, and is not. I ask anew.
*Mutations were skipped since I asked* (`streams`): the plan is of the time before, however often it
is told again. It ends no doubt that came later: I ask anew.
*An answer to a question of an earlier stay comes late*: numbers begin with the stay, so it is none.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.content import digest_of, listed_difference
from holdfast.core.data.copies import Copy, Holding, lineage_of, vector_of
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.replicas import Replicas, breaks
from holdfast.core.data_messages import (
    Claimed,
    DataMessage,
    FragmentPlan,
    Mutations,
    SyncAsk,
    SyncEnd,
    SyncPage,
    SyncPlan,
    SyncPull,
    Way,
)
from holdfast.core.messages import Origin
from holdfast.core.stores.incoming import Incoming
from holdfast.core.stores.record import number_of, version_at
from holdfast.core.table import Row
from holdfast.ids import NO_INDEX, MemberId, Millis, PartitionId

PULL_AGAIN: Final = "pull again"
NOWHERE: Final = (0, 0)
PAGED: Final = (Way.MANY, Way.LEAVES, Way.WHOLE)
LIGHT_MAX: Final = 32
"""How many more partitions are asked for at a time while the answers bring nothing."""
MIGRATION_SHARE: Final = 10
"""A permit is free again much sooner than a lost message is missed; there are few migrations at a
time, so they may ask as often."""
STAY_SHIFT: Final = 32
"""The number of a question begins with the stay that asks."""


@dataclass(slots=True)
class Pull:
    """One partition that is being brought up to date."""

    id: int
    owner: MemberId
    reign: int
    index: int
    sent: DataMessage
    sent_at: int
    recall: bool = False
    """Whether I am the owner, and ask a backup."""
    doubts: int = 0
    """How many there were when I asked: the plan may be older than any that came since."""
    sure: bool = False
    """Whether who is asked has everything that was ever acknowledged; of a backup."""
    plans: deque[FragmentPlan] = field(default_factory=deque)
    """What is left to do, the present one first."""
    position: int = 0
    planned: bool = False
    past: Mutations = ()
    """What has come of the present one's journal, which ends with the first pull of it."""
    past_ends: int = 0


class Pulling:
    """Everything that is being brought up to date here."""

    def __init__(self, context: Context, holdings: Holdings, replicas: Replicas) -> None:
        self.context = context
        self.holdings = holdings
        self.replicas = replicas
        self.pulls: dict[PartitionId, Pull] = {}
        self.wanted: dict[PartitionId, None] = {}
        self._not_before: dict[PartitionId, tuple[int, int]] = {}
        """Until when the owner in a reign is not asked again: the reign, and the end."""
        self.records = 0
        """Keys whose records came in plans and pages, since this process began; with each of them
        comes its lock, or that it has none."""
        self.bytes = 0
        """Their keys and values."""
        self._last = 0
        self._light = 0
        """How many plans came one after the other that brought nothing."""

    def reset(self) -> None:
        """A new stay begins."""
        self._light = 0
        for partition in tuple(self.pulls):
            self._forget(partition)
        self._not_before.clear()

    def want(self, partition: PartitionId, *, at_once: bool = False) -> None:
        """A copy of this partition lacks something; `at_once` where somebody waits for it."""
        self.wanted[partition] = None
        if at_once:
            self._not_before.pop(partition, None)

    # Asking ---------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Ask for what may be asked for; repeat what was not answered."""
        now, patience = self.context.now, self.context.config.retry_ms
        for partition, pull in tuple(self.pulls.items()):
            if self._is_off(partition, pull):
                self._forget(partition)
                self._not_before.pop(partition, None)
            elif now >= pull.sent_at + patience:
                self._send(pull, pull.sent)
        for partition in tuple(self.wanted):
            if partition not in self.pulls:
                self._maybe_ask(partition)
        if self.pulls or self.wanted:
            pauses = (self._paused_until(partition) for partition in self.wanted)
            ends = (end for end in pauses if now < end < now + patience)
            self.context.timers.set(PULL_AGAIN, min(ends, default=now + patience))
        else:
            self.context.timers.clear(PULL_AGAIN)

    def _is_off(self, partition: PartitionId, pull: Pull) -> bool:
        """Whether nobody wants it any more, or somebody else is to be asked."""
        row = self.context.table.row(partition)
        if row.reign != pull.reign or not self._needs(partition):
            return True
        if not self.holdings.here[partition].transfers:
            return True  # it was for a migration that has failed, and for what was here then
        if pull.recall:
            return pull.owner not in self._backups(row)
        return row.owner != pull.owner or self._index(partition) != pull.index

    def _backups(self, row: Row) -> tuple[MemberId, ...]:
        """Who is asked by an owner that may have lost its end."""
        view = self.context.view
        assert view is not None
        return tuple(member for member in row.holders[1:] if view.find(member) is not None)

    def _needs(self, partition: PartitionId) -> bool:
        holding = self.holdings.get(partition)
        if holding is None or holding.reign or self._index(partition) < 0:
            return False
        return holding.recalls or holding.wanting()

    def _index(self, partition: PartitionId) -> int:
        """The index for which data is wanted; what is fenced is left as it is."""
        holding = self.holdings.here[partition]
        if holding.recalls:
            return 0
        return holding.index if holding.target == NO_INDEX else holding.target

    def _maybe_ask(self, partition: PartitionId) -> None:
        if not self._needs(partition):
            del self.wanted[partition]
            return
        row, now = self.context.table.row(partition), self.context.now
        holding = self.holdings.here[partition]
        source = row.owner
        if holding.recalls:
            source = next((each for each in self._backups(row) if each not in holding.heard), None)
            if source is None:
                holding.recalled()
                del self.wanted[partition]
        if source is None or source == self.context.me.id:
            return
        if now < self._paused_until(partition):
            return
        config = self.context.config
        parallel_max = config.syncs_parallel_max
        if knows_where_it_stands(holding):
            parallel_max += min(self._light, LIGHT_MAX)
        if self._under_way(recalls=holding.recalls) < parallel_max:
            pause = config.sync_interval_ms if holding.target < 0 else config.retry_ms
            self._not_before[partition] = (row.reign, now + pause)
            self._ask(partition, holding, source, row.reign)

    def _paused_until(self, partition: PartitionId) -> int:
        reign, until = self._not_before.get(partition, (0, 0))
        return until if reign == self.context.table.row(partition).reign else 0

    def _under_way(self, *, recalls: bool) -> int:
        """Owners that recall don't wait for those that ask others: these may be asking an owner
        that answers only when it has recalled."""
        return sum(pull.recall is recalls for pull in self.pulls.values())

    def _ask(
        self,
        partition: PartitionId,
        holding: Holding,
        owner: MemberId,
        reign: int,
        *,
        compares: bool = False,
    ) -> None:
        # what was said to an earlier process of this member must not pass for an answer
        self._last = max(self._last, self.context.me.incarnation << STAY_SHIFT) + 1
        index = self._index(partition)
        holding.awaited = False
        backups = (copy for copy in holding if copy.backup is not None)
        claims = tuple(_claim(copy, compares=compares) for copy in backups)
        ask = SyncAsk(self._last, partition, reign, index, claims, holding.recalls)
        recall, doubts = holding.recalls, holding.doubts
        pull = Pull(self._last, owner, reign, index, ask, self.context.now, recall, doubts)
        self.pulls[partition] = pull
        holding.transfers = True
        for copy in holding:
            copy.receive()
        self._send(pull, ask)

    def _send(self, pull: Pull, message: DataMessage) -> None:
        pull.sent, pull.sent_at = message, self.context.now
        self.context.send_member(pull.owner, message)

    def _forget(self, partition: PartitionId) -> None:
        pull = self.pulls.pop(partition)
        self.context.send_member(pull.owner, SyncEnd(pull.id, partition))
        holding = self.holdings.get(partition)
        if holding is None:
            return
        holding.transfers = False
        for copy in holding:
            incoming, copy.incoming = copy.incoming, None
            if incoming is not None and incoming.broken:
                breaks(copy)

    # Answers --------------------------------------------------------------------------------------

    def _pull_of(self, origin: Origin, number: int, partition: PartitionId) -> Pull | None:
        """What this answers; nothing, if an earlier message of the same turn has ended it."""
        pull = self.pulls.get(partition)
        if pull is None or pull.id != number or pull.owner != origin.id:
            return None
        return None if self._is_off(partition, pull) else pull

    def on_plan(self, origin: Origin, plan: SyncPlan) -> None:
        """How each fragment gets up to date; or why not now."""
        pull = self._pull_of(origin, plan.id, plan.partition)
        if pull is None:
            return
        if plan.reason:
            self._refused(plan, pull)
            return
        if pull.planned:
            return
        pull.planned, pull.sure = True, plan.sure
        brings = any(each.way is not Way.NOTHING for each in plan.fragments)
        self._light = 0 if brings else self._light + 1
        pull.plans.extend(plan.fragments)
        if not pull.recall:
            self._drop_unknown(plan)
        self._go_on(plan.partition, pull)

    def _refused(self, plan: SyncPlan, pull: Pull) -> None:
        """Not so, or not now."""
        holding = self.holdings.here[plan.partition]
        self._forget(plan.partition)
        if plan.compares:
            self._ask(plan.partition, holding, pull.owner, pull.reign, compares=True)
            return
        pause = self.context.config.retry_ms
        if holding.target >= 0:
            pause = Millis(pause // MIGRATION_SHARE)
        self._not_before[plan.partition] = (pull.reign, self.context.now + pause)

    def _drop_unknown(self, plan: SyncPlan) -> None:
        """Fragments that the owner does not have, unless they came to be since."""
        holding = self.holdings.here[plan.partition]
        named = frozenset(each.owner.name for each in plan.fragments)
        for copy in tuple(holding):
            if copy.name not in named and copy.worth.held.epoch < plan.reign:
                self.context.persist_mutations(holding.forget(copy.name))

    def _go_on(self, partition: PartitionId, pull: Pull) -> None:
        """Begin with the next fragment that takes more than the plan."""
        holding = self.holdings.here[partition]
        while pull.plans:
            plan = pull.plans[0]
            copy = holding.copy(plan.owner.name)
            incoming = copy.receive()
            stand = plan.owner.stand
            answered = version_at(stand.epoch, stand.counter)
            incoming.settle(answered, version_at(*copy.worth.held.point))
            self._take(holding, copy, incoming, plan.records)
            if plan.way in (Way.LEAVES, Way.WHOLE):
                self._take_locks(holding, copy, incoming, plan.locks)
            if plan.way is Way.WHOLE:
                incoming.expect_everything()
            if plan.way in PAGED:
                self._send(pull, SyncPull(pull.id, partition, copy.name, (), 0))
                return
            if incoming.wanted:
                self._send(pull, SyncPull(pull.id, partition, copy.name, incoming.wanted, 0))
                return
            if not self._ends(partition, copy, pull):
                return
        self._done(partition, holding, pull)

    def on_page(self, origin: Origin, page: SyncPage) -> None:
        """Records, or a list of what there is in some leaves."""
        pull = self._pull_of(origin, page.id, page.partition)
        if pull is None or not pull.plans or pull.plans[0].owner.name != page.name:
            return
        sent = pull.sent
        if not isinstance(sent, SyncPull) or sent.position != page.position:
            return
        if sent.past is not page.past:
            return
        plan = pull.plans[0]
        holding = self.holdings.here[page.partition]
        copy = holding.copy(page.name)
        if page.past:
            self._take_past(page, copy, pull)
            return
        incoming = copy.receive()
        self._take(holding, copy, incoming, page.records)
        wanted, absent = self._compare(incoming, page, plan.depth)
        self.replicas.persist_changes(holding, copy, incoming.remove(absent))
        if not page.next:
            self.replicas.persist_changes(holding, copy, incoming.leave_unsent())
            wanted += tuple(key for key in incoming.wanted if key not in wanted)
        if wanted:
            self._send(pull, replace(sent, keys=wanted))
        elif page.next:
            self._send(pull, SyncPull(pull.id, page.partition, page.name, (), page.next))
        elif self._ends(page.partition, copy, pull):
            self._go_on(page.partition, pull)

    def _take(self, holding: Holding, copy: Copy, incoming: Incoming, records: Mutations) -> None:
        """Records as the owner has them: newer than anything that is claimed so far."""
        if not records:
            return
        self.records += len(dict(records))
        size = sum(len(key) + len(record) for key, record in records)
        self.bytes += size
        holding.taken += size
        assert copy.backup is not None, "an owner that takes anything is not one yet"
        copy.backup.loosen()
        if copy.arrival is not None:
            copy.arrival.touch()
        incoming.block(records)
        self.replicas.persist_changes(holding, copy, records)

    def _take_locks(
        self, holding: Holding, copy: Copy, incoming: Incoming, locks: Mutations
    ) -> None:
        """The owner's locks, and no others."""
        self._take(holding, copy, incoming, locks)
        freed = incoming.free_others(key for key, _ in locks)
        self.replicas.persist_changes(holding, copy, freed)

    def _compare(
        self, incoming: Incoming, page: SyncPage, depth: int
    ) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """The keys of what the owner has otherwise, and of what it has not."""
        if not page.leaves:
            return (), ()
        difference = listed_difference(incoming, page.listed, page.leaves, depth)
        return difference.send, difference.delete

    # The end --------------------------------------------------------------------------------------

    def _ends(self, partition: PartitionId, copy: Copy, pull: Pull) -> bool:
        """The present fragment is here. Whether that was all; else its journal is asked for."""
        lacked = copy.lacks_past(pull.plans[0])
        if lacked is None:
            self._synced(partition, copy, pull.plans.popleft())
            return True
        pull.past, pull.past_ends = (), lacked
        self._send(pull, SyncPull(pull.id, partition, copy.name, (), lacked, past=True))
        return False

    def _take_past(self, page: SyncPage, copy: Copy, pull: Pull) -> None:
        """A part of the owner's journal, the newest first."""
        pull.past = (*page.records, *pull.past)
        if page.next:
            again = SyncPull(pull.id, page.partition, copy.name, (), page.next, past=True)
            self._send(pull, again)
            return
        self._synced(page.partition, copy, pull.plans.popleft())
        copy.journal.put_before(pull.past_ends, pull.past)
        self.holdings.here[page.partition].following.note(copy.name, self.context.now)
        pull.past = ()
        self._go_on(page.partition, pull)

    def _synced(self, partition: PartitionId, copy: Copy, plan: FragmentPlan) -> None:
        vector, lineage = vector_of(plan.owner.stand), lineage_of(plan.owner.lineage)
        reached = number_of(copy.receive().reached)
        for backup in (copy.backup, copy.arrival):
            if backup is not None and backup.accepts(vector):
                backup.synced(vector, lineage, reached)
        copy.synced()
        self.context.persist_mutations(copy.record(partition, ()))

    def _done(self, partition: PartitionId, holding: Holding, pull: Pull) -> None:
        if pull.recall:
            holding.heard[pull.owner] = None
            holding.vouched |= pull.sure
            self._forget(partition)
            self.want(partition, at_once=True)
            return
        holding.settle(pull.doubts)
        self._forget(partition)
        if not holding.wanting():
            self.wanted.pop(partition, None)
        elif holding.doubtful:
            self.want(partition, at_once=True)
        self.replicas.look_again()


def knows_where_it_stands(holding: Holding) -> bool:
    """Whether numbers may be all that it takes to know what is lacking."""
    backups = [copy for copy in holding if copy.backup is not None]
    return bool(backups) and all(_known(copy)[0][0] for copy in backups)


def _known(copy: Copy) -> tuple[tuple[int, int], tuple[int, int]]:
    """Up to where nothing is missing, and what came last."""
    known = copy.worth.known
    if copy.arrival is not None and known is None:
        known = copy.arrival.known
    if known is None:
        return NOWHERE, NOWHERE
    whole, reached = known.whole, known.reached
    return (whole[0], whole[1]), (reached[0], reached[1])


def _claim(copy: Copy, *, compares: bool) -> Claimed:
    """What I am sure of; else, or if I am to compare it, what I have."""
    whole, reached = _known(copy)
    compares = bool(copy.fragment) and (compares or not whole[0])
    digest = digest_of(copy.fragment) if compares else b""
    return Claimed(copy.name, whole, reached, len(copy.fragment), digest)
