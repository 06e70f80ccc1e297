"""Views: one content for each, keys only grow, nobody joins whom the state keeps out."""

from __future__ import annotations

from holdfast.core.states import Joins
from holdfast.core.views import View
from holdfast.ids import MemberId
from holdfast.sim.checkers.watch import Change
from holdfast.sim.process import Process
from holdfast.sim.world import World


class Views:
    """Every view that anyone ever held."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._contents: dict[tuple[str, int, int], View] = {}
        self._known: dict[str, set[MemberId]] = {}
        """Members that a cluster ever had."""

    def stepped(self, change: Change) -> None:
        """Look at a view that is new to the process."""
        view = change.view
        if view is None or not change.view_changed:
            return
        before = change.view_before
        same = before is not None and before.cluster == view.cluster
        if before is not None and same and not change.entered and view.key <= before.key:
            raise self.world.violation(
                "views only grow", f"{change.process.name} goes from {before.key} to {view.key}"
            )
        self._note(change, view)

    def _note(self, change: Change, view: View) -> None:
        place = (view.cluster, view.term, view.version)
        known = self._contents.get(place)
        if known is None:
            self._contents[place] = view
            self._check_joins(change, view)
            self._known.setdefault(view.cluster, set()).update(m.id for m in view.members)
        elif known != view:
            raise self.world.violation(
                "one content for each view",
                f"{view.key} of {view.cluster} at {change.process.name}: {view}, elsewhere {known}",
            )

    def _check_joins(self, change: Change, view: View) -> None:
        before = change.view_before
        if before is None or before.cluster != view.cluster:
            return
        known = self._known.get(view.cluster, set())
        held = {member.id for member in before.members}
        for member in view.members:
            if member.id in held:
                continue
            # who decides alone may change the state and then let somebody in, all in one step
            several = view.version > before.version + 1
            states = (before, view) if several else (before,)
            allowed = (Joins.ANYONE, Joins.EXPECTED) if member.id in known else (Joins.ANYONE,)
            if not any(state.attributes.joins in allowed for state in states):
                raise self.world.violation(
                    "joins as the state allows",
                    f"{member.id} joins in {before.state} (joins: {before.attributes.joins})",
                )

    def ended(self, process: Process) -> None:
        """A view that it made and had not persisted yet was never told to anyone: the gate of the
        core holds it back. Its next stay may make that version again."""
        disk = process.site.disk
        if disk is None:
            return
        stable = (0, 0) if disk.view is None else disk.view.key
        for place, view in tuple(self._contents.items()):
            if view.master == process.member.id and view.key > stable:
                del self._contents[place]
