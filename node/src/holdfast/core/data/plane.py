"""Commands in, replies out: what an application asks of the data.

Rules (`design/2` "The life of a SET"; `design/3` §4; `design/4`)
-----------------------------------------------------------------
* A key's slot is Redis' (CRC-16 of the key, or of what stands in its first braces), its partition
  a range of slots.
* Only the owner answers, and only while it may (`Serving`). Who is not the owner says who is.
* While a partition is handed over, commands that may not run now *wait*, and with them everything
  behind them in their session. So does a command that waits for a key (`Blocked`).
* A batch that wrote waits for the backups, one that read what is being written waits for its
  writer (`tickets`).

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

import binascii
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.copies import Holding
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.replication import Replication
from holdfast.core.data.tickets import AGAIN, UNKNOWN, Desk, Ticket
from holdfast.core.serving import Serving
from holdfast.core.stores.catalogue import look_up
from holdfast.core.stores.command import Blocked, Call, Command, Gather, Trait
from holdfast.core.stores.replies import OK, array, error, integer
from holdfast.core.stores.space import name_of
from holdfast.errors import CommandError
from holdfast.ids import Millis, PartitionId

Serves = Callable[[PartitionId, Millis], Serving]
SLOTS: Final = 16_384
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
HANDING_OVER: Final = "TRYAGAIN the key's partition is being handed over; try again"


def slot_of(key: bytes) -> int:
    """Redis' hash slot of a key."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return binascii.crc_hqx(key, 0) % SLOTS


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
        self.waiting: dict[int, Waiting] = {}
        self._serving = serving

    def execute(self, session: int, commands: Iterable[list[bytes]], wall: int) -> None:
        """A batch of one session."""
        self.call.now = wall
        waiting = self.waiting.get(session)
        if waiting is not None:
            waiting.commands.extend(commands)
            return
        self._run(session, deque(commands))

    def close(self, session: int) -> None:
        """The client has gone."""
        self.waiting.pop(session, None)
        self.desk.close(session)

    def advance(self, wall: int) -> None:
        """Try again what had to wait; answer what has waited for too long."""
        self.call.now = wall
        now = self.context.now
        self.desk.expire(now)
        for session in tuple(self.waiting):
            self._retry(session)
        deadline = self.desk.next_deadline()
        if self.waiting:
            deadline = min(deadline or now + WAIT_MS, now + WAIT_MS)
        if deadline is not None:
            self.context.timers.set(TRY_COMMANDS_AGAIN, max(deadline, now + 1))

    def _retry(self, session: int) -> None:
        waiting = self.waiting.pop(session)
        waited: Waiting | None = waiting
        if waiting.until and self.call.now >= waiting.until:
            waiting.commands.popleft()
            ticket = self._ticket(session)
            ticket.replies.append(waiting.otherwise)
            self.desk.queue(ticket)
            waited = None
        if waiting.commands:
            self._run(session, waiting.commands, waited)

    def _ticket(self, session: int) -> Ticket:
        return Ticket(session, self.context.now + self.context.config.operation_timeout_ms)

    # One batch ------------------------------------------------------------------------------------

    def _run(
        self, session: int, commands: deque[list[bytes]], waited: Waiting | None = None
    ) -> None:
        ticket = self._ticket(session)
        self.call.session = b"%d" % session
        while commands:
            try:
                reply = self._one(commands[0], ticket)
            except CommandError as refusal:
                reply = error(refusal.message)
            except Wait:
                reply = Blocked((), self._patience(), error(HANDING_OVER))
            if isinstance(reply, Blocked):
                self._wait(session, commands, reply, waited)
                break
            ticket.replies.append(reply)
            commands.popleft()
            waited = None
        if ticket.replies:
            self.desk.queue(ticket)

    def _patience(self) -> int:
        return self.call.now + self.context.config.operation_timeout_ms

    def _wait(
        self, session: int, commands: deque[list[bytes]], blocked: Blocked, waited: Waiting | None
    ) -> None:
        """The first command keeps the deadline that it was given at first."""
        until, otherwise = blocked.until, blocked.otherwise
        for_keys = bool(blocked.keys)
        if waited is not None and waited.for_keys is for_keys:
            until, otherwise = waited.until, waited.otherwise
        self.waiting[session] = Waiting(commands, until, otherwise, for_keys)

    def _one(self, args: list[bytes], ticket: Ticket) -> bytes | Blocked:
        command = look_up(args)
        keys = [args[place] for place in command.key_indexes(len(args))]
        if not keys:
            raise CommandError("ERR this command is not about keys")
        parts: dict[PartitionId, list[int]] = {}
        for place, key in enumerate(keys):
            parts.setdefault(self._partition_of(key), []).append(place)
        if len(parts) == 1:
            return self._on_partition(next(iter(parts)), command, args, keys, ticket)
        if command.gather is Gather.NONE:
            raise CommandError(CROSS_SLOT)
        return self._gather(parts, command, args, keys, ticket)

    def _partition_of(self, key: bytes) -> PartitionId:
        return PartitionId(slot_of(key) * self.context.config.partition_count >> 14)

    def _gather(
        self,
        parts: dict[PartitionId, list[int]],
        command: Command,
        args: list[bytes],
        keys: list[bytes],
        ticket: Ticket,
    ) -> bytes:
        """Once for each partition; all of them have to be here."""
        for partition in parts:
            self._check(partition, command, keys[parts[partition][0]])
        step = command.keys[2]
        total, items, place_of = 0, [b""] * len(keys), command.keys[0]
        for partition, places in parts.items():
            own = [args[0]]
            for place in places:
                start = place_of + place * step
                own += args[start : start + step]
            reply = self._on_partition(
                partition, command, own, [keys[place] for place in places], ticket
            )
            assert isinstance(reply, bytes), "nothing that gathers waits"
            if command.gather is Gather.SUM:
                total += int(reply[1:-2])
            elif command.gather is Gather.ITEMS:
                for place, item in zip(places, split_array(reply), strict=True):
                    items[place] = item
        if command.gather is Gather.OK:
            return OK
        return integer(total) if command.gather is Gather.SUM else array(items)

    # One partition --------------------------------------------------------------------------------

    def _check(self, partition: PartitionId, command: Command, key: bytes) -> Holding:
        """Refuse, or have it wait, unless it may run here and now."""
        serving = self._serving(partition, self.context.now)
        self.call.may_write = serving is Serving.ALL
        if serving is Serving.ALL or (
            serving is Serving.READS and Trait.WRITE not in command.traits
        ):
            holding = self.holdings.get(partition)
            if holding is not None and holding.reign:
                return holding
        row = self.context.table.row(partition)
        if row.owner is None:
            raise CommandError(NO_OWNER)
        if row.owner != self.context.me.id:
            view = self.context.view
            owner = None if view is None else view.find(row.owner)
            if owner is None:
                raise CommandError(NO_OWNER)
            raise CommandError(f"MOVED {slot_of(key)} {owner.address}")
        if self.replication.participation.is_handing_over(partition):
            raise Wait
        view = self.context.view
        if serving is Serving.READS and view is not None and not view.attributes.accepts_writes:
            raise CommandError(NO_WRITES)
        raise CommandError(NOT_SERVING)

    def _on_partition(
        self,
        partition: PartitionId,
        command: Command,
        args: list[bytes],
        keys: list[bytes],
        ticket: Ticket,
    ) -> bytes | Blocked:
        holding = self._check(partition, command, keys[0])
        space = holding.space
        before = _written(holding, keys)
        try:
            reply = command.function(space, self.call, args)
        finally:  # whoever is refused may have found something expired, or made room
            wrote = _written(holding, keys) != before
            if wrote:
                self.replication.touched[partition] = None
        place = len(ticket.replies)
        barrier = self.replication.barriers.get(partition)
        if barrier is not None and not barrier.done:
            ticket.await_other(barrier)
            ticket.unsure.append((place, UNKNOWN if wrote else AGAIN))
        if wrote:
            self._wrote(partition, keys, ticket)
            ticket.unsure.append((place, UNKNOWN if Trait.WRITE in command.traits else AGAIN))
        else:
            self._read(keys, place, ticket)
        return reply

    def _read(self, keys: list[bytes], place: int, ticket: Ticket) -> None:
        """What is being written, by this batch or another, is not safe to tell yet."""
        for key in keys:
            writer = self.desk.writing.get(key)
            if writer is not None:
                ticket.await_other(writer)
            if writer is not None or key in ticket.keys:
                ticket.unsure.append((place, AGAIN))

    def _wrote(self, partition: PartitionId, keys: list[bytes], ticket: Ticket) -> None:
        row = self.context.table.row(partition)
        backups = max(self._backups_of(partition, key) for key in keys)
        self.replication.await_backups(row, backups, ticket)
        ticket.keys.update(dict.fromkeys(keys))

    def _backups_of(self, partition: PartitionId, key: bytes) -> int:
        """What the key's name asks for; a fragment that it shares may go to fewer."""
        fragment = self.holdings.here[partition].space.home(key)
        asked = self.holdings.settings_of(name_of(key)).backups
        return min(asked, fragment.settings.copies - 1)


def _written(holding: Holding, keys: Iterable[bytes]) -> list[int]:
    """How much was written to the fragments of these keys."""
    space = holding.space
    counts = [len(space.internal.pending)]
    for key in keys:
        fragment = space.look(key)
        counts.append(0 if fragment is None else len(fragment.pending))
    return counts


def split_array(reply: bytes) -> list[bytes]:
    """The items of an array of byte strings and nulls, encoded as they are."""
    at = reply.index(b"\r\n") + 2
    items = []
    while at < len(reply):
        end = reply.index(b"\r\n", at) + 2
        if reply[at : at + 1] == b"$" and reply[at + 1 : at + 2] != b"-":
            end += int(reply[at + 1 : end - 2]) + 2
        items.append(reply[at:end])
        at = end
    return items
