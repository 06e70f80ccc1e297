"""Commands of the plain port whose keys are not all here.

Rules (`design/4`, port 6379)
-----------------------------
* A command about one partition that never waits takes its place among the replies of its batch at
  once, as if its outcome were unknown; its real reply replaces that (`Place`). So a pipeline's
  commands for another member leave together.
* All others hold up their session until they are answered, and begin when nothing of it is under
  way: a command over several partitions, which is split by partition and put together (not
  atomic), and one that may wait for a key.
* Where nobody is known who owns a partition, the command waits like one whose partition is handed
  over: clients of the plain port know nothing of a cluster.

States
------
Of a session: its commands are executed as they come; or its first one is pending
(`Session.pending`); or some are on their way (`Session.away`).

What can go wrong
-----------------
*One part of a split command fails.* The whole is answered with that error, *unknown* before all
others; the other parts were done. *It is larger than a message.* It is refused with what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.data.gates import SINGLES
from holdfast.core.data.plane import Elsewhere, Plane
from holdfast.core.data.sessions import Pending, Session
from holdfast.core.data.tickets import AGAIN, UNKNOWN, Desk, Ticket
from holdfast.core.front.errands import Errands, Slot, Stay, check_size
from holdfast.core.stores.blocking import parse_until
from holdfast.core.stores.catalogue import ALL
from holdfast.core.stores.command import Blocked, Trait
from holdfast.core.stores.gathering import Combine, Part, places_of, taken_apart
from holdfast.core.stores.replies import error
from holdfast.errors import CommandError
from holdfast.ids import Millis, PartitionId

LATER: Final = Blocked((), 0, b"")
"""Not now, and without a deadline of its own."""


class Place(Slot):
    """A command whose reply has its place in a ticket."""

    def __init__(
        self,
        args: list[bytes],
        partition: PartitionId,
        ticket: Ticket,
        desk: Desk,
        *,
        writes: bool,
    ) -> None:
        super().__init__(args, partition, Millis(ticket.deadline), writes=writes)
        self.ticket = ticket
        self.place = len(ticket.replies)
        self.desk = desk

    def fill(self, reply: bytes) -> None:
        """It is answered."""
        self.ticket.replies[self.place] = reply
        self.desk.met(self.ticket)


@dataclass(slots=True, eq=False)
class Gathering:
    """Parts of one command, and what becomes of them."""

    session: Session
    pending: Pending
    combine: Combine
    replies: list[bytes] = field(default_factory=list)
    left: int = 0

    def take(self, index: int, reply: bytes) -> None:
        """One part is answered."""
        self.replies[index] = reply
        self.left -= 1
        if not self.left:
            errors = [each for each in self.replies if each[:1] == b"-"]
            if errors:
                self.pending.reply = UNKNOWN if UNKNOWN in errors else errors[0]
            else:
                self.pending.reply = self.combine(self.replies)


class Piece(Slot):
    """One part."""

    def __init__(
        self,
        part: Part,
        until: Millis,
        gathering: Gathering,
        index: int,
        *,
        writes: bool,
    ) -> None:
        super().__init__(part[1], part[0], until, writes=writes)
        self.gathering = gathering
        self.index = index

    def fill(self, reply: bytes) -> None:
        """It is answered."""
        self.gathering.take(self.index, reply)


class Forwarding:
    """Sends commands of my clients to where their keys are."""

    def __init__(self, plane: Plane, errands: Errands) -> None:
        self.plane = plane
        self.errands = errands

    def at_once(self, session: Session, args: list[bytes], ticket: Ticket) -> bytes | None:
        """Send a command of one key on, if it is known where; what is told until it is answered."""
        single = SINGLES.get(args[0])
        if single is None or not single.least <= len(args) <= single.most:
            return None
        partition = self.plane.partition_of(args[1])
        stay = self.errands.owner_of(partition)
        if stay is None or stay[0] == self.errands.context.me.id:
            return None
        return self._place(session, args, partition, stay, single.otherwise, ticket)

    def _place(
        self,
        session: Session,
        args: list[bytes],
        partition: PartitionId,
        stay: Stay | None,
        otherwise: bytes,
        ticket: Ticket,
    ) -> bytes | None:
        slot = Place(args, partition, ticket, self.plane.desk, writes=otherwise is UNKNOWN)
        if not self.errands.add(session, slot, stay):
            return None
        ticket.needs += 1
        return otherwise

    def elsewhere(
        self, session: Session, args: list[bytes], ticket: Ticket, refusal: Elsewhere
    ) -> bytes | Blocked:
        """A command that is not for here alone."""
        command = ALL.find(args[0])
        assert command is not None, "what was refused is a command"
        check_size(args)
        places = places_of(command.keys_in(args), self.plane.partition_of)
        context = self.errands.context
        owners = [self.errands.owner_of(partition) for partition in places]
        others = [owner for owner in owners if owner is not None and owner[0] != context.me.id]
        if None in owners or not others:
            until = self.plane.call.now + context.config.operation_timeout_ms
            return Blocked((), until, error(refusal.message))
        partition = next(iter(places))
        if len(places) > 1:
            return self.start(session, *taken_apart(command, args, places), command.traits)
        if Trait.BLOCKS in command.traits:
            wait = self._wait_of(args)
            return self.start(session, [(partition, args)], first, command.traits, wait)
        otherwise = UNKNOWN if Trait.WRITE in command.traits else AGAIN
        return self._place(session, args, partition, owners[0], otherwise, ticket) or LATER

    def _wait_of(self, args: list[bytes]) -> int | None:
        """How long a command waits for its key; None for ever. Its owner judges what is wrong."""
        call = self.plane.call
        try:
            if args[0].upper() == b"HOLDFAST.LOCK":
                options = dict(zip(map(bytes.upper, args[3::2]), args[4::2], strict=False))
                wait = int(options.get(b"WAIT", b"1"))
                return wait or None
            until = parse_until(call, args[-1])
        except (CommandError, ValueError):
            return 0
        return until - call.now if until else None

    def start(
        self,
        session: Session,
        parts: Sequence[Part],
        combine: Combine,
        traits: Trait,
        wait: int | None = 0,
    ) -> Blocked:
        """Have parts of a command carried out; the session waits for it."""
        if session.away:
            return LATER
        context = self.errands.context
        pending = session.pending = Pending()
        session.settle()
        until = 0 if wait is None else context.now + wait + context.config.operation_timeout_ms
        gathering = Gathering(session, pending, combine, [b""] * len(parts), len(parts))
        writes = Trait.WRITE in traits
        for index, part in enumerate(parts):
            piece = Piece(part, Millis(until), gathering, index, writes=writes)
            self.errands.ask(session, piece)
        return LATER


def first(replies: list[bytes]) -> bytes:
    """The reply of the only part."""
    return replies[0]
