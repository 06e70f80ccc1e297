"""Backups of a whole cluster: what is asked for, and what there is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class BackupWish(BaseModel):
    """A backup that is to be made."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(
        default="",
        max_length=64,
        description="What it is called; without one, the time is its name.",
        examples=["before-the-upgrade"],
    )


class BackupOrder(BaseModel):
    """What one member asks the others for."""

    model_config = ConfigDict(extra="forbid")

    name: str
    parts: list[str]
    seal: bool = Field(description="Whether only to have everything in files that don't change.")


class BackupPart(BaseModel):
    """What one member keeps of a backup."""

    member: str = Field(description="Name of the member.")
    id: str = Field(description="Its identity.")
    created: float = Field(description="Seconds since 1970.")
    previous: str = Field(description="The backup that it builds on; empty for none.")
    directory: str = Field(description="Where it is, on the member's machine.")
    files: int
    bytes: int = Field(description="Of all its files.")
    own_bytes: int = Field(description="Of those that the backup before it has not.")


class OwnParts(BaseModel):
    """All parts of one member, by the name of the backup; and which members each needs."""

    parts: dict[str, BackupPart]
    needs: dict[str, list[str]]


class BackupModel(BaseModel):
    """One backup of the cluster."""

    name: str
    created: float = Field(description="When its last part was made, in seconds since 1970.")
    complete: bool = Field(description="Whether each member's part is there.")
    missing: list[str] = Field(description="Ids of members whose parts are not known to be there.")
    bytes: int = Field(description="Of all files of all parts.")
    own_bytes: int = Field(description="Of those that are new in it.")
    parts: list[BackupPart]


class BackupsModel(BaseModel):
    """All backups, the oldest first."""

    backups: list[BackupModel]
    silent_members: list[str] = Field(description="Names of members that did not answer.")
