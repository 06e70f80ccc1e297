"""Masters: one a term, and never two with a mandate at the same instant.

A node says whether it leads as of its last step; its mandate may have ended since, so it is asked
again for the moment of the comparison.
"""

from __future__ import annotations

from holdfast.sim.checkers.watch import Change
from holdfast.sim.process import Process
from holdfast.sim.world import World


class Masters:
    """Who leads, and who led in which term."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._of_term: dict[tuple[str, int], Process] = {}
        self._leading: dict[Process, None] = {}

    def stepped(self, change: Change) -> None:
        """Look at a process that leads."""
        process, view = change.process, change.view
        if view is None or not change.is_master or not process.node.leads(change.now):
            self._leading.pop(process, None)
            return
        first = self._of_term.setdefault((view.cluster, view.term), process)
        if first is not process:
            raise self.world.violation(
                "one master a term", f"{first.name} and {process.name} lead in term {view.term}"
            )
        self._leading[process] = None
        if len(self._leading) > 1:
            self._compare(process, view.cluster)

    def _compare(self, process: Process, cluster: str) -> None:
        for other in self._leading:
            view = other.node.view
            if other is process or not other.awake or view is None or view.cluster != cluster:
                continue
            if not other.node.leads(other.clock.read(self.world.now)):
                continue
            raise self.world.violation(
                "one mandate at an instant", f"{process.name} and {other.name} both lead"
            )

    def ended(self, process: Process) -> None:
        """It leads no more. A term whose claim it had not persisted was never claimed: nobody
        heard of it, and its next stay may claim it again."""
        self._leading.pop(process, None)
        disk = process.site.disk
        if disk is None:
            return
        for place, first in tuple(self._of_term.items()):
            if first is process and place[1] > disk.promised:
                del self._of_term[place]
