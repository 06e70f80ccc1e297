"""What leaves a member with files is on its disk: a restart forgets nothing that others were told.

Looked at when a message leaves, against what the disk would give back if the process ended at that
instant and nothing more reached the platter. That covers every crash, also those that don't happen.

    message                     needs on the disk
    Claim, Promise (granted)    the term that it binds the sender to
    Heartbeat, NewView, Grant   the view that it names
    Publication, Report         the rows that it carries, but what is the sender's own and it did
                                not go by yet: its files must not say that it led
    PublicationAck              the rows that it confirms
    CommitAck                   the row, and the data that came with it

A message may leave later than it was made. So an own row that its sender goes by since then needs
no more than to be on its way to the disk: whatever comes of going by it waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.core.messages import (
    Claim,
    CommitAck,
    CommitRequest,
    Grant,
    Heartbeat,
    Migration,
    MigrationId,
    NewView,
    Promise,
    Publication,
    PublicationAck,
    Report,
)
from holdfast.core.table import Row
from holdfast.core.views import ViewKey
from holdfast.ids import PartitionId, Version
from holdfast.sim.checkers.watch import Change
from holdfast.sim.disk import Disk
from holdfast.sim.process import Process
from holdfast.sim.received import received_in
from holdfast.sim.world import World

Held = tuple[tuple[PartitionId, Version], ...]


class Memory:
    """What a member sent survives its restart."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._publications: dict[Process, dict[tuple[int, int], Held]] = {}
        """Rows that wait to be confirmed, by term and sequence."""
        self._commits: dict[Process, dict[MigrationId, Migration]] = {}
        self._withheld: dict[Process, dict[PartitionId, Version]] = {}
        """The newest of its own rows that it did not go by at the end of a step."""

    def stepped(self, change: Change) -> None:
        """Look at what leaves."""
        process = change.process
        disk = process.site.disk
        if disk is None:
            return
        if change.entered:
            # what a former stay has not confirmed yet, nobody waits for
            self._wait_no_more(process)
        self._note(change)
        for sent in change.sends:
            if type(sent.message) not in _SAYING:
                continue
            lacks = self._lacks(process, disk, sent.message)
            if lacks:
                raise self.world.violation(
                    "what was sent survives a restart",
                    f"{process.name} sends {sent.message}; its disk has {lacks}",
                )

    def _note(self, change: Change) -> None:
        """Keep what an answer will stand for, and what it does not go by yet."""
        process = change.process
        for partition in process.node.withheld():
            version = process.node.table.row(partition).version
            self._withheld.setdefault(process, {})[partition] = version
        for received in received_in(change.event):
            message = received.message
            if isinstance(message, Publication):
                rows = tuple((row.partition, row.version) for row in message.rows)
                waiting = self._publications.setdefault(process, {})
                waiting[message.term, message.sequence] = rows
            elif isinstance(message, CommitRequest):
                commits = self._commits.setdefault(process, {})
                commits[message.migration.id] = message.migration

    def _lacks(self, process: Process, disk: Disk, message: object) -> str:
        """What the disk has instead of what the message says; empty when all is there."""
        if isinstance(message, PublicationAck):
            key = (message.term, message.sequence)
            return _lacks_rows(disk, self._publications.get(process, {}).pop(key, ()))
        if isinstance(message, CommitAck):
            return _lacks_commit(disk, self._commits.get(process, {}).get(message.id))
        if isinstance(message, Publication | Report):
            return _lacks_rows(disk, self._held(process, disk, message.rows))
        if isinstance(message, NewView) and message.view.master != process.node.me.id:
            return ""
        look = _LOOKS.get(type(message))
        return "" if look is None else look(disk, message)

    def _held(self, process: Process, disk: Disk, rows: Iterable[Row]) -> Held:
        """Those that must be on the disk."""
        me = process.node.me.id
        return tuple(
            (row.partition, row.version)
            for row in rows
            if row.owner != me or not self._was_withheld(process, disk, row)
        )

    def _was_withheld(self, process: Process, disk: Disk, row: Row) -> bool:
        """Whether it may not have gone by a row of its own when it made what leaves now."""
        if row.partition in process.node.withheld():
            return True
        newest = self._withheld.get(process, {}).get(row.partition, -1)
        return row.version <= newest and disk.is_writing(row)

    def ended(self, process: Process) -> None:
        """Whatever it confirmed, it confirmed."""
        self._wait_no_more(process)
        self._withheld.pop(process, None)

    def _wait_no_more(self, process: Process) -> None:
        self._publications.pop(process, None)
        self._commits.pop(process, None)


def _lacks_rows(disk: Disk, rows: Iterable[tuple[PartitionId, Version]]) -> str:
    for partition, version in rows:
        row = disk.row(partition)
        if version >= 0 and (row is None or row.version < version):
            return f"{row} for version {version} of partition {partition}"
    return ""


def _lacks_commit(disk: Disk, migration: Migration | None) -> str:
    if migration is None:
        return ""
    partition, version = migration.partition, migration.version_committed
    row = disk.row(partition)
    if row is not None and row.version == version and disk.fragment(partition) is None:
        return f"no data of partition {partition}"
    return _lacks_rows(disk, ((partition, version),))


def _lacks_term(disk: Disk, term: int) -> str:
    return "" if disk.promised >= term else f"term {disk.promised}"


def _lacks_view(disk: Disk, key: ViewKey) -> str:
    held = (0, 0) if disk.view is None else disk.view.key
    return "" if held >= key else f"view {held}"


def _look_at_promise(disk: Disk, message: Promise) -> str:
    binds = message.granted and not message.probe
    return _lacks_term(disk, message.claimed) if binds else ""


def _look_at_claim(disk: Disk, message: Claim) -> str:
    return "" if message.probe else _lacks_term(disk, message.term)


def _look_at_new_view(disk: Disk, message: NewView) -> str:
    return _lacks_view(disk, message.view.key)


def _look_at_numbers(disk: Disk, message: Heartbeat | Grant) -> str:
    return _lacks_view(disk, (message.term, message.version))


_LOOKS: Final[dict[type, Callable[[Disk, Any], str]]] = {
    Promise: _look_at_promise,
    Claim: _look_at_claim,
    NewView: _look_at_new_view,
    Heartbeat: _look_at_numbers,
    Grant: _look_at_numbers,
}
_SAYING: Final = frozenset((*_LOOKS, Publication, Report, PublicationAck, CommitAck))
