"""The driver around a real node that is a cluster of its own, in a real event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random

import pytest

from holdfast.core import events
from holdfast.core.config import Config
from holdfast.core.data_messages import SyncEnd
from holdfast.core.effects import Effect, Notice, NoticeKind
from holdfast.core.messages import Ask, Message, Origin, Publication, Request
from holdfast.core.node import Node
from holdfast.core.states import ClusterState
from holdfast.core.stores.settings import NameSettings
from holdfast.core.table import Row
from holdfast.core.views import NO_ENDPOINTS, Kind
from holdfast.errors import MessageError
from holdfast.ids import Address, Millis, PartitionId, Term, Version
from holdfast.shell.driver import Driver
from holdfast.shell.identity import member_of
from tests.shell.waiting import until

ALONE = Config(backup_count=0, unnamed=NameSettings(backups=0))


class Recorder(Node):
    """A node that remembers what it was given, and fails when told to."""

    def __init__(self) -> None:
        address = Address("127.0.0.1:1")
        me = member_of(name="a", address=address, group="g", kind=Kind.DATA, endpoints=NO_ENDPOINTS)
        super().__init__(ALONE, me, Random(1))
        self.given: list[events.Event] = []
        self.error: Exception | None = None

    def step(self, event: events.Event, now: Millis) -> list[Effect]:
        self.given.append(event)
        if self.error is not None:
            raise self.error
        return super().step(event, now)


@dataclass
class Outside:
    """Links and clients at once: where effects go."""

    replies: list[tuple[int, bytes]] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    flushes: int = 0
    turns: int = 0

    def send(self, to: Address, origin: Origin, message: Message) -> None:
        raise AssertionError(f"a member alone has nobody to tell {message} ({origin} to {to})")

    def reply(self, session: int, data: bytes) -> None:
        self.replies.append((session, data))

    def hang_up(self, session: int) -> None:
        self.ended.append(session)

    def turned(self) -> None:
        self.turns += 1

    def flush(self) -> None:
        self.flushes += 1


@dataclass
class Alone:
    """A cluster of one."""

    node: Recorder
    driver: Driver
    outside: Outside


@pytest.fixture
async def alone() -> AsyncIterator[Alone]:
    node, outside = Recorder(), Outside()
    driver = Driver(node, carrier=outside, clients=outside)
    driver.start()
    found = Alone(node, driver, outside)
    await until(lambda: node.table.row(PartitionId(270)).owner, "it owns everything")
    yield found
    driver.give(events.Asked(leave()))
    await driver.ended()


def leave() -> Request:
    return Request("leave", Ask.LEAVE, ClusterState.ACTIVE, 0, Millis(0), 0)


def state(target: ClusterState) -> Request:
    return Request(f"to {target}", Ask.STATE, target, 0, Millis(5_000), 0)


async def test_a_client_that_comes_before_the_start_waits_for_it() -> None:
    """Ports listen a moment before the node is started. (1) A client connects and asks; (2) the
    loop turns; (3) the node is started: that is the first that it hears of."""
    node, outside = Recorder(), Outside()
    driver = Driver(node, carrier=outside, clients=outside)
    driver.give(events.Opened(1, forwards=True, peer="127.0.0.1:2"))
    driver.command(1, [[b"PING"]])
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()
    assert node.given == []
    driver.start()
    await until(lambda: outside.replies, "a reply")
    assert [type(each) for each in node.given[:3]] == [
        events.Started,
        events.Loaded,
        events.Opened,
    ]
    assert outside.replies == [(1, b"+PONG\r\n")]
    assert driver.failure is None
    driver.give(events.Asked(leave()))
    await driver.ended()


async def test_commands_of_one_tick_are_one_event(alone: Alone) -> None:
    alone.node.given.clear()
    alone.driver.command(1, [[b"SET", b"a", b"1"]])
    alone.driver.command(2, [[b"GET", b"a"]])
    alone.driver.command(1, [[b"GET", b"a"]])
    await until(lambda: len(alone.outside.replies) >= 3, "replies")
    commanded = [each for each in alone.node.given if isinstance(each, events.Commanded)]
    assert [len(each.batches) for each in commanded] == [3]
    assert alone.outside.replies == [(1, b"+OK\r\n"), (2, b"$1\r\n1\r\n"), (1, b"$1\r\n1\r\n")]
    assert alone.driver.stats.commands == 3


async def test_what_a_client_said_before_it_went_comes_first(alone: Alone) -> None:
    """1. A command and the end of its connection arrive in one tick. 2. It is run, then closed."""
    alone.node.given.clear()
    alone.driver.command(1, [[b"SET", b"last", b"1"]])
    alone.driver.disconnected(1)
    alone.driver.command(2, [[b"GET", b"last"]])
    await until(lambda: (2, b"$1\r\n1\r\n") in alone.outside.replies, "the value")
    clients = (events.Commanded, events.Disconnected)
    given = [type(each) for each in alone.node.given if isinstance(each, clients)]
    assert given == list(clients)


async def test_quitting_hangs_up(alone: Alone) -> None:
    alone.driver.command(1, [[b"QUIT"]])
    await until(lambda: alone.outside.ended == [1], "the end of the session")
    assert alone.outside.replies == [(1, b"+OK\r\n")]


async def test_asking_waits_for_what_becomes_of_it(alone: Alone) -> None:
    outcome = await alone.driver.ask(state(ClusterState.PASSIVE))
    assert outcome.done
    assert alone.node.view is not None
    assert alone.node.view.state is ClusterState.PASSIVE
    refused = await alone.driver.ask(state(ClusterState.IN_TRANSITION))
    assert (refused.done, refused.error) == (False, "IllegalArgument")


async def test_asking_twice_is_asking_once(alone: Alone) -> None:
    first, second = await asyncio.gather(
        alone.driver.ask(state(ClusterState.FROZEN)), alone.driver.ask(state(ClusterState.FROZEN))
    )
    assert first is second


async def test_notices_are_told_and_a_listener_that_fails_does_no_harm(alone: Alone) -> None:
    heard: list[Notice] = []

    def fail(_: Notice) -> None:
        raise ValueError("a bug of a listener")

    alone.driver.listen(fail)
    alone.driver.listen(heard.append)
    await alone.driver.ask(state(ClusterState.FROZEN))
    assert NoticeKind.STATE_CHANGED in [notice.kind for notice in heard]
    assert alone.driver.failure is None


async def test_leaving_ends_it(alone: Alone) -> None:
    assert (await alone.driver.ask(leave())).done
    await alone.driver.ended()
    assert alone.driver.failure is None
    late = await alone.driver.ask(state(ClusterState.FROZEN))
    assert (late.done, "has ended" in late.message) == (False, True)


async def test_a_message_that_fits_no_state_is_lost(alone: Alone) -> None:
    alone.node.error = MessageError("a row of another table")
    alone.driver.give(events.Woke())
    await until(lambda: alone.driver.stats.refused_messages, "it is refused")
    alone.node.error = None
    assert alone.driver.failure is None


async def test_of_the_messages_of_one_tick_that_fits_no_state_is_lost_alone(alone: Alone) -> None:
    bad = Publication(Term(1), 1, (Row(PartitionId(10_000), Version(1), ()),), ())
    end = SyncEnd(1, PartitionId(0))
    for message in (end, bad, end, bad):
        alone.driver.receive(alone.node.origin, message)
    await until(lambda: alone.driver.stats.refused_messages, "they are refused")
    assert (alone.driver.stats.messages, alone.driver.stats.refused_messages) == (4, 2)
    assert alone.driver.failure is None


async def test_an_error_of_the_core_is_the_end(alone: Alone) -> None:
    """Whoever waits for an outcome is told that it is not known."""
    asked = asyncio.ensure_future(alone.driver.ask(state(ClusterState.FROZEN)))
    alone.node.error = KeyError("a bug of the core")
    await alone.driver.ended()
    assert isinstance(alone.driver.failure, KeyError)
    assert not (await asked).done


async def test_turns_are_measured(alone: Alone) -> None:
    stats = alone.driver.stats
    assert stats.turns > 0
    assert stats.total_ns >= stats.longest_ns > 0
    wake_at = alone.node.wake_at
    assert wake_at is not None
    while alone.driver.clock.read() < wake_at + 100:
        pass  # the loop is held
    await until(lambda: stats.latest_ms >= 100, "a wake-up that came too late")
    assert abs(alone.node.data.wall - alone.driver.clock.wall()) < 5_000
