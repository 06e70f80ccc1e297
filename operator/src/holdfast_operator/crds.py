"""The CustomResourceDefinitions, generated from the models: `python -m holdfast_operator.crds DIR`.

Kubernetes wants *structural* schemas: no references, no unions, a type everywhere. So the schema
that pydantic gives is unfolded, and the few forms that our models use are rewritten; anything else
is an error here rather than a definition that says less than the model.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from holdfast_operator.model.backup import (
    BackupScheduleSpec,
    BackupScheduleStatus,
    BackupSpec,
    BackupStatus,
)
from holdfast_operator.model.base import Model
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.restore import RestoreSpec, RestoreStatus
from holdfast_operator.model.status import ClusterStatus
from holdfast_operator.names import GROUP, VERSION

KEPT: Final = (
    "type",
    "description",
    "enum",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "default",
    "x-kubernetes-preserve-unknown-fields",
)
LENGTHS: Final = {
    "minLength": "minLength",
    "maxLength": "maxLength",
    "minItems": "minItems",
    "maxItems": "maxItems",
}
GENERATED: Final = "# Generated from holdfast_operator.model by `make crds`. Do not edit.\n"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of resource."""

    name: str
    plural: str
    short: tuple[str, ...]
    spec: type[Model]
    status: type[Model]
    columns: tuple[tuple[str, str, str, str], ...]
    """Title, type, path, description."""
    scale: bool = False


AGE: Final = ("Age", "date", ".metadata.creationTimestamp", "Since it was made.")
KINDS: Final = (
    Kind(
        "Cluster",
        "clusters",
        ("hfc",),
        ClusterSpec,
        ClusterStatus,
        (
            ("State", "string", ".status.state", "The state that holds."),
            ("Pending", "string", ".status.pending", "The state that is waited for."),
            ("Members", "string", ".status.members", "Ready data members of those declared."),
            ("Lite", "string", ".status.liteMembers", "Ready lite members of those declared."),
            ("Safe", "boolean", ".status.safe", "Whether every copy is there and in sync."),
            ("Migrations", "string", ".status.migrations.progress", "Completed of planned."),
            ("Phase", "string", ".status.phase", "What the operator is about."),
            AGE,
        ),
        scale=True,
    ),
    Kind(
        "Backup",
        "backups",
        ("hfb",),
        BackupSpec,
        BackupStatus,
        (
            ("Cluster", "string", ".spec.cluster", "Whose files."),
            ("Phase", "string", ".status.phase", "How far it is."),
            ("Size", "string", ".status.size", "Bytes in it."),
            ("Copied", "string", ".status.copied", "Bytes that it had to copy."),
            ("Place", "string", ".status.place", "Where it was carried to."),
            AGE,
        ),
    ),
    Kind(
        "BackupSchedule",
        "backupschedules",
        ("hfbs",),
        BackupScheduleSpec,
        BackupScheduleStatus,
        (
            ("Cluster", "string", ".spec.cluster", "Whose files."),
            ("Schedule", "string", ".spec.schedule", "When, in UTC."),
            ("Suspended", "boolean", ".spec.suspend", "Whether none is made now."),
            ("Kept", "integer", ".status.kept", "Complete ones that there are."),
            ("Last", "string", ".status.lastBackup", "The one that was made last."),
            ("Next", "string", ".status.nextTime", "When the next one is made."),
            AGE,
        ),
    ),
    Kind(
        "Restore",
        "restores",
        ("hfr",),
        RestoreSpec,
        RestoreStatus,
        (
            ("Backup", "string", ".status.backup", "What it is made of."),
            ("Cluster", "string", ".spec.cluster.name", "What it becomes."),
            ("Phase", "string", ".status.phase", "How far it is."),
            ("Members", "string", ".status.members", "That serve, of those declared."),
            ("Message", "string", ".status.message", "Why it waits, or has failed."),
            AGE,
        ),
    ),
)


def definition(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    subresources: dict[str, Any] = {"status": {}}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.members",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    spec = schema_of(kind.spec)
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": _metadata(kind),
            "spec": spec,
            "status": schema_of(kind.status),
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": list(kind.short),
                "categories": ["holdfast"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "additionalPrinterColumns": [_column(*column) for column in kind.columns],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


NAME_MAX: Final = 40


def _metadata(kind: Kind) -> dict[str, Any]:
    """A name is part of others: a Cluster's of pods and Services, which are labels of DNS."""
    name: dict[str, Any] = {"type": "string", "maxLength": NAME_MAX}
    if kind.name == "Cluster":
        name["pattern"] = "^[a-z]([a-z0-9-]*[a-z0-9])?$"
    return {"type": "object", "properties": {"name": name}}


def _column(title: str, kind: str, path: str, description: str) -> dict[str, str]:
    return {"name": title, "type": kind, "jsonPath": path, "description": description}


def schema_of(model: type[Model]) -> dict[str, Any]:
    """A structural schema with the rules of the model and of all models within."""
    full = model.model_json_schema(by_alias=True, mode="validation")
    rules = {each.__name__: each.RULES for each in models_below(model)}
    return _unfolded(full, full.get("$defs", {}), rules)


def models_below(model: type[Model]) -> list[type[Model]]:
    """The model, and all models of ours: they have different names."""
    found: list[type[Model]] = []
    pending = [Model]
    while pending:
        each = pending.pop()
        found.append(each)
        pending += each.__subclasses__()
    assert model in found
    return found


def _unfolded(
    node: Mapping[str, Any], definitions: Mapping[str, Any], rules: Mapping[str, Any]
) -> dict[str, Any]:
    node = _merged(node, definitions)
    made: dict[str, Any] = {key: node[key] for key in KEPT if key in node}
    made |= {LENGTHS[key]: node[key] for key in LENGTHS if key in node}
    if "properties" in node:
        made["properties"] = {
            key: _unfolded(each, definitions, rules) for key, each in node["properties"].items()
        }
        if node.get("required"):
            made["required"] = node["required"]
        if "default" in made:
            # whole, though what is within has defaults of its own: the API server judges a default
            # by the rules before it fills it
            within = made["properties"].items()
            made["default"] = {key: each["default"] for key, each in within if "default" in each}
        own = [{"rule": each.rule, "message": each.message} for each in rules[node["title"]]]
        if own:
            made["x-kubernetes-validations"] = own
    if "items" in node:
        made["items"] = _item(node["items"], definitions, rules)
    if made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("type", "object")
        if made["type"] == "array":
            del made["x-kubernetes-preserve-unknown-fields"]
    elif made.get("type") == "object" and "properties" not in made:
        made["additionalProperties"] = _unfolded(node["additionalProperties"], definitions, rules)
    if "type" not in made:
        raise TypeError(f"no structural schema for {node}")
    return made


def _item(
    node: Mapping[str, Any], definitions: Mapping[str, Any], rules: Mapping[str, Any]
) -> dict[str, Any]:
    if node.get("additionalProperties") is True:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return _unfolded(node, definitions, rules)


def _merged(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """References followed; `X or null` is X that may be left out."""
    merged = dict(node)
    if "anyOf" in merged:
        chosen = [each for each in merged.pop("anyOf") if each.get("type") != "null"]
        if len(chosen) != 1:
            raise TypeError(f"a union has no structural schema: {node}")
        if merged.get("default", 0) is None:
            del merged["default"]
        merged = {**chosen[0], **merged}
    while "$ref" in merged:
        name = merged.pop("$ref").rpartition("/")[2]
        description = merged.get("description")
        merged = {**definitions[name], **merged}
        if description:
            merged["description"] = description
    return merged


def text_of(kind: Kind) -> str:
    """The definition as a file."""
    body = yaml.safe_dump(definition(kind), sort_keys=False, width=100, allow_unicode=True)
    return GENERATED + body


def main(folder: str) -> None:
    """Write one file for each kind."""
    for kind in KINDS:
        path = Path(folder) / f"{GROUP}_{kind.plural}.yaml"
        path.write_text(text_of(kind), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
