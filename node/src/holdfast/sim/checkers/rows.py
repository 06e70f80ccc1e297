"""Rows of the table: nobody twice, versions only grow, one content for each version.

A master that lost its office unnoticed may have made a version of a row that the next master made
too, with other content. That is sound as long as the older one is no member any more: so contents
are compared among members that the newest view lists.
"""

from __future__ import annotations

from holdfast.core.table import Row
from holdfast.ids import PartitionId, Replicas, Version
from holdfast.sim.checkers.watch import Change, listed, newest_view
from holdfast.sim.process import Process
from holdfast.sim.world import World

Place = tuple[str, PartitionId, Version]


class Rows:
    """What was ever said of each version of each partition."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._contents: dict[Place, Replicas] = {}
        self._disputed: dict[Place, None] = {}

    def stepped(self, change: Change) -> None:
        """Look at the rows that changed."""
        for before, after in change.rows:
            self._check_holders(change.process, after)
            if not change.entered and after.version <= before.version:
                raise self.world.violation(
                    "versions only grow",
                    f"{change.process.name} replaces {before} by {after}",
                )
            self._note(change.cluster, after)
        if self._disputed and (change.rows or change.view_changed):
            self._check_disputed(change)

    def _check_holders(self, process: Process, row: Row) -> None:
        if len(set(row.holders)) != len(row.holders):
            raise self.world.violation("no member twice in a row", f"{process.name} holds {row}")

    def _note(self, cluster: str, row: Row) -> None:
        if not cluster or row.version < 0:
            return
        place = (cluster, row.partition, row.version)
        if self._contents.setdefault(place, row.replicas) != row.replicas:
            self._disputed[place] = None

    def _check_disputed(self, change: Change) -> None:
        """Two contents of one version, both held by members of the newest view."""
        cluster = change.cluster
        view = newest_view(self.world, cluster)
        # whoever doesn't know yet that it is listed begins anew when it learns it
        here = [
            process
            for process in self.world.processes
            if listed(process, view) and listed(process, process.node.view)
        ]
        for place in self._disputed:
            if place[0] != cluster:
                continue
            _, partition, version = place
            rows = {
                process.name: row.replicas
                for process in here
                if (row := process.node.table.row(partition)).version == version
            }
            if len(set(rows.values())) > 1:
                raise self.world.violation(
                    "one content for each version",
                    f"partition {partition} version {version}: {rows}",
                )

    def ended(self, process: Process) -> None:
        """What it held, it held."""
