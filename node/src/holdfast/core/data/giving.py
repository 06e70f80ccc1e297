"""The owner's side of bringing a copy up to date: plans and pages.

Rules (seed 003; seed 004; `design/3` §5, §6)
---------------------------------------------
* The owner gives, and only to a member that its row or a migration under way names. The exception
  is an owner that comes back and may have lost its end: its backups give it what they have beyond
  that, if they are sure of it (`pulling`).
* For each fragment the cheapest way that is known to be enough: *nothing* where the copy stands on
  my history where I stand; *changes* where I know what was removed since the point up to which it
  is sure (`content.changed_since`), in pages if they are *many*; else the *leaves* in which the
  trees differ; *whole* where it has nothing, or little.
* A plan is made after everything that was written before it has gone into the streams, so that what
  comes after the plan's vector comes by stream.
* The journal of what somebody follows is given too, from its end on (`following`), so that readers
  of changes go on at whoever gets the partition.
* To compare by content takes a digest, whose tree is made from all keys. Who is sure of a point
  does not send one before it is told that its point is not enough.
* At most `syncs_parallel_max` are given pages at a time. A permit is returned at the end, when the
  taker leaves, and when it asks for nothing for a while. What fits into the plan takes none: it
  goes with the answer, and the taker asks for so much at a time. But to look at all that is here
  is work, which is not done for what there is no permit for.

    ask ─► by numbers? ─ no ─► permit? ─ no ─► refused: ask again later
              │ yes              │ yes
              │                  └─► digests? ─ no ─► refused: ask again with them, at once
              │                        │ yes
              └─► plan ◄───────────────┘
                    └─► pages, as they are pulled ─► end, or silence: permit returned

What can go wrong
-----------------
*A question overtakes the row*: whoever was the owner hears of the new one no later than that hears
of itself, from another member. The question is kept for as long as the asker waits for an answer,
and answered when I lead; else each such race would cost it `retry_ms`.

*The permit is over before its taker is*: it was cut off for too long. It is told so with its next
pull, and asks anew.

*A page is asked for again*: pages are made from what is there now, so it may be newer. That is
right: records merge by their versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.content import (
    change_of,
    changed_since,
    differing_leaves,
    keys_in,
    records_of,
)
from holdfast.core.data.copies import Copy, Holding, lineage_of
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.journal import Journal
from holdfast.core.data.vectors import Known, Point
from holdfast.core.data_messages import (
    Claimed,
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
from holdfast.core.stores.fragment import Fragment, Mutation
from holdfast.ids import MemberId, PartitionId

PAGE_BYTES = 1 << 16
"""A client that asks meanwhile waits for the pages that came before it: for those of as many
partitions as are brought at a time. (Not final: what is, is written into compiled code, where no
test could have smaller pages.)"""
PLAN_BYTES: Final = 1 << 18
"""What a plan may carry itself of changed records."""
ENTRY_BYTES: Final = 48
SPARSE: Final = 8
"""Whoever has less than one in so many keys has little."""
PERMIT_RETRIES: Final = 20
"""A taker that was silent for so many retries has forgotten its end."""

Taker = tuple[MemberId, int, PartitionId]
"""A stay of a member: one that was started again numbers its questions anew, and a plan that was
made for the stay before says nothing of what was written since."""


@dataclass(slots=True)
class Gift:
    """One partition that is being given."""

    id: int
    plan: SyncPlan
    until: int
    back: bool
    """Whether it goes to the owner, from a backup."""
    paged: bool = False
    """Whether it takes more than the plan, and so a permit."""
    keys: dict[bytes, Sequence[tuple[int, bytes]]] = field(default_factory=dict)
    """By fragment: what lies in the leaves that differ, or everything, with its leaf."""
    changed: dict[bytes, Mutations] = field(default_factory=dict)
    """By fragment: of what goes in pages, what has changed."""


class Giving:
    """Everyone who is being brought up to date by me."""

    def __init__(
        self,
        context: Context,
        holdings: Holdings,
        flush: Callable[[], None],
        takers_of: Callable[[PartitionId], tuple[tuple[MemberId, int], ...]],
    ) -> None:
        self.context = context
        self.holdings = holdings
        self.gifts: dict[Taker, Gift] = {}
        self._early: dict[Taker, tuple[Origin, SyncAsk, int]] = {}
        """Questions about what I do not lead yet, and until when."""
        self._flush = flush
        self._takers_of = takers_of

    def reset(self) -> None:
        """A new stay begins."""
        self.gifts.clear()
        self._early.clear()

    def advance(self) -> None:
        """Answer what came early; return the permits of those who have gone or are silent."""
        self._answer_early()
        view, now = self.context.view, self.context.now
        for taker, gift in tuple(self.gifts.items()):
            gone = view is None or not view.has(taker[0], taker[1])
            if gone or now >= gift.until or not (gift.back or self._owned(taker[2])):
                del self.gifts[taker]

    def _answer_early(self) -> None:
        for taker, (origin, ask, until) in tuple(self._early.items()):
            holding = self._owned(ask.partition)
            leads = holding is not None and holding.reign == ask.reign
            if leads or self.context.now >= until:
                del self._early[taker]
            if leads:
                self.on_ask(origin, ask)

    def _owned(self, partition: PartitionId) -> Holding | None:
        holding = self.holdings.get(partition)
        return holding if holding is not None and holding.reign else None

    def _until(self) -> int:
        return self.context.now + PERMIT_RETRIES * self.context.config.retry_ms

    # Plans ----------------------------------------------------------------------------------------

    def on_ask(self, origin: Origin, ask: SyncAsk) -> None:
        """Somebody wants a partition brought up to date."""
        holding = self._of(origin, ask) if ask.recall else self._asked(origin, ask)
        taker = taker_of(origin, ask.partition)
        if holding is None:
            if not ask.recall and self._is_early(ask):
                until = self.context.now + self.context.config.retry_ms
                self._early[taker] = (origin, ask, until)
            return
        gift = self.gifts.get(taker)
        if gift is None or gift.id != ask.id:
            self.gifts.pop(taker, None)
            gift = self._gift(holding, ask)
            if not gift.plan.reason:
                self.gifts[taker] = gift
        self.context.send(origin.address, gift.plan)

    def _asked(self, origin: Origin, ask: SyncAsk) -> Holding | None:
        """What I own, if it goes to whoever asks."""
        holding = self._owned(ask.partition)
        if holding is None or holding.reign != ask.reign:
            return None
        return holding if (origin.id, ask.index) in self._takers_of(ask.partition) else None

    def _is_early(self, ask: SyncAsk) -> bool:
        """Whether this may be mine in a moment."""
        row, holding = self.context.table.row(ask.partition), self._owned(ask.partition)
        mine = row.reign == ask.reign and row.owner == self.context.me.id
        leads = holding is not None and holding.reign == ask.reign
        return not leads and (mine or row.reign < ask.reign)

    def _of(self, origin: Origin, ask: SyncAsk) -> Holding | None:
        """What I have as a backup of this owner, by the row that both of us know."""
        row, holding = self.context.table.row(ask.partition), self.holdings.get(ask.partition)
        if holding is None or (row.owner, row.reign) != (origin.id, ask.reign):
            return None
        return holding if 0 < holding.index == row.index_of(self.context.me.id) else None

    def _gift(self, holding: Holding, ask: SyncAsk) -> Gift:
        self._flush()
        claims = {claim.name: claim for claim in ask.fragments}
        plan = SyncPlan(ask.id, ask.partition, ask.reign, (), "")
        gift = Gift(ask.id, plan, self._until(), back=ask.recall)
        pairs = [
            (copy, claim)
            for copy in holding
            if copy.goes_to(ask.index)
            for claim in (claims.get(copy.name) or unknown(copy.name),)
            if not gift.back or is_beyond(holding, copy, claim)
        ]
        quick = [self._by_numbers(gift, copy, claim) for copy, claim in pairs]
        rest = [pair for pair, done in zip(pairs, quick, strict=True) if done is None]
        gift.paged = bool(rest or gift.changed)
        if gift.paged and self._permits_left() <= 0:
            gift.plan = replace(plan, reason="no permit")
        elif not all(claim.digest or is_sparse(copy, claim) for copy, claim in rest):
            gift.plan = replace(plan, reason="it takes digests", compares=True)
        else:
            fragments = tuple(
                self._with_past(holding, copy, done or self._by_content(gift, copy, claim))
                for (copy, claim), done in zip(pairs, quick, strict=True)
            )
            sure = gift.back and self._is_sure(holding)
            gift.plan = replace(plan, fragments=fragments, sure=sure)
        return gift

    def _permits_left(self) -> int:
        used = sum(gift.paged for gift in self.gifts.values())
        return self.context.config.syncs_parallel_max - used

    def _with_past(self, holding: Holding, copy: Copy, plan: FragmentPlan) -> FragmentPlan:
        """The plan, with word of the journal if that goes along."""
        if not (holding.reign and holding.following.has(copy.name, self.context.now)):
            return plan
        return replace(plan, past=copy.journal.oldest.counter)

    def _is_sure(self, holding: Holding) -> bool:
        """Whether my copy has whatever its owner has acknowledged."""
        config, index = self.context.config, holding.index
        if holding.unsure or holding.doubtful:
            return False
        every = all(kind.backups >= index for kind in (config.unnamed, *config.names.values()))
        return every and all(copy.is_sound() for copy in holding)

    def _by_numbers(self, gift: Gift, copy: Copy, claim: Claimed) -> FragmentPlan | None:
        """The plan, if it follows from where the copy stands."""
        stand, depth = copy.standing(), copy.fragment.settings.merkle_depth
        known = Known(Point(*claim.whole), Point(*claim.reached))
        if not (known.whole.epoch and lineage_of(stand.lineage).includes(known)):
            return None
        if known.whole.counter == stand.stand.counter:
            return FragmentPlan(stand, Way.NOTHING, (), (), (), depth)
        changed = changed_since(copy.fragment, copy.journal, known, looks=self._permits_left() > 0)
        if changed is None:
            return None
        records = changes_in(copy.fragment, changed, PLAN_BYTES)
        if len(records) == len(changed):
            return FragmentPlan(stand, Way.CHANGES, records, (), (), depth)
        if claim.empty:
            return None  # there is nothing to spare
        gift.changed[copy.name] = changed[len(records) :]
        return FragmentPlan(stand, Way.MANY, records, (), (), depth)

    def _by_content(self, gift: Gift, copy: Copy, claim: Claimed) -> FragmentPlan:
        stand, fragment = copy.standing(), copy.fragment
        depth = fragment.settings.merkle_depth
        locks = tuple((key, fragment.lock_record(key)) for key in fragment.locks)
        if is_sparse(copy, claim):
            gift.keys[copy.name] = [(-1, key) for key in fragment.records]
            return FragmentPlan(stand, Way.WHOLE, (), locks, (), depth)
        leaves = differing_leaves(fragment, claim.digest)
        gift.keys[copy.name] = sorted(keys_in(fragment, frozenset(leaves), depth))
        return FragmentPlan(stand, Way.LEAVES, (), locks, leaves, depth)

    # Pages ----------------------------------------------------------------------------------------

    def on_pull(self, origin: Origin, pull: SyncPull) -> None:
        """The next page of a fragment."""
        gift = self.gifts.get(taker_of(origin, pull.partition))
        holding = self.holdings.get(pull.partition)
        row = self.context.table.row(pull.partition)
        if holding is None or not (holding.reign or row.owner == origin.id):
            return
        if gift is None or gift.id != pull.id:
            over = SyncPlan(pull.id, pull.partition, holding.reign, (), "the permit is over")
            self.context.send(origin.address, over)
            return
        gift.until = self._until()
        copy = holding.copy(pull.name)
        fragment = copy.fragment
        if pull.past:
            page = past_page(pull, copy.journal)
        elif pull.keys:
            page = self._records_page(pull, fragment, pull.keys, gift)
        else:
            page = self._page(pull, fragment, gift)
        self.context.send(origin.address, page)

    def _page(self, pull: SyncPull, fragment: Fragment, gift: Gift) -> SyncPage:
        if pull.name in gift.changed:
            return changes_page(pull, fragment, gift.changed[pull.name])
        keys = gift.keys.get(pull.name, ())
        if keys and keys[0][0] < 0:
            return whole_page(pull, fragment, keys)
        return self._listing_page(pull, fragment, keys, gift)

    def _listing_page(
        self, pull: SyncPull, fragment: Fragment, keys: Sequence[tuple[int, bytes]], gift: Gift
    ) -> SyncPage:
        end = pull.position
        size = 0
        leaves: dict[int, None] = {}
        while end < len(keys) and (size < PAGE_BYTES or keys[end][0] in leaves):
            leaf, key = keys[end]
            leaves[leaf] = None
            size += len(key) + ENTRY_BYTES
            end += 1
        listed = tuple(
            (key, fragment.version_of(key))
            for _, key in keys[pull.position : end]
            if key in fragment.records
        )
        following = end if end < len(keys) else 0
        covered = self._covered(pull, gift, keys, end)
        return SyncPage(
            pull.id, pull.partition, pull.name, pull.position, (), listed, covered, following
        )

    def _covered(
        self, pull: SyncPull, gift: Gift, keys: Sequence[tuple[int, bytes]], end: int
    ) -> tuple[int, ...]:
        """The differing leaves that this page speaks of, those that are empty here included."""
        plan = next(each for each in gift.plan.fragments if each.owner.name == pull.name)
        low = keys[pull.position][0] if 0 < pull.position < len(keys) else 0
        if end < len(keys):
            return tuple(leaf for leaf in plan.leaves if low <= leaf < keys[end][0])
        return tuple(leaf for leaf in plan.leaves if leaf >= low)

    def _records_page(
        self, pull: SyncPull, fragment: Fragment, keys: tuple[bytes, ...], gift: Gift
    ) -> SyncPage:
        """What the listing made the taker ask for; then it goes on with the next listing."""
        listing = self._page(pull, fragment, gift)
        records = records_of(fragment, keys)
        return SyncPage(
            pull.id, pull.partition, pull.name, pull.position, records, (), (), listing.next
        )

    def on_end(self, origin: Origin, end: SyncEnd) -> None:
        """The taker has what it wanted, or wants it no more."""
        taker = taker_of(origin, end.partition)
        gift = self.gifts.get(taker)
        if gift is not None and gift.id == end.id:
            del self.gifts[taker]


def taker_of(origin: Origin, partition: PartitionId) -> Taker:
    """Who speaks of this partition, in its present stay."""
    return origin.id, origin.incarnation, partition


def unknown(name: bytes) -> Claimed:
    """Of a fragment that the taker has never heard of."""
    return Claimed(name, (0, 0), (0, 0), 0, b"")


def is_sparse(copy: Copy, claim: Claimed) -> bool:
    """Whether it costs less to send everything than to find out what is there: a destination that
    had to wait for its turn has what was written meanwhile."""
    return claim.empty or claim.held * SPARSE < len(copy.fragment)


def is_beyond(holding: Holding, copy: Copy, claim: Claimed) -> bool:
    """Whether a backup's copy has what its owner's files may lack, and lacks nothing of them.

    Whoever is sure where it stands is compared by that. Else only who had each acknowledged write
    may be taken for more.
    """
    if not copy.is_sound():
        return False
    if claim.reached != (0, 0) or claim.empty:
        return tuple(copy.worth.held.point) > claim.reached
    return not holding.unsure and holding.index <= copy.fragment.settings.backups


def past_page(pull: SyncPull, journal: Journal) -> SyncPage:
    """The end of a journal up to a mutation, as much as fits."""
    mutations = journal.up_to(pull.position, PAGE_BYTES)
    before = pull.position - len(mutations)
    following = before if mutations and before > journal.oldest.counter else 0
    return SyncPage(
        pull.id, pull.partition, pull.name, pull.position, mutations, (), (), following, past=True
    )


def changes_in(fragment: Fragment, changed: Iterable[Mutation], size_max: int) -> Mutations:
    """What has become of the first of these, as many as fit, but of one at least."""
    found: list[Mutation] = []
    size = 0
    for mutation in changed:
        now = change_of(fragment, mutation)
        size += len(now[0]) + len(now[1])
        if size > size_max and found:
            break
        found.append(now)
    return tuple(found)


def changes_page(pull: SyncPull, fragment: Fragment, changed: Mutations) -> SyncPage:
    """Records of what has changed, from a position on, as many as fit."""
    records = changes_in(fragment, changed[pull.position :], PAGE_BYTES)
    end = pull.position + len(records)
    following = end if end < len(changed) else 0
    return SyncPage(pull.id, pull.partition, pull.name, pull.position, records, (), (), following)


def whole_page(pull: SyncPull, fragment: Fragment, keys: Sequence[tuple[int, bytes]]) -> SyncPage:
    """Records from a position on, as many as fit."""
    records: list[tuple[bytes, bytes]] = []
    size, end = 0, pull.position
    while end < len(keys) and size < PAGE_BYTES:
        key = keys[end][1]
        if key in fragment.records:
            record = fragment.record_of(key)
            records.append((key, record))
            size += len(key) + len(record)
        end += 1
    following = end if end < len(keys) else 0
    return SyncPage(
        pull.id, pull.partition, pull.name, pull.position, tuple(records), (), (), following
    )
