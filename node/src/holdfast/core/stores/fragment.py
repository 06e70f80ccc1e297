"""One fragment: all records of one name in one partition, and how they change.

Rules (seed 004; seed 000 "Fragmented Migration"; `design/2` "The life of a SET")
---------------------------------------------------------------------------------
* The owner decides every change here, numbers it and hands it on as a *mutation*, a key and a
  record. A backup does nothing by itself: it applies mutations, expiry and eviction included.
* The number of a mutation is the version of the key that it changed, together with the owner's
  epoch. So records of one key are ordered, and two histories never look equal. Numbers go on where
  they were when a backup becomes the owner.
* A new container goes out whole, as a string does. A change of a container names the version that
  it changes. A holder that has another one does not apply it: its copy of this key is *broken*,
  and has to be fetched.
* A lock guards a key of this fragment, whether the key exists or not. It lives here, so that it
  moves together with what it guards.
* What a fragment has is given away in blocks while it changes (`entries`), and what it is given can
  be merged by version (`merge`); how both go together in a transfer is in `incoming`.

States
------
A fragment is a value in the hands of its partition (`space`); whether its holder is owner or backup
is decided elsewhere.

What can go wrong
-----------------
*A mutation is lost on the way.* Whole values heal with the next one, changes of containers break
the key. The count of mutations says that one is missing (`vectors`), and the sync repairs both.
*A record is corrupt.* It is refused as a `MessageError`, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappush
from typing import Final, Protocol, cast

from holdfast.core.stores.containers import Change, Container, restore
from holdfast.core.stores.packing import pack, unpack
from holdfast.core.stores.record import (
    ABSENT,
    CHANGE,
    EXPIRES,
    FLAGS_AT,
    NEVER,
    NO_FLAGS,
    NUMBER_AT,
    PLAIN_AT,
    VERSION_BYTES,
    Kind,
    body_of,
    build,
    expiry_of,
    kind_of,
    number_of,
    version_of,
)
from holdfast.core.stores.settings import Eviction, NameSettings
from holdfast.errors import MessageError
from holdfast.ids import PartitionId

Value = bytes | Container
Mutation = tuple[bytes, bytes]
"""A key and a record."""
Deadlines = list[tuple[int, bytes]]
"""A heap of times and keys."""

KEY_OVERHEAD: Final = 136
"""What a key and its record take beside their bytes: two objects and an entry of a dictionary."""
LOCK_OVERHEAD: Final = 400
"""The same of a lock: an object with four fields, entries of a dictionary and a heap."""
TOKEN_BYTES: Final = 8
DEADLINES_SPARE: Final = 64


@dataclass(frozen=True, slots=True)
class Lock:
    """Who may write a key until when."""

    version: bytes
    token: int
    session: bytes
    expiry: int


NOTED_MAX: Final = 256
"""Keys that a follower looks at together."""


class Follower(Protocol):
    """Whoever follows versions, some keys at a time: only the first and the last of each count."""

    noted: dict[bytes, bytes]
    """Keys that have another version than when it looked last, with that one; `ABSENT` says that
    the key was not there."""

    def settle(self, version_of: Callable[[bytes], bytes]) -> None:
        """Look at these, and note nothing any more."""


class Keeping(Protocol):
    """Whoever has to know what a container was before it changes (`snapshot`)."""

    def keep(self, key: bytes, container: Container) -> None:
        """It is going to change."""


class Written:
    """What owners have changed since somebody took it; shared by all that is taken together."""

    __slots__ = ("count", "fragments")

    def __init__(self) -> None:
        self.count = 0
        """Mutations since the process began."""
        self.fragments: list[Fragment] = []
        """Those that have any, mostly once each."""


class Fragment:
    """Records of one name in one partition."""

    __slots__ = (
        "_prefix",
        "counter",
        "epoch",
        "expiring",
        "locks",
        "name",
        "partition",
        "pending",
        "records",
        "settings",
        "snapshots",
        "touched",
        "touched_wanted",
        "tree",
        "unlimited",
        "unlocking",
        "urn",
        "used",
        "written",
    )

    def __init__(
        self,
        name: bytes,
        settings: NameSettings,
        epoch: int,
        partition: PartitionId = PartitionId(0),
        written: Written | None = None,
    ) -> None:
        self.name = name
        self.partition = partition
        self.written = Written() if written is None else written
        self.settings = settings
        self.records: dict[bytes, Value] = {}
        self.locks: dict[bytes, Lock] = {}
        self.expiring: Deadlines = []
        """Expiries of values; an entry counts only while the key still has that expiry."""
        self.unlocking: Deadlines = []
        """Expiries of locks, likewise."""
        self.touched: dict[bytes, int] = {}
        """When a key was last used, where the settings ask for it."""
        self.touched_wanted = settings.idle_ms > 0 or settings.eviction is Eviction.LRU
        """Whether the settings need to know when a key was last used."""
        self.unlimited = not (self.touched_wanted or settings.ttl_ms or settings.entries_max)
        """Whether strings may come in without a look at the settings."""
        self.urn: list[bytes] = []
        """Keys in which order they are looked at for eviction or idleness (`expiry.draw`)."""
        self.pending: list[Mutation] = []
        """What the owner has changed since somebody took it."""
        self.tree: Follower | None = None
        """Follows every version, from the first comparison with another copy on (`data.merkle`)."""
        self.snapshots: list[Keeping] = []
        """Told of every container before it is changed."""
        self.used = 0
        """Bytes, roughly: keys, records, locks and what holds them."""
        self.counter = 0
        self.epoch = epoch
        self._prefix = epoch.to_bytes(4, "big")

    def reign(self, epoch: int) -> None:
        """A new owner's epoch begins."""
        self.epoch = epoch
        self._prefix = epoch.to_bytes(4, "big")

    def __len__(self) -> int:
        return len(self.records)

    # The owner changes ----------------------------------------------------------------------------

    def put(self, key: bytes, value: bytes, expiry: int = NEVER) -> None:
        """A string, whatever was there."""
        self.counter = counter = self.counter + 1
        records = self.records
        old = records.get(key)
        if expiry:
            head = self._prefix + (counter << 8 | EXPIRES).to_bytes(7, "big")
            record = b"%b%b%b" % (head, expiry.to_bytes(8, "big"), value)
            records[key] = record
            self._note_expiry(expiry, key)
        else:
            records[key] = record = self._prefix + (counter << 8).to_bytes(7, "big") + value
        if type(old) is bytes:
            self.used += len(record) - len(old)
            if self.tree is not None and key not in self.tree.noted:
                self._note(self.tree, key, old)
        else:
            if old is None:
                self.used += len(key) + KEY_OVERHEAD + len(record)
            else:
                self.used += self._cost(key, record) - self._cost(key, old)
            self._follow(key, old)
        self._tell(key, record)

    def change(
        self, key: bytes, container: Container, change: Change, arguments: Sequence[bytes]
    ) -> None:
        """Alter a container that is here, or put here a new one."""
        before = container.version
        size = container.size
        if self.snapshots:
            self._keep(key, container)
        container.apply(change, arguments)
        if before == ABSENT:
            self._begin(key, container)
            return
        self.used += container.size - size
        if not container:
            self.remove(key)
            return
        container.version = version = self._next()
        if self.tree is not None:
            self._note(self.tree, key, before)
        if change is Change.EXPIRE and container.expiry:
            self._note_expiry(container.expiry, key)
        body = b"%b%c%b" % (before, change, pack(arguments))
        self._tell(key, build(version, container.kind | CHANGE, NEVER, body))

    def remove(self, key: bytes) -> None:
        """A key that is here goes."""
        old = self.records.pop(key)
        self.touched.pop(key, None)
        self.used -= self._cost(key, old)
        self._follow(key, old)
        self._sweep()
        self._tell(key, build(self._next(), Kind.GONE, NEVER, b""))

    def clear(self) -> None:
        """Every key goes; locks stay with who holds them."""
        self._empty()
        self._tell(b"", build(self._next(), Kind.EMPTIED, NEVER, b""))

    def lock(self, key: bytes, token: int, session: bytes, expiry: int) -> None:
        """A session holds the key; token 0 lets it go."""
        record = _lock_record(Lock(self._next(), token, session, expiry))
        self._apply_lock(key, record)
        self._tell(key, record)

    def may_end(self) -> bool:
        """Whether anything in here ends by itself."""
        return bool(self.expiring or self.unlocking or (self.settings.idle_ms and self.records))

    def _tell(self, key: bytes, record: bytes) -> None:
        """Whoever hands on what was changed."""
        pending, written = self.pending, self.written
        if not pending:
            written.fragments.append(self)
        pending.append((key, record))
        written.count += 1

    def take(self) -> list[Mutation]:
        """What changed since the last time."""
        taken, self.pending = self.pending, []
        return taken

    def _begin(self, key: bytes, container: Container) -> None:
        old = self.records.get(key)
        container.version = self._next()
        self.records[key] = container
        if container.expiry:
            self._note_expiry(container.expiry, key)
        self.used += self._cost(key, container) - self._cost(key, old)
        self._follow(key, old)
        self._tell(key, container.record())

    def _next(self) -> bytes:
        self.counter += 1
        return self._prefix + self.counter.to_bytes(6, "big")

    def _follow(self, key: bytes, old: Value | None) -> None:
        """A key has, or is about to have, another version than this value."""
        if self.tree is not None:
            self._note(self.tree, key, ABSENT if old is None else version_of_value(old))

    def _note(self, tree: Follower, key: bytes, old: bytes) -> None:
        """The same by the version that it had, or the record that begins with it."""
        noted = tree.noted
        if key not in noted:
            if len(noted) == NOTED_MAX:
                tree.settle(self.version_of)
            noted[key] = old[:VERSION_BYTES]

    def _keep(self, key: bytes, container: Container) -> None:
        """Let whoever reads what was see it as it was."""
        if container.version != ABSENT:
            for snapshot in self.snapshots:
                snapshot.keep(key, container)

    def _cost(self, key: bytes, value: Value | None) -> int:
        if value is None:
            return 0
        size = len(value) if type(value) is bytes else value.size  # type: ignore[union-attr]
        return len(key) + KEY_OVERHEAD + size

    def _note_expiry(self, expiry: int, key: bytes) -> None:
        heappush(self.expiring, (expiry, key))
        self._sweep()

    def _sweep(self) -> None:
        """What is written again and again, or removed, before it expires must not fill the memory.

        The heap stays the same object: who takes from it may remove keys meanwhile.
        """
        if len(self.expiring) > 2 * len(self.records) + DEADLINES_SPARE:
            expiries = ((expiry_of_value(value), key) for key, value in self.records.items())
            self.expiring[:] = [each for each in expiries if each[0]]
            heapify(self.expiring)

    def _empty(self) -> None:
        self.records.clear()
        self.touched.clear()
        self.urn.clear()
        self.expiring.clear()
        self.tree = None
        self.used = sum(_lock_cost(key, lock) for key, lock in self.locks.items())

    # A backup applies -----------------------------------------------------------------------------

    def apply(self, key: bytes, record: bytes) -> bool:
        """Take a mutation as it comes; False when this copy of the key is broken by it."""
        applied = True
        if record[FLAGS_AT:PLAIN_AT] == NO_FLAGS:
            self._apply_plain(key, record)
        else:
            kind = kind_of(record)
            if record[FLAGS_AT] & CHANGE:
                applied = self._apply_change(key, kind, record)
            else:
                self._apply_whole(key, kind, record)
        number = number_of(record)
        if number > self.counter:
            self.counter = number
        return applied

    def load(self, records: dict[bytes, bytes], locks: Sequence[Mutation] = ()) -> None:
        """Take whole records that files have kept. Where all are strings, as most are, the very
        dictionary becomes this fragment's; in any case it is nobody else's any more."""
        if self.records or self.tree is not None or not self._adopt(records):
            for key, record in records.items():
                self.apply(key, record)
        for key, record in locks:
            self.apply(key, record)

    def _adopt(self, records: dict[bytes, bytes]) -> bool:
        """Take strings that don't expire; False, and nothing has changed, if others are there."""
        used, newest = len(records) * KEY_OVERHEAD, b""
        for key, record in records.items():
            if len(record) <= FLAGS_AT or record[FLAGS_AT]:
                return False
            used += len(key) + len(record)
            number = record[NUMBER_AT:VERSION_BYTES]
            if number > newest:
                newest = number
        self.records = cast("dict[bytes, Value]", records)
        self.used += used
        self.counter = max(self.counter, int.from_bytes(newest, "big"))
        return True

    def merge(self, key: bytes, record: bytes) -> bool:
        """Take a whole record, or that a key is gone, if it is newer than what is here."""
        kind = kind_of(record)
        if kind is Kind.EMPTIED or record[FLAGS_AT] & CHANGE:
            raise MessageError(f"a {kind.name} or a change can't be merged by its version")
        held = self.lock_version_of(key) if kind is Kind.LOCK else self.version_of(key)
        return version_of(record) > held and self.apply(key, record)

    def _apply_plain(self, key: bytes, record: bytes) -> None:
        """A string that does not expire: most mutations are one."""
        old = self.records.get(key)
        self.records[key] = record
        if type(old) is bytes:
            self.used += len(record) - len(old)
            if self.tree is not None and key not in self.tree.noted:
                self._note(self.tree, key, old)
        else:
            if old is None:
                self.used += len(key) + KEY_OVERHEAD + len(record)
            else:
                self.used += self._cost(key, record) - self._cost(key, old)
            self._follow(key, old)

    def _apply_whole(self, key: bytes, kind: Kind, record: bytes) -> None:
        if kind is Kind.LOCK:
            self._apply_lock(key, record)
        elif kind is Kind.EMPTIED:
            self._empty()
        elif kind is Kind.GONE:
            old = self.records.pop(key, None)
            self.used -= self._cost(key, old)
            self._follow(key, old)
            self.touched.pop(key, None)
            self._sweep()
        else:
            expiry = expiry_of(record)
            value: Value = record if kind is Kind.STRING else restore(kind, record)
            old = self.records.get(key)
            self.used += self._cost(key, value) - self._cost(key, old)
            self._follow(key, old)
            self.records[key] = value
            if expiry:
                self._note_expiry(expiry, key)

    def _apply_change(self, key: bytes, kind: Kind, record: bytes) -> bool:
        before, change, arguments = _read_change(record)
        value = self.records.get(key)
        if not isinstance(value, Container) or value.version != before:
            return False
        if value.kind is not kind:
            raise MessageError(f"a {value.kind.name} can't be changed as a {kind.name}")
        size = value.size
        if self.snapshots:
            self._keep(key, value)
        value.apply(change, arguments)
        value.version = version_of(record)
        self.used += value.size - size
        if self.tree is not None:
            self._note(self.tree, key, before)
        if not value:
            del self.records[key]
            self.used -= self._cost(key, value)
            self._sweep()
        elif change is Change.EXPIRE and value.expiry:
            self._note_expiry(value.expiry, key)
        return True

    def _apply_lock(self, key: bytes, record: bytes) -> None:
        lock = _read_lock(record)
        old = self.locks.pop(key, None)
        if old is not None:
            self.used -= _lock_cost(key, old)
        if not lock.token:
            return
        self.locks[key] = lock
        self.used += _lock_cost(key, lock)
        heappush(self.unlocking, (lock.expiry, key))
        if len(self.unlocking) > 2 * len(self.locks) + DEADLINES_SPARE:
            self.unlocking[:] = [(each.expiry, name) for name, each in self.locks.items()]
            heapify(self.unlocking)

    # Reading --------------------------------------------------------------------------------------

    def version_of(self, key: bytes) -> bytes:
        """The version of a key; `ABSENT`."""
        value = self.records.get(key)
        return ABSENT if value is None else version_of_value(value)

    def lock_version_of(self, key: bytes) -> bytes:
        """The version of a key's lock; `ABSENT`."""
        lock = self.locks.get(key)
        return ABSENT if lock is None else lock.version

    def record_of(self, key: bytes) -> bytes:
        """The whole record of a key that is here."""
        value = self.records[key]
        return value if isinstance(value, bytes) else value.record()

    def lock_record(self, key: bytes) -> bytes:
        """The whole record of a lock that is here."""
        return _lock_record(self.locks[key])

    def entries(self, limit_bytes: int) -> Iterator[list[Mutation]]:
        """Everything in here, records before locks, in blocks of about this size.

        The fragment may change between two blocks. What is there all the time is in one of them;
        what comes or changes meanwhile is a mutation, and may be in one as well. A block is larger
        only where a single record is.
        """
        block: list[Mutation] = []
        size = 0
        for key, record in self._walk():
            grown = len(key) + len(record)
            if block and size + grown > limit_bytes:
                yield block
                block, size = [], 0
            block.append((key, record))
            size += grown
        if block:
            yield block

    def _walk(self) -> Iterator[Mutation]:
        for key in tuple(self.records):
            if key in self.records:
                yield key, self.record_of(key)
        for key in tuple(self.locks):
            if key in self.locks:
                yield key, self.lock_record(key)


def version_of_value(value: Value) -> bytes:
    """Epoch and number of the mutation that made it."""
    return version_of(value) if isinstance(value, bytes) else value.version


def expiry_of_value(value: Value) -> int:
    """When a value expires; `NEVER`."""
    return expiry_of(value) if isinstance(value, bytes) else value.expiry


def kind_of_value(value: Value) -> Kind:
    """What a value is."""
    return kind_of(value) if isinstance(value, bytes) else value.kind


def _read_change(record: bytes) -> tuple[bytes, Change, list[bytes]]:
    """The version that is changed, and the operation."""
    body = body_of(record)
    number = body[VERSION_BYTES : VERSION_BYTES + 1]
    if not number or number[0] >= len(Change):
        raise MessageError(f"no operation on a container begins with {body[:16].hex()}")
    return body[:VERSION_BYTES], Change(number[0]), unpack(body, VERSION_BYTES + 1)


def _lock_record(lock: Lock) -> bytes:
    body = b"%b%b" % (lock.token.to_bytes(TOKEN_BYTES, "big"), lock.session)
    return build(lock.version, Kind.LOCK, lock.expiry, body)


def _read_lock(record: bytes) -> Lock:
    body = body_of(record)
    if len(body) < TOKEN_BYTES:
        raise MessageError(f"a lock's record ends within its token: {record.hex()}")
    token = int.from_bytes(body[:TOKEN_BYTES], "big")
    return Lock(version_of(record), token, body[TOKEN_BYTES:], expiry_of(record))


def _lock_cost(key: bytes, lock: Lock) -> int:
    return len(key) + len(lock.session) + LOCK_OVERHEAD
