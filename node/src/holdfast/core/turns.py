"""Messages that one turn of a shell has brought, looked at together where that changes nothing.

A partition that moves takes a dozen messages, and ten move at a time for each member. With one step
each, every machine looked at everything after each of them. Those about single partitions may
follow one another without that: what they do to rows, migrations and data is done when each of them
is handled, and what else follows is seen in one look at the end (`Node`, "advance").

Rules
-----
* The order of what arrived is kept: only neighbours are gathered.
* Whatever changes the view, a lease or a mandate has a step of its own: machines note it between
  two messages.
* Messages of the data plane alone stay alone where all neighbours are such: their step is quicker
  than a look at everything (`QUIET`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from holdfast.core.data_messages import (
    BackupAck,
    BackupFrame,
    Forward,
    Forwarded,
    SyncAsk,
    SyncEnd,
    SyncPage,
    SyncPlan,
    SyncPull,
)
from holdfast.core.events import Commanded, Event, Gathered, Received
from holdfast.core.messages import (
    CommitAck,
    CommitRequest,
    FragmentAck,
    FragmentPush,
    MigrationReady,
    MigrationRequest,
    Publication,
    PublicationAck,
)

QUIET: Final = frozenset((Commanded, BackupAck, BackupFrame, Forward, Forwarded, SyncPull))
"""Events and messages of the data plane alone."""
TOGETHER: Final = frozenset(
    (
        MigrationRequest,
        FragmentPush,
        FragmentAck,
        MigrationReady,
        CommitRequest,
        CommitAck,
        Publication,
        PublicationAck,
        SyncAsk,
        SyncPlan,
        SyncPull,
        SyncPage,
        SyncEnd,
        BackupFrame,
        BackupAck,
    )
)
"""Messages about single partitions."""


def in_turns(happened: Iterable[Event]) -> list[Event]:
    """The same events in the same order; neighbours that may be looked at together are one."""
    found: list[Event] = []
    for together, some in groupby(happened, _may_be_gathered):
        run = list(some)
        if together and len(run) > 1 and not all(_is_quiet(event) for event in run):
            received = tuple(event for event in run if isinstance(event, Received))
            found.append(Gathered(received))
        else:
            found.extend(run)
    return found


def _may_be_gathered(event: Event) -> bool:
    return isinstance(event, Received) and type(event.message) in TOGETHER


def _is_quiet(event: Event) -> bool:
    return isinstance(event, Received) and type(event.message) in QUIET
