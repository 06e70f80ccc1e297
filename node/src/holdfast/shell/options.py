"""Every setting of a member: its name, its type, what is allowed, and what it is for.

This list is the only place. The file's keys, the environment's names (`HOLDFAST_` and the key in
capitals), the flags (`--` and the key with hyphens), the checks and the text of `--print` are all
made from it. What the core decides by is explained in `core.config` as well.

Ports are called `port_plain` and not `plain_port`: a Kubernetes Service called `holdfast-plain`
would put a `HOLDFAST_PLAIN_PORT` of its own into the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from msgspec import Meta

from holdfast.core.config import LEVEL_MAX, Config, Quorum, RecoveryPolicy
from holdfast.core.views import Kind
from holdfast.ids import PARTITION_COUNT_MAX, REPLICA_COUNT_MAX
from holdfast.shell.logs import Format, Level
from holdfast.shell.memory import AUTO
from holdfast.shell.supervisor.layout import PROCESSES_MAX
from holdfast.storage.recovery import OnDamage

Port = Annotated[int, Meta(ge=0, le=65_535)]
Span = Annotated[int, Meta(ge=1, le=86_400_000)]
"""Milliseconds."""
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Size = Annotated[int, Meta(ge=1, le=1 << 40)]
"""Bytes."""

CORE: Final = Config()
"""The defaults of the core."""


def option(default: object, text: str, *, shown: bool = True, core: bool = False) -> Any:
    """A setting; `core` ones go to `core.config.Config` under the same name. What is not `shown`
    is no flag, which everybody on the machine could read, and is never printed."""
    metadata = {"text": text, "shown": shown, "core": core}
    return field(default=default, repr=shown, metadata=metadata)


def core_option(default: object, text: str) -> Any:
    """A setting that the core decides by."""
    return option(default, text, core=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings as they were given, each checked by itself; `settings` checks them together."""

    # Who it is
    name: str = option("", "name of the member, unique in the cluster; default: the host's name")
    group: str = option("", "failure domain: zone, host or pod; default: the host's name")
    groups_dir: str = option(
        "",
        "directory with a file for each group, named like it: what it says is the failure domain"
        " (zones by machine); empty: the group is the domain",
    )
    kind: Kind = option(Kind.DATA, "data, or lite: a member that owns no partitions")

    # Which cluster
    cluster_name: str = core_option(CORE.cluster_name, "members of another cluster are refused")
    initial: tuple[str, ...] = option(
        (), "member ports (host:port, ...) of those who found the cluster; empty: it starts alone"
    )
    may_found: bool = core_option(
        CORE.may_found, "false once the cluster exists: this member then only joins"
    )
    secret: str = option("", "the cluster's secret; better in a file of its own", shown=False)
    secret_file: str = option("", "file with the cluster's secret")
    allow_no_secret: bool = option(
        False, "listen beyond this machine although anybody there could join or read everything"
    )
    tls_ca: str = option(
        "", "certificate of the authority whose members are let in; encrypts links"
    )
    tls_cert: str = option("", "certificate of this member")
    tls_key: str = option("", "key of that certificate")

    # Where it listens
    bind: str = option("127.0.0.1", "address that all ports listen on")
    advertise: str = option("", "host by which others reach this member; default: bind")
    port_plain: Port = option(6379, "Redis protocol, any key; 0 takes a free port")
    port_cluster: Port = option(7379, "Redis Cluster protocol, own keys; 0 takes a free port")
    port_http: Port = option(8080, "HTTP; 0 takes a free port")
    port_member: Port = option(7380, "the members' link; 0 takes a free port")

    processes: Annotated[int, Meta(ge=0, le=PROCESSES_MAX)] = option(
        1,
        "member processes under this one, a core each; the ports of each next one are 10 higher;"
        " 0: this process is the member, and who started it looks after it",
    )

    # Files
    data_dir: str = option(
        "", "directory of this member's files; empty: what it has ends with its process"
    )
    on_damage: OnDamage = option(
        OnDamage.REFUSE, "refuse to start with damaged files; or doubt: compare with other copies"
    )
    disk_reserve_bytes: Size = option(
        256 << 20, "free room on the disk below which writes are refused"
    )

    # Limits
    connections_max: Count = option(10_000, "connections of applications")
    value_bytes_max: Size = option(64 << 20, "longest value or argument")
    request_bytes_max: Size = option(512 << 20, "longest request with all its arguments")

    memory_max: int | str = option(
        AUTO,
        "what the data here may take: bytes, or like 2GiB; auto: three quarters of what this"
        " machine or container has, divided by the processes; 0: no limit",
    )

    # Coming and going
    leave_timeout_ms: Span = option(
        600_000, "how long a member that was told to stop hands over its data before it gives up"
    )

    hands_over: bool = option(
        True,
        "false: a signal ends it at once, and it keeps what its files have; for a cluster that is"
        " stopped as a whole",
    )

    # Logs
    log_format: Format = option(Format.TEXT, "text or json")
    log_level: Level = option(Level.INFO, "debug, info, warning or error")

    # The grid
    partition_count: Annotated[int, Meta(ge=1, le=PARTITION_COUNT_MAX)] = core_option(
        CORE.partition_count, "partitions of the table; for ever, and the same on every member"
    )
    replica_count: Annotated[int, Meta(ge=1, le=REPLICA_COUNT_MAX)] = core_option(
        CORE.replica_count, "an owner and the most backups that a name may ask for"
    )
    backup_count: Annotated[int, Meta(ge=0, le=REPLICA_COUNT_MAX - 1)] = core_option(
        CORE.backup_count, "synchronous backups of every name that does not say otherwise"
    )
    level: Annotated[int, Meta(ge=1, le=LEVEL_MAX)] = core_option(
        CORE.level, "compatibility level of a cluster that is founded here"
    )
    quorum: Quorum = core_option(
        CORE.quorum, "majority; or any: two halves of a cut cluster both go on and one loses"
    )
    recovery_policy: RecoveryPolicy = core_option(
        CORE.recovery_policy, "who must be back before a whole cluster starts from its files"
    )
    migration_blocking: bool = core_option(
        CORE.migration_blocking, "refuse writes of a partition from the begin of its migration on"
    )
    stale_read_disabled: bool = core_option(
        CORE.stale_read_disabled, "refuse reads of a partition from the end of its migration on"
    )
    migrations_parallel_max: Count = core_option(
        CORE.migrations_parallel_max, "migrations in which one member takes part at a time"
    )
    syncs_parallel_max: Count = core_option(
        CORE.syncs_parallel_max, "partitions that one member brings up to date at a time"
    )
    backup_bytes_max: Size = core_option(
        CORE.backup_bytes_max, "changes kept for a backup that does not acknowledge them"
    )

    # Times
    heartbeat_ms: Span = core_option(CORE.heartbeat_ms, "between heartbeats")
    lease_ms: Span = core_option(CORE.lease_ms, "how long a member may serve unheard")
    lease_margin_ms: Span = core_option(
        CORE.lease_margin_ms, "what is waited beyond a lease, for clocks of other rates"
    )
    claim_step_ms: Span = core_option(
        CORE.claim_step_ms, "how much later each next member claims to be master"
    )
    forming_patience_ms: Span = core_option(
        CORE.forming_patience_ms, "how long a founder waits for the rest after a majority has met"
    )
    retry_ms: Span = core_option(CORE.retry_ms, "before an unanswered message is repeated")
    stamp_check_ms: Span = core_option(CORE.stamp_check_ms, "between comparisons of tables")
    migration_timeout_ms: Span = core_option(
        CORE.migration_timeout_ms, "before a migration of which nothing is heard is given up"
    )
    leave_linger_ms: Annotated[int, Meta(ge=0)] = core_option(
        CORE.leave_linger_ms, "how long one that leaves says where what it had is, before it goes"
    )
    rejoin_grace_ms: Annotated[int, Meta(ge=0)] = core_option(
        CORE.rejoin_grace_ms, "how long a member that went without leave is expected back"
    )
    stable_repair_after_ms: Annotated[int, Meta(ge=0)] | None = core_option(
        CORE.stable_repair_after_ms, "the same in a state with a stable table; none: for ever"
    )
    request_timeout_ms: Span = core_option(
        CORE.request_timeout_ms, "how long an administrator's request may take"
    )
    change_lock_ms: Span = core_option(
        CORE.change_lock_ms, "how long a member stays locked by a change of whose end it hears not"
    )
    validation_timeout_ms: Span = core_option(
        CORE.validation_timeout_ms, "how long a recovering cluster waits for its members"
    )
    data_load_timeout_ms: Span = core_option(
        CORE.data_load_timeout_ms, "how long members may take to load their files"
    )
    operation_timeout_ms: Span = core_option(
        CORE.operation_timeout_ms, "before a client is told that an outcome is unknown"
    )
    resend_ms: Span = core_option(CORE.resend_ms, "before unacknowledged changes are sent again")
    expiry_round_ms: Span = core_option(CORE.expiry_round_ms, "between rounds of expiry")
    sync_interval_ms: Span = core_option(
        CORE.sync_interval_ms, "between comparisons of an owner with its backups"
    )
    plan_slice_rows: Annotated[int, Meta(ge=1, le=PARTITION_COUNT_MAX)] = core_option(
        CORE.plan_slice_rows, "rows planned in one slice of the loop"
    )
