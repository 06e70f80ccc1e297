"""Settings of the core, checked all at once.

Times are milliseconds of the member's own monotonic clock. Clocks of members may differ in rate by
`lease_margin_ms / (2 * lease_ms)` at the most (5 % by default), and in absolute value at will.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from holdfast.core.stores.settings import NameSettings
from holdfast.errors import ConfigurationError
from holdfast.ids import (
    PARTITION_COUNT_DEFAULT,
    PARTITION_COUNT_MAX,
    REPLICA_COUNT_MAX,
    Address,
    Millis,
)

LEVEL_MAX = 3
"""The newest compatibility level (`design/3` §1)."""

PROTOCOL = 1
"""Version of the members' messages."""


class Quorum(StrEnum):
    """Who must agree before anyone is master."""

    MAJORITY = "majority"
    ANY = "any"
    """Whoever answers. Two halves of a cut cluster both go on, and writes of one are lost."""


class RecoveryPolicy(StrEnum):
    """Which persisted members must be back before a whole cluster starts (seed 001 §3.2)."""

    FULL = "full"
    MOST_RECENT = "most-recent"
    MOST_COMPLETE = "most-complete"


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that the decisions of one member depend on, besides what happens."""

    cluster_name: str = "holdfast"
    initial: tuple[Address, ...] = ()
    """Where to look for others; empty means alone. A majority of these founds a cluster."""
    may_found: bool = True
    """Whether this member may help to found a new cluster. Whoever runs the members says no once
    a cluster was founded: a member without files can't know."""
    partition_count: int = PARTITION_COUNT_DEFAULT
    replica_count: int = REPLICA_COUNT_MAX
    """Length of a row: the owner and the most backups that any structure may ask for."""
    backup_count: int = 1
    """Backups that are promised; a member that lost its index keeps its data until a row has
    this many (`design/3` §3, "Dropping")."""
    level: int = LEVEL_MAX
    """Compatibility level that a cluster founded here starts at."""
    heartbeat_ms: Millis = Millis(500)
    lease_ms: Millis = Millis(2_000)
    """How long a member may serve after it asked for a renewal that was granted."""
    lease_margin_ms: Millis = Millis(200)
    """What whoever replaces a silent member waits beyond the lease, for clocks of other rates."""
    claim_step_ms: Millis = Millis(300)
    """How much later each next member in seniority claims, so that claims seldom collide."""
    forming_patience_ms: Millis = Millis(2_000)
    """How long a founder waits for the rest, once a majority has met."""
    retry_ms: Millis = Millis(500)
    """When to repeat a message that was not answered."""
    stamp_check_ms: Millis = Millis(15_000)
    """How often stamps are compared (`design/3` §2)."""
    migrations_parallel_max: int = 10
    """Migrations in which one member takes part at a time (seed 001 §2.2); more of them if they
    turn out to move nothing (`docs/adr/0038`)."""
    migration_timeout_ms: Millis = Millis(30_000)
    """When a master gives up a migration whose owner says nothing, although it lives."""
    leave_linger_ms: Millis = Millis(300)
    """How long a member that leaves, and has given away all that it had, tells applications where
    that is now (`docs/adr/0039`)."""
    rejoin_grace_ms: Millis = Millis(30_000)
    """How long a member that went without leave is expected before its copies are made anew."""
    stable_repair_after_ms: Millis | None = None
    """The same in a state with a stable table; None means it is expected for ever."""
    request_timeout_ms: Millis = Millis(600_000)
    """How long a request may take before it is answered with an error (`design/3` §9)."""
    change_lock_ms: Millis = Millis(10_000)
    """How long a member stays locked by a state change of which it hears no end."""
    migration_blocking: bool = False
    """Whether an owner holds back writes of a partition from the begin of its migration on, as in
    seed 000, "Fragmented Migration"; else only for the hand-over at its end (`design/3` §3)."""
    stale_read_disabled: bool = True
    """Whether an owner refuses reads from the hand-over on (seed 000, "Fragmented Migration")."""
    quorum: Quorum = Quorum.MAJORITY
    recovery_policy: RecoveryPolicy = RecoveryPolicy.FULL
    validation_timeout_ms: Millis = Millis(120_000)
    data_load_timeout_ms: Millis = Millis(900_000)
    names: Mapping[bytes, NameSettings] = field(default_factory=dict)
    """Settings of structures, by name (`design/4`)."""
    unnamed: NameSettings = field(default_factory=NameSettings)
    """Settings of every other structure."""
    memory_max_bytes: int = 0
    """What the data of one member may take, backups too; 0 for no limit."""
    operation_timeout_ms: Millis = Millis(5_000)
    """When a client is told that the outcome of its command is not known."""
    resend_ms: Millis = Millis(200)
    """When mutations that were not acknowledged are sent again."""
    backup_bytes_max: int = 64 << 20
    """Mutations that are kept for one member which doesn't acknowledge them."""
    expiry_round_ms: Millis = Millis(100)
    """How often an owner removes what has expired and what nobody has read since."""
    sync_interval_ms: Millis = Millis(30_000)
    """How often an owner compares versions with its backups, and how often a backup may ask for
    the same partition (seed 004)."""
    syncs_parallel_max: int = 3
    """Partitions that one member brings up to date at a time, and the same for being brought. With
    more of them a rescale is a third faster, and clients wait twice as long meanwhile."""
    plan_slice_rows: int = 256
    """Rows planned in one slice, so that the loop is never held long."""

    def __post_init__(self) -> None:
        reasons = [*self._out_of_range(), *self._contradictions()]
        if reasons:
            raise ConfigurationError(reasons)

    @property
    def copies_max(self) -> int:
        """So many indexes of a row have copies of any name; what is behind them has no data."""
        return max(each.copies for each in (self.unnamed, *self.names.values()))

    @property
    def warm_indexes(self) -> int:
        """So many indexes of a row have every name that asks for backups. Who asks for none has
        asked for less (`design/3` §4), and nobody waits for that."""
        kinds = (self.unnamed, *self.names.values())
        return min((each.copies for each in kinds if each.backups), default=REPLICA_COUNT_MAX)

    def _out_of_range(self) -> list[str]:
        ranges = {
            "partition_count": (1, PARTITION_COUNT_MAX),
            "replica_count": (1, REPLICA_COUNT_MAX),
            "backup_count": (0, REPLICA_COUNT_MAX - 1),
            "level": (1, LEVEL_MAX),
            "migrations_parallel_max": (1, 10_000),
            "plan_slice_rows": (1, PARTITION_COUNT_MAX),
        }
        reasons = []
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not low <= value <= high:
                reasons.append(f"{name} must be {low} to {high}, not {value}")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name.endswith(("_ms", "_bytes")) and value is not None and value < 0:
                reasons.append(f"{each.name} must not be negative, it is {value}")
        return reasons

    def _contradictions(self) -> list[str]:
        reasons = []
        if self.backup_count >= self.replica_count:
            reasons.append(
                f"{self.backup_count} backups and an owner do not fit a row of"
                f" {self.replica_count} replicas"
            )
        if self.heartbeat_ms * 3 > self.lease_ms:
            reasons.append(
                f"three heartbeats of {self.heartbeat_ms} ms must fit a lease of {self.lease_ms} ms"
            )
        return reasons
