"""MULTI, EXEC, WATCH: commands of one partition that are done in one go.

Rules (`design/4`, "MULTI/EXEC on one partition")
-------------------------------------------------
* Commands after MULTI are looked at and queued. If one of them can't be, EXEC is refused.
* All keys of a transaction, the watched ones too, lie in one partition. EXEC does everything in one
  step of the partition's owner: nobody sees, and no backup gets, a part of it.
* A command that fails has its error in its place, and the others are done. One that would wait for
  a key does not: it says what it says when its time is up.
* WATCH remembers the *version* of a record, which is the same on every member that ever owns it. A
  key that is not there has none; one that came and went again counts as unchanged.
* On the plain port the whole goes to the partition's owner, with the watched versions. What is not
  about keys is answered here.

            MULTI              command: looked at, QUEUED
    plain ─────────► queueing ─────────┐      EXEC, DISCARD, RESET
      ▲  WATCH           ▲             │  ──────────────────────────► plain, nothing watched
      └──────┘           └─────────────┘
States: those of a session in the picture, and whether a command was refused (`Session.spoilt`).

What can go wrong
-----------------
*The partition is handed over at EXEC.* The session waits with it, and nothing is done before.
*Not every backup confirms it in time.* The whole is answered as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from holdfast.core.data.plane import CROSS_SLOT
from holdfast.core.data.sessions import Session
from holdfast.core.data.tickets import UNKNOWN, Ticket
from holdfast.core.front.errands import check_size
from holdfast.core.front.forwarding import Forwarding
from holdfast.core.stores.catalogue import ALL
from holdfast.core.stores.command import Blocked, Trait, wrong_arity
from holdfast.core.stores.fragment import version_of_value
from holdfast.core.stores.gathering import split_bulks
from holdfast.core.stores.record import ABSENT
from holdfast.core.stores.replies import OK, QUEUED, array, bulks, error
from holdfast.errors import CommandError
from holdfast.ids import PartitionId

TRANSACTION: Final = b"HOLDFAST.TRANSACTION"
VERSIONS: Final = b"HOLDFAST.VERSIONS"
"""What members ask one another."""

NESTED: Final = "ERR MULTI calls can not be nested"
WATCH_INSIDE: Final = "ERR WATCH inside MULTI is not allowed"
NO_MULTI: Final = "ERR {} without MULTI"
ABORTED: Final = "EXECABORT Transaction discarded because of previous errors."
NOT_INSIDE: Final = "ERR Command not allowed inside a transaction"

Commands = list[list[bytes]]
Versions = dict[bytes, bytes]
RunAside = Callable[[Session, list[bytes]], bytes]
"""Carries out a command without keys; its error is a reply."""


class Transactions:
    """MULTI and what belongs to it."""

    def __init__(self, forwarding: Forwarding, run_aside: RunAside) -> None:
        self.forwarding = forwarding
        self.plane = forwarding.plane
        self._run_aside = run_aside

    # Clients --------------------------------------------------------------------------------------

    def multi(self, session: Session) -> bytes:
        """MULTI."""
        if session.queue is not None:
            raise CommandError(NESTED)
        session.queue = []
        session.settle()
        return OK

    def discard(self, session: Session) -> bytes:
        """DISCARD."""
        if session.queue is None:
            raise CommandError(NO_MULTI.format("DISCARD"))
        session.end_transaction()
        return OK

    def watch(self, session: Session, keys: list[bytes], ticket: Ticket) -> bytes | Blocked:
        """WATCH key [key ...]."""
        if session.queue is not None:
            raise CommandError(WATCH_INSIDE)
        (partition,) = self._partitions((*session.watched, *keys))

        def remember(versions: Iterable[bytes]) -> bytes:
            for key, version in zip(keys, versions, strict=True):
                session.watched.setdefault(key, version)
            return OK

        if not session.forwards:
            return remember(self.versions(partition, keys, ticket))
        asked = [VERSIONS, *keys]
        check_size(asked)
        parts = [(partition, asked)]
        return self.forwarding.start(
            session, parts, lambda replies: remember(split_bulks(replies[0])), Trait.READ
        )

    def _partitions(self, keys: Iterable[bytes]) -> list[PartitionId]:
        """The partition of these keys; none if there are none."""
        partitions = list(dict.fromkeys(self.plane.partition_of(key) for key in keys))
        if len(partitions) > 1:
            raise CommandError(CROSS_SLOT)
        return partitions

    def queue(self, session: Session, args: list[bytes]) -> bytes:
        """A command inside MULTI."""
        assert session.queue is not None, "only inside"
        command = ALL.find(args[0])
        if command is not None and command.keys[0]:
            if not command.fits(len(args)):
                raise wrong_arity(command.name)
            if not session.forwards:  # it learns at once that a key is elsewhere
                keys = keys_of(args)
                (partition,) = self._partitions(keys)
                self.plane.check(partition, command.traits, keys[0])
        session.queue.append(args)
        return QUEUED

    def execute(self, session: Session, ticket: Ticket) -> bytes | Blocked:
        """EXEC."""
        queue, watched, spoilt = session.queue, session.watched, session.spoilt
        if queue is None:
            raise CommandError(NO_MULTI.format("EXEC"))
        commands = [args for args in queue if keys_of(args)]
        try:
            check_not(ABORTED, spoilt)
            keys = (key for args in commands for key in keys_of(args))
            partitions = self._partitions((*watched, *keys))
            if not partitions:
                told: list[bytes] | None = []
            elif not session.forwards:
                told = self.run(partitions[0], watched, commands, ticket)
            else:
                return self._send(session, partitions[0], queue, commands)
        except CommandError:
            session.end_transaction()
            raise
        session.end_transaction()
        return self._woven(session, queue, told)

    def _send(
        self, session: Session, partition: PartitionId, queue: Commands, commands: Commands
    ) -> Blocked:
        """Have the partition's owner do it."""
        packed = pack(session.watched, commands)
        check_size(packed)
        session.end_transaction()

        def combine(replies: list[bytes]) -> bytes:
            gone = replies[0][:2] in (b"*-", b"_\r")
            return self._woven(session, queue, None if gone else split_bulks(replies[0]))

        return self.forwarding.start(session, [(partition, packed)], combine, Trait.WRITE)

    def _woven(self, session: Session, queue: Commands, told: list[bytes] | None) -> bytes:
        """Replies of the owner, and those of what is not about keys, in order."""
        if told is None:
            return session.dialect.null_array
        left = iter(told)
        return array(
            [next(left) if keys_of(args) else self._run_aside(session, args) for args in queue]
        )

    # The owner ------------------------------------------------------------------------------------

    def versions(self, partition: PartitionId, keys: list[bytes], ticket: Ticket) -> list[bytes]:
        """The versions of these keys."""
        space = self.plane.check(partition, Trait.READ, keys[0]).space
        self.plane.read(keys, len(ticket.replies), ticket)
        found = [space.find(key) for key in keys]
        return [ABSENT if each is None else version_of_value(each[1]) for each in found]

    def run(
        self, partition: PartitionId, watched: Versions, commands: Commands, ticket: Ticket
    ) -> list[bytes] | None:
        """All of it, here and now; None if something that was watched has changed."""
        traits = Trait.READ
        for args in commands:
            traits |= traits_of(args)
        place = len(ticket.replies)
        keys = (*watched, *(key for args in commands for key in keys_of(args)))
        self.plane.check(partition, traits, keys[0])
        if watched:
            now = self.versions(partition, list(watched), ticket)
            if now != list(watched.values()):
                return None
        told = [self._one(partition, args, ticket) for args in commands]
        if (place, UNKNOWN) in ticket.unsure:
            ticket.unsure.append((place, UNKNOWN))  # the last one counts
        return told

    def _one(self, partition: PartitionId, args: list[bytes], ticket: Ticket) -> bytes:
        command = ALL.find(args[0])
        assert command is not None, "only such are queued"
        try:
            reply = self.plane.on_partition(partition, command, args, keys_of(args), ticket)
        except CommandError as refusal:
            return error(refusal.message)
        return reply.otherwise if isinstance(reply, Blocked) else reply

    def asked_for_versions(self, _: Session, args: list[bytes], ticket: Ticket) -> bytes:
        """Another member's client watches."""
        (partition,) = self._partitions(args[1:])
        return bulks(self.versions(partition, args[1:], ticket))

    def asked_to_run(self, session: Session, args: list[bytes], ticket: Ticket) -> bytes:
        """Another member's client says EXEC."""
        watched, commands = unpack(args)
        keys = (key for each in commands for key in keys_of(each))
        (partition,) = self._partitions((*watched, *keys))
        told = self.run(partition, watched, commands, ticket)
        return session.dialect.null_array if told is None else bulks(told)


def check_not(refusal: str, refused: bool) -> None:
    """Refuse, if so."""
    if refused:
        raise CommandError(refusal)


def keys_of(args: list[bytes]) -> list[bytes]:
    """The keys of a command; none if it is not about keys."""
    command = ALL.find(args[0])
    return [] if command is None else command.keys_in(args)


def traits_of(args: list[bytes]) -> Trait:
    """What is true of a command of the stores."""
    command = ALL.find(args[0])
    assert command is not None, "only such are queued"
    return command.traits


def pack(watched: Versions, commands: Commands) -> list[bytes]:
    """A transaction as one command."""
    packed = [TRANSACTION, b"%d" % len(watched)]
    for key, version in watched.items():
        packed += (key, version)
    for args in commands:
        packed += (b"%d" % len(args), *args)
    return packed


def unpack(packed: list[bytes]) -> tuple[Versions, Commands]:
    """The other way round."""
    at = 2 + 2 * int(packed[1])
    watched = dict(zip(packed[2:at:2], packed[3:at:2], strict=True))
    commands = []
    while at < len(packed):
        end = at + 1 + int(packed[at])
        commands.append(packed[at + 1 : end])
        at = end
    return watched, commands
