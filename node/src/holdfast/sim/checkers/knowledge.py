"""What a master may take for known: the members, before it plans; ends, before it forgets them.

`design/3` §8 and §3: nothing is assigned before all members have the view that says who is data
and who is lite; a completed migration is told until all members have the row that it ended with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.core.effects import NoticeKind
from holdfast.core.messages import Completed
from holdfast.core.views import View
from holdfast.ids import PartitionId, Term
from holdfast.sim.checkers.watch import Change, listed
from holdfast.sim.process import Process
from holdfast.sim.world import World

Ends = Mapping[PartitionId, Sequence[Completed]]


class Plans:
    """A plan is made when everyone knows the members: all that are listed hold its view."""

    def __init__(self, world: World) -> None:
        self.world = world

    def stepped(self, change: Change) -> None:
        """Look at a plan when it is made: for the members as they were before the step."""
        view = change.view_before
        if not change.notices or view is None or change.late or not _plans(change):
            return
        for process in self.world.processes:
            held = process.node.view
            if listed(process, view) and (held is None or held.key < view.key):
                raise self.world.violation(
                    "a plan is made when everyone knows the members",
                    f"{change.process.name} plans for view {view.key}, {process.name} holds"
                    f" {None if held is None else held.key}",
                )

    def ended(self, process: Process) -> None:
        """What it planned, it planned."""


def _plans(change: Change) -> bool:
    return any(notice.kind is NoticeKind.MIGRATIONS_PLANNED for notice in change.notices)


class Endings:
    """A master forgets how a migration ended only when every listed member has its row."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._told: dict[Process, tuple[Term, Ends]] = {}

    def stepped(self, change: Change) -> None:
        """Look at what a master tells no more."""
        process, view = change.process, change.view
        if view is None or not change.is_master:
            self._told.pop(process, None)
            return
        ends = process.node.known_ends()
        term, told = self._told.get(process, (view.term, {}))
        if term == view.term:
            if told == ends:
                return
            for entry in _forgotten(told, ends):
                self._check(change, view, entry)
        self._told[process] = (view.term, dict(ends))

    def _check(self, change: Change, view: View, entry: Completed) -> None:
        partition = entry.migration.partition
        for process in self.world.processes:
            if not (listed(process, view) and listed(process, change.view_before)):
                continue
            version = process.node.table.row(partition).version
            if version < entry.version_after:
                raise self.world.violation(
                    "an end is told until everyone knows",
                    f"{change.process.name} forgets that migration {entry.migration.id} ended"
                    f" partition {partition} at version {entry.version_after}; {process.name}"
                    f" holds version {version}",
                )

    def ended(self, process: Process) -> None:
        """Whoever leads next asks everyone."""
        self._told.pop(process, None)


def _forgotten(told: Ends, ends: Ends) -> Iterator[Completed]:
    for partition, entries in told.items():
        kept = ends.get(partition, ())
        for entry in entries:
            if entry not in kept:
                yield entry
