"""What all machines of one node share: its identity, the view, the table, the clock of this step.

Each machine owns its own state; here is only what several of them read. Who may write what:

    field        written by
    me           membership (incarnation after an exclusion)
    now          node, at the start of each step
    view         membership
    promised     election, membership
    table        publication (master), application (member), participation (commit)
    leaving      requests
    fragments    participation, application
    disk_full    node
    memory_full  memory
    confirmed    membership (what an arbiter or the member itself said)
"""

from __future__ import annotations

from collections import deque

from holdfast.core.config import Config
from holdfast.core.data_messages import BackupFrame
from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    MutationsRecord,
    NoticeKind,
    RowsRecord,
)
from holdfast.core.messages import Fragment, Message, StableTable
from holdfast.core.outbox import Outbox
from holdfast.core.table import Row, Table
from holdfast.core.views import Member, View
from holdfast.ids import Address, MemberId, Millis, PartitionId, Term

STORY_MAX = 200
TRY_AGAIN_MS = 50
FAR = Millis(1 << 62)
MASTER = "master: "
"""Deadlines of a mastership begin with this and end with it."""


class Timers:
    """Named deadlines; the earliest is when the node wants to be woken."""

    def __init__(self) -> None:
        self._deadlines: dict[str, Millis] = {}
        self.quiet_until = Millis(0)
        """No deadline is before this moment; a bound, kept without a walk over all of them."""

    def set(self, name: str, at: int) -> None:
        """Set or move a deadline."""
        self._deadlines[name] = Millis(at)
        self.quiet_until = min(self.quiet_until, Millis(at))

    def clear(self, name: str) -> None:
        """Forget a deadline."""
        self._deadlines.pop(name, None)

    def running(self, name: str) -> bool:
        """Whether the deadline is set (it may have passed)."""
        return name in self._deadlines

    def due(self, name: str, now: Millis) -> bool:
        """Whether the deadline has passed; if so it is cleared."""
        at = self._deadlines.get(name)
        if at is None or at > now:
            return False
        del self._deadlines[name]
        return True

    def clear_all(self, prefix: str) -> None:
        """Forget every deadline whose name begins so."""
        for name in [name for name in self._deadlines if name.startswith(prefix)]:
            del self._deadlines[name]

    def settle(self, now: Millis) -> None:
        """Everything that was due has been looked at."""
        upcoming = self.next(now)
        self.quiet_until = FAR if upcoming is None else upcoming

    def next(self, now: Millis) -> Millis | None:
        """The earliest deadline. One that has passed and could not be acted on is tried again."""
        deadlines = self._deadlines.values()
        earliest = min(deadlines, default=None)
        if earliest is None or earliest > now:
            return earliest
        soon = Millis(now + TRY_AGAIN_MS)
        return min(at if at > now else soon for at in deadlines)


class Context:
    """The shared state of one node."""

    def __init__(self, config: Config, me: Member) -> None:
        self.config = config
        self.me = me
        self.now = Millis(0)
        self.view: View | None = None
        self.promised = Term(0)
        self.table = Table(config.partition_count, config.replica_count)
        self.stable: StableTable | None = None
        self.fragments: dict[PartitionId, Fragment] = {}
        self.moves = 0
        """How often the data of a partition came or went."""
        self.confirmed: dict[MemberId, int] = {}
        self.timers = Timers()
        self.outbox = Outbox(persistent=me.persistent)
        self.leaving = False
        """Whether this member was asked to leave: it looks for no cluster any more."""
        self.disk_full = False
        """Whether what clients write could not be kept."""
        self.memory_full = False
        """Whether the data takes more than it may."""
        self.loopback: deque[Message] = deque()
        self._story: deque[tuple[Millis, str, str]] = deque(maxlen=STORY_MAX)

    @property
    def has_room(self) -> bool:
        """Whether no command has to be refused for want of room."""
        return not (self.disk_full or self.memory_full)

    @property
    def listed(self) -> bool:
        """Whether the newest view lists this very stay of mine."""
        return self.view is not None and self.view.has(self.me.id, self.me.incarnation)

    def is_dead(self, member: Member) -> bool:
        """Whether it is a fact that this stay is over."""
        return member.incarnation <= self.confirmed.get(member.id, -1)

    def send(self, to: Address, message: Message) -> None:
        """Send a message; it may be lost. What I send to myself arrives within this step."""
        if to == self.me.address:
            self.loopback.append(message)
        else:
            self.outbox.send(to, message)

    def send_member(self, member_id: MemberId | None, message: Message) -> None:
        """Send to a listed member, or to a master that is taking itself out."""
        member = self._reachable(member_id)
        if member is not None:
            self.send(member.address, message)

    def send_frame(self, member_id: MemberId, frame: BackupFrame) -> None:
        """Send mutations to another member; they need not be safe here before."""
        member = self._reachable(member_id)
        if member is not None:
            self.outbox.send_frame(member.address, frame)

    def _reachable(self, member_id: MemberId | None) -> Member | None:
        view = self.view
        if view is None or member_id is None:
            return None
        member = view.find(member_id)
        if member is None and member_id == view.master:
            return next((gone for gone in view.departed if gone.id == member_id), None)
        return member

    def others(self) -> tuple[Member, ...]:
        """Everyone in the view but me."""
        if self.view is None:
            return ()
        return tuple(member for member in self.view.members if member.id != self.me.id)

    def persist_membership(self) -> None:
        """Keep what I promised and the newest view."""
        record = MembershipRecord(self.me.incarnation, self.promised, self.view)
        self.outbox.persist(record)

    def persist_rows(self, rows: tuple[Row, ...], *, fresh: bool = False) -> None:
        """Keep changed rows of the table."""
        if rows or fresh:
            self.outbox.persist(RowsRecord(rows, fresh))

    def hold(self, partition: PartitionId, fragment: Fragment) -> None:
        """Have this data from now on."""
        if self.fragments.get(partition) != fragment:
            self.fragments[partition] = fragment
            self.moves += 1
            self.outbox.persist(FragmentRecord(partition, fragment))

    def drop(self, partition: PartitionId) -> None:
        """Have this data no more."""
        if self.fragments.pop(partition, None) is not None:
            self.moves += 1
            self.forget(partition)

    def forget(self, partition: PartitionId) -> None:
        """Keep nothing of what was written of this partition."""
        self.outbox.persist(FragmentRecord(partition, None))

    def persist_mutations(self, record: MutationsRecord) -> None:
        """Keep what a fragment has changed."""
        self.outbox.persist(record)

    def notice(self, kind: NoticeKind, about: str, detail: str = "") -> None:
        """Tell whoever watches, and keep it in the story."""
        self.outbox.notice(kind, about, detail)
        self.tell(about, f"{kind}: {detail}" if detail else str(kind))

    def tell(self, about: str, what: str) -> None:
        """Add to the story."""
        self._story.append((self.now, about, what))

    def story(self, about: str | None = None) -> tuple[str, ...]:
        """What happened here, oldest first; to one subject, or to all."""
        return tuple(
            f"{now} ms {subject}: {what}"
            for now, subject, what in self._story
            if about is None or subject == about
        )
