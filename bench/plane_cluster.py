"""Nodes in one process for the measurements: no sockets, no files, no messages encoded."""

from __future__ import annotations

from collections import deque
from random import Random

from holdfast.core.config import Config
from holdfast.core.effects import Continue, Effect, Send
from holdfast.core.events import Continued, Event, Loaded, Received, Started, Woke
from holdfast.core.messages import Message
from holdfast.core.node import Node
from holdfast.core.stores.settings import NameSettings
from holdfast.core.views import Kind, Member
from holdfast.ids import Address, MemberId, Millis

SETTLED_MS = 5_000
STEP_MS = 5


def member(name: str) -> Member:
    """A data member without files."""
    return Member(
        id=MemberId(name),
        incarnation=1,
        name=name,
        address=Address(f"{name}:1"),
        group=name,
        kind=Kind.DATA,
        persistent=False,
        level_max=3,
        recovered=False,
    )


class Quiet:
    """A cluster of one or two members, formed and at rest; the first of them owns partitions."""

    def __init__(self, members: int, settings: NameSettings) -> None:
        stays = [member(name) for name in ("a", "b")[:members]]
        config = Config(
            initial=tuple(stay.address for stay in stays),
            replica_count=2,
            forming_patience_ms=Millis(100),
            unnamed=settings,
        )
        self.now = 0
        self.nodes = {stay.address: Node(config, stay, Random(stay.id)) for stay in stays}
        self.first = self.nodes[stays[0].address]
        self._mail: deque[tuple[Address, Node, Message]] = deque()
        for address in self.nodes:
            self.step(address, Started(None))
            self.step(address, Loaded())
        while self.now < SETTLED_MS:
            self.pass_time()

    def step(self, address: Address, event: Event) -> list[Effect]:
        """One step of one node; what it sends is posted."""
        effects = self.nodes[address].step(event, Millis(self.now))
        self.post(address, effects)
        return effects

    def post(self, address: Address, effects: list[Effect]) -> None:
        """Take what a node wants to send."""
        for effect in effects:
            if isinstance(effect, Send):
                self._mail.append((effect.to, self.nodes[address], effect.message))
            elif isinstance(effect, Continue):
                self.step(address, Continued())

    def carry(self) -> None:
        """Carry all that is posted, and what it is answered with."""
        while self._mail:
            to, sender, message = self._mail.popleft()
            self.step(to, Received(sender.origin, message))

    def pass_time(self) -> None:
        """A few milliseconds go by."""
        self.now += STEP_MS
        for address in self.nodes:
            self.step(address, Woke())
        self.carry()
