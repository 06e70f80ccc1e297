"""Why a spec can't work, in sentences: what CEL says too, and what it can't say.

The webhook asks before an object is kept; the plan asks again before it acts, as an object may have
come past the webhook. An error of form is told by where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from holdfast_operator.model.base import Model
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.restore import RestoreSpec
from holdfast_operator.quantities import number

RESERVED: Final = ("HOLDFAST_", "POD_NAMESPACE", "NODE_NAME")
REASONS_MAX: Final = 10

Spec = TypeVar("Spec", bound=Model)


def parsed(kind: type[Spec], raw: object) -> tuple[Spec | None, list[str]]:
    """A spec, or why it is none."""
    try:
        return kind.model_validate(raw), []
    except ValidationError as error:
        return None, [_sentence(each) for each in error.errors()[:REASONS_MAX]]


def _sentence(error: Any) -> str:
    where = ".".join(str(part) for part in ("spec", *error["loc"]))
    return f"{where}: {error['msg']}"


def broken_rules(new: BaseModel, old: BaseModel | None, where: str = "spec") -> Iterator[str]:
    """Sentences of all rules that do not hold, in this model and those within."""
    for rule in getattr(new, "RULES", ()):
        if rule.is_transition and old is None:
            continue
        if not rule.holds(new, old):
            yield f"{where}: {rule.message}"
    for name in type(new).model_fields:
        value, before = getattr(new, name), getattr(old, name, None)
        if isinstance(value, BaseModel):
            yield from broken_rules(value, before, f"{where}.{name}")
        elif isinstance(value, list):
            for i, each in enumerate(value):
                if isinstance(each, BaseModel):
                    yield from broken_rules(each, None, f"{where}.{name}[{i}]")


def restore_reasons(new: RestoreSpec, old: BaseModel | None, *, sees_zones: bool) -> list[str]:
    """Why this Restore can't be: also what its Cluster would be refused for."""
    inside = cluster_reasons(new.cluster.spec, None, sees_zones=sees_zones, rules=False)
    return [*broken_rules(new, old), *(f"spec.cluster.{each}" for each in inside)][:REASONS_MAX]


def cluster_reasons(
    new: ClusterSpec, old: ClusterSpec | None, *, sees_zones: bool, rules: bool = True
) -> list[str]:
    """Why this Cluster can't be; without `rules`, what they don't say."""
    found = [*_environment(new), *_resources(new)]
    if rules:
        found = [*broken_rules(new, old), *found]
    if new.availability.spread.value == "Zone" and not sees_zones:
        found.append(
            "spec.availability.spread: the operator may not read nodes, so it can't tell zones:"
            " choose Node"
        )
    return found[:REASONS_MAX]


def _environment(spec: ClusterSpec) -> Iterator[str]:
    for each in spec.pod_template.env:
        name = str(each.get("name", ""))
        if not name:
            yield "spec.podTemplate.env: an entry has no name"
        if name.startswith(RESERVED):
            yield f"spec.podTemplate.env: {name} is set by the operator: use the spec's own field"


def _resources(spec: ClusterSpec) -> Iterator[str]:
    requests, limits = spec.resources.requests, spec.resources.limits
    for where, values in (("requests", requests), ("limits", limits)):
        for key, text in values.items():
            if number(text) is None:
                yield f"spec.resources.{where}.{key}: {text!r} is no quantity"
    for key in sorted(requests.keys() & limits.keys()):
        asked, most = number(requests[key]), number(limits[key])
        if asked is not None and most is not None and asked > most:
            yield f"spec.resources: the request of {key} is more than its limit"
