"""What other members ask for their clients: done once, answered as often as it is asked.

Rules (`design/4`, port 6379; see `errands` for the other side)
---------------------------------------------------------------
* Each errand runs in a session of its own, a *guest*, with the name and dialect of the client: its
  locks are the client's, wherever it is connected. A guest whose errand is done is used again for
  the next one of the same client.
* For each stay that asks there is a *book* of the errands that it may ask about again: what is
  under way, and the replies of what is done. A repeated errand finds its entry: it is not done
  twice.
* A message says up to which number its sender has sent (`last`), and which of these it still wants.
  The newest one counts. All others are struck out; what was struck out, or comes late and is not
  wanted any more, is never done.
* What waits for a key is wanted as long as its sender says so. Who says nothing for
  `operation_timeout_ms` has gone, as far as that is concerned: nobody takes an element for it.

                 first time               all replies
    (expected) ─────────────► under way ─────────────► done ───► struck out: not wanted any more
         ▲                        │ it waits for a key, and its sender is silent
         └ wanted, not here yet   └──────────────────────────► struck out

States: those of an errand in the picture.

What can go wrong
-----------------
*A message overtakes another one.* What the older one brings is expected, as the newer one wants it.
*What was struck out for silence is wanted again.* Then it was not done, and its sender is told that
it is not here.
*I begin another stay.* The books are gone; messages for the last stay are not for this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.plane import NOT_SERVING, Plane
from holdfast.core.data.sessions import Session
from holdfast.core.data_messages import Errand, Forward, Forwarded
from holdfast.core.events import Batch
from holdfast.core.front.errands import COMMAND_BYTES_MAX, MESSAGE_BYTES, OVERHEAD, Stay, size_of
from holdfast.core.messages import Origin
from holdfast.core.stores.replies import RESP2, RESP3, error
from holdfast.ids import Address

FIRST_GUEST: Final = -2
"""Guests count downwards from here, so that they are never mistaken for clients of my own."""
IDLE_MAX: Final = 10_000
"""Guests that are kept for one member."""
LOOK_AFTER_GUESTS: Final = "look after guests"
TOO_LARGE: Final = error("ERR the reply is too large to be sent on; ask the key's owner for it")

Replies = tuple[bytes, ...]


@dataclass(slots=True)
class Entry:
    """One errand in a book."""

    commands: int = 0
    """How many; 0 while it is expected."""
    replies: list[bytes] = field(default_factory=list)
    waited: bool = False
    """Whether its sender was told that it waits here, and so does not send it again."""
    guest: int = 0
    """Its session while it is under way; else 0."""


@dataclass(slots=True)
class Book:
    """What one stay may ask about again."""

    address: Address
    heard_at: int = 0
    last: int = 0
    entries: dict[int, Entry] = field(default_factory=dict)
    outcomes: dict[int, Replies] = field(default_factory=dict)
    """What is to be told at the end of this step."""
    idle: dict[bytes, Session] = field(default_factory=dict)
    """Guests whose errand is done, by client."""
    asked: dict[int, None] = field(default_factory=dict)
    """What this step's messages have asked for."""


class Guests:
    """All that others have asked for."""

    def __init__(self, context: Context, plane: Plane) -> None:
        self.context = context
        self.plane = plane
        self.books: dict[Stay, Book] = {}
        self._of_guest: dict[int, tuple[Stay, int]] = {}
        self._next = FIRST_GUEST

    def reset(self) -> None:
        """A new stay of mine begins."""
        for stay in tuple(self.books):
            self._close_book(stay)

    # Messages -------------------------------------------------------------------------------------

    def on_forward(self, origin: Origin, message: Forward, wall: int) -> None:
        """Somebody's clients ask."""
        view, stay = self.context.view, (origin.id, origin.incarnation)
        listed = view is not None and view.has(*stay)
        if message.incarnation != self.context.me.incarnation or not listed:
            return
        book = self.books.get(stay)
        if book is None:
            book = self.books[stay] = Book(origin.address)
        book.heard_at = self.context.now
        before = book.last
        if message.last >= before:
            self._strike_out(book, message)
        batches: list[Batch] = []
        for errand in message.errands:
            batches += self._begin(stay, book, errand, before)
        self.plane.execute(batches, wall)

    def _strike_out(self, book: Book, message: Forward) -> None:
        """The newest message says what counts."""
        before, book.last = book.last, message.last
        wanted = dict.fromkeys(message.wanted) | {errand[0]: None for errand in message.errands}
        for number in tuple(book.entries):
            if number not in wanted:
                self._forget(book, number)
        for number in message.wanted:
            entry = book.entries.get(number)
            if entry is not None:
                if entry.waited and not entry.guest:
                    book.outcomes[number] = tuple(entry.replies)
            elif number > before:
                book.entries[number] = Entry()
            else:
                book.outcomes[number] = (error(NOT_SERVING),)

    def _forget(self, book: Book, number: int) -> None:
        entry = book.entries.pop(number)
        book.outcomes.pop(number, None)
        if entry.guest:
            self._dismiss(entry.guest)

    def _begin(self, stay: Stay, book: Book, errand: Errand, before: int) -> Iterator[Batch]:
        """What is to be run for an errand, unless it was already."""
        number, owner, dialect, commands = errand
        entry = book.entries.get(number)
        if entry is None and number <= before:
            return
        book.asked[number] = None
        if entry is None:
            entry = book.entries[number] = Entry()
        if entry.commands:
            if not entry.guest:
                book.outcomes[number] = tuple(entry.replies)
            return
        if not commands:
            return
        session = book.idle.pop(owner, None) or self._new(owner)
        session.dialect = RESP3 if dialect == RESP3.number else RESP2
        entry.commands, entry.guest = len(commands), session.number
        self._of_guest[entry.guest] = (stay, number)
        yield entry.guest, commands

    def _new(self, owner: bytes) -> Session:
        session = Session(self._next, owner, self.context.now)
        self.plane.sessions.guests[self._next] = session
        self._next -= 1
        return session

    # Replies --------------------------------------------------------------------------------------

    def replied(self, guest: int, replies: list[bytes]) -> None:
        """Replies of the plane to a guest."""
        found = self._of_guest.get(guest)
        if found is None:
            return
        stay, number = found
        book = self.books[stay]
        entry = book.entries[number]
        entry.replies += replies
        if len(entry.replies) == entry.commands:
            entry.guest = 0
            self._free(book, guest)
            if size_of(entry.replies) > COMMAND_BYTES_MAX:
                most = COMMAND_BYTES_MAX // len(entry.replies) - OVERHEAD
                entry.replies = [
                    reply if len(reply) <= most else TOO_LARGE for reply in entry.replies
                ]
            book.outcomes[number] = tuple(entry.replies)

    def _free(self, book: Book, guest: int) -> None:
        """It is done; the next errand of its client takes it."""
        session = self.plane.sessions.guests[guest]
        if len(book.idle) >= IDLE_MAX or session.owner in book.idle:
            self._dismiss(guest)
        else:
            del self._of_guest[guest]
            book.idle[session.owner] = session

    def _dismiss(self, guest: int) -> None:
        self._of_guest.pop(guest, None)
        self.plane.close(guest)

    # Time -----------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Tell what this step has done, and what waits here."""
        for book, stay in [(book, stay) for stay, book in self.books.items()]:
            if book.outcomes or book.asked:
                asked, book.asked = book.asked, {}
                waiting = tuple(number for number in asked if self._waits(book, number))
                for number in waiting:
                    book.entries[number].waited = True
                outcomes, book.outcomes = book.outcomes, {}
                self._tell(stay, book, outcomes, waiting)

    def _waits(self, book: Book, number: int) -> bool:
        entry = book.entries.get(number)
        return entry is not None and entry.guest in self.plane.waiting

    def _tell(
        self, stay: Stay, book: Book, outcomes: dict[int, Replies], waiting: tuple[int, ...]
    ) -> None:
        told: list[tuple[int, Replies]] = []
        size = 0
        for number, replies in outcomes.items():
            more = size_of(replies)
            if told and size + more > MESSAGE_BYTES:
                self.context.send(book.address, Forwarded(stay[1], tuple(told), ()))
                told, size = [], 0
            told.append((number, replies))
            size += more
        if told or waiting:
            self.context.send(book.address, Forwarded(stay[1], tuple(told), waiting))

    def advance(self) -> None:
        """Stays may be gone, or silent."""
        context = self.context
        context.timers.due(LOOK_AFTER_GUESTS, context.now)
        if not self.books:
            return
        for stay in tuple(self.books):
            if context.view is None or not context.view.has(*stay):
                self._close_book(stay)
        silent = context.now - context.config.operation_timeout_ms
        for book in self.books.values():
            if book.heard_at <= silent:
                for number, entry in tuple(book.entries.items()):
                    if entry.guest in self.plane.waiting and entry.commands == 1:
                        self._forget(book, number)
        self.flush()
        if not context.timers.running(LOOK_AFTER_GUESTS) and self._anyone_waits():
            patience = context.config.operation_timeout_ms
            context.timers.set(LOOK_AFTER_GUESTS, context.now + patience)

    def _anyone_waits(self) -> bool:
        return any(guest in self.plane.waiting for guest in self._of_guest)

    def _close_book(self, stay: Stay) -> None:
        book = self.books.pop(stay)
        for entry in book.entries.values():
            if entry.guest:
                self._dismiss(entry.guest)
        for session in book.idle.values():
            self._dismiss(session.number)
