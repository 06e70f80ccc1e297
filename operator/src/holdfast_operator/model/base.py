"""What all models share: camel case outside, and rules in CEL that go into the definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
Quantity = Annotated[str, Field(pattern=QUANTITY, max_length=32)]
Labels = Annotated[dict[str, str], Field(default_factory=dict)]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that must hold, in CEL, and what is said when it does not.

    `holds` says the same in Python, of the new and the old value: it is for whoever comes past the
    API server's own check (a definition of an older version, an object that was there before)."""

    rule: str
    message: str
    holds: Callable[[Any, Any], bool]

    @property
    def is_transition(self) -> bool:
        """Whether it is about a change: it says nothing of a new object."""
        return "oldSelf" in self.rule


class Model(BaseModel):
    """Part of a resource."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )
    RULES: ClassVar[tuple[Rule, ...]] = ()

    def wire(self) -> dict[str, Any]:
        """As it stands in a resource; what is not said is left out."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


def free_form(description: str) -> Any:
    """A field that Kubernetes itself defines: taken over as it is, and checked by the API server
    when the pod is made from it."""
    return Field(
        default_factory=dict,
        description=description,
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )


def free_list(description: str) -> Any:
    """The same for a list of objects."""
    return Field(
        default_factory=list,
        description=description,
        max_length=64,
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )
