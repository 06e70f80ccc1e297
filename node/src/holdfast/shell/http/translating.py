"""From what the core shows to what the HTTP interface tells. Nothing here asks or decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from holdfast.core.front.shape import first_slot
from holdfast.core.messages import Migration
from holdfast.core.migrations import Move
from holdfast.core.node import Node
from holdfast.core.observing import (
    NameSize,
    Places,
    Report,
    Safety,
    backups_promised,
    by_place,
    held_by,
    is_in_sync,
)
from holdfast.core.stores.settings import NameSettings
from holdfast.core.table import Row
from holdfast.core.views import Member, View
from holdfast.ids import MemberId
from holdfast.shell.http.happenings import Happened
from holdfast.wire.api import text_of
from holdfast.wire.api.cluster import (
    ClusterModel,
    EndpointsModel,
    MemberModel,
    PendingModel,
    SafetyModel,
    TableModel,
)
from holdfast.wire.api.partitions import (
    HappenedModel,
    MoveModel,
    NameModel,
    PartitionModel,
    PartitionsModel,
    ReplicaModel,
)

SILENT: Final = "it does not answer"
Reports = Mapping[MemberId, Report]


def stamp_text(stamp: int) -> str:
    """A stamp as it is compared by eye: numbers of 64 bits don't survive every JSON reader."""
    return f"{stamp & (1 << 64) - 1:016x}"


def cluster_model(
    node: Node, view: View, reports: Reports, excuses: Mapping[MemberId, str], safety: Safety
) -> ClusterModel:
    """The cluster."""
    master = reports.get(view.master)
    pending = None if master is None else master.pending
    config = node.context.config
    return ClusterModel(
        id=view.cluster,
        name=config.cluster_name,
        state=view.state,
        pending=None
        if pending is None
        else PendingModel(target=pending.target, reason=pending.reason),
        level=view.level,
        term=view.term,
        version=view.version,
        recovering=view.recovering,
        master=view.master,
        master_answers=master is not None,
        answered_by=node.me.id,
        members=members_model(view, node.table.rows, reports, excuses),
        partitions=TableModel(
            total=len(node.table),
            with_owner=sum(row.owner is not None for row in node.table.rows),
            backups_promised=backups_promised(config),
            stamp=stamp_text(node.table.stamp),
        ),
        safety=SafetyModel(
            safe=safety.safe,
            reasons=list(safety.reasons),
            missing_copies=safety.missing_copies,
            unsynced_copies=safety.unsynced_copies,
        ),
    )


def members_model(
    view: View, rows: Sequence[Row], reports: Reports, excuses: Mapping[MemberId, str]
) -> list[MemberModel]:
    """All members, the oldest first; whoever did not report may have said why."""
    return [
        _member_model(view, member, rows, reports.get(member.id), excuses.get(member.id, SILENT))
        for member in view.members
    ]


def _member_model(
    view: View, member: Member, rows: Sequence[Row], told: Report | None, excuse: str
) -> MemberModel:
    owned, backups = held_by(rows, member.id)
    where = member.endpoints
    silent = told is None or told.incarnation != member.incarnation
    return MemberModel(
        id=member.id,
        incarnation=member.incarnation,
        name=member.name,
        address=member.address,
        group=member.group,
        kind=member.kind,
        drain=member.drain,
        newcomer=member.newcomer,
        persistent=member.persistent,
        level_max=member.level_max,
        master=member.id == view.master,
        endpoints=EndpointsModel(plain=where.plain, cluster=where.cluster, http=where.http),
        owned_partitions=owned,
        backup_partitions=backups,
        ready=None if told is None or silent else not told.unready,
        unready_reason=excuse if told is None or silent else told.unready,
        warnings=[] if told is None or silent else list(told.warnings),
        data_bytes=None if told is None or silent else told.data_bytes,
        data_bytes_max=None if told is None or silent else told.data_bytes_max,
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """The partition table at a moment, and what everyone said of its copies."""

    rows: tuple[Row, ...]
    stamp: int
    term: int
    by: MemberId
    promised: int
    health: tuple[Reports, Reports] | None
    """What owners said, and what backups said when they were asked after that."""

    @classmethod
    def at(cls, node: Node, health: tuple[Reports, Reports] | None) -> Seen:
        """Now."""
        table, view = node.table, node.view
        term = 0 if view is None else view.term
        promised = backups_promised(node.context.config)
        return cls(table.rows, table.stamp, term, node.me.id, promised, health)


def partitions_model(seen: Seen) -> PartitionsModel:
    """The table. It reads nothing but what was seen, so it may take its time in a thread."""
    places = None if seen.health is None else (by_place(seen.health[0]), by_place(seen.health[1]))
    return PartitionsModel(
        stamp=stamp_text(seen.stamp),
        term=seen.term,
        answered_by=seen.by,
        partitions=[_partition_model(row, seen, places) for row in seen.rows],
    )


def _partition_model(row: Row, seen: Seen, places: tuple[Places, Places] | None) -> PartitionModel:
    total = len(seen.rows)
    replicas = [
        ReplicaModel(
            index=index, member=member, in_sync=_in_sync(row, index, places, seen.promised)
        )
        for index, member in enumerate(row.replicas)
    ]
    return PartitionModel(
        id=row.partition,
        version=row.version,
        epoch=row.epoch,
        reign=row.reign,
        first_slot=first_slot(row.partition, total),
        last_slot=first_slot(row.partition + 1, total) - 1,
        replicas=replicas,
    )


def _in_sync(
    row: Row, index: int, places: tuple[Places, Places] | None, promised: int
) -> bool | None:
    member = row.replicas[index]
    if places is None or member is None or row.owner is None or index > promised:
        return None
    owner = places[0].get((row.owner, row.partition, 0))
    copy = places[1].get((member, row.partition, index))
    return None if owner is None or copy is None else is_in_sync(owner, copy)


def move_model(move: Move) -> MoveModel:
    """One change of places."""
    return MoveModel(
        type=move.type,
        source=move.source,
        source_current_index=move.source_current,
        source_new_index=move.source_new,
        destination=move.destination,
        destination_current_index=move.destination_current,
        destination_new_index=move.destination_new,
    )


def migration_id(migration: Migration) -> str:
    """Term and number."""
    return f"{migration.id.term}.{migration.id.sequence}"


def happened_model(happened: Happened) -> HappenedModel:
    """One line of the history."""
    notice = happened.notice
    return HappenedModel(
        at=datetime.fromtimestamp(happened.at, UTC),
        kind=notice.kind.value,
        about=notice.about,
        detail=notice.detail,
    )


def names_model(node: Node, told: Iterable[tuple[NameSize, ...]]) -> list[NameModel]:
    """Every name that is configured or has data, with what all these members have of it."""
    sums: dict[bytes, list[int]] = {name: [0] * 4 for name in node.context.config.names}
    for sizes in told:
        for size in sizes:
            total = sums.setdefault(size.name, [0] * 4)
            mine = (size.owned_entries, size.owned_bytes, size.backup_entries, size.backup_bytes)
            total[:] = [old + new for old, new in zip(total, mine, strict=True)]
    settings_of = node.data.holdings.settings_of
    return [_name_model(name, settings_of(name), sums[name]) for name in sorted(sums)]


def _name_model(name: bytes, settings: NameSettings, total: Sequence[int]) -> NameModel:
    return NameModel(
        name=text_of(name),
        backups=settings.backups,
        async_backups=settings.async_backups,
        ttl_ms=settings.ttl_ms,
        idle_ms=settings.idle_ms,
        entries_max=settings.entries_max,
        eviction=settings.eviction,
        durability=settings.durability,
        owned_entries=total[0],
        owned_bytes=total[1],
        backup_entries=total[2],
        backup_bytes=total[3],
    )
