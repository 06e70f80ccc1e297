"""Links between members over real sockets: dialling, refusing, losing, and order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from holdfast.core.data_messages import BackupFrame, MutationRun, Stand, SyncEnd
from holdfast.core.messages import Farewell, Message, Origin
from holdfast.ids import Address, MemberId, PartitionId
from holdfast.shell import link
from holdfast.shell.handshake import HEAD, LINK_VERSION, MAGIC, Lane, Myself
from holdfast.shell.link import Links
from holdfast.shell.tls import Tls
from tests.shell.certificates import Authority
from tests.shell.waiting import until

SECRET = b"a secret of some length"


def listener() -> socket.socket:
    found = socket.create_server(("127.0.0.1", 0))
    found.setblocking(False)
    return found


@dataclass
class Side:
    """One member's links, and what came over them."""

    links: Links
    port: int
    received: list[int] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    heard: int = 0
    """Short messages that must not wait."""

    @property
    def address(self) -> Address:
        return self.links.myself.address

    def deliver(self, _: Origin, message: Message) -> None:
        if isinstance(message, Farewell):
            self.heard += 1
            return
        if isinstance(message, BackupFrame):
            self.values += [record for _, record in message.runs[0].mutations]
            return
        assert isinstance(message, SyncEnd)
        self.received.append(message.id)

    def send(self, to: Side, *numbers: int) -> None:
        """One turn's messages."""
        origin = Origin(MemberId(self.address), 1, self.address)
        for number in numbers:
            self.links.send(to.address, origin, SyncEnd(number, PartitionId(0)))
        self.links.flush()

    def send_value(self, to: Side, value: bytes) -> None:
        """One value of an application for its backup, in one frame."""
        before = Stand(1, 1, (1,) * 6)
        run = MutationRun(PartitionId(0), b"n", 1, 1, before, (), ((b"k", value),))
        frame = BackupFrame(
            1, skipped=False, runs=(run,), checks=(), receiver=MemberId("b"), stay=1
        )
        self.links.send(to.address, Origin(MemberId(self.address), 1, self.address), frame)
        self.links.flush()

    def beat(self, to: Side) -> None:
        """A short message of the control plane."""
        origin = Origin(MemberId(self.address), 1, self.address)
        self.links.send(to.address, origin, Farewell(1))
        self.links.flush()


Make = Callable[..., "asyncio.Future[Side]"]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Makes sides, and closes them."""
    sides: list[Side] = []

    async def one(
        *, cluster: str = "c", secret: bytes = SECRET, port: int = 0, tls: Tls | None = None
    ) -> Side:
        bound = socket.create_server(("127.0.0.1", port))
        bound.setblocking(False)
        port = bound.getsockname()[1]
        side = Side(Links(Myself(cluster, Address(f"127.0.0.1:{port}"), secret)), port)
        sides.append(side)
        await side.links.serve(
            bound,
            side.deliver,
            lambda address, reason: side.refused.append((address, reason)),
            tls=tls,
        )
        return side

    yield lambda **wanted: asyncio.ensure_future(one(**wanted))
    for side in sides:
        await side.links.close()
    await until(lambda: not any(side.links.has_connections() for side in sides), "their end")


async def test_messages_arrive_in_order(make: Make) -> None:
    a, b = await make(), await make()
    a.send(b, 1, 2, 3)
    a.send(b, 4)
    await until(lambda: len(b.received) == 4, "four messages")
    assert b.received == [1, 2, 3, 4]
    assert a.links.stats.dials == 1


async def test_the_other_side_answers_on_the_same_connection(make: Make) -> None:
    a, b = await make(), await make()
    a.send(b, 1)
    await until(lambda: b.received, "a message")
    b.send(a, 2)
    await until(lambda: a.received, "an answer")
    assert b.links.stats.dials == 0


async def test_both_may_dial_at_once(make: Make) -> None:
    a, b = await make(), await make()
    a.send(b, 1)
    b.send(a, 2)
    await until(lambda: a.received and b.received, "both messages")
    for number in range(3, 30):
        a.send(b, number)
    await until(lambda: len(b.received) == 28, "all messages")
    assert b.received == sorted(b.received)


async def test_another_secret_is_refused_on_both_sides(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = await make(), await make(secret=b"another one of some length")
    a.send(b, 1)
    await until(lambda: a.refused, "a refusal")
    reason = f"the cluster secret of {b.address} is not that of {a.address}"
    assert a.refused == [(b.address, f"the other side refuses: {reason}")]
    assert f"no link with {a.address}: {reason}" in caplog.text
    assert b.received == []
    assert not a.links.accepted_by


async def test_another_cluster_is_refused(make: Make) -> None:
    a, b = await make(cluster="green"), await make(cluster="blue")
    a.send(b, 1)
    await until(lambda: a.refused, "a refusal")
    assert a.refused[0][1].endswith(f"{b.address} is of cluster blue, not green")


async def test_who_is_not_there_is_dialled_again_when_there_is_something_to_say(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PAUSE_LAST_SECONDS", 0.05)
    a, b = await make(), await make()
    await b.links.close()
    a.send(b, 1)
    await until(lambda: a.links.stats.failed_dials, "a failed dial")
    again = await make(port=b.port)

    def arrives() -> bool:
        a.send(b, 2)
        return bool(again.received)

    await until(arrives, "a message to who is there again")
    assert set(again.received) == {2}
    assert a.links.stats.dropped_messages >= 1


async def test_a_connection_that_ends_is_made_anew(make: Make) -> None:
    a, b = await make(), await make()
    a.send(b, 1)
    await until(lambda: b.received, "a message")
    for connection in tuple(b.links._connections):
        connection.abort()
    await until(lambda: not a.links.has_connections(), "the end of the connection")
    a.send(b, 2)
    await until(lambda: b.received == [1, 2], "a message on a new connection")


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"this port is for members of the cluster"),
        (b"\0" * 2_000, b"this port is for members of the cluster"),
        (HEAD.pack(MAGIC, LINK_VERSION, 65_535), b"65535 bytes are too many for a handshake"),
        (HEAD.pack(MAGIC, 9, 1), b"this member speaks version 1 of the link"),
    ],
)
async def test_strangers_are_told_and_sent_away(make: Make, data: bytes, answer: bytes) -> None:
    side = await make()
    reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
    writer.write(data)
    assert answer in await reader.read()
    writer.close()
    await until(lambda: not side.links.has_connections(), "the end of the connection")
    assert side.links.stats.refused == 1


async def test_who_says_nothing_is_sent_away(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a word: the other side would take one for a refusal."""
    monkeypatch.setattr(link, "SHAKE_SECONDS", 0.05)
    side = await make()
    reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    assert (side.links.stats.slow_handshakes, side.links.stats.refused) == (1, 0)
    assert "within 0.05 s: it may dial again" in caplog.text


async def test_member_that_is_too_busy_for_a_handshake_is_dialled_again_and_refuses_nobody(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """1. It accepts connections and says nothing. 2. It has time again, at the same address."""
    monkeypatch.setattr(link, "SHAKE_SECONDS", 0.05)
    monkeypatch.setattr(link, "PAUSE_LAST_SECONDS", 0.05)
    busy, a = listener(), await make()
    port = busy.getsockname()[1]
    there = Address(f"127.0.0.1:{port}")

    def dialled_again() -> bool:
        a.links.send(there, Origin(MemberId("a"), 1, a.address), SyncEnd(1, PartitionId(0)))
        a.links.flush()
        return a.links.stats.slow_handshakes > 1

    await until(dialled_again, "more than one handshake that takes too long")
    assert a.refused == []
    assert f"no handshake with {there} within 0.05 s: it is dialled again" in caplog.text
    monkeypatch.setattr(link, "SHAKE_SECONDS", 5.0)
    busy.close()
    b = await make(port=port)

    def arrives() -> bool:
        a.send(b, 2)
        return bool(b.received)

    await until(arrives, "a message")
    assert a.refused == []


async def test_strangers_are_counted(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "STRANGERS_MAX", 2)
    side = await make()
    open_ones = [await asyncio.open_connection("127.0.0.1", side.port) for _ in range(2)]
    await until(lambda: len(side.links._connections) == 2, "two strangers")
    reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    assert len(side.links._connections) == 2
    for _, other in (*open_ones, (reader, writer)):
        other.close()


async def test_frames_that_are_none_end_the_connection(make: Make) -> None:
    a, b = await make(), await make()
    a.send(b, 1)
    await until(lambda: b.received, "a message")
    (connection,) = a.links._connections
    assert connection.transport is not None
    connection.transport.write(b"\0" * 100)
    await until(lambda: not b.links.has_connections(), "the end of the connection")
    a.send(b, 2)
    await until(lambda: b.received == [1, 2], "a message on a new connection")


async def test_what_is_too_much_is_lost(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does not read loses messages, and takes no memory."""
    monkeypatch.setattr(link, "BUFFER_BYTES_MAX", 1_000)
    a, b = await make(), await make()
    a.send(b, 0)
    await until(lambda: b.received, "a message")
    for connection in b.links._connections:
        assert connection.transport is not None
        connection.transport.pause_reading()

    def lost() -> int:
        a.send(b, *range(1, 10_000))
        return a.links.stats.dropped_messages

    await until(lost, "messages are dropped")
    (connection,) = a.links._connections
    connection.abort()


LONG = b"x" * (24 << 20)


def pause(side: Side, *, on: bool) -> None:
    """A side reads nothing of what applications write: it is busy, or the way is slow."""
    for connection in side.links._connections:
        if connection.shake.lane is Lane.DATA and connection.transport is not None:
            act = connection.transport.pause_reading if on else connection.transport.resume_reading
            act()


def heard_more(a: Side, b: Side, than: int) -> bool:
    return a.heard + b.heard > than


async def linked(make: Make) -> tuple[Side, Side]:
    """Two sides, with both lanes open."""
    a, b = await make(), await make()
    a.send(b, 0)
    a.beat(b)
    await until(lambda: b.received and b.heard, "both lanes are open")
    return a, b


async def test_a_heartbeat_does_not_wait_behind_a_long_value(make: Make) -> None:
    """1. A value of many megabytes is on its way, and gets no further. 2. Short messages go on in
    both directions. 3. It arrives whole, and what was said behind it after it."""
    a, b = await linked(make)
    pause(b, on=True)
    a.send_value(b, LONG)
    a.send(b, 1)
    for _ in range(5):
        heard = a.heard + b.heard
        a.beat(b)
        b.beat(a)
        await until(partial(heard_more, a, b, heard + 1), "a heartbeat in each direction")
    assert (b.values, b.received) == ([], [0])
    pause(b, on=False)
    await until(lambda: b.received == [0, 1], "what came behind the value")
    assert b.values == [LONG]


async def test_a_long_value_whose_link_breaks_is_whole_or_not_there(make: Make) -> None:
    """1. The link breaks in the middle of a value. 2. It is sent again, on a new one."""
    a, b = await linked(make)
    pause(b, on=True)
    a.send_value(b, LONG)
    sending = [each for each in a.links._connections if each.shake.lane is Lane.DATA]
    for connection in sending:
        connection.abort()
    pause(b, on=False)
    await until(lambda: len(b.links._connections) == 1, "the other side has noticed")
    assert b.values == []
    a.send_value(b, LONG)
    await until(lambda: b.values, "the value")
    assert b.values == [LONG]
    assert len(sending) == 1


async def test_a_long_value_may_wait_for_its_link_and_not_much_beside_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. There is no link yet. 2. Of the turns after the value nothing is kept."""
    monkeypatch.setattr(link, "UNSENT_BYTES_MAX", 1 << 20)
    a, b = await make(), await make()
    a.send_value(b, LONG)
    a.send(b, 1)
    a.send(b, 2)
    assert a.links.stats.dropped_messages == 2
    await until(lambda: b.values, "the value")
    a.send(b, 3)
    await until(lambda: b.received, "what was said later")
    assert (b.values, b.received) == ([LONG], [3])


async def test_links_are_encrypted(make: Make, tmp_path: Path) -> None:
    """1. Two members of one authority. 2. One without a certificate gets nowhere."""
    authority = Authority(tmp_path, "ours")
    a, b = await make(tls=authority.member("a")), await make(tls=authority.member("b"))
    a.send(b, 1, 2)
    await until(lambda: b.received == [1, 2], "messages")
    bare = await make()
    bare.send(b, 3)
    await until(lambda: not bare.links.has_connections() and bare.links.stats.dials, "its end")
    assert b.received == [1, 2]


async def test_another_authority_is_not_ours(make: Make, tmp_path: Path) -> None:
    a = await make(tls=Authority(tmp_path, "ours").member("a"))
    b = await make(tls=Authority(tmp_path, "theirs").member("b"))
    a.send(b, 1)
    await until(lambda: a.links.stats.failed_dials, "no link")
    assert b.received == []
