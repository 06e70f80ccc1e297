"""Filling a server or a cluster with numbered keys, in pipelines."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Final, Self

import hiredis
import redis

from bench.processes import HOST
from holdfast.core.data.plane import slot_of

Command = tuple[bytes, ...]
BATCH: Final = 500
SECONDS: Final = 60.0


def key_of(number: int) -> bytes:
    """Keys of one name."""
    return b"users:%08d" % number


def value_of(number: int, size: int) -> bytes:
    """No two are the same."""
    return b"%0*d" % (size, number)


def pack(*command: bytes) -> bytes:
    """A command as it is sent."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # of any length
    return packed


class Pipe:
    """A connection on which commands go out many at a time."""

    def __init__(self, port: int) -> None:
        self._link = socket.create_connection((HOST, port), SECONDS)
        self._reader = hiredis.Reader(replyError=RuntimeError)

    def send(self, commands: Iterable[Command]) -> None:
        """All of them; raise the first refusal."""
        packed = [pack(*command) for command in commands]
        self._link.sendall(b"".join(packed))
        for _ in packed:
            reply = self._next()
            if isinstance(reply, Exception):
                raise reply

    def _next(self) -> object:
        while (reply := self._reader.gets()) is False:
            data = self._link.recv(1 << 16)
            if not data:
                raise ConnectionError("the server hung up")
            self._reader.feed(data)
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()


def fill_one(port: int, count: int, size: int) -> None:
    """SET every key at one server."""
    with Pipe(port) as pipe:
        for start in range(0, count, BATCH):
            numbers = range(start, min(start + BATCH, count))
            pipe.send((b"SET", key_of(each), value_of(each, size)) for each in numbers)


def fill_cluster(port: int, count: int, size: int) -> None:
    """SET every key at its owner; nothing may move meanwhile."""
    owners = slots(port)
    with ExitStack() as stack:
        pipes = {owner: stack.enter_context(Pipe(owner)) for owner in sorted(set(owners))}
        waiting: dict[int, list[Command]] = {owner: [] for owner in pipes}
        for number in range(count):
            key = key_of(number)
            owner = owners[slot_of(key)]
            waiting[owner].append((b"SET", key, value_of(number, size)))
            if len(waiting[owner]) == BATCH:
                pipes[owner].send(waiting[owner])
                waiting[owner] = []
        for owner, commands in waiting.items():
            pipes[owner].send(commands)


def slots(port: int) -> list[int]:
    """The port of each slot's owner, as one member says."""
    owners = [0] * 16_384
    with redis.Redis(port=port, protocol=2) as client:
        for first, last, owner, *_ in client.execute_command("CLUSTER", "SLOTS"):
            owners[first : last + 1] = [owner[1]] * (last + 1 - first)
    if 0 in owners:
        raise LookupError("a slot has no owner")
    return owners
