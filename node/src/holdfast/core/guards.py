"""What is refused at the door, before anything has changed.

The wire has checked types and ranges that hold for every cluster (`holdfast.wire`). Here is what
depends on *this* node: partitions of its table, the length of its rows, records that it issued.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.context import Context
from holdfast.core.events import Event, Image, Persisted, Received, Started
from holdfast.core.messages import (
    CommitRequest,
    Completed,
    FragmentPush,
    Migration,
    MigrationRequest,
    Publication,
    Report,
    StablePublication,
    StableTable,
    Versions,
)
from holdfast.core.table import Row
from holdfast.errors import LocalProtocolError, MessageError, RecoveryError, TableError


def check_event(event: Event, context: Context) -> None:
    """Raise an error of the tree for an event that this node can't take."""
    match event:
        case Received(message=message):
            try:
                _check_message(message, context)
            except TableError as error:
                text = f"{type(message).__name__} from {event.origin.id}: {error.message}"
                raise MessageError(text, story=context.story()) from error
        case Persisted(sequence=sequence) if sequence > context.outbox.issued:
            text = f"record {sequence} was never issued, only {context.outbox.issued}"
            raise LocalProtocolError(text, story=context.story())
        case Started(image=Image() as image):
            try:
                _check_rows(image.rows, context)
                _check_stable(image.stable, context)
            except TableError as error:
                raise RecoveryError(f"the files do not fit: {error.message}") from error
        case _:
            pass


def _check_message(message: object, context: Context) -> None:
    match message:
        case Publication(rows=rows, completed=completed):
            _check_rows(rows, context)
            _check_completed(completed, context)
        case Report(rows=rows, completed=completed, active=active, stable=stable):
            _check_whole(rows, context)
            _check_completed(completed, context)
            for partition in message.unpublished:
                context.table.row(partition)
            for migration in active:
                _check_migration(migration, context)
            _check_stable(stable, context)
        case Versions(versions=versions):
            context.table.newer_than(versions)
        case StablePublication(stable=stable):
            _check_stable(stable, context)
        case MigrationRequest(migration=migration, completed=completed):
            _check_migration(migration, context)
            _check_completed(completed, context)
        case FragmentPush(migration=migration, completed=completed):
            _check_migration(migration, context)
            _check_completed(completed, context)
        case CommitRequest(migration=migration):
            _check_migration(migration, context)
        case _:
            pass


def _check_rows(rows: Iterable[Row], context: Context) -> None:
    for row in rows:
        context.table.check(row)


def _check_whole(rows: tuple[Row, ...], context: Context) -> None:
    """All rows in order, or none."""
    if rows and [row.partition for row in rows] != list(range(len(context.table))):
        raise TableError(f"{len(rows)} rows are not the whole table of {len(context.table)}")
    _check_rows(rows, context)


def _check_stable(stable: StableTable | None, context: Context) -> None:
    if stable is not None:
        if not stable.rows:
            raise TableError("a stable table without rows")
        _check_whole(stable.rows, context)


def _check_migration(migration: Migration, context: Context) -> None:
    for replicas in (migration.before, migration.after):
        context.table.check(Row(migration.partition, migration.version_before, replicas))


def _check_completed(completed: Iterable[Completed], context: Context) -> None:
    for entry in completed:
        _check_migration(entry.migration, context)
