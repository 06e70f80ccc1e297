"""Losses: a partition is lost only when nobody who is awaited can bring its data back.

`design/3` §2, §7 and §9: who left is awaited with its data, be it down with its disk or cut off
and running: for ever where the state does not promote; with a stable table until
`stable_repair_after`; else for `rejoin_grace`. The master's clock and the world's may differ by
what the seed drew, so the last part of that time is not judged.
"""

from __future__ import annotations

from holdfast.core.effects import NoticeKind
from holdfast.core.states import Attributes
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import MemberId, PartitionId
from holdfast.sim.checkers.watch import Change, partition_of, running
from holdfast.sim.process import Process
from holdfast.sim.timeline import MILLISECOND
from holdfast.sim.world import World


class Losses:
    """A partition is given away only when nobody is awaited that has its data."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._newest: dict[str, View] = {}
        self._left_us: dict[tuple[str, MemberId], int] = {}
        """Since when a member is not listed."""

    def stepped(self, change: Change) -> None:
        """Note who left; look at what is called lost."""
        view = change.view
        if view is None:
            return
        if change.view_changed:
            self._note(change, view)
        for notice in change.notices:
            if notice.kind is NoticeKind.PARTITION_LOST:
                self._check(change, view, partition_of(notice.about))

    def _note(self, change: Change, view: View) -> None:
        """Of a master's step the moment counts, even if others saw its view before it went on."""
        known = self._newest.get(view.cluster)
        if known is None or view.key > known.key:
            self._newest[view.cluster] = view
        before = change.view_before if view.master == change.process.node.me.id else known
        if before is None or before.cluster != view.cluster or before.key > view.key:
            return
        for member in before.members:
            if view.find(member.id) is None:
                place = (view.cluster, member.id)
                self._left_us[place] = min(self._left_us.get(place, change.at_us), change.at_us)
        if view is self._newest[view.cluster]:
            for member in view.members:
                self._left_us.pop((view.cluster, member.id), None)

    def _check(self, change: Change, view: View, partition: PartitionId) -> None:
        row = next((old for old, _ in change.rows if old.partition == partition), None)
        for member in () if row is None else row.holders:
            if self._awaited(change, view, member) and self._has_data(member, row):
                raise self.world.violation(
                    "lost only when nobody is awaited",
                    f"{change.process.name} says that partition {partition} is lost, but {member}"
                    f" is awaited in {view.state} and has its data",
                )

    def _awaited(self, change: Change, view: View, member: MemberId) -> bool:
        """Whether it is, by the state before the step and after it."""
        left_us = self._left_us.get((view.cluster, member))
        before = change.view_before
        if left_us is None or before is None:
            return False
        return all(
            any(gone.id == member for gone in each.departed)
            and self._waits(each.attributes, change.at_us - left_us)
            for each in (before, view)
        )

    def _waits(self, attributes: Attributes, gone_us: int) -> bool:
        config = self.world.config
        if not attributes.promotes_on_loss:
            return True
        after: int | None = config.rejoin_grace_ms
        if attributes.keeps_stable_table:
            after = config.stable_repair_after_ms
        skew = 4 * self.world.shell.clock_skew
        gone_us += 2 * MILLISECOND  # clocks are read in whole ones
        return after is None or gone_us * (1_000_000 + skew) < after * MILLISECOND * 1_000_000

    def _has_data(self, member: MemberId, row: Row | None) -> bool:
        assert row is not None
        process = running(self.world).get(member)
        if process is not None:
            held = process.node.fragments.get(row.partition)
            return held is not None and held.epoch == row.epoch
        for site in self.world.sites:
            if site.member == member and site.disk is not None:
                held = site.disk.fragment(row.partition)
                return held is not None and held.epoch == row.epoch
        return False

    def ended(self, process: Process) -> None:
        """Who left is told by views."""
