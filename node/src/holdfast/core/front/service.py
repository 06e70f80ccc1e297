"""The front of one member: its clients' sessions, and who answers what is not about keys.

    Opened, Disconnected ──► sessions
    commands ──► plane ──► about keys: stores
                   ├─────► keys of others: forwarding ──► errands ──► Forward ──► guests, there
                   └─────► else: here ──► asides, by name

Each module documents its own rules; here is only who calls whom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.data.sessions import Session
from holdfast.core.data.tickets import Ticket
from holdfast.core.data_messages import Forward, Forwarded
from holdfast.core.events import Opened
from holdfast.core.front.catalogue import ASIDES, look_up
from holdfast.core.front.errands import Errands
from holdfast.core.front.forwarding import LATER, Forwarding
from holdfast.core.front.guests import Guests
from holdfast.core.front.keyspace import IN_PARTITION, Keyspace
from holdfast.core.front.reading import let_go
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.front.transactions import (
    NOT_INSIDE,
    TRANSACTION,
    VERSIONS,
    Transactions,
    check_not,
)
from holdfast.core.messages import Origin
from holdfast.core.stores.catalogue import ALL
from holdfast.core.stores.command import Blocked
from holdfast.core.stores.replies import error
from holdfast.core.stores.snapshot import Snapshot
from holdfast.errors import CommandError

AT_ONCE: Final = frozenset((b"DISCARD", b"EXEC", b"MULTI", b"QUIT", b"RESET", b"WATCH"))
"""They are not queued after MULTI."""
NO_EXEC: Final = "EXECABORT Transaction discarded because of: "
Between = Callable[[Session, list[bytes], Ticket], bytes]
"""What members ask one another for their clients."""


class Front:
    """What a client meets beside the data."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.plane = around.data.plane
        self.plane.front = self
        self._freed: list[Session] = []
        self.errands = Errands(around.context, self._freed.append)
        self.guests = Guests(around.context, self.plane)
        self.forwarding = Forwarding(self.plane, self.errands)
        around.freed = self._freed.append
        around.keyspace = keyspace = Keyspace(self.forwarding)
        around.transactions = transactions = Transactions(self.forwarding, self._in_transaction)
        self._between: dict[bytes, Between] = {
            IN_PARTITION: keyspace.asked,
            TRANSACTION: transactions.asked_to_run,
            VERSIONS: transactions.asked_for_versions,
        }
        around.forwarded = lambda: self.errands.count
        self.at_once = self.forwarding.at_once
        self.elsewhere = self.forwarding.elsewhere

    def open(self, event: Opened) -> None:
        """A client has connected."""
        session = self.around.sessions.of(event.session)
        session.forwards = event.forwards
        session.peer = event.peer

    def close(self, number: int) -> None:
        """A client has gone."""
        self.around.leaving.pop(number, None)
        let_go(self.around, number)
        session = self.around.sessions.open.get(number)
        if session is not None:
            self.errands.cancel(session)
        self.plane.close(number)

    def snapshot(self, number: int) -> Snapshot | None:
        """What a session has opened, to look at between two steps."""
        return self.around.snapshots.get(number)

    def run(self, session: Session, args: list[bytes], ticket: Ticket) -> bytes | Blocked:
        """The reply of a command that is not about keys, or of a session that is apart."""
        pending = session.pending
        if pending is not None and pending.reply is not None:
            session.pending = None
            session.settle()
            return pending.reply
        if session.leaving or pending is not None or session.away:
            return LATER
        between = self._between.get(args[0])
        if between is not None and session.number < 0:
            return between(session, args, ticket)
        self.around.ticket = ticket
        if session.queue is not None or args[0].upper() == b"EXEC":
            return self._inside(session, args)
        return look_up(args).function(self.around, session, args)

    def _inside(self, session: Session, args: list[bytes]) -> bytes | Blocked:
        """A command after MULTI: one that can't be there spoils the transaction."""
        name = args[0].upper()
        try:
            aside = None
            if ASIDES.find(name) is not None or ALL.find(name) is None:
                aside = look_up(args)
                check_not(NOT_INSIDE, not aside.in_multi)
            if aside is None or name not in AT_ONCE:
                return self.around.transactions.queue(session, args)
        except CommandError as refusal:
            session.spoilt = True
            if name == b"EXEC":
                session.end_transaction()
                raise CommandError(f"{NO_EXEC}{refusal.message.partition(' ')[2]}") from None
            raise
        return aside.function(self.around, session, args)

    def _in_transaction(self, session: Session, args: list[bytes]) -> bytes:
        """An aside's turn in EXEC."""
        try:
            reply = look_up(args).function(self.around, session, args)
        except CommandError as refusal:
            return error(refusal.message)
        assert isinstance(reply, bytes), "what has to wait is not let in"
        return reply

    def reset(self) -> None:
        """A new stay of mine begins."""
        self.errands.reset()
        self.guests.reset()

    # Other members --------------------------------------------------------------------------------

    def on_forward(self, origin: Origin, message: Forward) -> None:
        """Another member's clients ask."""
        self.guests.on_forward(origin, message, self.around.data.wall)

    def on_forwarded(self, origin: Origin, message: Forwarded) -> None:
        """My clients are answered, and go on."""
        self.errands.on_forwarded(origin, message)
        self.plane.call.now = self.around.data.wall
        self._go_on()

    def _go_on(self) -> None:
        """Who waited for what is answered now asks the next."""
        while self._freed:
            session = self._freed.pop()
            session.settle()
            self.plane.retry(session.number)

    # Time -----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Time has passed, or something has changed."""
        self.plane.call.now = self.around.data.wall
        self.errands.advance()
        self._go_on()
        self.guests.advance()

    def go_on(self) -> None:
        """Tell the others what this step has brought; hang up on who has said QUIT."""
        desk, leaving = self.around.data.desk, self.around.leaving
        self.errands.flush()
        if self.guests.books:
            for guest, replies in desk.take_told():
                self.guests.replied(guest, replies)
            self.guests.flush()
        for number in tuple(leaving):
            if not desk.sessions.get(number):
                del leaving[number]
                self.around.context.outbox.hang_up(number)
