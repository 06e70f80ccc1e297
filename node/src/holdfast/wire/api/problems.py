"""Problem documents (RFC 9457): the body of every answer that is an error."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class WrongField(BaseModel):
    """One thing that is wrong with a request."""

    where: str = Field(description="The place in the request.", examples=["body.state"])
    message: str = Field(description="What is wrong there.")


class Problem(BaseModel):
    """Why a request was not done, and what can be done about it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:holdfast:problem:illegal-state",
                    "title": "The cluster is not in a state that allows this",
                    "status": 409,
                    "detail": "3 migrations are running; ask to wait, or ask again later",
                    "instance": "/v1/cluster/state",
                    "errors": [],
                }
            ]
        }
    )

    type: str = Field(description="Names the kind of the problem; it does not change.")
    title: str = Field(description="The same in words.")
    status: int = Field(description="The status of the answer.", ge=400, le=599)
    detail: str = Field(description="What happened this time, in one sentence.")
    instance: str = Field(description="The path that was asked for.")
    errors: list[WrongField] = Field(
        default_factory=list, description="Each thing that is wrong with the request."
    )
