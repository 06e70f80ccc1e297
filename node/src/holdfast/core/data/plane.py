"""Commands in, replies out: what an application asks of the data.

Rules (`design/2` "The life of a SET"; `design/3` §4; `design/4`)
-----------------------------------------------------------------
* A key's slot is Redis' (CRC-16 of the key, or of what stands in its first braces), its partition
  a range of slots.
* Only the owner answers, and only while it may (`Serving`). Who is not the owner says who is.
* While a partition is handed over, commands that may not run now *wait*, and with them everything
  behind them in their session. So does a command that waits for a key (`Blocked`).
* A batch that wrote waits for the backups, one that read what is being written waits for its
  writer (`tickets`). So does one that says that it has waited for a key in vain, and one that asks
  for what I have ended by myself: expired, evicted.

    batch ─► command by command ─► reply ─┐
                 │                        ├─► ticket ─► needs met ─► replies in order
                 └─► must wait ─► backlog ┘
                          ▲          │
                          └─ retry ──┘  time is up: an error that says what to do

What can go wrong
-----------------
*The partition goes away while a session waits for it*: the retry answers where it is now.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Final, Protocol

from holdfast.core.context import Context
from holdfast.core.data.copies import Holding
from holdfast.core.data.gates import (
    NO_SINGLE,
    SINGLES,
    SLOT_BITS,
    SLOT_MASK,
    SLOTS,
    Answering,
    Gate,
    Single,
    partitions_of_slots,
)
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.replication import NOBODY, Replication
from holdfast.core.data.sessions import Session, Sessions
from holdfast.core.data.tickets import AGAIN, UNKNOWN, Desk, Ticket
from holdfast.core.events import Batch
from holdfast.core.serving import Serving
from holdfast.core.stores.catalogue import ALL
from holdfast.core.stores.command import Blocked, Call, Command, Gather, Trait, wrong_arity
from holdfast.core.stores.eviction import OUT_OF_MEMORY
from holdfast.core.stores.gathering import Places, places_of, taken_apart
from holdfast.core.stores.replies import error
from holdfast.core.stores.space import STAGING, Space, name_of
from holdfast.errors import CommandError
from holdfast.ids import Millis, PartitionId

Serves = Callable[[PartitionId, Millis], Serving]
Act = Callable[[Holding, Call], tuple[bytes, Sequence[bytes]]]
"""What is done in a partition: the reply, and the keys that were written."""
TRY_COMMANDS_AGAIN: Final = "try commands again"
WAIT_MS: Final = 20

CROSS_SLOT: Final = "CROSSSLOT Keys in request don't hash to the same slot"
NOT_SERVING: Final = (
    "CLUSTERDOWN this member may not answer for the key now: it has no lease from a master that"
    " holds a majority; try again"
)
NO_OWNER: Final = "CLUSTERDOWN nobody owns the key's partition at this moment; try again"
NO_WRITES: Final = (
    "CLUSTERDOWN the cluster's state accepts no writes; ask for another state or wait for it"
)
DISK_FULL: Final = (
    "MISCONF the disk of this member is nearly full; writes are refused until there is room, reads"
    " go on"
)
BACKUP_FULL: Final = (
    "MISCONF the disk of a member that has to keep a backup of this is nearly full;"
    " what would write is refused until it has room"
)
BRACE: Final = ord("{")
"""A number, as bytes look for one at once; for bytes, they first try whether it is a number."""
NOTHING: Final = b""
"""No command's name."""
NONE: Final[dict[bytes, Single]] = {}
"""The single commands of a session that is apart."""
HANDING_OVER: Final = "TRYAGAIN the key's partition is being handed over; try again"


def slot_of(key: bytes) -> int:
    """Redis' hash slot of a key: by its CRC-16, or that of what stands in its first braces."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) & SLOT_MASK


class Front(Protocol):
    """Who answers what is not about keys, and sessions that are apart."""

    def run(self, session: Session, args: list[bytes], ticket: Ticket, /) -> bytes | Blocked:
        """The reply of one command."""

    def at_once(self, session: Session, args: list[bytes], ticket: Ticket, /) -> bytes | None:
        """What is known of the reply, if the command goes to another member without a look."""

    def elsewhere(
        self, session: Session, args: list[bytes], ticket: Ticket, refusal: Elsewhere, /
    ) -> bytes | Blocked:
        """What is known of the reply of a command that is not for here."""


class Elsewhere(CommandError):
    """The key is not here, or not any more, or not yet: nothing was done."""


class Wait(Exception):
    """The command may not run now; it may soon."""


@dataclass(slots=True)
class Waiting:
    """What a session wants, and can't have yet."""

    commands: deque[list[bytes]] = field(default_factory=deque)
    until: int = 0
    """When the first of them is answered with an error."""
    otherwise: bytes = b""
    for_keys: bool = False
    """Whether it waits for a key, and not for a hand-over."""


class Plane:
    """All sessions, and the data that they see."""

    def __init__(
        self,
        context: Context,
        holdings: Holdings,
        replication: Replication,
        desk: Desk,
        serving: Serves,
        random: Random,
    ) -> None:
        self.context = context
        self.holdings = holdings
        self.replication = replication
        self.desk = desk
        self.call = Call(now=0, random=random)
        self.sessions = Sessions(context)
        self.front: Front
        self.commands = 0
        """How many clients have sent here."""
        self.waiting: dict[int, Waiting] = {}
        self._serving = serving
        self._gates: list[Gate | None] = [None] * context.config.partition_count
        self.opened: list[PartitionId] = []
        """Partitions that have a gate."""
        self._partitions = partitions_of_slots(context.config.partition_count)
        kinds = (context.config.unnamed, *context.config.names.values())
        self._most = max(each.backups for each in kinds)
        self._alike = all(each.backups == self._most for each in kinds)
        """Whether every name asks for the same number of synchronous backups."""

    def execute(self, batches: Iterable[Batch], wall: int) -> None:
        """Batches of sessions."""
        self.call.now = wall
        for session, commands in batches:
            self.commands += len(commands)
            waiting = self.waiting.get(session)
            if waiting is not None:
                waiting.commands.extend(commands)
            else:
                self._run(session, commands)

    def shut(self) -> None:
        """What may be served has to be looked at anew."""
        for partition in self.opened:
            self._gates[partition] = None
        self.opened.clear()

    def close(self, session: int) -> None:
        """The client has gone."""
        self.waiting.pop(session, None)
        self.sessions.close(session)
        self.desk.close(session)

    def advance(self, wall: int) -> None:
        """Try again what had to wait; answer what has waited for too long."""
        self.call.now = wall
        self.desk.expire(self.context.now)
        self.context.timers.clear(TRY_COMMANDS_AGAIN)
        self._retry_all()

    def go_on(self, wall: int) -> None:
        """Try again what may not have to wait any more, now that something was written."""
        self.call.now = wall
        if self.waiting and self.holdings.written.fragments:
            self._retry_all()
        else:
            self._wake()

    def retry(self, session: int) -> None:
        """What this session waited for may be over."""
        if session in self.waiting:
            self._retry(session)

    def _retry_all(self) -> None:
        for session in tuple(self.waiting):
            self._retry(session)
        self._wake()

    def _wake(self) -> None:
        """See to it that time runs out."""
        deadline, timers = self.desk.next_deadline(), self.context.timers
        if self.waiting:
            soon = self.context.now + WAIT_MS
            timers.set(TRY_COMMANDS_AGAIN, soon if deadline is None else min(deadline, soon))
        elif deadline is not None and not timers.running(TRY_COMMANDS_AGAIN):
            timers.set(TRY_COMMANDS_AGAIN, deadline)

    def _retry(self, session: int) -> None:
        waiting = self.waiting.pop(session)
        waited: Waiting | None = waiting
        if waiting.until and self.call.now >= waiting.until:
            args, ticket = waiting.commands.popleft(), self._ticket(session)
            if waiting.for_keys:  # what keeps it from its keys may not be safe to tell
                command = ALL.find(args[0])
                assert command is not None, "what waits for keys is a command"
                self.read(command.keys_in(args), 0, ticket)
            ticket.replies.append(waiting.otherwise)
            self.desk.queue(ticket)
            waited = None
        if waiting.commands:
            self._run(session, waiting.commands, waited)

    def _ticket(self, session: int) -> Ticket:
        return Ticket(session, self.context.now + self.context.config.operation_timeout_ms)

    # One batch ------------------------------------------------------------------------------------

    def _run(
        self, session: int, commands: Sequence[list[bytes]], waited: Waiting | None = None
    ) -> None:
        """The commands of one session, until one has to wait."""
        gates, alike = self._gates, self._alike
        partitions = len(gates)
        written, writing = self.holdings.written, self.desk.writing
        who, ticket = self.sessions.of(session), self._ticket(session)
        self.call.session, self.call.dialect = who.owner, who.dialect
        singles = NONE if who.apart else SINGLES
        replies, own = ticket.replies, ticket.keys
        unsafe: dict[Gate, None] = {}
        count = written.count
        last, (function, least, most, otherwise, plain) = NOTHING, NO_SINGLE
        for args in commands:
            if args[0] != last:  # most clients ask for the same many times
                last = args[0]
                function, least, most, otherwise, plain = singles.get(last, NO_SINGLE)
            if least <= len(args) <= most:
                key = args[1]
                slot = slot_of(key) if BRACE in key else crc_hqx(key, 0) & SLOT_MASK
                gate = gates[slot * partitions >> SLOT_BITS]
                if gate is not None:
                    reply = None if plain is None else plain(gate.space, args)
                    if reply is None:
                        reply = self._answer(function, gate.space, args)
                    if written.count != count:
                        count = written.count
                        if gate.streams:
                            gate = gate if alike else self._narrowed(gate, key)
                            unsafe[gate] = own[key] = None
                            ticket.unsure.append((len(replies), otherwise))
                    elif writing or own:
                        self.read((key,), len(replies), ticket)
                    replies.append(reply)
                    continue
            found = self._slowly(who, args, ticket)
            if isinstance(found, Blocked):
                left = deque(islice(commands, len(replies), None))
                self._wait(session, left, found, None if replies else waited)
                break
            count = written.count
            replies.append(found)
            singles, last = NONE if who.apart else SINGLES, NOTHING
        if unsafe:
            self.replication.await_backups(unsafe, ticket)
        if replies:
            self.desk.queue(ticket)

    def _answer(self, function: Answering, space: Space, args: list[bytes]) -> bytes:
        """What a command says to its key."""
        try:
            return function(space, self.call, args)
        except CommandError as refusal:
            return error(refusal.message)

    def _slowly(self, who: Session, args: list[bytes], ticket: Ticket) -> bytes | Blocked:
        """Any command, wherever its keys are."""
        try:
            if who.forwards and not who.apart:
                found = self.front.at_once(who, args, ticket)
                if found is not None:
                    return found
            return self._one(who, args, ticket)
        except Elsewhere as refusal:
            if who.forwards:
                return self.front.elsewhere(who, args, ticket, refusal)
            return error(refusal.message)
        except CommandError as refused:
            return error(refused.message)
        except Wait:
            return Blocked((), self._patience(), error(HANDING_OVER))
        finally:
            self.call.may_write = True

    def _patience(self) -> int:
        return self.call.now + self.context.config.operation_timeout_ms

    def _wait(
        self,
        session: int,
        commands: deque[list[bytes]],
        blocked: Blocked,
        waited: Waiting | None,
    ) -> None:
        """The first command keeps the deadline that it was given at first."""
        until, otherwise = blocked.until, blocked.otherwise
        for_keys = bool(blocked.keys)
        if waited is None or not waited.otherwise or not otherwise:
            pass  # who waits for something else's end has no deadline of its own
        elif waited.for_keys is for_keys:
            until, otherwise = waited.until, waited.otherwise
        self.waiting[session] = Waiting(commands, until, otherwise, for_keys)

    def _one(self, who: Session, args: list[bytes], ticket: Ticket) -> bytes | Blocked:
        command = ALL.find(args[0])
        if who.apart or command is None or not command.keys[0]:
            return self.front.run(who, args, ticket)
        if not command.fits(len(args)):
            raise wrong_arity(command.name)
        keys = command.keys_in(args)
        places = places_of(keys, self.partition_of)
        if len(places) == 1:
            return self.on_partition(next(iter(places)), command, args, keys, ticket)
        if command.gather is Gather.NONE:
            raise CommandError(CROSS_SLOT)
        return self._gather(places, command, args, ticket)

    def partition_of(self, key: bytes) -> PartitionId:
        """Where a key lives."""
        return self._partitions[slot_of(key)]

    def _gather(self, places: Places, command: Command, args: list[bytes], ticket: Ticket) -> bytes:
        """Once for each partition; all of them have to be here."""
        parts, combine = taken_apart(command, args, places)
        for partition, own in parts:
            self.check(partition, command.traits, own[command.keys[0]])
        replies = []
        for partition, own in parts:
            reply = self.on_partition(partition, command, own, command.keys_in(own), ticket)
            assert isinstance(reply, bytes), "nothing that gathers waits"
            replies.append(reply)
        return combine(replies)

    # One partition --------------------------------------------------------------------------------

    def check(self, partition: PartitionId, traits: Trait, key: bytes | None) -> Holding:
        """Refuse, or have it wait, unless it may run here and now."""
        serving = self._serving(partition, self.context.now)
        self.call.may_write = serving is Serving.ALL
        if serving is Serving.ALL or (serving is Serving.READS and Trait.WRITE not in traits):
            has_room = self._check_room(partition, traits)
            holding = self.holdings.here[partition]
            if serving is Serving.ALL and has_room:
                self._open(holding)
            return holding
        row = self.context.table.row(partition)
        if row.owner is None:
            raise Elsewhere(NO_OWNER)
        if row.owner != self.context.me.id:
            view = self.context.view
            owner = None if view is None else view.find(row.owner)
            if owner is None:
                raise Elsewhere(NO_OWNER)
            slot = -(-partition * SLOTS // len(self._gates)) if key is None else slot_of(key)
            raise Elsewhere(f"MOVED {slot} {owner.endpoints.cluster or owner.address}")
        if self.replication.participation.is_handing_over(partition):
            raise Wait
        view = self.context.view
        if serving is Serving.READS and view is not None and not view.attributes.accepts_writes:
            raise CommandError(NO_WRITES)
        raise Elsewhere(NOT_SERVING)

    def _check_room(self, partition: PartitionId, traits: Trait) -> bool:
        """Refuse what can't be kept; whether there is room for anything else as well."""
        no_room = self._no_room(partition)
        if no_room and Trait.WRITE in traits:
            raise CommandError(no_room)
        if self.context.memory_full and Trait.GROWS in traits:
            raise CommandError(OUT_OF_MEMORY)
        return not no_room and not self.context.memory_full

    def on_partition(
        self,
        partition: PartitionId,
        command: Command,
        args: list[bytes],
        keys: list[bytes],
        ticket: Ticket,
    ) -> bytes | Blocked:
        """A command about these keys of a partition, or about all that is in it."""
        holding = self.check(partition, command.traits, keys[0] if keys else None)
        written = self.holdings.written
        before = written.count
        reply = command.function(holding.space, self.call, args)
        if isinstance(reply, Blocked):
            return reply  # nothing is told yet, so nothing has to be safe
        wrote, writes = written.count != before, Trait.WRITE in command.traits
        self._await_barrier(partition, ticket, wrote=wrote)
        if wrote:
            gate = self._gate(holding, keys)
            self._wrote(gate, keys, ticket, UNKNOWN if writes else AGAIN)
        else:
            self.read(keys, len(ticket.replies), ticket)
        if Trait.KEYSPACE in command.traits:
            self.read(tuple(self.desk.writing), len(ticket.replies), ticket)
        return reply

    def on_whole(self, partition: PartitionId, traits: Trait, act: Act, ticket: Ticket) -> bytes:
        """What is about a partition as such. What it reads is told when it is safe; what it writes,
        when as many backups have it as any name asks for; that there was nothing to be done, when
        what had been done before it is safe."""
        own = b"%b %d" % (STAGING, partition)
        holding = self.check(partition, traits, None)
        before = self.holdings.written.count
        reply, keys = act(holding, self.call)
        wrote = self.holdings.written.count != before
        self._await_barrier(partition, ticket, wrote=wrote)
        if wrote:
            row = self.context.table.row(partition)
            streams = self.replication.synchronous(row, self._most)
            self._wrote(Gate(partition, holding.space, streams), (*keys, own), ticket, UNKNOWN)
        else:
            before_it = (own,) if Trait.WRITE in traits else tuple(self.desk.writing)
            self.read(before_it, len(ticket.replies), ticket)
        return reply

    def _await_barrier(self, partition: PartitionId, ticket: Ticket, *, wrote: bool) -> None:
        """What my reign began with is not safe yet."""
        barrier = self.replication.barriers.get(partition)
        if barrier is not None and not barrier.done:
            ticket.await_other(barrier)
            ticket.unsure.append((len(ticket.replies), UNKNOWN if wrote else AGAIN))

    def _gate(self, holding: Holding, keys: Sequence[bytes]) -> Gate:
        """With whom a write of these keys waits for."""
        partition = holding.partition
        row = self.context.table.row(partition)
        backups = max((self._backups_of(holding.space, key) for key in keys), default=0)
        return Gate(partition, holding.space, self.replication.synchronous(row, backups))

    def _narrowed(self, gate: Gate, key: bytes) -> Gate:
        """The same for a key whose name may ask for fewer backups than others."""
        return self._gate(self.holdings.here[gate.partition], (key,))

    def _no_room(self, partition: PartitionId) -> str:
        """Why nothing more can be kept; empty when it can. What a backup could not keep would wait
        for it, and end with nobody knowing whether it was done."""
        if self.context.disk_full:
            return DISK_FULL
        streams = self.replication.synchronous(self.context.table.row(partition), self._most)
        return BACKUP_FULL if any(stream.full for stream in streams) else ""

    def _open(self, holding: Holding) -> None:
        """Let the next commands in without a look."""
        partition = holding.partition
        barrier = self.replication.barriers.get(partition)
        if self._gates[partition] is None and (barrier is None or barrier.done):
            row = self.context.table.row(partition)
            streams = self.replication.synchronous(row, self._most)
            self._gates[partition] = Gate(partition, holding.space, streams)
            self.opened.append(partition)

    def read(self, keys: Sequence[bytes], place: int, ticket: Ticket) -> None:
        """What is being written, by this batch or another, is not safe to tell yet."""
        for key in keys:
            writer = self.desk.writing.get(key)
            if writer is not None:
                ticket.await_other(writer)
            if writer is not None or key in ticket.keys:
                ticket.unsure.append((place, AGAIN))

    def _wrote(self, gate: Gate, keys: Sequence[bytes], ticket: Ticket, otherwise: bytes) -> None:
        """Have the batch wait until this is safe; nobody may read it before."""
        if gate.streams:
            self.replication.await_backups((gate,), ticket)
            ticket.keys.update(dict.fromkeys(keys))
            ticket.unsure.append((len(ticket.replies), otherwise))

    def hold_back(self) -> None:
        """What I have just ended by myself is told when it is safe, as what clients have done."""
        for fragment in self.holdings.written.fragments:
            row, holding = self.context.table.row(fragment.partition), self.holdings.here
            streams = self.replication.synchronous(row, fragment.settings.backups)
            if streams:
                ticket = Ticket(NOBODY, 0)
                ticket.keys = {key: None for key, _ in fragment.pending}
                gate = Gate(fragment.partition, holding[fragment.partition].space, streams)
                self.replication.await_backups((gate,), ticket)
                self.desk.hold(ticket)

    def _backups_of(self, space: Space, key: bytes) -> int:
        """What the key's name asks for; a fragment that it shares may go to fewer."""
        fragment = space.home(key)
        asked = self.holdings.settings_of(name_of(key)).backups
        return min(asked, fragment.settings.copies - 1)
