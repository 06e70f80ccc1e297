"""Why a request over HTTP is refused: the kinds of problems, and which of them the core's are.

How they are told is in `problems`; here is nothing of a framework, which takes long to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.wire.api import PROBLEM_URN


@dataclass(frozen=True, slots=True)
class About:
    """What is the same in every problem of a kind."""

    status: int
    title: str
    retry_after: bool = False
    """Whether the same request may do better in a second."""


class Kind(Enum):
    """The kinds of problems; the name in small letters is the end of its type."""

    BAD_REQUEST = About(400, "The request makes no sense")
    NOT_AUTHORIZED = About(401, "The cluster's secret is needed")
    FOREIGN_ORIGIN = About(403, "A page of another site may not ask for this")
    NOT_FOUND = About(404, "There is no such thing")
    METHOD_NOT_ALLOWED = About(405, "This can't be done here")
    JOB_OVER = About(409, "The job is over")
    NOT_STAGED = About(409, "The job is not whole")
    ILLEGAL_STATE = About(409, "The cluster is not in a state that allows this")
    UNSUPPORTED_OPERATION = About(409, "The compatibility level of the cluster lacks this")
    WRONG_TYPE = About(409, "The key is of another kind")
    GAP = About(410, "What comes next is not kept any more")
    PRECONDITION_FAILED = About(412, "The value has another version")
    TOO_LARGE = About(413, "That is more than fits")
    MISDIRECTED = About(421, "Another member has to be asked")
    INVALID = About(422, "A part of the request can't be right")
    LOCKED = About(423, "The key is locked", retry_after=True)
    INTERNAL = About(500, "An error of Holdfast")
    NO_ANSWER = About(502, "Another member does not answer", retry_after=True)
    UNAVAILABLE = About(503, "Not at this moment", retry_after=True)
    UNKNOWN_OUTCOME = About(504, "Nobody knows whether it was done")
    NO_ROOM = About(507, "There is no room for this")


OF_ERRORS: Final[Mapping[str, Kind]] = {
    "IllegalState": Kind.ILLEGAL_STATE,
    "IllegalArgument": Kind.INVALID,
    "UnsupportedOperation": Kind.UNSUPPORTED_OPERATION,
}
"""Errors of requests, by their names in the tree."""

OF_REPLIES: Final[Mapping[str, Kind]] = {
    "WRONGTYPE": Kind.WRONG_TYPE,
    "LOCKED": Kind.LOCKED,
    "MOVED": Kind.MISDIRECTED,
    "TRYAGAIN": Kind.UNAVAILABLE,
    "CLUSTERDOWN": Kind.UNAVAILABLE,
    "UNKNOWNOUTCOME": Kind.UNKNOWN_OUTCOME,
    "GAP": Kind.GAP,
    "JOBOVER": Kind.JOB_OVER,
    "NOTSTAGED": Kind.NOT_STAGED,
    "MISCONF": Kind.NO_ROOM,
    "OOM": Kind.NO_ROOM,
}
"""Errors of commands, by their codes; what is not here is a bad request."""


class Refused(HoldfastError):
    """A request over HTTP is refused, with this kind of problem."""

    def __init__(
        self, kind: Kind, detail: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.headers = dict(headers or {})
        """What the answer says beside the document."""


def problem(kind: Kind, detail: str, path: str) -> dict[str, Any]:
    """The document that is the answer's body."""
    about = kind.value
    return {
        "type": PROBLEM_URN + kind.name.lower().replace("_", "-"),
        "title": about.title,
        "status": about.status,
        "detail": detail,
        "instance": path,
        "errors": (),
    }


def of_error(name: str, message: str) -> Refused:
    """An answer of the core to a request."""
    return Refused(OF_ERRORS.get(name, Kind.INTERNAL), message)


def of_reply(text: str) -> Refused:
    """An error reply to a command."""
    code, _, rest = text.partition(" ")
    kind = OF_REPLIES.get(code, Kind.BAD_REQUEST)
    if kind is Kind.MISDIRECTED:
        return Refused(kind, f"the key's owner is at {rest.partition(' ')[2]}")
    return Refused(kind, rest if code == "ERR" or code in OF_REPLIES else text)
