"""Asides that are about keys after all: those of the whole keyspace, and transactions."""

from __future__ import annotations

from typing import Final

from holdfast.core.data.sessions import Session
from holdfast.core.front.asides import Aside
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.stores.command import Blocked, Trait
from holdfast.core.stores.replies import OK

READ: Final = Trait.READ | Trait.KEYSPACE
WRITE: Final = Trait.WRITE | Trait.KEYSPACE


def keyspace(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """KEYS | DBSIZE | RANDOMKEY | FLUSHDB."""
    return around.keyspace.run(session, args, around.ticket)


def flushall(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """FLUSHALL [ASYNC | SYNC]."""
    return around.keyspace.run(session, [b"FLUSHDB", *args[1:]], around.ticket)


def scan(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]."""
    return around.keyspace.scan(session, args, around.ticket)


def multi(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """MULTI."""
    return around.transactions.multi(session)


def execute(around: Surroundings, session: Session, _: list[bytes]) -> bytes | Blocked:
    """EXEC."""
    return around.transactions.execute(session, around.ticket)


def discard(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """DISCARD."""
    return around.transactions.discard(session)


def watch(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """WATCH key [key ...]."""
    return around.transactions.watch(session, args[1:], around.ticket)


def unwatch(_: Surroundings, session: Session, __: list[bytes]) -> bytes:
    """UNWATCH."""
    session.watched = {}
    return OK


KEYSPACE: Final = (
    Aside("DBSIZE", 1, READ | Trait.FAST, keyspace, in_multi=False),
    Aside("FLUSHALL", -1, WRITE, flushall, in_multi=False),
    Aside("FLUSHDB", -1, WRITE, keyspace, in_multi=False),
    Aside("KEYS", 2, READ, keyspace, in_multi=False),
    Aside("RANDOMKEY", 1, READ, keyspace, in_multi=False),
    Aside("SCAN", -2, READ, scan, in_multi=False),
)
TRANSACTIONS: Final = (
    Aside("DISCARD", 1, Trait.FAST, discard),
    Aside("EXEC", 1, Trait(0), execute),
    Aside("MULTI", 1, Trait.FAST, multi),
    Aside("UNWATCH", 1, Trait.FAST, unwatch),
    Aside("WATCH", -2, Trait.FAST, watch, (1, -1, 1)),
)
