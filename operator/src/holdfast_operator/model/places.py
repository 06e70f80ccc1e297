"""Where backups are kept away from the members: a claim, or an object store."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from holdfast_operator.model.base import Model, Rule

Name = Annotated[str, Field(min_length=1, max_length=253)]


class ObjectStore(Model):
    """A bucket of a store that speaks S3."""

    bucket: str = Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9._\-]+$")
    prefix: str = Field(
        default="", max_length=512, pattern=r"^[A-Za-z0-9._/\-]*$", description="Of all names."
    )
    endpoint: str = Field(
        default="",
        max_length=512,
        pattern=r"^(https?://\S+)?$",
        description="URL of the store; not given: that of Amazon's region.",
    )
    region: str = Field(default="us-east-1", max_length=64, pattern=r"^[A-Za-z0-9\-]+$")
    credentials: Name = Field(
        description="A Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and if needed"
        " AWS_SESSION_TOKEN."
    )


class Place(Model):
    """One of both."""

    RULES: ClassVar = (
        Rule(
            "has(self.claim) != has(self.objectStore)",
            "give either a claim or an objectStore",
            lambda s, _: (s.claim is None) != (s.object_store is None),
        ),
    )

    claim: Name | None = Field(
        default=None,
        description="A claim of the same namespace. Where pods of several nodes read it, it needs"
        " the access mode ReadWriteMany or ReadOnlyMany.",
    )
    path: str = Field(
        default="backups",
        max_length=512,
        pattern=r"^[A-Za-z0-9_\-][A-Za-z0-9_./\-]*$",
        description="A folder in the claim.",
    )
    object_store: ObjectStore | None = None

    @property
    def where(self) -> str:
        """For people."""
        store = self.object_store
        if store is None:
            return f"claim {self.claim}, {self.path}"
        return "s3://" + "/".join(filter(None, (store.bucket, store.prefix.strip("/"))))
