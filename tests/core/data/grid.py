"""A small cluster whose one partition is where a test wants it, and what each member has of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from holdfast.core.data.copies import Copy, Holding
from holdfast.core.data_messages import BackupFrame, SyncPlan, Way
from holdfast.core.events import Woke
from holdfast.core.migrations import MigrationType, Move
from holdfast.core.node import Node
from holdfast.core.stores.record import body_of
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import NO_INDEX, MemberId, Version
from tests.core.harness import A, B, C, Cluster, Drop, address_of, partition

P: Final = partition(0)
DEFAULT: Final = b"default"
BOTH: Final = NameSettings(backups=2)
"""Every index of three has everything."""


class Grid(Cluster):
    """A, B and C; A is master. Partition 0 is all there is."""

    @property
    def term(self) -> Node:
        """The master's node."""
        assert self.master is not None
        return self.master

    def place(self, *replicas: MemberId | None) -> None:
        """The master gives the partition these holders, and everyone hears of it."""
        self.decide(*replicas)
        self.run(20)

    def decide(self, *replicas: MemberId | None, anew: bool = False) -> None:
        """The master gives the partition these holders."""
        master = self.term
        held, view = master.table.row(P), master.view
        assert view is not None
        row = held.changed(Version(held.version + 1), replicas, view.term)
        if anew:
            row = replace(row, epoch=Version(row.reign))
        master.leadership.publisher.change([row])
        self.step(master.me.id, Woke())

    def migrate(self, *moves: Move) -> None:
        """The master plans one step for the partition."""
        master = self.term
        owner = master.table.row(P).owner
        master.leadership.execution.schedule.add(P, [moves], owner)
        self.step(master.me.id, Woke())

    def holding(self, member_id: MemberId) -> Holding:
        """What a member has of the partition."""
        return self.nodes[member_id].data.holdings.here[P]

    def copy(self, member_id: MemberId, name: bytes = DEFAULT) -> Copy:
        """What it has of a name."""
        return self.holding(member_id).copies[name]

    def value(self, member_id: MemberId, key: str) -> bytes | None:
        """What it has of a string."""
        found = self.holding(member_id).space.find(key.encode())
        if found is None:
            return None
        assert isinstance(found[1], bytes)
        return body_of(found[1])

    def content(self, member_id: MemberId) -> dict[bytes, dict[bytes, bytes]]:
        """All records that it has, by fragment."""
        return {
            copy.name: {key: copy.fragment.record_of(key) for key in copy.fragment.records}
            for copy in self.holding(member_id)
        }

    def in_sync(self, *member_ids: MemberId) -> bool:
        """Whether these lack nothing."""
        return not any(self.holding(member_id).lacking() for member_id in member_ids)


def moved(source: MemberId | None, index: int, destination: MemberId | None) -> Move:
    """Somebody takes an index, from somebody or as a new copy."""
    kind = MigrationType.COPY if source is None else MigrationType.MOVE
    left = NO_INDEX if source is None else index
    taken = NO_INDEX if destination is None else index
    return Move(kind, source, left, NO_INDEX, destination, NO_INDEX, taken)


def grid(*replicas: MemberId | None, **settings: object) -> Grid:
    """A cluster at rest, `persistent` or not, with the partition at these members."""
    persistent = settings.pop("persistent", False) is True
    chosen = {"partition_count": 1, "replica_count": len(replicas), "unnamed": BOTH, **settings}
    cluster = Grid(A, B, C, **chosen)
    cluster.form(persistent=persistent)
    cluster.place(*replicas)
    cluster.sent.clear()
    cluster.notices.clear()
    return cluster


def to(member_id: MemberId, *kinds: type) -> Drop:
    """A network that loses these messages on the way to one member."""
    return lambda _, address, message: (
        address == address_of(member_id) and (isinstance(message, kinds))
    )


def frames(cluster: Cluster, member_id: MemberId) -> list[BackupFrame]:
    """Frames with mutations that went to a member."""
    return [frame for frame in cluster.messages(BackupFrame, to=member_id) if frame.runs]


SMALL: Final = 300
"""So few bytes are kept for a member that does not answer (`backup_bytes_max`)."""


def write(cluster: Cluster, *keys: str, value: str = "v") -> None:
    """A client writes keys at A, one frame each, and does not wait for whoever is cut off."""
    for key in keys:
        cluster.command(A, f"SET {key} {value}", session=99)
        cluster.run(2)


def miss(cluster: Grid, member_id: MemberId, *keys: str, value: str = "v") -> None:
    """A writes these keys and more, until nothing is kept of them for a member that is cut off."""
    drops = list(cluster.drops)
    cluster.drops.append(to(member_id, BackupFrame))
    write(cluster, *keys, value=value)
    write(cluster, *(f"filler{number}" for number in range(6)))
    cluster.drops = drops
    sent = [frame for _, _, frame in cluster.sent if isinstance(frame, BackupFrame)]
    assert any(frame.skipped for frame in sent)


def ways(cluster: Cluster, member_id: MemberId, name: bytes = DEFAULT) -> list[Way]:
    """How a fragment was brought up to date at a member, plan by plan."""
    return [
        plan.way
        for message in cluster.messages(SyncPlan, to=member_id)
        for plan in message.fragments
        if plan.owner.name == name
    ]
