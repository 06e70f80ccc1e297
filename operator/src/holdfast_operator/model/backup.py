"""`Backup`: a copy of a grid's files at one moment, kept in the members' own volumes, and carried
to a place away from them if one is given. `BackupSchedule`: one of them again and again."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from holdfast_operator.cron import is_schedule
from holdfast_operator.model.base import Model, Rule
from holdfast_operator.model.places import Name, Place


class BackupPhase(StrEnum):
    """How far it is."""

    PENDING = "Pending"
    """It can't begin; the message says why."""
    RUNNING = "Running"
    CARRYING = "Carrying"
    """Every member keeps its part; a Job carries them to the target."""
    COMPLETED = "Completed"
    """Every member keeps its part, and all of it is at the target."""
    FAILED = "Failed"
    """It can never be; the message says why."""


class BackupSpec(Model):
    """What is declared."""

    RULES: ClassVar = (
        Rule(
            "self == oldSelf",
            "a Backup can't be changed: make another one",
            lambda s, old: s == old,
        ),
    )

    cluster: Name = Field(description="A Cluster of the same namespace.")
    target: Place | None = Field(
        default=None, description="Where it is carried to; not given: it stays with the members."
    )


class BackedUpMember(Model):
    """One member's part."""

    name: str
    directory: str = Field(description="In the member's pod.")
    files: int
    bytes: int
    own_bytes: int = Field(description="Of files that no earlier backup has.")


class BackupStatus(Model):
    """What became of it."""

    observed_generation: int = 0
    phase: BackupPhase = BackupPhase.PENDING
    message: str = ""
    kept_as: str = Field(default="", description="Its name in the grid (`holdfast backups`).")
    started_at: datetime | None = None
    completed_at: datetime | None = None
    members: Annotated[list[BackedUpMember], Field(default_factory=list, max_length=2_000)]
    place: str = Field(default="", description="Where it was carried to.")
    size: str = Field(default="", description="Bytes of all its files.")
    copied: str = Field(default="", description="Bytes of those that no earlier backup has.")


class BackupScheduleSpec(Model):
    """What is declared."""

    RULES: ClassVar = (
        Rule(
            "self.cluster == oldSelf.cluster",
            "the cluster of a BackupSchedule can't be changed: make another one",
            lambda s, old: s.cluster == old.cluster,
        ),
        Rule(
            r"self.schedule.matches('^[0-9*/,-]+( [0-9*/,-]+){4}$')",
            "schedule needs five fields of numbers, as cron has them: '0 3 * * *'",
            lambda s, _: is_schedule(s.schedule),
        ),
    )

    cluster: Name = Field(description="A Cluster of the same namespace.")
    schedule: str = Field(
        min_length=9, max_length=128, description="As cron's: '0 3 * * *'. In UTC."
    )
    target: Place | None = Field(default=None, description="As a Backup's.")
    keep: int = Field(
        default=7, ge=1, le=1_000, description="So many stay; older ones are removed."
    )
    suspend: bool = Field(default=False, description="Make none now.")


class BackupScheduleStatus(Model):
    """What became of it."""

    observed_generation: int = 0
    last_backup: str = ""
    last_time: datetime | None = Field(default=None, description="For which the last one was made.")
    next_time: datetime | None = None
    kept: int = Field(default=0, description="Complete ones that there are.")
    message: str = ""
