"""`Restore`: a new Cluster made of a backup, of any name, size and partition count."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from holdfast_operator.model.base import Model, Rule
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.places import Name, Place
from holdfast_operator.model.status import Condition


class RestorePhase(StrEnum):
    """How far it is."""

    PENDING = "Pending"
    """It can't begin yet; the message says why."""
    CHECKING = "Checking"
    """A Job looks whether everything that the backup needs is there."""
    FILLING = "Filling"
    """The Cluster is declared; each member makes its files."""
    COMPLETED = "Completed"
    """Every member serves what was in the backup."""
    FAILED = "Failed"
    """It can never be; the message says why."""


class Kept(Place):
    """A backup away from the members."""

    name: str = Field(
        default="",
        max_length=64,
        description="Its name there (`status.keptAs`); not given: the newest.",
    )


class RestoreSource(Model):
    """Which backup."""

    RULES: ClassVar = (
        Rule(
            "has(self.backup) != has(self.kept)",
            "give either a backup or where it is kept",
            lambda s, _: (s.backup is None) != (s.kept is None),
        ),
    )

    backup: Name | None = Field(default=None, description="A Backup of the same namespace.")
    kept: Kept | None = Field(
        default=None, description="One in a claim or an object store, whoever made it."
    )


class NewCluster(Model):
    """The Cluster that it becomes."""

    RULES: ClassVar = (
        Rule(
            "!has(self.spec.origin)",
            "a Restore says itself what the origin is",
            lambda s, _: s.spec.origin is None,
        ),
        Rule(
            "self.spec.persistence.enabled",
            "a restored Cluster needs persistence.enabled: a backup becomes the members' files",
            lambda s, _: s.spec.persistence.enabled,
        ),
        Rule(
            "!self.spec.hibernate",
            "a Cluster that is to be restored can't hibernate",
            lambda s, _: not s.spec.hibernate,
        ),
    )

    name: str = Field(min_length=1, max_length=40, pattern="^[a-z]([a-z0-9-]*[a-z0-9])?$")
    spec: ClusterSpec = Field(
        default=ClusterSpec.model_validate({}),
        description="As a Cluster's; changed there once it is made.",
    )


class RestoreSpec(Model):
    """What is declared."""

    RULES: ClassVar = (
        Rule(
            "self.source == oldSelf.source && self.cluster.name == oldSelf.cluster.name",
            "a Restore can't be changed: make another one",
            lambda s, old: s.source == old.source and s.cluster.name == old.cluster.name,
        ),
    )

    source: RestoreSource
    cluster: NewCluster


class RestoreStatus(Model):
    """What became of it."""

    observed_generation: int = 0
    phase: RestorePhase = RestorePhase.PENDING
    message: str = ""
    backup: str = Field(default="", description="Its name where it is kept.")
    grid: str = Field(default="", description="What the grid was called that it is of.")
    members: str = Field(default="", description="Members that serve of those declared.")
    size: str = Field(default="", description="Bytes of all files of the backup.")
    started_at: datetime | None = None
    completed_at: datetime | None = None
    conditions: Annotated[list[Condition], Field(default_factory=list, max_length=16)]
