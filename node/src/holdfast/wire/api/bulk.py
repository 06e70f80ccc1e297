"""Jobs, as they are told over HTTP. Rows themselves are no JSON: `wire.rows`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, Field

from holdfast.ids import PARTITION_COUNT_MAX

ROWS_TYPE: Final = "application/vnd.holdfast.rows"
"""Media type of blocks of rows."""
OWNER: Final = "holdfast-owner"
"""Header of a refusal: where the owner of the partition answers HTTP."""
FIRST: Final = "holdfast-first"
"""Header of a gap: the oldest point that can be gone on from."""
DONE: Final = "holdfast-done"
"""Header of a refusal of several partitions: at least so many of them, the first ones, are done."""
IDS_PATTERN: Final = "^[0-9]{1,5}(,[0-9]{1,5}){0,255}$"
"""Several partitions in a query."""
PARTITIONS_MAX: Final = 256
"""In one request."""
ATTEMPTS_MAX: Final = 4_096
"""Likewise."""
ID_PATTERN: Final = "^[A-Za-z0-9._~-]{1,128}$"
"""Of jobs, tasks and attempts: it stands in a path as it is."""
LIFE_SECONDS: Final = 3_600.0
LIFE_SECONDS_MAX: Final = 7 * 24 * 3_600.0


class Mode(StrEnum):
    """What becomes of what is there of the name."""

    APPEND = "append"
    REPLACE = "replace"


Place = Annotated[int, Field(ge=0, lt=PARTITION_COUNT_MAX)]
Count = Annotated[int, Field(ge=1, le=4_096)]


class AttemptModel(BaseModel):
    """An attempt of a task that counts."""

    task: str = Field(pattern=ID_PATTERN)
    attempt: str = Field(pattern=ID_PATTERN)
    blocks: dict[Place, Count] = Field(
        max_length=PARTITIONS_MAX,
        description="By partition, how many it has there.",
        examples=[{"0": 1, "3": 2}],
    )


class JobEnd(BaseModel):
    """A job at its end, as far as it concerns some partitions of one owner."""

    name: str = Field(min_length=1, max_length=65_536, pattern="^[^:]+$", description="Of the map.")
    mode: Mode = Field(Mode.APPEND, description="append writes over; replace removes the rest.")
    life_seconds: float = Field(
        LIFE_SECONDS, ge=0.001, le=LIFE_SECONDS_MAX, description="How long it is remembered."
    )
    partitions: list[Place] = Field(
        min_length=1, max_length=PARTITIONS_MAX, description="Which are asked, in this order."
    )
    attempts: list[AttemptModel] = Field(
        default_factory=list, max_length=ATTEMPTS_MAX, description="Which attempts count, in order."
    )


class JobState(BaseModel):
    """Where a job is in all the partitions that were asked."""

    state: str = Field(examples=["staging", "published", "discarded"])
