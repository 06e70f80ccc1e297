"""`/v1/members/{id}:verb`: what is asked of one member, whichever member hears it.

A promotion, a demotion and a departure are asked by the member that they are about
(`core.requests`), so whoever hears of them passes them on to it. A confirmed death is told to every
member.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import StreamingResponse

from holdfast.core.messages import Ask
from holdfast.core.views import Member
from holdfast.ids import MemberId, Millis
from holdfast.shell.http.cluster import ask, view_of
from holdfast.shell.http.peers import Peers
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.refusals import Kind, Refused
from holdfast.shell.http.security import guards_of
from holdfast.wire.api import FORWARDED
from holdfast.wire.api.cluster import Death, Done

Id = Annotated[
    str,
    Path(alias="id", description="Id of the member, or its name.", examples=["orders-0"]),
]


class MemberRoutes:
    """Wishes about one member."""

    def __init__(
        self, member: MemberPort, peers: Peers, problems: dict[int | str, dict[str, Any]]
    ) -> None:
        self._member = member
        self._peers = peers
        guards = guards_of(member)
        self.router = APIRouter(tags=["members"], responses=problems, dependencies=guards)
        for verb, endpoint in (
            ("promote", self.promote),
            ("demote", self.demote),
            ("shutdown", self.shutdown),
            ("confirm-dead", self.confirm_dead),
        ):
            self.router.add_api_route(
                f"/v1/members/{{id}}:{verb}", endpoint, methods=["POST"], response_model=Done
            )

    async def promote(self, request: Request, member_id: Id) -> Done | StreamingResponse:
        """Make a lite member a data member, in place. Its partitions come after the answer."""
        return await self._asked(request, member_id, Ask.PROMOTE)

    async def demote(self, request: Request, member_id: Id) -> Done | StreamingResponse:
        """Make a data member a lite one, in place. It is answered when its partitions are with
        other members; who stops waiting does not stop it."""
        return await self._asked(request, member_id, Ask.DEMOTE)

    async def shutdown(self, request: Request, member_id: Id) -> Done | StreamingResponse:
        """Have a member leave in good order. It is answered when its partitions are with other
        members; then its process ends."""
        return await self._asked(request, member_id, Ask.LEAVE)

    async def _asked(self, request: Request, member_id: str, what: Ask) -> Done | StreamingResponse:
        found = self._find(member_id)
        if found.id != self._member.node.me.id:
            return await self._peers.pass_on(request, found)
        await ask(self._member, what)
        return Done(member=found.id, done=what.value)

    async def confirm_dead(self, request: Request, member_id: Id, death: Death) -> Done:
        """Tell all members that a process is gone: a fact that you know, such as a container
        that has ended. Its partitions are promoted at once. Of a process that may still run, this
        splits the cluster: a silent one is no dead one."""
        found = self._find(member_id)
        if found.id == self._member.node.me.id:
            raise Refused(Kind.ILLEGAL_STATE, "this member is alive: it has just heard of it")
        if death.incarnation > found.incarnation:
            newest = f"the newest stay of {found.name} is {found.incarnation}"
            raise Refused(Kind.INVALID, f"body.incarnation: {newest}")
        ago = Millis(round(death.ago * 1_000))
        self._member.confirm_dead(found.id, death.incarnation, ago)
        others = [] if FORWARDED in request.headers else self._others_than(found.id)
        path, body = f"/v1/members/{found.id}:confirm-dead", death.model_dump_json().encode()
        answers = await asyncio.gather(*(self._peers.post(other, path, body) for other in others))
        heard = dict(zip((other.name for other in others), answers, strict=True))
        return Done(
            member=found.id,
            done="confirm-dead",
            told=[self._member.node.me.name, *(name for name, told in heard.items() if told)],
            untold=[name for name, told in heard.items() if not told],
        )

    def _others_than(self, dead: MemberId) -> list[Member]:
        return [member for member in self._member.node.context.others() if member.id != dead]

    def _find(self, wanted: str) -> Member:
        """By its id, or by its name if no other has that; also one that has just been removed."""
        view = view_of(self._member)
        known = (*view.members, *view.departed)
        found = [member for member in known if member.id == wanted]
        found = found or [member for member in view.members if member.name == wanted]
        if len(found) > 1:
            ids = ", ".join(member.id for member in found)
            raise Refused(Kind.INVALID, f"several members are called {wanted!r}: {ids}")
        if not found:
            raise Refused(Kind.NOT_FOUND, f"no member is called {wanted!r}")
        return found[0]
