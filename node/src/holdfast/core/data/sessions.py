"""Clients, one session each: what a connection has said about itself.

A session that was never opened is one of the cluster port: commands may come before anybody says
what the connection is, as those of tests and of the simulator do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.context import Context
from holdfast.core.stores.replies import RESP2, Resp2
from holdfast.ids import Millis


@dataclass(slots=True, eq=False)
class Pending:
    """A reply that is not here yet."""

    reply: bytes | None = None


@dataclass(slots=True, eq=False)
class Session:
    """One client's connection."""

    number: int
    owner: bytes
    """Its name among all sessions of the cluster: who holds a lock."""
    since: Millis
    forwards: bool = False
    """Whether it is of the plain port: any key is answered."""
    peer: str = ""
    dialect: Resp2 = RESP2
    apart: bool = False
    """Whether its commands are not executed as they come: in a transaction, or while an earlier
    one has to be answered first."""
    name: bytes = b""
    library: bytes = b""
    library_version: bytes = b""
    queue: list[list[bytes]] | None = None
    """Commands since MULTI; None outside of it."""
    spoilt: bool = False
    """Whether one of those was refused, so that EXEC will be."""
    watched: dict[bytes, bytes] = field(default_factory=dict)
    """Keys of WATCH, and the versions that they had."""
    away: int = 0
    """Its commands that are under way at other members (`front.errands`)."""
    pending: Pending | None = None
    """The reply of its first command, when that needs more than this step."""
    leaving: bool = False
    """Whether it has said QUIT: nothing more of it is answered."""

    def settle(self) -> None:
        """Whether it is apart follows from the rest."""
        busy = self.away > 0 or self.pending is not None
        self.apart = busy or self.leaving or self.queue is not None

    def reset(self) -> None:
        """As it was when it was opened."""
        self.dialect = RESP2
        self.name = b""
        self.end_transaction()

    def end_transaction(self) -> None:
        """Nothing is queued or watched any more."""
        self.queue = None
        self.spoilt = False
        self.watched = {}
        self.settle()


class Sessions:
    """All sessions of this member's own clients."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.open: dict[int, Session] = {}
        self.guests: dict[int, Session] = {}
        """Clients of other members, for one errand each (`front.guests`)."""

    def of(self, number: int) -> Session:
        """The session of this number."""
        session = self.open.get(number) or self.guests.get(number)
        if session is None:
            me = self.context.me
            owner = f"{me.id}.{me.incarnation}/{number}".encode()
            session = self.open[number] = Session(number, owner, self.context.now)
        return session

    def close(self, number: int) -> None:
        """The client has gone."""
        self.open.pop(number, None)
        self.guests.pop(number, None)
