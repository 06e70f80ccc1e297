"""What tests of checkers share: a small cluster of fakes, and what happens in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.core.effects import (
    Effect,
    Persist,
    Record,
    Send,
)
from holdfast.core.events import Received
from holdfast.core.messages import (
    Completed,
    Fragment,
    Message,
    Migration,
    MigrationId,
    Outcome,
)
from holdfast.core.views import View
from holdfast.errors import InvariantViolated
from holdfast.ids import Millis, PartitionId, Replicas, Term, Version
from holdfast.sim.checkers.watch import Checker, Watch
from holdfast.sim.process import Process
from holdfast.sim.timeline import SECOND
from holdfast.sim.world import World
from tests.sim.fakes import fake, install, make_world, start, wake

P0 = PartitionId(0)
FOREVER = (Millis(0), Millis(2**60))
DATA = Fragment(0, 0)


class Scene:
    """Three members of one cluster, led by the first, and one checker that watches them."""

    def __init__(self, *makers: Callable[[World], Checker], persistent: bool = False) -> None:
        self.world = make_world(3, persistent=persistent)
        self.world.observers = [Watch(self.world, [make(self.world) for make in makers])]
        self.a, self.b, self.c = self.all = start(self.world)
        self.world.run_until(SECOND)
        fake(self.a).is_master = True
        self.view = install(self.all)
        for process in self.all:
            wake(self.world, process)

    def out(self, process: Process, *effects: Effect) -> None:
        """A step in which this comes out."""
        fake(process).script = [effects]
        wake(self.world, process)

    def get(self, process: Process, sender: Process, message: Message, *effects: Effect) -> None:
        """A step in which a message arrives."""
        fake(process).script = [effects]
        self.world.give(process, Received(sender.node.origin, message))

    def row(self, version: int, *holders: Process, at: Process | None = None) -> None:
        for process in self.all if at is None else [at]:
            fake(process).put(0, version, *(holder.node.me.id for holder in holders))

    def next(self, *processes: Process, **changes: object) -> View:
        """The next view, at some."""
        version = Version(self.view.version + 1)
        self.view = replace(self.view, version=version, **changes)  # type: ignore[arg-type]
        return install(processes, self.view)

    def without(self, gone: Process, *at: Process) -> None:
        """A view that a member has left."""
        view = self.view.without_member(gone.node.me.id)
        self.next(*at, members=view.members, departed=view.departed)


def fires(invariant: str) -> pytest.RaisesExc[InvariantViolated]:
    return pytest.raises(InvariantViolated, match=f"^{invariant}")


def migration(scene: Scene) -> Migration:
    """Partition 0 from the second member to the third."""
    before: Replicas = (scene.b.node.me.id, None)
    after: Replicas = (scene.c.node.me.id, None)
    return Migration(MigrationId(Term(1), 1), P0, Version(1), (), before, after)


def sent(to: Process, message: Message) -> Send:
    return Send(to.site.address, message)


def ended(scene: Scene) -> dict[PartitionId, tuple[Completed, ...]]:
    return {P0: (Completed(migration(scene), Outcome.SUCCESS),)}


def on_disk(process: Process, *records: Record) -> None:
    disk = process.site.disk
    assert disk is not None
    for sequence, record in enumerate(records, 1):
        disk.write(Persist(sequence, record))
    disk.sync(len(records))
