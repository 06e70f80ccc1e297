"""Jobs, as they are told over HTTP. Rows themselves are no JSON: `wire.rows`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, Field

ROWS_TYPE: Final = "application/vnd.holdfast.rows"
"""Media type of blocks of rows."""
OWNER: Final = "holdfast-owner"
"""Header of a refusal: where the owner of the partition answers HTTP."""
FIRST: Final = "holdfast-first"
"""Header of a gap: the oldest point that can be gone on from."""
ID_PATTERN: Final = "^[A-Za-z0-9._~-]{1,128}$"
"""Of jobs, tasks and attempts: it stands in a path as it is."""
LIFE_SECONDS: Final = 3_600.0
LIFE_SECONDS_MAX: Final = 7 * 24 * 3_600.0


class Mode(StrEnum):
    """What becomes of what is there of the name."""

    APPEND = "append"
    REPLACE = "replace"


class AttemptModel(BaseModel):
    """An attempt of a task that counts."""

    task: str = Field(pattern=ID_PATTERN)
    attempt: str = Field(pattern=ID_PATTERN)
    blocks: int = Field(ge=1, le=4_096, description="How many it has in this partition.")


class JobPart(BaseModel):
    """A job at its end, as far as it concerns one partition."""

    name: str = Field(min_length=1, max_length=65_536, pattern="^[^:]+$", description="Of the map.")
    mode: Mode = Field(Mode.APPEND, description="append writes over; replace removes the rest.")
    life_seconds: float = Field(
        LIFE_SECONDS, ge=0.001, le=LIFE_SECONDS_MAX, description="How long it is remembered."
    )
    attempts: list[AttemptModel] = Field(
        default_factory=list, max_length=4_096, description="Which attempts count, in order."
    )


class JobState(BaseModel):
    """Where a job is in one partition."""

    state: str = Field(examples=["staging", "published", "discarded"])
