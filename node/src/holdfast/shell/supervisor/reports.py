"""What a member process tells the supervisor that started it: lines of JSON on a socket.

The socket is the only tie between the two. From the process come these reports, one a line. The
supervisor writes nothing; it holds its end open as long as it lives, so that the end of the
stream tells the process that its supervisor is gone, however that happened.

The order of a life: `Introduced` as soon as the process knows who it is, before it speaks to
anybody; then any number of `Waiting`, `Ready` and `Members`, each of which replaces the last.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.errors import MessageError
from holdfast.ids import Address, MemberId

LINE_BYTES_MAX: Final = 1 << 20
"""A list of some thousand members fits."""


class Introduced(msgspec.Struct, frozen=True, tag_field="report", tag="introduced"):
    """Which stay this process is, and where it is reached."""

    id: MemberId
    incarnation: int
    name: str
    kind: str
    group: str
    link: Address
    plain: Address
    cluster: Address
    http: Address


class Waiting(msgspec.Struct, frozen=True, tag_field="report", tag="waiting"):
    """It does not serve, or no more, and why."""

    reason: str


class Ready(msgspec.Struct, frozen=True, tag_field="report", tag="ready"):
    """It has joined, has its data and serves."""


class Acquaintance(msgspec.Struct, frozen=True):
    """One member of the view: who might have to be told of a death."""

    id: MemberId
    http: Address


class Members(msgspec.Struct, frozen=True, tag_field="report", tag="members"):
    """The members of the newest view, the reporter among them."""

    members: tuple[Acquaintance, ...]


Report = Introduced | Waiting | Ready | Members

_decoder: Final = msgspec.json.Decoder(Report)


def encode(report: Report) -> bytes:
    """One line, with its end."""
    return msgspec.json.encode(report) + b"\n"


def decode(line: bytes) -> Report:
    """The report of one line, or `MessageError`."""
    try:
        report: Report = _decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise MessageError(f"not a report of a member process: {error}") from None
    return report


class Lines:
    """Cuts a stream of bytes into lines. One that never ends is cut, and makes no sense then."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Every line that is complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            lines.append(self._rest)
            self._rest = b""
        return lines
