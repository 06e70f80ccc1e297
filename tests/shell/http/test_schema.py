"""The interface does what its OpenAPI document says, whatever it is asked."""

from __future__ import annotations

import re
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from holdfast.core.stores.record import ABSENT, Kind, build
from holdfast.ids import PartitionId
from holdfast.shell.http.manual import page
from holdfast.wire.api.bulk import ROWS_TYPE
from holdfast.wire.rows import About, encode
from tests.shell.http.clusters import Running

schemathesis.openapi.media_type(
    ROWS_TYPE,
    st.binary(max_size=200)
    | st.builds(
        lambda partition, key: encode(
            About(PartitionId(partition), 0, 0), [(key, build(ABSENT, Kind.STRING, 0, b"v"))]
        ),
        st.integers(0, 15),
        st.binary(max_size=10),
    ),
)
STATE = "/v1/cluster/state"
STREAM = "/v1/migrations/events"
"""It has no end; `test_cluster` reads it."""
EXAMPLES = 8


bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def ask(schema: Any, mode: GenerationMode, excluded: list[Any]) -> int:
    """Ask for everything, and check every answer; how many operations could be asked so."""
    count = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @bounded
        @given(case=operation.as_strategy(generation_mode=mode))
        def answers_are_as_described(case: Any) -> None:
            case.call_and_validate(excluded_checks=excluded, timeout=30)

        try:
            answers_are_as_described()
        except Unsatisfiable:  # what takes nothing can't be asked badly
            assert mode is GenerationMode.NEGATIVE, operation.label
        else:
            count += 1
    return count


@pytest.mark.parametrize(
    ("mode", "operations"), [(GenerationMode.POSITIVE, 25), (GenerationMode.NEGATIVE, 12)]
)
def test_answers_are_as_described(one: Running, mode: GenerationMode, operations: int) -> None:
    """Conditions of a write may not hold, and keys may have colons: that is no fault."""
    schema = schemathesis.openapi.from_url(f"{one.url}/openapi.json")
    some = schema.exclude(path=STREAM).exclude(path=STATE)
    assert ask(some, mode, [positive_data_acceptance]) == operations
    assert one.is_ready()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_answers_about_the_state_are_as_described(one: Running, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{one.url}/openapi.json").include(path=STATE)
    assert ask(schema, mode, [positive_data_acceptance]) == 1


def test_every_operation_and_field_is_explained(one: Running) -> None:
    document = one.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), f"{method} {path}"
            assert "default" in operation["responses"], f"{method} {path}"
    assert "/v1/members/self/report" not in document["paths"]
    assert document["components"]["schemas"]["Problem"]["required"]


def test_the_page_for_people_needs_nothing_from_elsewhere(one: Running) -> None:
    """It is complete in itself: a cluster without a way out must not show a blank page."""
    answer = one.get("/docs")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"<script|<link|<img|src=|@import|url\(", answer.text)
    assert re.findall(r'href="([^"]*)"', answer.text) == ["/openapi.json"]
    document = one.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"<b>{method.upper()}</b>{path}</h3>" in answer.text
    for name in document["components"]["schemas"]:
        assert f'id="{name}"' in answer.text


def test_whatever_a_document_says_is_shown_as_text() -> None:
    document = {
        "info": {"title": "<T>", "version": "1"},
        "paths": {"/<p>": {"get": {"summary": "<b>", "responses": {}}}},
    }
    shown = page(document)
    assert "<h1>&lt;T&gt; <small>1</small></h1>" in shown
    assert "<h2>other</h2>" in shown
    assert "/&lt;p&gt;" in shown
    assert "<p>&lt;b&gt;</p>" in shown
