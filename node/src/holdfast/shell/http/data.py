"""`/v1/maps/{name}/{key}`: one value at a time, with versions as entity tags.

The bytes of the path are the bytes of the key: whatever is percent-encoded there is taken as it is,
slashes too. The key of Redis is `name:key`, and `key` in the map `default`. Conditions are checked
in the same step as the write (`core.stores.versioned`).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

import hiredis
from fastapi import APIRouter, Depends, Header, Path, Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from holdfast.core.stores.plain import VALUE_BYTES_MAX
from holdfast.core.stores.space import DEFAULT, name_of
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.refusals import Kind, Refused, of_reply
from holdfast.shell.http.security import same_origin
from holdfast.wire.api import TTL

PREFIX: Final = b"/v1/maps/"
OCTETS: Final = "application/octet-stream"
SECONDS: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,3})?")
TAG: Final = re.compile(r'"([0-9a-fA-F]+)"')

VALUE_HEADERS: Final = {
    "ETag": {"description": "The version of the value.", "schema": {"type": "string"}},
    "TTL": {
        "description": "Seconds that it still lives; absent for ever.",
        "schema": {"type": "string"},
    },
}
READ: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The value.",
        "headers": VALUE_HEADERS,
        "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
    },
    304: {"description": "The value has that version still."},
}
WRITTEN: Final[dict[int | str, dict[str, Any]]] = {
    204: {"description": "Written, on the backups too.", "headers": {"ETag": VALUE_HEADERS["ETag"]}}
}
BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
    }
}

Name = Annotated[
    str, Path(description="Name of the map; without colons.", examples=["users"], min_length=1)
]
Key = Annotated[str, Path(description="The key, percent-encoded.", examples=["42"])]
IfMatch = Annotated[
    str | None,
    Header(description="Only if the value has this version; * for any.", examples=["*"]),
]
IfNoneMatch = Annotated[
    str | None,
    Header(description="Only if it has none of these; * for none at all.", examples=["*"]),
]
Life = Annotated[
    str | None,
    Header(
        alias=TTL,
        description="Seconds that the value lives, to the millisecond; without it the map's own.",
        examples=["60", "1.5"],
    ),
]


class DataRoutes:
    """Single values over HTTP."""

    def __init__(self, member: MemberPort, problems: dict[int | str, dict[str, Any]]) -> None:
        self._member = member
        self.router = APIRouter(tags=["data"], responses=problems)
        path, add = "/v1/maps/{name}/{key:path}", self.router.add_api_route
        add(path, self.get_value, methods=["GET"], response_class=Response, responses=READ)
        add(
            path,
            self.put_value,
            methods=["PUT"],
            status_code=204,
            response_class=Response,
            responses=WRITTEN,
            openapi_extra=BODY,
            dependencies=[Depends(same_origin)],
        )
        add(
            path,
            self.delete_value,
            methods=["DELETE"],
            status_code=204,
            response_class=Response,
            dependencies=[Depends(same_origin)],
        )

    async def get_value(
        self, request: Request, name: Name, key: Key, if_none_match: IfNoneMatch = None
    ) -> Response:
        """Read a value. It is the newest that was acknowledged to anybody."""
        found = await self._ask(b"HOLDFAST.GET", full_key(request, name, key))
        if found is None:
            raise Refused(Kind.NOT_FOUND, f"nothing is at this key of {name}")
        version, left, value = found
        headers = {"etag": f'"{version.decode()}"'}
        if left >= 0:
            headers["ttl"] = f"{left / 1_000:.3f}"
        if if_none_match is not None and _is_among(version.decode(), if_none_match):
            return Response(status_code=304, headers=headers)
        return Response(value, headers=headers, media_type=OCTETS)

    async def put_value(
        self,
        request: Request,
        name: Name,
        key: Key,
        if_match: IfMatch = None,
        if_none_match: IfNoneMatch = None,
        ttl: Life = None,
    ) -> Response:
        """Write a value. It is answered when the backups that the map promises have it."""
        condition = _condition(if_match, if_none_match)
        life = _life(ttl)
        redis_key = full_key(request, name, key)
        value = await _body(request)
        version = await self._ask(b"HOLDFAST.PUT", redis_key, value, *condition, *life)
        if version is None:
            raise Refused(Kind.PRECONDITION_FAILED, "the condition does not hold; read it again")
        return Response(status_code=204, headers={"etag": f'"{version.decode()}"'})

    async def delete_value(
        self, request: Request, name: Name, key: Key, if_match: IfMatch = None
    ) -> Response:
        """Remove a value, whatever its kind."""
        condition = _condition(if_match, None)
        wanted = [] if condition == [b"PRESENT"] else condition
        removed = await self._ask(b"HOLDFAST.REMOVE", full_key(request, name, key), *wanted)
        if removed is None:
            raise Refused(Kind.PRECONDITION_FAILED, "the condition does not hold; read it again")
        if not removed:
            raise Refused(Kind.NOT_FOUND, f"nothing is at this key of {name}")
        return Response(status_code=204)

    async def _ask(self, *command: bytes) -> Any:
        """What the command's reply says; errors become problems."""
        reply = await self._member.execute(command)
        if isinstance(reply, hiredis.ReplyError):
            raise of_reply(str(reply))
        return reply


def full_key(request: Request, name: str, key: str) -> bytes:
    """The key as Redis has it. The framework's text has lost bytes that are no text."""
    raw: bytes = request.scope["raw_path"]
    head, _, tail = raw.removeprefix(PREFIX).partition(b"/")
    map_name, map_key = unquote_to_bytes(head), unquote_to_bytes(tail)
    whole = map_key if map_name == DEFAULT else b"%b:%b" % (map_name, map_key)
    if not map_name or name_of(whole) != map_name:
        raise Refused(Kind.INVALID, f"{key!r} would not be a key of {name!r}: mind the colons")
    return whole


def _condition(if_match: str | None, if_none_match: str | None) -> list[bytes]:
    """The words of the command for it."""
    if if_match is not None and if_none_match is not None:
        raise Refused(Kind.BAD_REQUEST, "If-Match and If-None-Match: give one of them")
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise Refused(Kind.BAD_REQUEST, "If-None-Match of a write is *, or not there")
        return [b"ABSENT"]
    if if_match is None:
        return []
    if if_match.strip() == "*":
        return [b"PRESENT"]
    tag = TAG.fullmatch(if_match.strip())
    if tag is None:
        raise Refused(Kind.BAD_REQUEST, "If-Match is * or the ETag of an answer, in its quotes")
    return [b"MATCH", tag[1].encode()]


def _is_among(version: str, tags: str) -> bool:
    return tags.strip() == "*" or version in (tag.lower() for tag in TAG.findall(tags))


def _life(ttl: str | None) -> list[bytes]:
    if ttl is None:
        return []
    millis = int(Decimal(ttl) * 1_000) if SECONDS.fullmatch(ttl) else 0
    if millis <= 0:
        raise Refused(Kind.BAD_REQUEST, "TTL is a number of seconds above 0, such as 60 or 1.5")
    return [b"PX", b"%d" % millis]


async def _body(request: Request) -> bytes:
    """The value, as long as it is one."""
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > VALUE_BYTES_MAX:
                raise Refused(Kind.TOO_LARGE, f"a value has at most {VALUE_BYTES_MAX >> 20} MiB")
            parts.append(part)
    except ClientDisconnect:
        raise Refused(Kind.BAD_REQUEST, "the request broke off") from None
    return b"".join(parts)
