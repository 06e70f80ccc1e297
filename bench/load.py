"""A client of a cluster under a steady load: `python -m bench.load ADDRESS FILE OPTIONS`.

It runs in a process of its own, so that what measures does not disturb what is measured, and it
knows only the protocol of Redis Cluster: the same client for Holdfast and for its peers.

Rules
-----
* An open loop: operation n is due at begin + n / rate, whatever became of those before it. What is
  due is sent every millisecond. A key has one operation at a time; who finds its key busy takes
  another.
* As clients of Redis Cluster do, it goes where `MOVED` and `ASK` say, and tries again after
  `TRYAGAIN`, `CLUSTERDOWN`, and a lost connection, until `GIVE_UP_SECONDS`. An operation takes from
  its first sending to its last reply. What it gives up, and any other refusal, is an error.
* With a ledger, every operation is a SET of the number of its try. What a key's last acknowledged
  write was is compared in the end with what can be read: less is a lost write.

It begins at once, ends at SIGTERM, and then writes `FILE`: a row of `FIELDS` numbers for each
operation; and `FILE.json`: what was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from array import array
from collections import deque
from pathlib import Path
from random import Random
from typing import Any, Final, cast

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "node" / "src")]

import hiredis
import uvloop

from bench.filling import key_of, pack, value_of
from holdfast.core.data.plane import slot_of

TICK_SECONDS: Final = 0.001
AGAIN_SECONDS: Final = 0.005
GIVE_UP_SECONDS: Final = 30.0
LEARN_SECONDS: Final = 0.1
ASK_SECONDS: Final = 2.0
LAST_SECONDS: Final = 35.0
ERRORS_KEPT: Final = 20
FIELDS: Final = 6
"""key, whether a SET, due, sent, ended, whether done: doubles; times of the monotonic clock."""
AGAIN: Final = ("TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN")
SLOTS: Final = 16_384
TRIES: Final = 8
"""To find a key that is free."""


class Operation:
    """One read or write."""

    __slots__ = ("due", "key", "number", "packed", "sent", "write")

    def __init__(self, key: int, due: float, packed: bytes, *, write: bool, number: int) -> None:
        self.key = key
        self.due = due
        self.packed = packed
        self.write = write
        self.number = number
        self.sent = 0.0


ASKING: Final = pack(b"ASKING")


class Node(asyncio.Protocol):
    """A connection to one member; what it is to be sent waits until it is there."""

    def __init__(self, load: Load, address: str) -> None:
        self.load = load
        self.address = address
        self.transport: asyncio.Transport | None = None
        self.waiting: deque[Operation | None] = deque()
        """Whose replies come next; None: nobody's."""
        self.buffer: list[bytes] = []
        self.reader = hiredis.Reader(replyError=RuntimeError)

    async def connect(self) -> None:
        """Or be over."""
        host, _, port = self.address.rpartition(":")
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, host, int(port))
        except OSError:
            self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what has waited."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        self.flush()

    def send(self, operation: Operation | None, packed: bytes) -> None:
        """At the end of this tick."""
        self.waiting.append(operation)
        self.buffer.append(packed)
        self.load.touched.add(self)

    def flush(self) -> None:
        """Everything of this tick at once."""
        if self.transport is not None and self.buffer:
            self.transport.write(b"".join(self.buffer))
            self.buffer.clear()

    def data_received(self, data: bytes) -> None:
        """Replies, in order."""
        self.reader.feed(data)
        while (reply := self.reader.gets()) is not False:
            operation = self.waiting.popleft()
            if operation is not None:
                self.load.replied(operation, reply)
        self.load.flush()

    def connection_lost(self, _: Exception | None) -> None:
        """Whatever had no reply is tried again."""
        self.load.lost(self)


class Load:
    """All of it."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.loop = asyncio.get_running_loop()
        self.seeds = [str(each) for each in given.addresses]
        self.keys: int = given.keys
        self.rate: int = given.rate
        self.size: int = given.size
        self.ledger: bool = given.ledger
        self.chance = Random(1)
        self.nodes: dict[str, Node] = {}
        self.touched: set[Node] = set()
        self.slots: list[str] = [self.seeds[0]] * SLOTS
        self.slot_of_key = [slot_of(key_of(number)) for number in range(self.keys)]
        self.busy: set[int] = set()
        self.turn = 0
        self.rows = array("d")
        self.errors: list[str] = []
        self.error_count = 0
        self.again_count = 0
        self.tries = [0] * self.keys
        self.acknowledged = [0] * self.keys
        self.learned_at = 0.0
        self.learning: asyncio.Task[None] | None = None
        self.stopping = asyncio.Event()
        self.settled = asyncio.Event()
        """It stops, and everything that was begun has ended."""

    # Where to -----------------------------------------------------------------------------------

    def node(self, address: str) -> Node:
        """The connection, made when it is needed first."""
        found = self.nodes.get(address)
        if found is None:
            found = self.nodes[address] = Node(self, address)
            self.loop.create_task(found.connect())
        return found

    async def learn(self) -> None:
        """Ask for the owners of all slots, of whoever answers."""
        for address in [*self.nodes, *self.seeds]:
            try:
                table = await asyncio.wait_for(ask(address, b"CLUSTER", b"SLOTS"), ASK_SECONDS)
            except (OSError, TimeoutError, RuntimeError):
                continue
            for first, last, (host, port, *_), *_ in table:
                name = f"{host.decode()}:{port}"
                self.slots[first : last + 1] = [name] * (last + 1 - first)
            return

    def learn_soon(self) -> None:
        """Not more often than every now and then."""
        if self.learning is None or self.learning.done():
            now = self.loop.time()
            wait = max(self.learned_at + LEARN_SECONDS - now, 0.0)
            self.learned_at = now + wait
            self.learning = self.loop.create_task(self._learn_after(wait))

    async def _learn_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.learn()

    # Operations ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until told to stop."""
        await self.learn()
        begin, issued = time.monotonic(), 0
        while not self.stopping.is_set():
            due = int((time.monotonic() - begin) * self.rate)
            for number in range(issued, due):
                self.issue(begin + number / self.rate)
            issued = max(issued, due)
            self.flush()
            await asyncio.sleep(TICK_SECONDS)
        if self.busy:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.settled.wait(), LAST_SECONDS)

    def issue(self, due: float) -> None:
        """One more, on a key that is free; a load that finds none leaves it out."""
        key = self.next_key()
        if key is None:
            return
        self.busy.add(key)
        write = self.ledger or self.chance.random() < 0.5
        name = key_of(key)
        if write:
            self.tries[key] += 1
            value = value_of(self.tries[key] if self.ledger else key, self.size)
            packed = pack(b"SET", name, value)
        else:
            packed = pack(b"GET", name)
        operation = Operation(key, due, packed, write=write, number=self.tries[key])
        operation.sent = time.monotonic()
        self.send(operation)

    def next_key(self) -> int | None:
        """At random; with a ledger in turn, so that no key waits long for its write."""
        for _ in range(TRIES):
            if self.ledger:
                self.turn = (self.turn + 1) % self.keys
                key = self.turn
            else:
                key = self.chance.randrange(self.keys)
            if key not in self.busy:
                return key
        return None

    def send(self, operation: Operation) -> None:
        """To whom owns its slot, as far as is known."""
        self.node(self.slots[self.slot_of_key[operation.key]]).send(operation, operation.packed)

    def flush(self) -> None:
        """What was said since the last time goes out."""
        for node in self.touched:
            node.flush()
        self.touched.clear()

    def replied(self, operation: Operation, reply: object) -> None:
        """Done, or elsewhere, or later, or refused."""
        if not isinstance(reply, Exception):
            missing = not operation.write and reply is None
            self.end(operation, f"{key_of(operation.key)!r} has no value" if missing else "")
            return
        text = str(reply)
        kind, _, rest = text.partition(" ")
        if kind == "MOVED":
            slot, address = rest.split()
            self.slots[int(slot)] = address
            self.learn_soon()
            self.send(operation)
        elif kind == "ASK":
            node = self.node(rest.split()[1])
            node.send(None, ASKING)
            node.send(operation, operation.packed)
        elif kind in AGAIN:
            self.again(operation, text)
        else:
            self.end(operation, text)

    def again(self, operation: Operation, why: str) -> None:
        """After a moment."""
        self.again_count += 1
        if time.monotonic() - operation.sent > GIVE_UP_SECONDS:
            self.end(operation, why)
        else:
            self.loop.call_later(AGAIN_SECONDS, self._resend, operation)

    def _resend(self, operation: Operation) -> None:
        self.send(operation)
        self.flush()

    def lost(self, node: Node) -> None:
        """A connection is over."""
        if self.nodes.get(node.address) is node:
            del self.nodes[node.address]
        self.touched.discard(node)
        self.learn_soon()
        for operation in node.waiting:
            if operation is not None:
                self.again(operation, f"{node.address} hung up")
        node.waiting.clear()

    def end(self, operation: Operation, error: str) -> None:
        """Write it down."""
        now = time.monotonic()
        self.busy.discard(operation.key)
        if self.stopping.is_set() and not self.busy:
            self.settled.set()
        if error:
            self.error_count += 1
            if len(self.errors) < ERRORS_KEPT:
                self.errors.append(error)
        elif operation.write:
            self.acknowledged[operation.key] = operation.number
        self.rows.extend(
            (operation.key, operation.write, operation.due, operation.sent, now, not error)
        )

    # The ledger ---------------------------------------------------------------------------------

    async def read_back(self) -> int:
        """How many keys have less than what was acknowledged."""
        lost = 0
        for key, least in enumerate(self.acknowledged):
            if least:
                value = await self._read(key)
                lost += value is None or int(value) < least
        return lost

    async def _read(self, key: int) -> bytes | None:
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while True:
            await self.learn()
            address = self.slots[self.slot_of_key[key]]
            try:
                return await asyncio.wait_for(ask(address, b"GET", key_of(key)), ASK_SECONDS)
            except (OSError, TimeoutError, RuntimeError):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)


async def ask(address: str, *command: bytes) -> Any:
    """One question on a connection of its own."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(pack(*command))
        parser = hiredis.Reader(replyError=RuntimeError)
        while (reply := parser.gets()) is False:
            data = await reader.read(1 << 16)
            if not data:
                raise ConnectionError(f"{address} hung up")
            parser.feed(data)
    finally:
        writer.close()
    if isinstance(reply, Exception):
        raise reply
    return reply


async def until_told(given: argparse.Namespace) -> tuple[Load, dict[str, object]]:
    """Load until SIGTERM; then what happened."""
    load = Load(given)
    for number in (signal.SIGTERM, signal.SIGINT):
        load.loop.add_signal_handler(number, load.stopping.set)
    await load.run()
    told: dict[str, object] = {
        "errors": load.errors,
        "error_count": load.error_count,
        "unfinished": len(load.busy),
        "tried_again": load.again_count,
    }
    if load.ledger:
        told["acknowledged"] = sum(map(bool, load.acknowledged))
        told["lost"] = await load.read_back()
    return load, told


def main() -> None:
    """Load, and write down what happened."""
    given = options()
    load, told = uvloop.run(until_told(given))
    with Path(given.file).open("wb") as file:
        load.rows.tofile(file)
    Path(f"{given.file}.json").write_text(json.dumps(told), encoding="utf-8")


def options() -> argparse.Namespace:
    """What it is to do."""
    parser = argparse.ArgumentParser(prog="bench.load")
    parser.add_argument("file")
    parser.add_argument("addresses", nargs="+")
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--ledger", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
