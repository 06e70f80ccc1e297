"""The partition table, its migrations, and the names in it."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from holdfast.core.migrations import MigrationType


class ReplicaModel(BaseModel):
    """One index of a partition's row."""

    index: int = Field(description="0 is the owner.")
    member: str | None = Field(description="Id of the holder; null when the index is vacant.")
    in_sync: bool | None = Field(
        description="Whether it has what its owner has; null when that was not asked, or nobody"
        " answered, or no name has a copy at this index."
    )


class PartitionModel(BaseModel):
    """One partition."""

    id: int
    version: int = Field(description="Of its row; it only grows.")
    epoch: int = Field(description="The ownership with which its data began.")
    reign: int = Field(description="Number of the present ownership.")
    first_slot: int = Field(description="First hash slot of Redis Cluster in it.")
    last_slot: int = Field(description="The last one.")
    replicas: list[ReplicaModel]


class PartitionsModel(BaseModel):
    """The partition table as the member that answers knows it."""

    stamp: str = Field(description="Hash of all versions: equal where tables are equal.")
    term: int
    answered_by: str
    partitions: list[PartitionModel]


class MoveModel(BaseModel):
    """One change of places in a row; -1 is no index, null nobody."""

    type: MigrationType
    source: str | None
    source_current_index: int
    source_new_index: int
    destination: str | None
    destination_current_index: int
    destination_new_index: int


class MigrationModel(BaseModel):
    """A migration under way."""

    id: str = Field(description="Term and number.", examples=["4.17"])
    partition: int
    moves: list[MoveModel]
    before: list[str | None] = Field(description="The row before, owner first.")
    after: list[str | None] = Field(description="The row after.")
    course: str = Field(description="waiting, copying or committing.")
    seconds: float = Field(description="Since it began.")


class HappenedModel(BaseModel):
    """A plan that was made, or a migration that ended."""

    at: datetime
    kind: str = Field(examples=["migration ended"])
    about: str = Field(examples=["partition 12"])
    detail: str = Field(examples=["success"])


class MigrationsModel(BaseModel):
    """What the master does about the partition table."""

    master: str = Field(description="Id of the master: the member that answers.")
    activity: str = Field(description="idle, planning or moving.")
    planned: int = Field(description="Steps of the present plan, with those that have ended.")
    completed: int
    failed: int
    remaining: int = Field(description="Steps that have not ended.")
    bytes: int = Field(description="Keys and values that came over, of steps that have ended.")
    elapsed_seconds: float = Field(description="Since the present plan was made.")
    rate_per_second: float = Field(description="Completed steps a second, since then.")
    running: list[MigrationModel]
    history: list[HappenedModel] = Field(description="The newest last.")


class NameModel(BaseModel):
    """One name: its settings, and what all members have of it."""

    name: str = Field(description="Empty: the lists and queues of every name.")
    backups: int
    async_backups: int
    ttl_ms: int
    idle_ms: int
    entries_max: int
    eviction: str
    durability: str
    owned_entries: int = Field(description="Keys, counted at their owners.")
    owned_bytes: int = Field(description="What they take there, roughly.")
    backup_entries: int = Field(description="Keys in all backups.")
    backup_bytes: int = Field(description="What they take there, roughly.")


class NamesModel(BaseModel):
    """All names that are configured or have data."""

    names: list[NameModel]
    silent_members: list[str] = Field(description="Members whose share is not counted in.")
