"""`/v1/cluster`, its state, its partitions and names: what any member answers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from uuid import uuid4

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from holdfast.core.messages import Ask, Request
from holdfast.core.observing import name_sizes, unready
from holdfast.core.states import ClusterState
from holdfast.core.views import View
from holdfast.ids import Millis
from holdfast.shell.http.peers import NAMES_PATH, Peers
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.refusals import Kind, Refused, of_error
from holdfast.shell.http.security import Guard, same_origin
from holdfast.shell.http.translating import (
    Seen,
    cluster_model,
    members_model,
    names_model,
    partitions_model,
)
from holdfast.wire.api.cluster import (
    ClusterModel,
    MembersModel,
    SelfModel,
    StateChange,
    StateChanged,
)
from holdfast.wire.api.partitions import NamesModel, PartitionsModel

JSON: Final = "application/json"


async def ask(
    member: MemberPort, what: Ask, *, state: ClusterState = ClusterState.ACTIVE, wait: float = 0
) -> None:
    """Ask something of the cluster here; raise if it is refused."""
    node = member.node
    request = Request(
        id=uuid4().hex,
        ask=what,
        state=state,
        level=0,
        wait_ms=Millis(round(wait * 1_000)),
        stamp=node.table.stamp,
    )
    outcome = await member.ask(request)
    if outcome.error:
        raise of_error(outcome.error, outcome.message)


def view_of(member: MemberPort) -> View:
    """The newest view, if there is any."""
    view = member.node.view
    if view is None:
        raise Refused(Kind.UNAVAILABLE, "this member is in no cluster yet")
    return view


class ClusterRoutes:
    """Questions and wishes about the whole cluster."""

    def __init__(
        self, member: MemberPort, peers: Peers, problems: dict[int | str, dict[str, Any]]
    ) -> None:
        self._member = member
        self._peers = peers
        self.router = APIRouter(tags=["cluster"], responses=problems)
        add, secret = self.router.add_api_route, Depends(Guard(member).needs_secret)
        add("/v1/cluster", self.get_cluster, methods=["GET"])
        add(
            "/v1/cluster/state",
            self.put_state,
            methods=["PUT"],
            dependencies=[Depends(same_origin), secret],
        )
        add("/v1/members", self.get_members, methods=["GET"])
        add("/v1/self", self.get_self, methods=["GET"])
        add(
            "/v1/partitions",
            self.get_partitions,
            methods=["GET"],
            response_model=PartitionsModel,
        )
        add("/v1/namespaces", self.get_names, methods=["GET"])
        add(
            NAMES_PATH,
            self.get_own_names,
            methods=["GET"],
            dependencies=[secret],
            response_class=Response,
            include_in_schema=False,
        )

    async def get_cluster(self) -> ClusterModel:
        """The state, a change that waits and why, the members, and whether all copies are in
        sync. Every member is asked for its own word."""
        view_of(self._member)
        reports = await self._peers.reports()
        safety = await self._peers.safety_of(reports)
        view, excuses = view_of(self._member), self._peers.excuses
        return cluster_model(self._member.node, view, reports, excuses, safety)

    async def put_state(self, change: StateChange) -> StateChanged:
        """Change the state of the cluster: all members or none. It is answered once the new
        state holds; the state that holds already is no change."""
        view_of(self._member)
        await ask(self._member, Ask.STATE, state=change.state, wait=change.wait)
        view = view_of(self._member)
        return StateChanged(state=change.state, term=view.term, version=view.version)

    async def get_self(self) -> SelfModel:
        """Who answers here. Whoever looks after processes learns from it which of them is which
        member; it is answered before the member has found its cluster, too."""
        node = self._member.node
        reason = unready(node, self._member.now())
        return SelfModel(
            id=node.me.id,
            incarnation=node.me.incarnation,
            name=node.me.name,
            started_at=datetime.fromtimestamp(self._member.started_at, UTC),
            ready=not reason,
            unready_reason=reason,
        )

    async def get_members(self) -> MembersModel:
        """All members, the oldest first."""
        view_of(self._member)
        reports = await self._peers.reports()
        rows = self._member.node.table.rows
        view, excuses = view_of(self._member), self._peers.excuses
        return MembersModel(members=members_model(view, rows, reports, excuses))

    async def get_partitions(
        self,
        health: Annotated[
            bool, Query(description="Whether to ask every member how its copies are.")
        ] = True,
    ) -> Response:
        """The partition table with its versions and its stamp, and how each replica is."""
        told = (await self._peers.reports(), await self._peers.reports()) if health else None
        seen = Seen.at(self._member.node, told)
        body = await asyncio.to_thread(lambda: partitions_model(seen).model_dump_json())
        return Response(body, media_type=JSON)

    async def get_names(self) -> NamesModel:
        """The names with their settings, and what all members have of them."""
        view = view_of(self._member)
        told = await self._peers.names()
        silent = [member.name for member in view.members if member.id not in told]
        names = names_model(self._member.node, told.values())
        return NamesModel(names=names, silent_members=silent)

    async def get_own_names(self) -> Response:
        """For the other members: what is here of each name."""
        return Response(msgspec.json.encode(name_sizes(self._member.node)), media_type=JSON)
