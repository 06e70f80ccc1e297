"""Rows by commit: who serves as owner does so by a row that a master has decided.

`design/3` §3: a destination commits first, then the master, and only the publication says that the
migration was a success. Until then the master may take it back. So no member serves by a row that
is newer than every one that a master held, or told of, since it settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.core.messages import FragmentPush, Message, MigrationRequest, Publication
from holdfast.core.table import UNKNOWN
from holdfast.ids import PartitionId, Version
from holdfast.sim.checkers.ownership import Ownership, Place
from holdfast.sim.checkers.watch import Change
from holdfast.sim.process import Process
from holdfast.sim.received import received_in
from holdfast.sim.world import World

_TELLING: Final = frozenset((Publication, MigrationRequest, FragmentPush))


class Published:
    """Who serves has no row that no master has decided."""

    def __init__(self, world: World, ownership: Ownership) -> None:
        self.world = world
        self._ownership = ownership
        self._decided: dict[Place, Version] = {}
        self._leading: dict[Process, int] = {}
        """Settled masters, with the term in which they were seen so."""

    def stepped(self, change: Change) -> None:
        """First what masters decided, then by what the process serves."""
        cluster = change.cluster
        if not cluster:
            return
        for received in received_in(change.event):
            if type(received.message) in _TELLING:
                self._note(cluster, told(received.message))
        self._note_master(change)
        for place in self._ownership.gained:
            self._check(change.process, place)
        for _, row in change.rows:
            place = (cluster, row.partition)
            if self._ownership.claimed(change.process, place):
                self._check(change.process, place)

    def _note_master(self, change: Change) -> None:
        process, view = change.process, change.view
        if view is None or not change.is_master:
            self._leading.pop(process, None)
        elif self._leading.get(process) != view.term:
            self._leading[process] = view.term
            rows = process.node.table.rows
            self._note(view.cluster, ((row.partition, row.version) for row in rows))
        elif change.rows:
            self._note(view.cluster, ((row.partition, row.version) for _, row in change.rows))

    def _note(self, cluster: str, rows: Iterable[tuple[PartitionId, Version]]) -> None:
        for partition, version in rows:
            place = (cluster, partition)
            if version > self._decided.get(place, UNKNOWN):
                self._decided[place] = version

    def _check(self, process: Process, place: Place) -> None:
        row = process.node.table.row(place[1])
        if row.version > self._decided.get(place, UNKNOWN):
            raise self.world.violation(
                "who serves was published",
                f"{process.name} serves by {row}; masters have decided no version beyond"
                f" {self._decided.get(place, UNKNOWN)}",
            )

    def ended(self, process: Process) -> None:
        """What it decided, it decided."""
        self._leading.pop(process, None)


def told(message: Message) -> Iterator[tuple[PartitionId, Version]]:
    """Rows that a message tells as decided: a master may sleep in the step in which it sent it."""
    if isinstance(message, Publication):
        for row in message.rows:
            yield row.partition, row.version
    if isinstance(message, (Publication, MigrationRequest, FragmentPush)):
        for entry in message.completed:
            yield entry.migration.partition, entry.version_after
