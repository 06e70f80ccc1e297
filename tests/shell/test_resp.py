"""Applications' connections over real sockets, in front of a node that a test plays."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from holdfast.core.events import Event, Opened
from holdfast.shell import resp
from holdfast.shell.resp import RespServer
from holdfast.wire.requests import Arguments, RequestLimits
from tests.shell.waiting import until

SMALL = RequestLimits(value_bytes_max=10_000, request_bytes_max=20_000)


@dataclass
class Node:
    """What the driver would be: it keeps what comes, and answers when the test says so."""

    server: RespServer
    port: int
    commands: list[tuple[int, Arguments]] = field(default_factory=list)
    opened: list[Opened] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    at_once: bool = True

    def command(self, session: int, commands: list[Arguments]) -> None:
        self.commands += [(session, each) for each in commands]
        if self.at_once:
            loop = asyncio.get_running_loop()
            loop.call_soon(self.server.reply, session, b"+OK\r\n" * len(commands))

    def give(self, event: Event) -> None:
        assert isinstance(event, Opened)
        self.opened.append(event)

    def disconnected(self, session: int) -> None:
        self.gone.append(session)


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Make = Callable[[int], Awaitable[Node]]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    nodes: list[Node] = []

    async def one(connections_max: int = 100) -> Node:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        server = RespServer(SMALL, connections_max=connections_max)
        node = Node(server, listener.getsockname()[1])
        nodes.append(node)
        await server.serve(listener, node, forwards=True)
        return node

    yield one
    for node in nodes:
        node.server.close()
    await until(lambda: not any(node.server.sessions for node in nodes), "their end")


@pytest.fixture
async def node(make: Make) -> Node:
    return await make(100)


@pytest.fixture
async def client(node: Node) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    yield reader, writer
    writer.close()


PING = b"*1\r\n$4\r\nPING\r\n"


async def test_commands_in_replies_out(node: Node, client: Client) -> None:
    reader, writer = client
    writer.write(PING * 3 + b"GET  a\r\n")
    assert await reader.readexactly(20) == b"+OK\r\n" * 4
    assert [arguments for _, arguments in node.commands] == [[b"PING"]] * 3 + [[b"GET", b"a"]]


async def test_a_session_is_opened_and_closed(node: Node) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", node.port)
    host, port = writer.get_extra_info("sockname")
    await until(lambda: node.opened, "a session")
    assert node.opened == [Opened(1, forwards=True, peer=f"{host}:{port}")]
    writer.close()
    await until(lambda: node.gone == [1], "its end")


async def test_replies_for_who_is_gone_find_nobody(node: Node) -> None:
    node.server.reply(77, b"+OK\r\n")
    node.server.hang_up(77)
    assert node.gone == []


async def test_requests_before_a_bad_one_are_answered_then_it_ends(
    node: Node, client: Client
) -> None:
    reader, writer = client
    writer.write(PING + b"*1\r\n:1\r\n" + PING)
    assert await reader.read() == b"+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n"
    assert len(node.commands) == 1
    assert node.server.stats.protocol_errors == 1


async def test_a_value_that_is_too_long_is_refused(client: Client) -> None:
    reader, writer = client
    writer.write(b"*2\r\n$3\r\nGET\r\n$10001\r\n")
    assert await reader.read() == b"-ERR Protocol error: invalid bulk length\r\n"


async def test_too_many_connections(make: Make) -> None:
    node = await make(1)
    _, first = await asyncio.open_connection("127.0.0.1", node.port)
    await until(lambda: node.opened, "a session")
    reader, second = await asyncio.open_connection("127.0.0.1", node.port)
    assert await reader.read() == b"-ERR max number of clients reached\r\n"
    assert node.server.stats.refused_connections == 1
    first.close()
    second.close()
    await until(lambda: node.gone == [1], "the end of the one that counted")


async def test_hanging_up_sends_what_was_answered(node: Node, client: Client) -> None:
    reader, writer = client
    node.at_once = False
    writer.write(PING)
    await until(lambda: node.commands, "a command")
    node.server.reply(1, b"+OK\r\n")
    node.server.hang_up(1)
    assert await reader.read() == b"+OK\r\n"


async def test_who_says_no_more_still_gets_its_replies(node: Node, client: Client) -> None:
    """As `printf 'PING\\r\\n' | nc` does."""
    reader, writer = client
    node.at_once = False
    writer.write(PING)
    writer.write_eof()
    await until(lambda: node.commands, "a command")
    node.server.reply(1, b"+OK\r\n")
    assert await reader.read() == b"+OK\r\n"
    await until(lambda: node.gone == [1], "its end")


async def test_who_says_no_more_and_waits_for_ever_is_let_go(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resp, "LISTENING_SECONDS", 0.05)
    _, writer = client
    node.at_once = False
    writer.write(PING)
    writer.write_eof()
    await until(lambda: node.gone == [1], "its end")


async def test_a_session_with_too_much_under_way_is_not_read(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resp, "UNDERWAY_MAX", 50)
    reader, writer = client
    node.at_once = False
    session = node.server.sessions
    await until(lambda: session, "a session")
    for _ in range(60):
        writer.write(PING)
        await writer.drain()
    await until(lambda: not session[1]._reading, "reading pauses")
    given = len(node.commands)
    assert given <= 60
    writer.write(PING * 40)
    node.server.reply(1, b"+OK\r\n" * given)
    await until(lambda: len(node.commands) > given, "it goes on")
    assert await reader.readexactly(5 * given) == b"+OK\r\n" * given
    node.server.reply(1, b"+OK\r\n" * (len(node.commands) - given))
    await until(lambda: len(node.commands) == 100, "everything is read in the end")


async def test_a_long_pipeline_goes_to_the_node_in_parts(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resp, "BATCH_MAX", 10)
    reader, writer = client
    writer.write(PING * 95)
    assert await reader.readexactly(5 * 95) == b"+OK\r\n" * 95
    assert len(node.commands) == 95


async def test_who_asks_for_long_values_gets_them_in_parts(node: Node, client: Client) -> None:
    """1. Many requests at once, and nothing is known of their replies: so many. 2. The replies are
    long, and nobody takes them: no more. 3. They are taken: as many as are bearable at a time."""
    reader, writer = client
    node.at_once = False
    long = b"$%d\r\n%b\r\n" % (1 << 20, b"x" * (1 << 20))
    writer.write(b"GET k\r\n" * 200)
    await until(lambda: len(node.commands) >= resp.BATCH_FIRST, "the first ones")
    assert len(node.commands) == resp.BATCH_FIRST
    node.server.reply(node.commands[0][0], long * resp.BATCH_FIRST)
    assert len(node.commands) == resp.BATCH_FIRST
    await reader.readexactly(len(long) * resp.BATCH_FIRST)
    await until(lambda: len(node.commands) > resp.BATCH_FIRST, "some more")
    assert len(node.commands) == resp.BATCH_FIRST + resp.REPLIES_BYTES_MAX // len(long)


@pytest.mark.parametrize(
    ("batch", "commands", "size", "after"),
    [
        (64, 1, 5, 128),
        (800, 800, 4_000, 1_000),
        (1_000, 1_000, 8 << 20, 500),
        (1_000, 10, 40 << 20, 1),
        (1, 1, 64 << 20, 1),
        (1, 1, 1 << 20, 2),
    ],
)
def test_a_batch_is_as_long_as_the_replies_before_allow(
    batch: int, commands: int, size: int, after: int
) -> None:
    assert resp.batch_after(batch, commands, size) == after


async def test_who_does_not_read_is_not_read_from(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Replies fill every buffer. 2. No more commands are taken. 3. The client reads again."""
    monkeypatch.setattr(resp, "BATCH_MAX", 1)
    reader, writer = client
    node.at_once = False
    big = b"$1000000\r\n" + b"x" * 1_000_000 + b"\r\n"
    sessions, answered = node.server.sessions, 0
    writer.write(PING)
    await until(lambda: node.commands, "a command")
    while sessions[1]._writable:
        node.server.reply(1, big)
        answered += 1
        assert answered < 200
    writer.write(PING * 20)
    await until(lambda: not sessions[1]._reading, "reading pauses")
    assert len(node.commands) <= 1 + 1
    node.at_once = True
    assert len(await reader.readexactly(answered * len(big))) == answered * len(big)
    if len(node.commands) == 2:
        node.server.reply(1, b"+OK\r\n")
    await until(lambda: len(node.commands) == 21, "the rest is taken")


async def test_a_turn_takes_so_much_and_the_next_one_the_rest(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. One session fills the turn. 2. Another one has to wait for the next."""
    monkeypatch.setattr(resp, "TURN_BYTES_MAX", 1)
    _, first = client
    reader, second = await asyncio.open_connection("127.0.0.1", node.port)
    await until(lambda: len(node.opened) == 2, "two sessions")
    first.write(PING)
    await until(lambda: len(node.commands) == 1, "a command")
    second.write(PING)
    await until(lambda: node.server.deferred, "one waits")
    assert len(node.commands) == 1
    node.server.turned()
    assert await reader.readexactly(5) == b"+OK\r\n"
    second.close()


async def test_a_member_that_ends_ends_its_connections(node: Node, client: Client) -> None:
    reader, _ = client
    await until(lambda: node.opened, "a session")
    node.server.close()
    assert await reader.read() == b""
