"""`Cluster.status`: what is observed, and what the operator is about."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from holdfast_operator.model.base import Model


class Phase(StrEnum):
    """What the operator is about, in one word."""

    PENDING = "Pending"
    """Nothing was done yet."""
    REFUSED = "Refused"
    """The spec can't work; nothing running is touched."""
    FORMING = "Forming"
    RESTORING = "Restoring"
    """Its members make their first files of a backup."""
    RUNNING = "Running"
    RESIZING = "Resizing"
    UPDATING = "Updating"
    RECOVERING = "Recovering"
    HIBERNATING = "Hibernating"
    HIBERNATED = "Hibernated"
    DELETING = "Deleting"


class ConditionType(StrEnum):
    """What can be waited for."""

    READY = "Ready"
    STATE_APPLIED = "StateApplied"
    SAFE = "Safe"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    RECOVERING = "Recovering"
    RESIZING = "Resizing"
    BACKED_UP = "BackedUp"


class Truth(StrEnum):
    """Of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """As `metav1.Condition`."""

    type: str
    status: Truth
    observed_generation: int
    last_transition_time: datetime
    reason: str = Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1_024)
    message: str = Field(max_length=32_768)


class PendingState(Model):
    """A change of the state that waits."""

    target: str
    since: datetime
    reason: str
    message: str


class MemberStatus(Model):
    """One member, as it was last seen."""

    pod: str
    name: str
    id: str
    incarnation: int
    container: str = Field(
        default="", description="The container that this stay of the member was seen in."
    )
    started_at: datetime | None = Field(default=None, description="By its node's clock.")
    kind: str
    promoted: bool
    master: bool
    state: str = Field(description="Ready, NotReady, Silent, Joining or Gone.")
    ready: bool
    reason: str = ""
    group: str = ""
    owned_partitions: int = 0
    backups: int = 0
    version: str = Field(default="", description="Fingerprint of the pod's template.")
    restarts: int = 0


class PartitionStatus(Model):
    """The table in numbers."""

    total: int = 0
    with_owner: int = 0
    missing_copies: int = 0
    unsynced_copies: int = 0
    stamp: str = ""


class MigrationStatus(Model):
    """What moves."""

    planned: int = 0
    completed: int = 0
    failed: int = 0
    remaining: int = 0
    running: int = 0
    bytes: int = Field(default=0, description="Keys and values that came over.")
    elapsed_seconds: float = 0
    rate_per_second: float = 0
    progress: str = Field(default="", description="completed/planned.")


class RecoveryStatus(Model):
    """A whole grid that comes back from its files."""

    phase: str
    remaining_seconds: int | None = None


class ClusterStatus(Model):
    """What is observed."""

    observed_generation: int = 0
    phase: Phase = Phase.PENDING
    cluster_id: str = Field(default="", description="Made when the grid was founded.")
    state: str = ""
    state_generation: int = Field(
        default=0, description="Generation of the spec whose state was applied last."
    )
    pending_state: PendingState | None = None
    pending: str = Field(default="", description="The state that is waited for.")
    compatibility_level: int = 0
    master: str = ""
    members: str = Field(default="", description="Ready data members of those declared.")
    lite_members: str = ""
    replicas: int = Field(default=0, description="Data pods; of the scale subresource.")
    member_list: Annotated[list[MemberStatus], Field(default_factory=list, max_length=2_000)]
    partitions: PartitionStatus = PartitionStatus()
    migrations: MigrationStatus = MigrationStatus()
    safe: bool = False
    recovery: RecoveryStatus | None = None
    selector: str = Field(default="", description="Of the data pods; of the scale subresource.")
    last_backup: str = ""
    conditions: Annotated[list[Condition], Field(default_factory=list, max_length=16)]
