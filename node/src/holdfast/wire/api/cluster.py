"""The cluster, its members, and whether it is safe."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.states import ClusterState
from holdfast.core.views import Drain, Kind

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class EndpointsModel(BaseModel):
    """Where a member is reached by applications; empty where it does not listen."""

    plain: str = Field(description="Redis protocol, any key.", examples=["10.0.0.7:6379"])
    cluster: str = Field(
        description="Redis Cluster protocol, its own keys.", examples=["10.0.0.7:7379"]
    )
    http: str = Field(description="This interface.", examples=["10.0.0.7:8080"])


class MemberModel(BaseModel):
    """One member of the cluster."""

    id: str = Field(description="Identity; with files it survives restarts.")
    incarnation: int = Field(description="Number of the stay: greater after each restart.")
    name: str = Field(description="What people call it.", examples=["orders-0"])
    address: str = Field(description="Where the other members reach it.")
    group: str = Field(description="Failure domain: no two copies in one, while groups suffice.")
    kind: Kind = Field(description="A data member holds partitions, a lite member none.")
    drain: Drain = Field(description="Why its partitions move away, if they do.")
    newcomer: bool = Field(description="Let in, and not yet confirmed: holds nothing.")
    persistent: bool = Field(description="Whether it keeps its data over a restart.")
    level_max: int = Field(description="Newest compatibility level that it speaks.")
    master: bool = Field(description="Whether it leads the cluster.")
    endpoints: EndpointsModel
    owned_partitions: int = Field(description="Partitions that it owns by the table.")
    backup_partitions: int = Field(description="Partitions that it is a backup of by the table.")
    ready: bool | None = Field(
        description="Whether it may serve, by its own word; null when it does not answer."
    )
    unready_reason: str = Field(description="Why it may not; empty when it may.")
    warnings: list[str] = Field(
        default_factory=list,
        description="What it can't do although it serves, one sentence each.",
        examples=[["the disk is nearly full: writes are refused until there is room"]],
    )
    data_bytes: int | None = Field(
        default=None, description="What its data takes, roughly; null when it does not answer."
    )
    data_bytes_max: int | None = Field(
        default=None, description="What its data may take (memory_max); 0 for no limit."
    )


class SelfModel(BaseModel):
    """The member that answers, also while it is in no cluster: its own word alone."""

    id: str
    incarnation: int
    name: str
    started_at: datetime = Field(description="When its process began, by the clock of its machine.")
    ready: bool = Field(description="Whether it serves applications.")
    unready_reason: str = Field(description="Why it does not; empty when it does.")


class MembersModel(BaseModel):
    """All members, the oldest first."""

    members: list[MemberModel]


class SafetyModel(BaseModel):
    """Whether any one holder of a partition could go now without loss of data."""

    safe: bool = Field(description="Every promised copy is there and in sync; nothing moves.")
    reasons: list[str] = Field(
        description="Why it is not safe, one sentence each; empty when it is."
    )
    missing_copies: int = Field(description="Promised copies that nobody holds.")
    unsynced_copies: int = Field(description="Copies that are behind, or not heard of.")


class PendingModel(BaseModel):
    """A change of the state or level that waits."""

    target: str = Field(description="What it is to become.", examples=["PASSIVE"])
    reason: str = Field(description="What it waits for.", examples=["3 migrations are running"])


class TableModel(BaseModel):
    """The partition table in numbers."""

    total: int = Field(description="Partitions.")
    with_owner: int = Field(description="Partitions that somebody owns.")
    backups_promised: int = Field(description="Backups that each partition is to have.")
    stamp: str = Field(description="Hash of all versions: equal where tables are equal.")


class ClusterModel(BaseModel):
    """The cluster, as the member that answers knows it, with what the others say of themselves."""

    id: str = Field(description="Identity, made when the cluster was founded.")
    name: str
    state: ClusterState = Field(description="What may move, join and be written.")
    pending: PendingModel | None = Field(
        description="A change that waits. Only the master knows: see master_answers."
    )
    level: int = Field(description="Compatibility level.")
    term: int = Field(description="Number of the present mastership.")
    version: int = Field(description="Version of the list of members in this term.")
    recovering: bool = Field(description="Whether the whole cluster comes back from files.")
    master: str = Field(description="Id of the master.")
    master_answers: bool = Field(description="Whether the master was heard for this answer.")
    answered_by: str = Field(description="Id of the member that answers.")
    members: list[MemberModel]
    partitions: TableModel
    safety: SafetyModel


class StateChange(BaseModel):
    """A wish for another state."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"state": "STABLE_CLUSTER", "wait": 30}]}
    )

    state: ClusterState = Field(description="IN_TRANSITION can't be asked for.")
    wait: Seconds = Field(
        default=0,
        description="Seconds for which running migrations may delay it; 0: refuse at once.",
    )


class StateChanged(BaseModel):
    """The state that holds now."""

    state: ClusterState
    term: int
    version: int


class Death(BaseModel):
    """A process that is known to be gone: a fact, not a suspicion."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"incarnation": 3, "ago": 0.5}]}
    )

    incarnation: int = Field(
        ge=0, le=2**31 - 1, description="This stay of the member and all before it are over."
    )
    ago: Seconds = Field(default=0, description="Seconds since it ended, at least.")


class Done(BaseModel):
    """A request about a member was carried out."""

    member: str = Field(description="Id of the member that it was about.")
    done: str = Field(description="What was done.", examples=["promote"])
    told: list[str] = Field(
        default_factory=list, description="Members that were told, of a confirmed death."
    )
    untold: list[str] = Field(
        default_factory=list, description="Members that could not be told; ask again for them."
    )
