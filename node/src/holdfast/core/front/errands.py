"""What my clients ask of other members: sent, repeated, answered once.

Rules (`design/4`, port 6379: "any member answers any key, by itself or by asking the owner")
---------------------------------------------------------------------------------------------
* An *errand* is what one session asks of one member in one step: commands in order, one number. All
  errands of a step for one member leave in one message.
* A session has the errands of one step under way at a time; what it asks meanwhile waits behind
  them. Commands for one partition go to one member in one errand. So what a session asks about a
  key is done in the order in which it asked.
* An errand is for one stay of a member, and is sent again to that stay until it is answered. The
  receiver remembers what it has done (`guests`), so it is done once, whatever the network does.
* Every message says which older errands are still wanted. The receiver forgets all others, and
  will never do them: that is how an errand is taken back.
* A reply that promises that nothing was done, because the key is not *there* (MOVED, no owner, no
  lease), is no answer: the command goes to whoever owns the partition then, until its time is up.

                      refused there                    the stay is gone, or time is up
    again ◄────────────────────────────── sent ─────────────────────────────────────────┐
      │ after a moment, to the owner       ▲ │ answered                                 ▼
      └────────────────────────────────────┘ └────────► its reply         a write: UNKNOWNOUTCOME
                                                                          a read: it goes again, or
                                                                          TRYAGAIN when time is up
States
------
Of a command: those of the picture. Of a session: whether it has something under way (`away`).

What can go wrong
-----------------
*The stay ends while a write is there.* Nobody knows whether it was done: it is answered so, and
never tried elsewhere. *I begin another stay.* What was sent in the last one is given up likewise.
*The message is lost, doubled or late.* See `guests`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.plane import NO_OWNER, NOT_SERVING, WAIT_MS
from holdfast.core.data.sessions import Session
from holdfast.core.data.tickets import AGAIN, UNKNOWN
from holdfast.core.data_messages import Errand as Sent
from holdfast.core.data_messages import Forward, Forwarded
from holdfast.core.messages import Origin
from holdfast.core.stores.replies import error
from holdfast.core.views import View
from holdfast.errors import CommandError
from holdfast.ids import MemberId, Millis, PartitionId

Stay = tuple[MemberId, int]
LOOK_AFTER_ERRANDS: Final = "look after errands"
MESSAGE_BYTES: Final = 4 << 20
"""About as many bytes go into one message."""
COMMAND_BYTES_MAX: Final = 15 << 20
"""The most that one message can carry: less than a frame of the link."""
OVERHEAD: Final = 16
"""Bytes that an argument takes beside its own, at most."""
TOO_LARGE: Final = (
    "ERR the command is too large to be sent on; send it to the cluster port of the key's owner"
)
NOT_THERE: Final = frozenset((error(NO_OWNER), error(NOT_SERVING)))


class Slot(ABC):
    """One command of an errand, and where its reply goes."""

    def __init__(
        self, args: list[bytes], partition: PartitionId, until: Millis, *, writes: bool
    ) -> None:
        self.args = args
        self.partition = partition
        self.writes = writes
        self.until = until
        """When its time is up; 0 for never."""

    @abstractmethod
    def fill(self, reply: bytes) -> None:
        """It is answered."""


def size_of(args: Sequence[bytes]) -> int:
    """About the bytes that a command takes in a message."""
    return sum(map(len, args)) + OVERHEAD * len(args)


def check_size(args: Sequence[bytes]) -> int:
    """The same; refuse what no message can carry."""
    size = size_of(args)
    if size > COMMAND_BYTES_MAX:
        raise CommandError(TOO_LARGE)
    return size


def is_not_there(reply: bytes) -> bool:
    """Whether a reply says that nothing was done, as the key is not there."""
    return reply.startswith(b"-") and (reply.startswith(b"-MOVED ") or reply in NOT_THERE)


@dataclass(slots=True, eq=False)
class Errand:
    """What one session asks of one stay in one step."""

    session: Session
    stay: Stay
    slots: list[Slot] = field(default_factory=list)
    size: int = 0
    number: int = 0
    received: bool = False
    """Whether it is known to wait there, so that it need not be sent again."""

    @property
    def sent(self) -> Sent:
        """As it travels."""
        session = self.session
        commands = tuple(slot.args for slot in self.slots)
        return self.number, session.owner, session.dialect.number, commands


@dataclass(slots=True)
class Peer:
    """One stay of a member, and what is under way there."""

    last: int = 0
    open: dict[int, Errand] = field(default_factory=dict)
    sent_at: int = 0
    settled: bool = True
    """Whether it knows that nothing is wanted which is not under way."""


class Errands:
    """Everything under way at other members."""

    def __init__(self, context: Context, freed: Callable[[Session], None]) -> None:
        self.context = context
        self.peers: dict[Stay, Peer] = {}
        self.count = 0
        """Commands that were sent since the start."""
        self._freed = freed
        self._forming: dict[tuple[int, Stay], Errand] = {}
        self._formed: Errand | None = None
        """The one of them that got a command last: most clients ask for the same member often."""
        self._stays: dict[MemberId, Stay] = {}
        self._stays_of: View | None = None
        self._again: dict[int, list[Slot]] = {}
        """What is to be sent once more, by session."""
        self._sessions: dict[int, Session] = {}
        """Those that have something in `_again`."""
        self._again_at = Millis(0)
        self._numbers = 0

    # From sessions --------------------------------------------------------------------------------

    def add(self, session: Session, slot: Slot, stay: Stay | None) -> bool:
        """Have a command carried out there, by whoever owns its partition; whether that is known,
        and there is room."""
        if stay is None:
            return False
        size = check_size(slot.args)
        errand = self._formed
        if errand is None or errand.session is not session or errand.stay is not stay:
            errand = self._forming.get((session.number, stay))
            if errand is None:
                errand = self._forming[session.number, stay] = Errand(session, stay)
            self._formed = errand
        if errand.size + size > MESSAGE_BYTES and errand.slots:
            return False
        errand.slots.append(slot)
        errand.size += size
        session.away += 1
        return True

    def ask(self, session: Session, slot: Slot) -> None:
        """The same; if it can't go now, it goes as soon as it can."""
        if not self.add(session, slot, self.owner_of(slot.partition)):
            session.away += 1
            self._try_again(session, slot)

    def owner_of(self, partition: PartitionId) -> Stay | None:
        """The stay that owns a partition, as far as I know."""
        view, owner = self.context.view, self.context.table.row(partition).owner
        if view is not self._stays_of:
            self._stays_of = view
            members = () if view is None else view.members
            self._stays = {member.id: (member.id, member.incarnation) for member in members}
        return None if owner is None else self._stays.get(owner)

    def cancel(self, session: Session) -> None:
        """Its client has gone: what is not done yet need not be done."""
        session.away = 0
        self._again.pop(session.number, None)
        self._sessions.pop(session.number, None)
        for peer in self.peers.values():
            for number in [each for each, errand in peer.open.items() if errand.session is session]:
                del peer.open[number]
                peer.settled = False

    def reset(self) -> None:
        """A new stay of mine begins: nobody answers what the last one sent."""
        peers, self.peers = self.peers, {}
        for peer in peers.values():
            for errand in peer.open.values():
                self._give_up(errand)

    # Messages -------------------------------------------------------------------------------------

    def on_forwarded(self, origin: Origin, message: Forwarded) -> None:
        """Replies."""
        peer = self.peers.get((origin.id, origin.incarnation))
        if peer is None or message.incarnation != self.context.me.incarnation:
            return
        for number in message.waiting:
            errand = peer.open.get(number)
            if errand is not None:
                errand.received = True
        for number, replies in message.outcomes:
            errand = peer.open.get(number)
            if errand is not None and len(errand.slots) == len(replies):
                del peer.open[number]
                peer.settled = False
                self._answered(errand, replies)

    def _answered(self, errand: Errand, replies: Iterable[bytes]) -> None:
        session, now = errand.session, self.context.now
        for slot, reply in zip(errand.slots, replies, strict=True):
            if is_not_there(reply) and (not slot.until or now < slot.until):
                self._try_again(session, slot)
            else:
                self._answer(session, slot, reply)

    def _answer(self, session: Session, slot: Slot, reply: bytes) -> None:
        session.away -= 1
        slot.fill(reply)
        if not session.away:
            self._freed(session)

    def _try_again(self, session: Session, slot: Slot) -> None:
        first = not self._again
        self._sessions[session.number] = session
        self._again.setdefault(session.number, []).append(slot)
        if first:
            self._again_at = Millis(self.context.now + WAIT_MS)
            self._set_timer()

    def _give_up(self, errand: Errand) -> None:
        """The stay is gone: reads may be asked of others, of writes nobody knows."""
        for slot in errand.slots:
            if slot.writes:
                self._answer(errand.session, slot, UNKNOWN)
            else:
                self._try_again(errand.session, slot)

    # Time -----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Time is up for some; stays may be gone; what was refused goes again."""
        if self.peers or self._again:
            self._look_around()
        self.flush()
        self._repeat()
        self._set_timer()

    def _look_around(self) -> None:
        for stay in tuple(self.peers):
            if self.context.view is None or not self.context.view.has(*stay):
                for errand in self.peers.pop(stay).open.values():
                    self._give_up(errand)
        self._expire()
        if self._again and self.context.now >= self._again_at:
            again, self._again = self._again, {}
            sessions, self._sessions = self._sessions, {}
            for number, slots in again.items():
                self._once_more(sessions[number], slots)

    def _once_more(self, session: Session, slots: list[Slot]) -> None:
        """In their order; behind one that can't go, none of the same partition goes."""
        held: dict[PartitionId, None] = {}
        for slot in slots:
            session.away -= 1
            stay = self.owner_of(slot.partition)
            if slot.partition in held or not self.add(session, slot, stay):
                session.away += 1
                held[slot.partition] = None
                self._try_again(session, slot)

    def _expire(self) -> None:
        now = self.context.now
        for peer in self.peers.values():
            for number, errand in tuple(peer.open.items()):
                if all(slot.until and now >= slot.until for slot in errand.slots):
                    del peer.open[number]
                    peer.settled = False
                    for slot in errand.slots:
                        self._answer(errand.session, slot, UNKNOWN if slot.writes else AGAIN)
        for number, slots in tuple(self._again.items()):
            late = [slot for slot in slots if slot.until and now >= slot.until]
            self._again[number] = [slot for slot in slots if not slot.until or now < slot.until]
            session = self._sessions[number]
            if not self._again[number]:
                del self._again[number], self._sessions[number]
            for slot in late:
                self._answer(session, slot, error(NO_OWNER))

    def flush(self) -> None:
        """Send what this step brought."""
        if not self._forming:
            return
        forming, self._forming, self._formed = self._forming, {}, None
        fresh: dict[Stay, list[Errand]] = {}
        for errand in forming.values():
            self._numbers += 1
            errand.number = self._numbers
            errand.session.settle()
            self.count += len(errand.slots)
            fresh.setdefault(errand.stay, []).append(errand)
        for stay, errands in fresh.items():
            peer = self.peers.get(stay)
            if peer is None:
                peer = self.peers[stay] = Peer()
            peer.last = self._numbers
            peer.open.update({errand.number: errand for errand in errands})
            self._send(stay, peer, errands)
        self._set_timer()

    def _send(self, stay: Stay, peer: Peer, errands: list[Errand]) -> None:
        """These errands, in as many messages as they need; at least one."""
        context = self.context
        peer.sent_at, peer.settled = context.now, True
        for portion in portions(errands):
            inside = {errand.number: None for errand in portion}
            wanted = tuple(number for number in peer.open if number not in inside)
            sent = tuple(errand.sent for errand in portion)
            context.send_member(stay[0], Forward(stay[1], peer.last, wanted, sent))

    def _repeat(self) -> None:
        """Whoever has not answered is asked again, and told what is not wanted any more."""
        before = self.context.now - self.context.config.resend_ms
        for stay, peer in self.peers.items():
            if (peer.open or not peer.settled) and peer.sent_at <= before:
                missing = [errand for errand in peer.open.values() if not errand.received]
                self._send(stay, peer, missing)

    def _set_timer(self) -> None:
        timers, wait = self.context.timers, self.context.config.resend_ms
        peers = self.peers.values()
        times = [peer.sent_at + wait for peer in peers if peer.open or not peer.settled]
        if self._again:
            times.append(self._again_at)
        if times:
            timers.set(LOOK_AFTER_ERRANDS, max(min(times), self.context.now + 1))
        else:
            timers.clear(LOOK_AFTER_ERRANDS)


def portions(errands: list[Errand]) -> Iterable[list[Errand]]:
    """So many at a time as one message carries; nothing is a portion, too."""
    portion: list[Errand] = []
    size = 0
    for errand in errands:
        if portion and size + errand.size > MESSAGE_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(errand)
        size += errand.size
    yield portion
