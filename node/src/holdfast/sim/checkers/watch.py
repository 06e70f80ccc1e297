"""What a step changed, worked out once for all checkers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.effects import Answer, Effect, Notice, NoticeKind, Send
from holdfast.core.events import Event
from holdfast.core.messages import Fragment
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import MemberId, Millis, PartitionId, Version
from holdfast.sim.process import Process
from holdfast.sim.world import World


@dataclass(slots=True)
class Change:
    """One step of one process: what came, what went, what is different.

    All of it is worked out at once, as many look at it.
    """

    process: Process
    event: Event
    now: Millis
    """What the clock of the process says at this very moment."""
    sends: Sequence[Send]
    """Of what went out, in its order; here the messages."""
    notices: Sequence[Notice]
    answers: Sequence[Answer]
    view_before: View | None
    view: View | None
    """The view after the step."""
    view_changed: bool
    cluster: str
    """The cluster after the step; empty outside of any."""
    rows: Sequence[tuple[Row, Row]]
    """Rows that changed: before, after."""
    fragments_before: Mapping[PartitionId, Fragment] | None
    """None when the data is what it was."""
    is_master: bool
    late: bool
    """The process was paused in the middle of the step: the others have gone on since."""
    entered: bool
    """A stay begins: what was held before counts no more."""

    @property
    def at_us(self) -> int:
        """When the step was made."""
        return self.process.stepped_us

    @property
    def at(self) -> Millis:
        """The same moment on the clock of the process."""
        return self.process.stepped_at


class Checker(Protocol):
    """One invariant, or a few about one subject."""

    def stepped(self, change: Change) -> None:
        """A process made a step."""

    def ended(self, process: Process) -> None:
        """A process is gone."""


class Watch:
    """Works out what changed and shows it to each checker."""

    def __init__(self, world: World, checkers: Sequence[Checker]) -> None:
        self.world = world
        self.checkers = checkers
        self._looks = [checker.stepped for checker in checkers]

    def stepped(self, process: Process, event: Event, effects: Sequence[Effect]) -> None:
        """A step was made: compare with the last one."""
        change = changed(self.world, process, event, effects)
        for look in self._looks:
            look(change)
        seen, node = process.seen, process.node
        seen.view = change.view
        seen.incarnation = node.me.incarnation
        seen.rows = node.table.rows
        if change.fragments_before is not None:
            seen.fragments = dict(node.fragments)

    def ended(self, process: Process) -> None:
        """A process is gone."""
        for checker in self.checkers:
            checker.ended(process)


def changed(world: World, process: Process, event: Event, effects: Sequence[Effect]) -> Change:
    """Compare a process with what it was at the end of its last step."""
    node, seen = process.node, process.seen
    view = node.view
    late = process.stepped_us != world.now
    return Change(
        process=process,
        event=event,
        now=process.clock.read(world.now) if late else process.stepped_at,
        sends=[effect for effect in effects if type(effect) is Send],
        notices=[effect for effect in effects if type(effect) is Notice],
        answers=[effect for effect in effects if type(effect) is Answer],
        view_before=seen.view,
        view=view,
        view_changed=view is not seen.view,
        cluster="" if view is None else view.cluster,
        rows=_changed_rows(seen.rows, node.table.rows),
        fragments_before=seen.fragments if node.fragments != seen.fragments else None,
        is_master=node.is_master,
        late=late,
        entered=_entered(process, view),
    )


def _changed_rows(before: Sequence[Row], rows: Sequence[Row]) -> Sequence[tuple[Row, Row]]:
    """Before a first step there is nothing but rows that nobody has heard of."""
    if before is rows:
        return ()
    if not before:
        before = tuple(Row(row.partition, Version(-1), row.replicas) for row in rows)
    return [(old, new) for old, new in zip(before, rows, strict=True) if old != new]


def _entered(process: Process, view: View | None) -> bool:
    """Whether the process is listed with a stay with which it was not listed before."""
    seen, me = process.seen, process.node.me
    if me.incarnation != seen.incarnation:
        return True
    if view is seen.view:
        return False
    return not (seen.view is not None and seen.view.has(me.id, me.incarnation))


def newest_before(world: World, change: Change, held: Row, after: Row) -> Row:
    """What a row was: a master that settles may have held an older one than others did. What comes
    of a migration that is taken back in this step never was, although a destination may hold it."""
    if _is_taken_back(held.partition, change.notices):
        return held
    rows = (
        process.node.table.row(after.partition)
        for process in world.processes
        if listed(process, change.view)
    )
    older = (row for row in rows if held.version < row.version < after.version)
    return max(older, key=lambda row: row.version, default=held)


def _is_taken_back(partition: PartitionId, notices: Sequence[Notice]) -> bool:
    return any(
        notice.kind is NoticeKind.MIGRATION_ENDED
        and notice.detail.startswith("failed")
        and partition_of(notice.about) == partition
        for notice in notices
    )


def listed(process: Process, view: View | None) -> bool:
    """Whether a view lists the very stay of this process."""
    me = process.node.me
    return view is not None and view.has(me.id, me.incarnation)


def newest_view(world: World, cluster: str) -> View | None:
    """The newest view that any running process of a cluster holds."""
    views = [
        process.node.view
        for process in world.processes
        if process.node.view is not None and process.node.view.cluster == cluster
    ]
    return max(views, key=lambda view: view.key, default=None)


def running(world: World) -> dict[MemberId, Process]:
    """The processes by who they are."""
    return {process.node.me.id: process for process in world.processes}


def partition_of(about: str) -> PartitionId:
    """The number in a notice about a partition."""
    return PartitionId(int(about.rsplit(" ", 1)[-1]))


def names(processes: Iterator[Process] | Sequence[Process]) -> str:
    """For messages."""
    return ", ".join(process.name for process in processes)
