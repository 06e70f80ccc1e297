"""What a member process reports to the supervisor that started it (`supervisor.reports`)."""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.core.views import ViewKey
from holdfast.shell.member import Health, Member
from holdfast.shell.supervisor.lifeline import Lifeline
from holdfast.shell.supervisor.reports import (
    Acquaintance,
    Introduced,
    Members,
    Ready,
    Report,
    Waiting,
)

LOOK_SECONDS: Final = 0.05


async def report(member: Member, line: Lifeline) -> None:
    """Say who this is, then whatever changes, for ever."""
    line.tell(introduction(member))
    looks = Looks(member)
    while True:
        for news in looks.news():
            line.tell(news)
        await asyncio.sleep(LOOK_SECONDS)


def introduction(member: Member) -> Introduced:
    """Which stay this is, and where it is reached."""
    me, ends = member.node.me, member.endpoints
    return Introduced(
        id=me.id,
        incarnation=me.incarnation,
        name=me.name,
        kind=me.kind.value,
        group=me.group,
        link=me.address,
        plain=ends.plain,
        cluster=ends.cluster,
        http=ends.http,
    )


class Looks:
    """What was last seen of a member, so that only news are told."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._health: Health | None = None
        self._view: ViewKey | None = None

    def news(self) -> list[Report]:
        """What is otherwise than at the last look. The view comes first: who is ready has one."""
        found: list[Report] = []
        view = self._member.node.view
        if view is not None and view.key != self._view:
            self._view = view.key
            found.append(
                Members(tuple(Acquaintance(each.id, each.endpoints.http) for each in view.members))
            )
        health = self._member.health()
        if health != self._health:
            self._health = health
            found.append(Ready() if health.ready else Waiting(health.reason))
        return found
