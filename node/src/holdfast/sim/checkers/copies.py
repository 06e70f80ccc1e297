"""Copies: whoever its own row names has the data of the partition, and of the row's history.

`design/3` §3: an index stands for a copy. The source of a migration keeps its data until the
publication has taken its index away; a destination has the data before its row names it. What the
data is can't be told here, but whether it is there can: what is dropped is gone, though a
later step may put an empty one in its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.table import Row
from holdfast.sim.checkers.watch import Change, listed
from holdfast.sim.process import Process
from holdfast.sim.world import World


class Copies:
    """Whoever is named has the data."""

    def __init__(self, world: World) -> None:
        self.world = world

    def stepped(self, change: Change) -> None:
        """Look at rows that changed, data that changed, and all of it when a stay begins."""
        if not (change.rows or change.entered or change.fragments_before is not None):
            return
        process = change.process
        if not listed(process, change.view):
            return
        node = process.node
        for row in _touched(change):
            if node.me.id not in row.replicas:
                continue
            held = node.fragments.get(row.partition)
            if held is None or held.epoch != row.epoch:
                raise self.world.violation(
                    "whoever is named has the data", f"{process.name} holds {row} and {held}"
                )

    def ended(self, process: Process) -> None:
        """What it had, it had."""


def _touched(change: Change) -> Iterator[Row]:
    table = change.process.node.table
    if change.entered:
        yield from table.rows
        return
    for _, row in change.rows:
        yield row
    held = change.process.node.fragments
    for partition, fragment in (change.fragments_before or {}).items():
        if held.get(partition) != fragment:
            yield table.row(partition)
