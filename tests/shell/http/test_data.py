"""Single values over HTTP: bytes of keys and values, versions, lives, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from holdfast.client.connection import Connection
from tests.shell.http.clusters import Processes, Running
from tests.shell.waiting import wait_until


def redis(member: Running, *command: bytes) -> object:
    """The same member over Redis' protocol."""

    async def ask() -> object:
        connection = await Connection.to(member.ends["plain"])
        try:
            return (await connection.ask([command], 10))[0]
        finally:
            connection.close()

    return asyncio.run(ask())


def put(member: Running, path: str, value: bytes, **headers: str) -> httpx.Response:
    """Write a value."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.put(f"{member.url}/v1/maps/{path}", content=value, headers=named, timeout=30)


def delete(member: Running, path: str, **headers: str) -> httpx.Response:
    """Remove a value."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.delete(f"{member.url}/v1/maps/{path}", headers=named, timeout=30)


def test_a_value_is_written_read_and_removed(one: Running) -> None:
    assert one.get("/v1/maps/things/a").status_code == 404
    value = bytes(range(256)) * 3
    assert put(one, "things/a", value).status_code == 204
    found = one.get("/v1/maps/things/a")
    assert (found.status_code, found.content) == (200, value)
    assert found.headers["content-type"] == "application/octet-stream"
    assert redis(one, b"GET", b"things:a") == value
    assert delete(one, "things/a").status_code == 204
    assert delete(one, "things/a").status_code == 404
    assert redis(one, b"GET", b"things:a") is None


@pytest.mark.parametrize("key", [b"a/b//c", b"\xff\x00\xfe", b"%2F", b" ?#", b"a:b", b"\xc3\xa4"])
def test_the_bytes_of_the_path_are_the_bytes_of_the_key(one: Running, key: bytes) -> None:
    assert put(one, f"things/{quote(key, safe='')}", b"v").status_code == 204
    assert redis(one, b"GETDEL", b"things:" + key) == b"v"


def test_the_default_map_has_keys_without_a_name(one: Running) -> None:
    assert put(one, "default/plain", b"v").status_code == 204
    assert redis(one, b"GET", b"plain") == b"v"
    assert one.get("/v1/maps/default/plain").content == b"v"


def test_a_write_asks_for_the_version_that_its_writer_knows(one: Running) -> None:
    first = put(one, "things/tagged", b"1").headers["etag"]
    assert one.get("/v1/maps/things/tagged").headers["etag"] == first
    second = put(one, "things/tagged", b"2", if_match=first)
    assert second.status_code == 204
    assert second.headers["etag"] != first
    late = put(one, "things/tagged", b"3", if_match=first)
    assert (late.status_code, late.json()["type"]) == (
        412,
        "urn:holdfast:problem:precondition-failed",
    )
    assert delete(one, "things/tagged", if_match=first).status_code == 412
    assert one.get("/v1/maps/things/tagged").content == b"2"
    assert delete(one, "things/tagged", if_match=second.headers["etag"]).status_code == 204
    assert put(one, "things/tagged", b"4", if_match="*").status_code == 412
    assert put(one, "things/tagged", b"4", if_none_match="*").status_code == 204
    assert put(one, "things/tagged", b"5", if_none_match="*").status_code == 412
    assert delete(one, "things/tagged", if_match="*").status_code == 204
    assert delete(one, "things/tagged", if_match=first).status_code == 412


def test_what_has_not_changed_is_not_sent_again(one: Running) -> None:
    tag = put(one, "things/cached", b"v").headers["etag"]
    same = one.get("/v1/maps/things/cached", **{"if-none-match": f'"0011", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert one.get("/v1/maps/things/cached", **{"if-none-match": "*"}).status_code == 304
    assert one.get("/v1/maps/things/cached", **{"if-none-match": '"0011"'}).status_code == 200


def test_a_value_lives_as_long_as_it_was_said_or_as_the_map_says(one: Running) -> None:
    put(one, "things/short", b"v", ttl="0.2")
    wait_until(lambda: one.get("/v1/maps/things/short").status_code == 404, "the value has expired")
    put(one, "things/long", b"v", ttl="100")
    assert 90 < float(one.get("/v1/maps/things/long").headers["ttl"]) <= 100
    put(one, "things/ever", b"v")
    assert "ttl" not in one.get("/v1/maps/things/ever").headers
    put(one, "users/1", b"v")
    assert 3_500 < float(one.get("/v1/maps/users/1").headers["ttl"]) <= 3_600


def test_a_key_of_another_kind_is_told(one: Running) -> None:
    redis(one, b"RPUSH", b"things:list", b"x")
    told = one.get("/v1/maps/things/list")
    assert (told.status_code, told.json()["title"]) == (409, "The key is of another kind")
    assert delete(one, "things/list").status_code == 204


def test_a_locked_key_is_told(one: Running) -> None:
    redis(one, b"HOLDFAST.LOCK", b"things:locked", b"60000")
    told = put(one, "things/locked", b"v")
    assert (told.status_code, told.headers["retry-after"]) == (423, "1")


@pytest.mark.parametrize(
    ("path", "headers", "status", "words"),
    [
        ("a:b/c", {}, 422, "mind the colons"),
        ("default/a:b", {}, 422, "mind the colons"),
        ("%00%FF/c", {}, 204, ""),
        ("things/a", {"if_match": "abc"}, 400, "in its quotes"),
        ("things/a", {"if_none_match": '"00"'}, 400, "If-None-Match of a write is *"),
        ("things/a", {"if_match": "*", "if_none_match": "*"}, 400, "give one of them"),
        ("things/a", {"ttl": "0"}, 400, "a number of seconds above 0"),
        ("things/a", {"ttl": "-1"}, 400, "a number of seconds above 0"),
        ("things/a", {"ttl": "soon"}, 400, "a number of seconds above 0"),
        ("things/a", {"ttl": "0.0001"}, 400, "a number of seconds above 0"),
    ],
)
def test_what_can_not_be_is_a_problem(
    one: Running, path: str, headers: dict[str, str], status: int, words: str
) -> None:
    told = put(one, path, b"v", **headers)
    assert told.status_code == status, told.text
    if words:
        assert told.headers["content-type"] == "application/problem+json"
        assert words in told.json()["detail"]


def test_a_value_that_is_too_large_is_refused_and_the_member_lives_on(one: Running) -> None:
    told = put(one, "things/large", b"x" * ((64 << 20) + 1))
    assert (told.status_code, told.json()["type"]) == (413, "urn:holdfast:problem:too-large")
    assert one.is_ready()


def test_as_many_connections_as_there_may_be_are_told(tmp_path: Path) -> None:
    """The only connection is in use; HTTP has no room either, and says when to come again."""
    processes = Processes(tmp_path, settings="connections_max = 1\n[unnamed]\nbackups = 0\n")
    try:
        member = processes.start("small")
        processes.settle()

        async def while_connected() -> httpx.Response:
            connection = await Connection.to(member.ends["plain"])
            try:
                await connection.ask([(b"GET", b"k")], 10)
                return await asyncio.to_thread(member.get, "/v1/maps/things/a")
            finally:
                connection.close()

        told = asyncio.run(while_connected())
        assert (told.status_code, told.headers["retry-after"]) == (503, "1")
        assert "too many connections" in told.json()["detail"]
    finally:
        processes.end()
