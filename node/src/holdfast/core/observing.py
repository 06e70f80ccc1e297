"""What a member says of itself to people and machines that watch, and what follows for the cluster.

Rules
-----
* Looking changes nothing. A `Report` is made when somebody asks for it.
* No single member knows whether every copy is in sync: a backup that missed the last mutation may
  not know it, and an owner does not know what a backup lacks. So *safe* is judged (`judge`) from
  the reports of all members, which must be of one view and of one table.
* In sync is a copy that lacks nothing as far as it knows, and stands, in the owner's present reign,
  no lower than its owner stood when *that* was asked. Under load the owner is asked first and the
  backup again, so writes on their way do not make a cluster look unsafe.
* Nothing is promised about indexes beyond the most backups that any name asks for.
* Whatever is not known is not safe: a member that does not answer, an unconfirmed table.

States
------
None.

What can go wrong
-----------------
*A place is the sum over all names of a partition.* Where one name lacks something that nobody has
noticed, and another one grew by as much between the two questions, the sum does not tell. Copies
notice what they lack by the next mutation or by the owner's next round (`data.checks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.core.config import Config
from holdfast.core.data.copies import Holding
from holdfast.core.membership import Phase
from holdfast.core.messages import Ask, Migration
from holdfast.core.node import Node
from holdfast.core.rebalancing import Activity
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import NO_INDEX, MemberId, Millis, PartitionId

RESENDS_OF_PATIENCE: Final = 5
"""A busy backup is a little late; one that was told as often as this has a trouble of its own."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far one member's copy of one partition is."""

    partition: PartitionId
    index: int
    standing: tuple[int, ...]
    """Of an owner: the mutations that each index has to have, from 1 on. Of a backup: those that
    its own index has."""
    lacking: bool
    """Whether the member knows that it lacks something."""


Places = Mapping[tuple[MemberId, PartitionId, int], Place]


@dataclass(frozen=True, slots=True)
class Lag:
    """Mutations on their way to one member."""

    member: MemberId
    frames: int
    bytes: int
    silent_ms: int
    """Since it acknowledged something, as long as something is to be acknowledged."""


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A change of the state or level that is under way."""

    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What one member knows of itself."""

    member: MemberId
    incarnation: int
    term: int
    version: int
    """Of its newest view; 0 and 0 for none."""
    stamp: int
    unready: str
    """Why it can't serve; empty when it can."""
    troubles: tuple[str, ...]
    """What keeps the cluster from being safe, as far as this member is concerned."""
    places: tuple[Place, ...]
    pending: PendingChange | None
    """Of a master: the change that is under way."""
    warnings: tuple[str, ...] = ()
    """What it can't do although it serves."""
    data_bytes: int = 0
    data_bytes_max: int = 0
    """What its data takes, roughly, and may take; 0 for no limit."""


@dataclass(frozen=True, slots=True)
class Safety:
    """Whether the cluster could lose any one holder of any partition and lose no data."""

    safe: bool
    reasons: tuple[str, ...]
    missing_copies: int
    """Promised copies that no member is named for."""
    unsynced_copies: int
    """Copies that are named, and behind."""


@dataclass(frozen=True, slots=True)
class NameSize:
    """What one member has of one name."""

    name: bytes
    owned_entries: int
    owned_bytes: int
    backup_entries: int
    backup_bytes: int


@dataclass(frozen=True, slots=True)
class MigrationsSeen:
    """What the master does about the table."""

    activity: str
    planned: int
    """Of the present plan, with those that have ended."""
    completed: int
    failed: int
    waiting: int
    """Not begun."""
    moved: int
    """Bytes of keys and values that came over."""
    running: tuple[tuple[Migration, str, Millis], ...]
    """Each with its course and when it began, on the master's clock."""


# One member ---------------------------------------------------------------------------------------


def backups_promised(config: Config) -> int:
    """The most backups that any name asks for, and a row has room for."""
    kinds = (config.unnamed, *config.names.values())
    return min(max(each.copies for each in kinds), config.replica_count) - 1


def unready(node: Node, now: Millis) -> str:
    """Why this member can't serve; empty when it can."""
    view = node.view
    if node.phase is not Phase.MEMBER or view is None or not node.context.listed:
        return "stopped" if node.stopped else "in no cluster yet"
    if view.founding:
        return "the cluster is being founded"
    if not node.membership.loaded:
        return "loading its data"
    if view.recovering:
        return "the cluster is still starting"
    until = node.election.mandate_until if node.is_master else node.membership.lease_until
    return "" if now < until else "no lease from a master that holds a majority"


def report(node: Node, now: Millis) -> Report:
    """What this member says of itself."""
    view = node.view
    return Report(
        member=node.me.id,
        incarnation=node.me.incarnation,
        term=0 if view is None else view.term,
        version=0 if view is None else view.version,
        stamp=node.table.stamp,
        unready=unready(node, now),
        troubles=tuple(troubles(node, now)),
        places=tuple(_places(node)),
        pending=pending_change(node),
        warnings=warnings(node),
        data_bytes=node.data.memory.measure(),
        data_bytes_max=node.context.config.memory_max_bytes,
    )


def warnings(node: Node) -> tuple[str, ...]:
    """What a member can't do although it serves. It is no less safe for that, so nothing that
    would give it room has to wait."""
    told = []
    if node.context.disk_full:
        told.append("the disk is nearly full: writes are refused until there is room")
    if node.context.memory_full:
        told.append(
            f"the data takes more than {node.context.config.memory_max_bytes} bytes: commands that"
            " need more memory are refused until some is free"
        )
    return tuple(told)


def _places(node: Node) -> Iterator[Place]:
    promised = backups_promised(node.context.config)
    for partition, holding in node.data.holdings.here.items():
        row = node.table.row(partition)
        index = row.index_of(node.me.id)
        if index == 0:
            leads = node.data.leads(row)
            yield Place(partition, 0, _owed(holding, promised), lacking=not leads)
        elif 0 < index <= promised:
            lacking = holding.lacking() or holding.index != index
            yield Place(partition, index, (_kept(holding, row, index),), lacking)


def _owed(holding: Holding, promised: int) -> tuple[int, ...]:
    return tuple(
        sum(copy.vector.at(index) for copy in holding if copy.goes_to(index))
        for index in range(1, promised + 1)
    )


def _kept(holding: Holding, row: Row, index: int) -> int:
    helds = (copy.backup.held for copy in holding if copy.backup is not None)
    return sum(held.at(index) for held in helds if held.epoch == row.reign)


def troubles(node: Node, now: Millis) -> Iterator[str]:
    """What keeps the cluster from being safe, as far as this member is concerned."""
    waiting = len(node.data.replication.barriers)
    if waiting:
        yield f"{waiting} new owners wait for their backups"
    patience = RESENDS_OF_PATIENCE * node.context.config.resend_ms
    for lag in lags(node, now):
        if lag.silent_ms > patience:
            yield f"{lag.member} has acknowledged no writes for {lag.silent_ms} ms"
    if node.active_migrations():
        yield f"{len(node.active_migrations())} migrations are running"
    if node.is_master:
        yield from _troubles_of_master(node)


def _troubles_of_master(node: Node) -> Iterator[str]:
    seen = migrations(node)
    if seen.activity != Activity.IDLE.name.lower():
        yield f"the master is {seen.activity} partitions: {seen.waiting} migrations wait"
    if not node.leadership.publisher.is_quiet():
        yield "the partition table is not known to everyone yet"


def lags(node: Node, now: Millis) -> tuple[Lag, ...]:
    """Each member that this one sends mutations to."""
    streams = node.data.replication.streams
    return tuple(
        Lag(
            member,
            len(stream.kept),
            stream.kept_bytes,
            now - stream.heard_at if stream.kept else 0,
        )
        for (member, _), stream in streams.items()
    )


def migrations(node: Node) -> MigrationsSeen:
    """As the master sees them; of another member nothing."""
    execution, rebalancing = node.leadership.execution, node.leadership.rebalancing
    progress = execution.progress
    return MigrationsSeen(
        activity=rebalancing.activity.name.lower(),
        planned=progress.planned,
        completed=progress.completed,
        failed=progress.failed,
        waiting=execution.schedule.planned,
        moved=progress.moved,
        running=tuple(
            (running.migration, running.course.name.lower(), running.started_at)
            for running in execution.running.values()
        ),
    )


def pending_change(node: Node) -> PendingChange | None:
    """As the master sees it."""
    transition = node.leadership.transition
    request = transition.request
    if request is None:
        return None
    target = str(request.state) if request.ask is Ask.STATE else f"level {request.level}"
    return PendingChange(target, transition.reason or "every member is being locked")


def name_sizes(node: Node) -> tuple[NameSize, ...]:
    """What is here of each name, by name; lists of all names are under the empty one."""
    sizes: dict[bytes, list[int]] = {}
    for holding in node.data.holdings.here.values():
        at = 0 if holding.reign else 2
        for fragment in holding.space:
            size = sizes.setdefault(fragment.name, [0, 0, 0, 0])
            size[at] += len(fragment)
            size[at + 1] += fragment.used
    return tuple(NameSize(name, *sizes[name]) for name in sorted(sizes))


def held_by(rows: Sequence[Row], member: MemberId) -> tuple[int, int]:
    """How many partitions a member owns, and of how many it is a backup."""
    indexes = [row.index_of(member) for row in rows]
    return indexes.count(0), sum(index not in (0, NO_INDEX) for index in indexes)


# The cluster --------------------------------------------------------------------------------------


def judge(
    config: Config,
    view: View,
    rows: Sequence[Row],
    reports: Mapping[MemberId, Report],
    later: Mapping[MemberId, Report] | None = None,
) -> Safety:
    """Whether every promised copy is there and in sync; `later` was asked after `reports`."""
    reasons = [*_who_is_silent(view, rows, reports), *_what_members_say(view, reports)]
    missing = _missing_copies(config, view, rows)
    unsynced = _unsynced(config, view, rows, reports, later or reports)
    if missing:
        reasons.append(f"{missing} promised copies are held by nobody")
    if unsynced:
        reasons.append(f"{unsynced} copies are not in sync with their owners")
    return Safety(not reasons, tuple(reasons), missing, unsynced)


def _who_is_silent(
    view: View, rows: Sequence[Row], reports: Mapping[MemberId, Report]
) -> Iterator[str]:
    master = reports.get(view.master)
    for member in view.members:
        told = reports.get(member.id)
        if told is None:
            yield f"{member.name} does not answer"
        elif told.incarnation != member.incarnation or (told.term, told.version) != view.key:
            yield f"{member.name} knows other members"
        elif master is not None and told.stamp != master.stamp:
            yield f"{member.name} has another partition table"
        elif told.unready:
            yield f"{member.name}: {told.unready}"
    if not rows or all(row.owner is None for row in rows):
        yield "no partition is assigned yet"


def _what_members_say(view: View, reports: Mapping[MemberId, Report]) -> Iterator[str]:
    for member in view.members:
        told = reports.get(member.id)
        if told is not None:
            yield from (f"{member.name}: {trouble}" for trouble in told.troubles)


def _missing_copies(config: Config, view: View, rows: Sequence[Row]) -> int:
    promised = backups_promised(config)
    return sum(
        member is None or view.find(member) is None
        for row in rows
        for member in row.replicas[: promised + 1]
    )


def _unsynced(
    config: Config,
    view: View,
    rows: Sequence[Row],
    reports: Mapping[MemberId, Report],
    later: Mapping[MemberId, Report],
) -> int:
    """Copies that a row names, and that are behind, or of which nothing is known."""
    owners = by_place(reports)
    backups = by_place(later)
    behind = 0
    for row in rows:
        owner = None if row.owner is None else owners.get((row.owner, row.partition, 0))
        for index, member in enumerate(row.replicas[: backups_promised(config) + 1]):
            if member is None or view.find(member) is None:
                continue
            copy = backups.get((member, row.partition, index))
            behind += copy is None or not is_in_sync(owner, copy)
    return behind


def is_in_sync(owner: Place | None, copy: Place) -> bool:
    """Whether a copy has what its owner had before."""
    if copy.lacking or owner is None:
        return False
    return copy.index == 0 or copy.standing[0] >= owner.standing[copy.index - 1]


def by_place(reports: Mapping[MemberId, Report]) -> Places:
    """All places that are told of, by member, partition and index."""
    return {
        (told.member, place.partition, place.index): place
        for told in reports.values()
        for place in told.places
    }
