"""Replies that wait until what they tell is safe, in the order of their sessions.

Rules (`design/2` "The life of a SET"; `design/3` §4)
-----------------------------------------------------
* A batch of commands gives one list of replies. If it wrote, the list waits until every synchronous
  backup of every partition that it wrote to has the writes. So does whoever reads a key that is
  being written: it waits for the batch that wrote it.
* A session gets its replies in the order of its commands: what is ready waits for what came before.
* Time runs out: what depends on the writes is answered *outcome unknown*, never "failed" or "ok",
  and the rest as it is. The batch goes on waiting, unseen: until its writes are safe nobody may
  read them.
* A member that loses a partition does not know any more what becomes of its writes there: the same.

States
------
    open ──► done ──► (answered)         open ──► given up ──► done
        all needs are met                   time is up; readers go on waiting

What can go wrong
-----------------
A ticket that waits for another one that is given up: its reads have seen a write whose outcome is
unknown. They get the same answer, when their own time is up.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from holdfast.core.stores.replies import error

UNKNOWN: Final = error(
    "UNKNOWNOUTCOME not confirmed in time by all who are to have it; read the key to see what is so"
)
AGAIN: Final = error("TRYAGAIN a write of this key is not confirmed yet; read it again")


class Ticket:
    """The replies of one batch, and what they wait for."""

    __slots__ = (
        "answered",
        "deadline",
        "dependents",
        "keys",
        "needs",
        "replies",
        "session",
        "unsure",
    )

    def __init__(self, session: int, deadline: int) -> None:
        self.session = session
        self.deadline = deadline
        self.replies: list[bytes] = []
        self.unsure: list[tuple[int, bytes]] = []
        """Which replies depend on what is waited for, and what they are otherwise."""
        self.keys: dict[bytes, None] = {}
        """What the batch wrote."""
        self.needs = 0
        self.dependents: list[Ticket] = []
        self.answered = False

    @property
    def done(self) -> bool:
        """Whether nothing is waited for."""
        return self.needs == 0

    def await_other(self, other: Ticket) -> None:
        """Wait for a batch that wrote what this one has read."""
        if other is not self and not other.done and self not in other.dependents:
            other.dependents.append(self)
            self.needs += 1


class Desk:
    """All tickets that wait."""

    def __init__(self) -> None:
        self.sessions: dict[int, deque[Ticket]] = {}
        """Each client's batches whose replies are not out yet, in order."""
        self.writing: dict[bytes, Ticket] = {}
        """Who wrote a key last, while that is not safe."""
        self._ready: list[tuple[int, bytes]] = []
        self._told: list[tuple[int, list[bytes]]] = []
        self._open: deque[Ticket] = deque()
        """In the order of their deadlines."""

    def queue(self, ticket: Ticket) -> None:
        """A batch was executed; its replies come out in their turn."""
        queue = self.sessions.get(ticket.session)
        if not queue and not ticket.needs:
            self._out(ticket)
            return
        if queue is None:
            queue = self.sessions[ticket.session] = deque()
        queue.append(ticket)
        if ticket.needs:
            self._open.append(ticket)
            self.hold(ticket)

    def hold(self, ticket: Ticket) -> None:
        """Nobody is told of its keys before it is done."""
        writing = self.writing
        for key in ticket.keys:
            writing[key] = ticket

    def met(self, ticket: Ticket, count: int = 1) -> None:
        """So many things less to wait for."""
        ticket.needs -= count
        if ticket.needs == 0:
            self._finished(ticket)

    def _finished(self, ticket: Ticket) -> None:
        writing = self.writing
        for key in ticket.keys:
            if writing.get(key) is ticket:
                del writing[key]
        self._let_out(ticket.session)
        if ticket.dependents:
            dependents, ticket.dependents = ticket.dependents, []
            for dependent in dependents:
                self.met(dependent)

    def _let_out(self, number: int) -> None:
        """What is ready at the head of a session; of one that is closed, nothing."""
        queue = self.sessions.get(number)
        while queue and (queue[0].needs == 0 or queue[0].answered):
            ticket = queue.popleft()
            ticket.answered = True
            self._out(ticket)

    def give_up(self, ticket: Ticket) -> None:
        """Answer what is not safe with what it is then; the needs stay."""
        if ticket.answered:
            return
        for place, otherwise in ticket.unsure:
            ticket.replies[place] = otherwise
        ticket.answered = True
        self._let_out(ticket.session)

    def fail(self, ticket: Ticket) -> None:
        """One thing that it waits for will never be known here: whoever has seen its writes has
        seen what may not be."""
        self.give_up(ticket)
        dependents, ticket.dependents = ticket.dependents, []
        for dependent in dependents:
            self.give_up(dependent)
            self.met(dependent)
        self.met(ticket)

    def expire(self, now: int) -> None:
        """Time has run out for some."""
        waiting = self._open
        while waiting and (waiting[0].deadline <= now or waiting[0].done):
            ticket = waiting.popleft()
            if not ticket.done:
                self.give_up(ticket)

    def next_deadline(self) -> int | None:
        """When time runs out for the next."""
        return self._open[0].deadline if self._open else None

    def close(self, number: int) -> None:
        """The client has gone."""
        self.sessions.pop(number, None)

    def _out(self, ticket: Ticket) -> None:
        if ticket.session >= 0:
            self._ready.append((ticket.session, b"".join(ticket.replies)))
        else:
            self._told.append((ticket.session, ticket.replies))

    def take_told(self) -> list[tuple[int, list[bytes]]]:
        """The same for sessions that are no clients of mine: each reply by itself."""
        told, self._told = self._told, []
        return told

    def take(self) -> list[tuple[int, bytes]]:
        """What may be written out now."""
        ready, self._ready = self._ready, []
        return ready
