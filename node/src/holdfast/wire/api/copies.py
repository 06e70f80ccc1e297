"""What one member has of a partition, summed up fragment by fragment."""

from __future__ import annotations

from pydantic import BaseModel, Field


class CopyModel(BaseModel):
    """One fragment at one member."""

    name: str = Field(description="Of the fragment, as it would stand in a URL; empty: internal.")
    epoch: int = Field(description="Of the point of its history at which the copy stands.")
    counter: int = Field(description="The number of that point.")
    clean: bool = Field(description="Whether nothing is missing, as far as this member knows.")
    copies: int = Field(description="How many holders are to have it, by its settings.")
    keys: int = Field(description="How many records it has; locks are not counted.")
    weight: str = Field(description="The sum over all of them, as 16 hexadecimal digits.")


class CopiesModel(BaseModel):
    """Everything that one member has of a partition."""

    member: str = Field(description="Id of the member that answers.")
    partition: int
    index: int = Field(description="At which this member has it by the row; -1 at none.")
    copies: list[CopyModel]
