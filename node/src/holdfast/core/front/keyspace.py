"""What concerns all keys: this member's on the cluster port, the cluster's on the plain one.

Rules (`design/4`, keys and port 6379)
--------------------------------------
* On the cluster port a client asks every master, as in Redis Cluster: each answers for the
  partitions that it owns.
* On the plain port every partition is asked, wherever it is, and the replies are put together.
* A SCAN's cursor is a partition and a place in it, so it means the same on every member and nothing
  is kept between two calls. What is there all the time is returned, even if its partition moves.
* A call of SCAN goes on through partitions until it has COUNT keys, or has looked at enough.

    cursor:  63 ...  46 45        32 31         0        0 begins, and ends
                      partition       place

States
------
None: a cursor says all that the next call needs.

What can go wrong
-----------------
*A partition has no owner at the moment.* On the plain port it is waited for, as its keys are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.core.data.sessions import Session
from holdfast.core.data.tickets import Ticket
from holdfast.core.front.forwarding import Forwarding
from holdfast.core.stores.catalogue import ALL
from holdfast.core.stores.command import Blocked, Command, Trait
from holdfast.core.stores.gathering import joined, split_array, total
from holdfast.core.stores.keyspace import parse_scan
from holdfast.core.stores.replies import OK
from holdfast.core.stores.scanning import scanned
from holdfast.ids import PartitionId

IN_PARTITION: Final = b"HOLDFAST.PARTITION"
"""What members ask one another: a command, in one partition."""
PLACE_BITS: Final = 32
PLACE_MASK: Final = (1 << PLACE_BITS) - 1
LOOKS_MAX: Final = 64
"""Partitions that one call of SCAN looks at, if they are here."""
ASKS_MAX: Final = 16
"""The same if they are anywhere: they are asked at one time."""


class Keyspace:
    """Runs keyspace commands over partitions."""

    def __init__(self, forwarding: Forwarding) -> None:
        self.forwarding = forwarding
        self.plane = forwarding.plane
        self.context = forwarding.plane.context

    def own(self) -> list[PartitionId]:
        """The partitions that are mine."""
        me, rows = self.context.me.id, self.context.table.rows
        return [row.partition for row in rows if row.owner == me]

    def in_partition(self, partition: PartitionId, args: list[bytes], ticket: Ticket) -> bytes:
        """One command in one partition that is mine."""
        command = command_of(args)
        holding = self.plane.holdings.get(partition)
        keys: list[bytes] = []
        if holding is not None and Trait.WRITE in command.traits:
            keys = [key for fragment in holding.space for key in fragment.records]
        reply = self.plane.on_partition(partition, command, args, keys, ticket)
        assert isinstance(reply, bytes), "nothing here waits for a key"
        return reply

    def run(self, session: Session, args: list[bytes], ticket: Ticket) -> bytes | Blocked:
        """KEYS, DBSIZE, RANDOMKEY, FLUSHDB."""
        command = command_of(args)
        if not session.forwards:
            return self._combine(
                command.name, [self.in_partition(each, args, ticket) for each in self.own()]
            )
        every = [PartitionId(number) for number in range(len(self.context.table))]
        return self.forwarding.start(
            session,
            [(each, [IN_PARTITION, b"%d" % each, *args]) for each in every],
            lambda replies: self._combine(command.name, replies),
            command.traits,
        )

    def _combine(self, name: str, replies: list[bytes]) -> bytes:
        if name == "RANDOMKEY":
            null = self.plane.call.dialect.null
            found = [reply for reply in replies if reply[:2] not in (b"$-", b"_\r")]
            return found[int(self.plane.call.random.random() * len(found))] if found else null
        if name == "KEYS":
            return joined(replies)
        return total(replies) if name == "DBSIZE" else OK

    def asked(self, _: Session, args: list[bytes], ticket: Ticket) -> bytes:
        """Another member's client asks about one of my partitions."""
        return self.in_partition(PartitionId(int(args[1])), args[2:], ticket)

    # SCAN -----------------------------------------------------------------------------------------

    def scan(self, session: Session, args: list[bytes], ticket: Ticket) -> bytes | Blocked:
        """SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]."""
        wish, partitions = parse_scan(args).wish, len(self.context.table)
        start, place = wish.cursor >> PLACE_BITS, wish.cursor & PLACE_MASK
        own = range(partitions) if session.forwards else self.own()
        ahead = [PartitionId(each) for each in own if each >= start]
        looked = ahead[: ASKS_MAX if session.forwards else LOOKS_MAX]
        following = [*ahead[1:], 0][: len(looked)]
        parts = [
            (each, [args[0], b"%d" % (place if each == start else 0), *args[2:]]) for each in looked
        ]

        def combine(replies: Iterable[bytes]) -> bytes:
            return put_together(zip(looked, following, replies, strict=False), wish.count)

        if not parts or not session.forwards:
            return combine(self.in_partition(each, asked, ticket) for each, asked in parts)
        return self.forwarding.start(
            session,
            [(each, [IN_PARTITION, b"%d" % each, *asked]) for each, asked in parts],
            combine,
            Trait.READ,
        )


def command_of(args: list[bytes]) -> Command:
    """The store's command that these arguments, its name first, are for."""
    command = ALL.find(args[0])
    assert command is not None, "it was found before"
    return command


def put_together(looked: Iterable[tuple[int, int, bytes]], count: int) -> bytes:
    """The scans of partitions, each with the one that follows it (0: none), until there are enough
    keys or one of them is not done."""
    found: list[bytes] = []
    upcoming = 0
    for partition, following, reply in looked:
        place, keys = parse_scanned(reply)
        found += keys
        upcoming = following << PLACE_BITS
        if place:
            upcoming = partition << PLACE_BITS | place
            break
        if len(found) >= count:
            break
    return scanned(upcoming, found)


def parse_scanned(reply: bytes) -> tuple[int, list[bytes]]:
    """The place where a scan goes on, and its keys."""
    _, _, cursor, rest = reply.split(b"\r\n", 3)
    return int(cursor), split_array(rest)
