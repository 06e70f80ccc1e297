"""Migrations: copies never dip, bounds are kept, nothing begins that the state forbids."""

from __future__ import annotations

from holdfast.core.effects import Notice, NoticeKind, Send
from holdfast.core.messages import Migration, MigrationId, MigrationRequest
from holdfast.core.states import Rebalance
from holdfast.core.table import Row
from holdfast.core.versioning import light_max
from holdfast.core.views import View
from holdfast.ids import MemberId, PartitionId
from holdfast.sim.checkers.watch import Change, newest_before, running
from holdfast.sim.process import Process
from holdfast.sim.world import World


class Moves:
    """What masters decide about data."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._begun: dict[tuple[str, MigrationId], None] = {}
        self._candidates: dict[str, int] = {}
        """How many members a partition could be on when the last plan was made."""
        self._copies: dict[str, list[int]] = {}
        """How many copies each partition had then: the `now` of "never below min(now, target)".
        A plan may add one on its way and take it back later."""

    def stepped(self, change: Change) -> None:
        """Only masters begin migrations and change rows."""
        view = change.view
        if not change.is_master or view is None:
            return
        self._check_begun(change, view)
        self._check_load(change.process)
        for held, after in change.rows:
            before = newest_before(self.world, change, held, after)
            if not change.view_changed and before.replicas != after.replicas:
                self._check_copies(change.process, view, before, after)

    def _check_begun(self, change: Change, view: View) -> None:
        """What begins now was allowed before the step, or is after it."""
        allowed = view.attributes.rebalance is not Rebalance.NO
        begun: list[Notice | Send] = []
        for notice in change.notices:
            if notice.kind is NoticeKind.MIGRATIONS_PLANNED:
                rows = change.process.node.table.rows
                self._copies[view.cluster] = [len(row.holders) for row in rows]
                self._candidates[view.cluster] = len(view.candidates)
                begun.append(notice)
        for sent in change.sends:
            if isinstance(sent.message, MigrationRequest):
                place = (view.cluster, sent.message.migration.id)
                if place not in self._begun:
                    self._begun[place] = None
                    begun.append(sent)
                    self._check_reclaimed(change, view, sent.message.migration)
        if begun and not allowed:
            raise self.world.violation(
                "nothing moves unasked",
                f"{change.process.name} begins migrations in {view.state}: {begun[0]}",
            )

    def _check_reclaimed(self, change: Change, view: View, migration: Migration) -> None:
        """Where the state gives back, nobody else becomes owner, or gets what nobody lacks."""
        stable = change.process.node.stable
        if view.attributes.rebalance is not Rebalance.RECLAIM or stable is None:
            return
        named, before = stable.rows[migration.partition].replicas, migration.before
        asked_for = min(self.world.config.copies_max, len(view.candidates))
        lacking = None in before[:asked_for]
        strangers = [
            member
            for index, member in enumerate(migration.after)
            if member is not None and member not in named
            if (index == 0 and before[0] != member) or not (lacking or member in before)
        ]
        if strangers:
            raise self.world.violation(
                "nothing moves unasked",
                f"{change.process.name} moves to {strangers} in {view.state}: {migration}",
            )

    def _check_load(self, process: Process) -> None:
        limit = light_max(self.world.config.migrations_parallel_max)
        for member, load in process.node.running_load().items():
            if load > limit:
                raise self.world.violation(
                    "bounded migrations", f"{member} takes part in {load}, the limit is {limit}"
                )

    def _check_copies(self, process: Process, view: View, before: Row, after: Row) -> None:
        """A change that is no loss: live copies stay at least min(now, target)."""
        here = running(self.world)
        live = [m for m in before.holders if _holds(here, view, m, before.partition)]
        # A holder that is gone, or not the stay that the view lists, is lost and not moved away.
        kept = [
            m
            for m in after.holders
            if m not in here
            or not view.has(m, here[m].node.me.incarnation)
            or before.partition in here[m].node.fragments
        ]
        if after.version > before.version + 1:  # a move, and the repair after a loss, in one step
            kept += [m for m in before.holders if m not in after.holders and m not in here]
        candidates = self._candidates.get(view.cluster, 0)
        copies = self._copies.get(view.cluster)
        planned = 0 if copies is None else copies[before.partition]
        target = min(len(after.replicas), len(view.candidates), candidates, planned)
        if len(kept) < min(len(live), target):
            raise self.world.violation(
                "copies never dip",
                f"{process.name} changes {before} to {after}: {live} hold it before, {kept} after",
            )

    def ended(self, process: Process) -> None:
        """What it began, it began."""


def _holds(
    here: dict[MemberId, Process], view: View, member: MemberId, partition: PartitionId
) -> bool:
    process = here.get(member)
    if process is None or not view.has(member, process.node.me.incarnation):
        return False
    return partition in process.node.fragments
