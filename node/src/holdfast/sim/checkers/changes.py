"""Changes of the state or the level: they find everyone settled, and leave one stable table.

`design/3` §7: what a change was checked for it is checked for again under the lock. So in the very
step in which a master's view takes the new state, every member that is listed holds the view that
it follows on, all tables are the same, and nobody takes part in a migration. Hence everyone can
take the stable table of the change from its own table, and gets the same.
"""

from __future__ import annotations

from holdfast.core.effects import NoticeKind
from holdfast.core.messages import StableTable
from holdfast.core.table import Row, stamp_of
from holdfast.core.views import View, ViewKey
from holdfast.sim.checkers.watch import Change, listed
from holdfast.sim.process import Process
from holdfast.sim.world import World


class Changes:
    """A change finds everyone settled: one view, one table, no migration under way."""

    def __init__(self, world: World) -> None:
        self.world = world

    def stepped(self, change: Change) -> None:
        """Look at the step in which a master decides a change."""
        if not change.view_changed or change.late:
            return
        before, view = change.view_before, change.view
        if before is None or view is None or not _decides(change, before, view):
            return
        stamps, key = _stamps(change), _followed(change, before)
        for process in self.world.processes:
            if process is not change.process and listed(process, before) and listed(process, view):
                reason = _unsettled(process, key, stamps)
                if reason:
                    raise self.world.violation(
                        "a change finds everyone settled",
                        f"{change.process.name} goes from {before.state} to {view.state}"
                        f" (level {before.level} to {view.level}), but {process.name} {reason}",
                    )

    def ended(self, process: Process) -> None:
        """What it decided, it decided."""


def _decides(change: Change, before: View, view: View) -> bool:
    """Whether a master made this view in this step, with another state or level."""
    if view.master != change.process.node.me.id or view.term != before.term:
        return False
    return (view.state, view.level) != (before.state, before.level)


def _stamps(change: Change) -> tuple[int, ...]:
    """The master's table before and after the step: the rows may have changed behind the change."""
    table = change.process.node.table
    if not change.rows:
        return (table.stamp,)
    versions = list(table.versions)
    for old, _ in change.rows:
        versions[old.partition] = old.version
    return table.stamp, stamp_of(versions)


def _followed(change: Change, before: View) -> ViewKey:
    """The view that the change follows on: another one when members left in the same step."""
    for notice in change.notices:
        if notice.kind is NoticeKind.MEMBER_LEFT:
            return before.term, before.version + 1
        if notice.kind in (NoticeKind.STATE_CHANGED, NoticeKind.LEVEL_CHANGED):
            break
    return before.key


def _unsettled(process: Process, key: ViewKey, stamps: tuple[int, ...]) -> str:
    node = process.node
    held = node.view
    if held is None or held.key < key:
        return f"holds view {None if held is None else held.key} and not {key}"
    if node.active_migrations():
        return f"takes part in migration {node.active_migrations()[0].id}"
    if node.table.stamp not in stamps:
        return "holds another table"
    return ""


class StableTables:
    """One stable table for each change: whoever keeps one has the same rows."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._rows: dict[tuple[str, int, int], tuple[Row, ...]] = {}
        self._held: dict[Process, StableTable | None] = {}

    def stepped(self, change: Change) -> None:
        """Look at a stable table that is new to the process."""
        process = change.process
        stable = process.node.stable
        if stable is self._held.get(process):
            return
        self._held[process] = stable
        if stable is None:
            return
        place = (change.cluster, stable.term, stable.version)
        rows = self._rows.setdefault(place, stable.rows)
        if rows != stable.rows:
            differ = [
                f"{mine}, elsewhere {theirs}"
                for mine, theirs in zip(stable.rows, rows, strict=True)
                if mine != theirs
            ]
            raise self.world.violation(
                "one stable table for each change",
                f"{process.name} keeps as of {place[1:]}: {'; '.join(differ)}",
            )

    def ended(self, process: Process) -> None:
        """What it kept, it kept."""
        self._held.pop(process, None)
