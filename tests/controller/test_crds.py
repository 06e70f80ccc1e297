"""The definitions that Kubernetes is given are those of the models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from holdfast_operator.crds import KINDS, Kind, definition, schema_of, text_of
from holdfast_operator.model.base import Model
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.status import ClusterStatus
from tests.controller.bad_specs import BAD, Bad

FOLDER = Path(__file__).parents[2] / "charts/holdfast/crds"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_files_are_generated(kind: Kind) -> None:
    file = FOLDER / f"holdfast.io_{kind.plural}.yaml"
    assert file.read_text(encoding="utf-8") == text_of(kind), "run `make crds`"


def test_there_are_no_other_files() -> None:
    assert len(list(FOLDER.iterdir())) == len(KINDS)


def nodes(schema: Any) -> list[dict[str, Any]]:
    """Every schema within."""
    found = [schema]
    for each in schema.get("properties", {}).values():
        found += nodes(each)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found += nodes(schema[key])
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_schemas_are_structural(kind: Kind) -> None:
    version = definition(kind)["spec"]["versions"][0]
    for node in nodes(version["schema"]["openAPIV3Schema"]):
        assert "type" in node
        assert not {"$ref", "anyOf", "oneOf", "allOf", "title"} & node.keys()
        if node["type"] == "array":
            assert "items" in node


def test_the_cluster_scales_and_shows_its_columns() -> None:
    cluster = yaml.safe_load(text_of(KINDS[0]))["spec"]
    version = cluster["versions"][0]
    assert cluster["names"]["shortNames"] == ["hfc"]
    assert cluster["names"]["categories"] == ["holdfast"]
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.members"
    titles = [each["name"].upper() for each in version["additionalPrinterColumns"]]
    assert titles == [
        "STATE", "PENDING", "MEMBERS", "LITE", "SAFE", "MIGRATIONS", "PHASE", "AGE",
    ]  # fmt: skip
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    for column in version["additionalPrinterColumns"][:-1]:
        at: Any = {"properties": properties}
        for part in column["jsonPath"].strip(".").split("."):
            at = at["properties"][part]
        assert at["type"] == column["type"]


@pytest.mark.parametrize("bad", [bad for bad in BAD if bad.by_form], ids=lambda bad: bad.name)
def test_limits_of_form_are_in_the_schema(bad: Bad) -> None:
    kind = next(each for each in KINDS if each.name == bad.kind)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bad.spec, schema_of(kind.spec))


def test_defaults_of_the_schema_are_those_of_the_models() -> None:
    def filled(schema: Any) -> Any:
        if schema["type"] != "object" or "properties" not in schema:
            return schema.get("default")
        return {
            key: value
            for key, each in schema["properties"].items()
            if not each.get("required") and (value := filled(each)) is not None
        }

    by_schema = ClusterSpec.model_validate(filled(schema_of(ClusterSpec)))
    assert by_schema == ClusterSpec.model_validate({})


def test_a_status_fits_its_schema() -> None:
    made = ClusterStatus.model_validate({"clusterId": "x"}).wire()
    jsonschema.validate(made, schema_of(ClusterStatus))


def test_what_has_no_structural_schema_is_an_error() -> None:
    class Union(Model):
        either: int | str = 1

    class Anything(Model):
        it: object = None

    for model in (Union, Anything):
        with pytest.raises(TypeError, match="structural"):
            schema_of(model)
