"""Who may ask for what.

* What changes the cluster needs the cluster's secret as a bearer token, when there is one; so do
  the endpoints that members have for one another. Without a secret a member listens to its own
  machine only, unless it was told otherwise (`settings`).
* A browser may not be made to ask by a page of another site: a request that names an origin other
  than the host that it asks is refused, wherever it would change something.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends, Request

from holdfast.shell.http.bearer import HOW, knows
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.refusals import Kind, Refused


class Guard:
    """The dependency of routes that not everybody may use."""

    def __init__(self, member: MemberPort) -> None:
        self._member = member

    async def needs_secret(self, request: Request) -> None:
        """Refuse whoever does not know the cluster's secret."""
        given = request.headers.get("authorization", "").encode("latin-1")
        if not knows(self._member.secret, given):
            raise Refused(Kind.NOT_AUTHORIZED, HOW)


async def same_origin(request: Request) -> None:
    """Refuse what a page of another site makes a browser ask for."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    try:
        host = urlsplit(origin).netloc
    except ValueError:
        host = ""
    if host != request.headers.get("host"):
        raise Refused(Kind.FOREIGN_ORIGIN, f"the request comes from a page of {origin}")


def guards_of(member: MemberPort) -> list[Any]:
    """What routes depend on that need the secret, whatever they are asked for."""
    return [Depends(same_origin), Depends(Guard(member).needs_secret)]
