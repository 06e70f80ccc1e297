"""Errors as problem documents (RFC 9457): whatever goes wrong, the body says what and why.

The errors of the core keep their own words. What nobody expected is logged here and answered
without its innards.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from holdfast.shell.http.bearer import CHALLENGE
from holdfast.shell.http.refusals import Kind, Refused, problem
from holdfast.wire.api import PROBLEM_TYPE
from holdfast.wire.api.problems import Problem, WrongField

LOG: Final = logging.getLogger("holdfast.http")


OF_STATUS: Final[Mapping[int, Kind]] = {
    404: Kind.NOT_FOUND,
    405: Kind.METHOD_NOT_ALLOWED,
    400: Kind.BAD_REQUEST,
}
"""What the framework refuses by itself."""


def document(
    kind: Kind,
    detail: str,
    path: str,
    *,
    errors: list[WrongField] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer."""
    about = kind.value
    told = Problem(**{**problem(kind, detail, path), "errors": errors or []})
    more = dict(headers or {})
    if about.retry_after:
        more["retry-after"] = "1"
    if kind is Kind.NOT_AUTHORIZED:
        more["www-authenticate"] = CHALLENGE
    return Response(told.model_dump_json(), about.status, more, PROBLEM_TYPE)


def install(app: FastAPI) -> None:
    """Have the app answer every error so."""
    app.add_exception_handler(Refused, _on_refused)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_framework)
    app.add_exception_handler(Exception, _on_unexpected)


def _on_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return document(error.kind, error.message, request.url.path, headers=error.headers)


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = [
        WrongField(where=".".join(map(str, each["loc"])), message=each["msg"])
        for each in error.errors()
    ]
    detail = "; ".join(f"{each.where}: {each.message}" for each in wrong)
    if any(each["loc"] == ("body",) for each in error.errors()) and not is_json(request):
        detail += "; a body is read as JSON if it says so: content-type: application/json"
    return document(Kind.INVALID, detail, request.url.path, errors=wrong)


def is_json(request: Request) -> bool:
    """Whether the request calls its body so."""
    return "json" in request.headers.get("content-type", "")


def _on_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = OF_STATUS.get(error.status_code, Kind.BAD_REQUEST)
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return document(kind, detail, request.url.path, headers=error.headers)


def _on_unexpected(request: Request, error: Exception) -> Response:
    LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return document(Kind.INTERNAL, "it is in the log of the member that answered", request.url.path)
