"""Whatever goes wrong is a problem document, and says what."""

from __future__ import annotations

import logging

import httpx
import pytest
from fastapi import FastAPI

from holdfast.shell.http.problems import install
from holdfast.shell.http.refusals import OF_ERRORS, Kind, of_error, of_reply
from holdfast.wire.api.problems import Problem
from tests.shell.http.clusters import Processes, Running


def problem(answer: httpx.Response, status: int, kind: str) -> Problem:
    """The document, which has to be one."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = Problem.model_validate_json(answer.content)
    assert (told.status, told.type) == (status, f"urn:holdfast:problem:{kind}")
    assert told.instance == answer.request.url.path
    assert told.detail
    return told


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/nothing", "", 404, "not-found"),
        ("GET", "/v1/maps/no-key", "", 404, "not-found"),
        ("DELETE", "/v1/cluster", "", 405, "method-not-allowed"),
        ("PUT", "/v1/cluster/state", "", 422, "invalid"),
        ("PUT", "/v1/cluster/state", "{", 422, "invalid"),
        ("PUT", "/v1/cluster/state", "[]", 422, "invalid"),
        ("PUT", "/v1/cluster/state", '{"state": "HAPPY"}', 422, "invalid"),
        ("PUT", "/v1/cluster/state", '{"state": "IN_TRANSITION"}', 422, "invalid"),
        ("PUT", "/v1/cluster/state", '{"state": "ACTIVE", "wiat": 1}', 422, "invalid"),
        ("PUT", "/v1/cluster/state", '{"state": "ACTIVE", "wait": -1}', 422, "invalid"),
        ("POST", "/v1/members/nobody:promote", "", 404, "not-found"),
        ("POST", "/v1/members/one:promote", "", 409, "illegal-state"),
        ("POST", "/v1/members/one:demote", "", 409, "illegal-state"),
        ("POST", "/v1/members/one:dance", "", 404, "not-found"),
        ("POST", "/v1/members/one:confirm-dead", '{"incarnation": 1}', 409, "illegal-state"),
        ("POST", "/v1/members/one:confirm-dead", "{}", 422, "invalid"),
        ("GET", "/v1/partitions?health=perhaps", "", 422, "invalid"),
        ("GET", "/v1/migrations/events?interval=0", "", 422, "invalid"),
    ],
)
def test_bad_requests_are_told(
    one: Running, method: str, path: str, body: str, status: int, kind: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = httpx.request(method, one.url + path, content=body, headers=headers, timeout=30)
    problem(answer, status, kind)


def test_a_body_that_does_not_say_that_it_is_json_is_told_how(one: Running) -> None:
    """As curl sends it, if nothing else is said."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    body = '{"state": "ACTIVE"}'
    answer = httpx.put(one.url + "/v1/cluster/state", content=body, headers=headers, timeout=30)
    told = problem(answer, 422, "invalid")
    assert told.detail.endswith("if it says so: content-type: application/json")


def test_every_error_of_a_request_is_told_at_once(one: Running) -> None:
    body = {"state": "HAPPY", "wait": -1, "more": 1}
    answer = httpx.put(f"{one.url}/v1/cluster/state", json=body)
    told = problem(answer, 422, "invalid")
    assert {each.where for each in told.errors} == {"body.state", "body.wait", "body.more"}


def test_what_is_not_allowed_says_what_is(one: Running) -> None:
    assert httpx.delete(f"{one.url}/v1/cluster").headers["allow"] == "GET"


def test_a_page_of_another_site_changes_nothing(one: Running) -> None:
    host = one.ends["http"]
    for path, origin, status in (
        ("/v1/cluster/state", "http://evil.example", 403),
        ("/v1/cluster/state", "null", 403),
        ("/v1/cluster/state", "http://[", 403),
        ("/v1/cluster/state", f"http://{host}", 200),
        ("/v1/maps/m/k", "http://evil.example", 403),
    ):
        answer = httpx.put(
            one.url + path, json={"state": "ACTIVE"}, headers={"origin": origin}, timeout=30
        )
        assert answer.status_code == status, (path, origin)
    post = httpx.post(f"{one.url}/v1/members/one:shutdown", headers={"origin": "http://x"})
    problem(post, 403, "foreign-origin")


@pytest.mark.parametrize(
    "credentials",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer a secr\u00e9t of some lengt"},
        {"authorization": "Basic a secr\u00e9t of some length"},
        {"authorization": "Bearer \u00e4"},
    ],
)
def test_what_changes_the_cluster_needs_its_secret(
    several: Processes, credentials: dict[str, str]
) -> None:
    url = several.members[0].url
    headers = {name: value.encode("latin-1") for name, value in credentials.items()}
    with httpx.Client(base_url=url, headers=list(headers.items()), timeout=30) as client:  # type: ignore[arg-type]
        for method, path in (
            ("PUT", "/v1/cluster/state"),
            ("POST", "/v1/members/two:shutdown"),
            ("POST", "/v1/members/light:promote"),
            ("POST", "/v1/members/one:demote"),
            ("POST", "/v1/members/two:confirm-dead"),
            ("GET", "/v1/members/self/report"),
            ("GET", "/v1/members/self/names"),
        ):
            answer = client.request(method, path)
            problem(answer, 401, "not-authorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert client.get("/v1/cluster").status_code == 200


def test_who_knows_the_secret_may(several: Processes) -> None:
    first = several.members[0]
    report = first.get("/v1/members/self/report", **several.credentials)
    assert report.status_code == 200


def test_a_request_that_was_passed_on_is_not_passed_on_again(several: Processes) -> None:
    asked = several.others()[0]
    answer = asked.get("/v1/migrations", **{"holdfast-forwarded": "1"})
    told = problem(answer, 421, "misdirected")
    assert several.master().ends["http"] in told.detail


async def test_what_nobody_expected_is_logged_and_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = FastAPI()
    install(app)

    @app.get("/broken")
    async def broken() -> None:
        raise ZeroDivisionError("innards")

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    with caplog.at_level(logging.ERROR, "holdfast.http"):
        async with httpx.AsyncClient(transport=transport, base_url="http://m") as client:
            answer = await client.get("/broken")
    problem(answer, 500, "internal")
    assert "innards" not in answer.text
    assert "innards" in caplog.text


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        ("ERR no", Kind.BAD_REQUEST, "no"),
        ("STRANGE no", Kind.BAD_REQUEST, "STRANGE no"),
        ("OOM no room", Kind.NO_ROOM, "no room"),
        ("TRYAGAIN later", Kind.UNAVAILABLE, "later"),
        ("UNKNOWNOUTCOME who knows", Kind.UNKNOWN_OUTCOME, "who knows"),
        ("MOVED 7 host:1", Kind.MISDIRECTED, "the key's owner is at host:1"),
    ],
)
def test_errors_of_commands_become_problems(text: str, kind: Kind, detail: str) -> None:
    refused = of_reply(text)
    assert (refused.kind, refused.message) == (kind, detail)


def test_errors_of_requests_become_problems() -> None:
    for name, kind in OF_ERRORS.items():
        assert of_error(name, "why").kind is kind
    assert of_error("Surprise", "why").kind is Kind.INTERNAL
