"""A fragment that is being received: blocks and mutations become one, in whatever order they come.

Rules (`design/3` §3 "Data", §6; seed 000 "Fragmented Migration")
-----------------------------------------------------------------
* The source first promises its mutations to the receiver, then it walks through the fragment and
  sends blocks (`Fragment.entries`). So each change is in a block, or a mutation, or both.
* Mutations come in their order, one missing at times. Blocks take another way: a block may be
  overtaken by mutations of its keys, and may overtake them.
* **Of what is heard of a key in this transfer, the greatest version holds.** A mutation or an entry
  of a block is taken if nothing was heard of its key yet, or something older. A key that is gone
  was heard of: its version is kept until the transfer ends, so that no late block brings it back.
  The same for all keys at once: what is older than an EMPTIED is not taken.
* **What the receiver held before is not compared.** It may be of a history that was given up, whose
  versions look greater; the source is right.
* The source answers as of a place in its history (`settle`), and what the receiver held when it
  asked was compared with that. A mutation from before that place, heard since the receiver asked,
  is none of both: it may have been undone by another one that will never be heard, being from
  before that place as well. Its key is *doubtful*, and asked for like a broken one. Not so where
  the receiver has heard everything up to that place before it has the answer.
* A change that finds another version than the one that it changes *waits* for the block with that.
  The block is taken, then what waits is applied from there on.

        source     put v1 ── walk: block(v1) ── change v1→v2 ── remove v3
                                    └─────────────┐   │            │
        receiver                    change v1→v2 ─┼───┘  waits     │
                                    block(v1) ◀───┘      v1, v2    │
                                    remove v3 ◀────────────────────┘      v3 is kept
        or         remove v3, then block(v1): 1 is less than 3, so nothing comes back

States
------
A transfer is under way as long as this is kept. A key is *heard*, or not yet; a key whose changes
wait is *broken*. Broken keys that no block will heal are asked for one by one: the answer is a
block. What the source has not is found by a comparison, and is removed by name (`remove`,
`free_others`); where it sends everything, what was here and has not come goes in the end.

What can go wrong
-----------------
*The transfer ends half way.* Then the fragment holds some of this and some of that; its vector must
not claim more than before (`vectors`).
*A mutation is lost.* Of strings, the next one or the vector tells. Of containers, the key is broken
until it comes whole. The wait is bounded (`WAITING_BYTES_MAX`): beyond that only the newest change
of a key is kept, which says what a whole record must contain.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from holdfast.core.stores.fragment import Fragment, Mutation
from holdfast.core.stores.record import (
    ABSENT,
    CHANGE,
    FLAGS_AT,
    FREE,
    VERSION_BYTES,
    WENT,
    Kind,
    kind_of,
    version_of,
)
from holdfast.errors import MessageError

WAITING_BYTES_MAX: Final = 16 << 20


class Incoming:
    """One fragment during a transfer to here."""

    __slots__ = (
        "_before",
        "_doubtful",
        "_emptied",
        "_heard",
        "_locks",
        "_missed",
        "_settled",
        "_waiting",
        "_waiting_bytes",
        "fragment",
        "reached",
    )

    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment
        self._heard: dict[bytes, bytes] = {}
        """The greatest version of each key that was heard of, also of those that are gone."""
        self._locks: dict[bytes, bytes] = {}
        """The same for locks."""
        self._emptied = ABSENT
        """The version of the last EMPTIED."""
        self._missed = False
        self._settled = ABSENT
        """The version of the source's last mutation when it answered."""
        self._doubtful: dict[bytes, None] = {}
        self._before: tuple[bytes, ...] = ()
        """What was here when the source began to send everything."""
        self._waiting: dict[bytes, list[bytes]] = {}
        self._waiting_bytes = 0
        self.reached = ABSENT
        """The greatest version that a block has brought."""

    @property
    def broken(self) -> tuple[bytes, ...]:
        """Keys with changes that do not fit what is here."""
        return tuple(self._waiting)

    @property
    def wanted(self) -> tuple[bytes, ...]:
        """Keys that have to come whole before the transfer ends."""
        return tuple({**self._waiting, **self._doubtful})

    def miss(self) -> None:
        """A mutation was not heard."""
        self._missed = True

    def settle(self, version: bytes, heard_until: bytes) -> None:
        """The source has answered, after this mutation of its own. Whoever has heard all of them
        until then, and until `heard_until`, has no doubts."""
        self._settled = version
        if heard_until >= version and not self._missed:
            return
        for heard in (self._heard, self._locks):
            self._doubtful.update((key, None) for key, held in heard.items() if held <= version)

    def mutation(self, key: bytes, record: bytes) -> None:
        """Take what the source has changed."""
        kind, version = kind_of(record), version_of(record)
        if kind is Kind.EMPTIED:
            self._empty(key, record)
            return
        if version <= self._settled:
            self._doubtful[key] = None
        if kind is Kind.LOCK:
            self._lock(key, record, version)
        elif version > self._heard.get(key, self._emptied):
            if record[FLAGS_AT] & CHANGE:
                self._change(key, record)
            else:
                self._take(key, record, version)
                self._forget(key)

    def block(self, entries: Iterable[Mutation]) -> None:
        """Take what the source had when it came by."""
        heard, apply = self._heard, self.fragment.apply
        for key, record in entries:
            kind = kind_of(record)
            version = record[:VERSION_BYTES]
            if version > self.reached:
                self.reached = version
            if record[FLAGS_AT]:
                if kind is Kind.EMPTIED or record[FLAGS_AT] & CHANGE:
                    raise MessageError(f"a {kind.name} or a change does not belong into a block")
                if kind is Kind.LOCK:
                    self._lock(key, record, version)
                    continue
            if self._doubtful:
                self._doubtful.pop(key, None)
            if version > heard.get(key, self._emptied):
                apply(key, record)
                heard[key] = version
                if self._waiting:
                    self._catch_up(key, version)

    def heard_after(self, key: bytes, version: bytes) -> bool:
        """Whether a mutation or a block newer than this has spoken of a key, or of all keys."""
        return self._heard.get(key, self._emptied) > version

    def remove(self, keys: Iterable[bytes]) -> tuple[Mutation, ...]:
        """Keys that the source has not, as a comparison has found; what that changed."""
        return self._apply((key, WENT) for key in keys)

    def absent(self, listed: Container[bytes], keys: Iterable[bytes]) -> tuple[bytes, ...]:
        """Of these keys, those that the source has not: it does not list them, and nothing has
        been heard of them since it answered."""
        settled = self._settled
        return tuple(
            key for key in keys if key not in listed and not self.heard_after(key, settled)
        )

    def expect_everything(self) -> None:
        """The source sends all that it has."""
        self._before = tuple(self.fragment.records)

    def leave_unsent(self) -> tuple[Mutation, ...]:
        """All has come: what was here and was not heard of is there no more. What that changed."""
        heard, here = self._heard, self.fragment.records
        return self.remove(key for key in self._before if key not in heard and key in here)

    def free_others(self, locked: Iterable[bytes]) -> tuple[Mutation, ...]:
        """Let go of locks that are here and that the source has not named, nor anything heard of
        since; what that changed."""
        known, settled = dict.fromkeys(locked), self._settled
        return self._apply(
            (key, FREE)
            for key in self.fragment.locks
            if key not in known and self._locks.get(key, ABSENT) <= settled
        )

    def _apply(self, found: Iterable[Mutation]) -> tuple[Mutation, ...]:
        """All of these, once they are all found."""
        changes = tuple(found)
        for key, record in changes:
            self.fragment.apply(key, record)
        return changes

    def _take(self, key: bytes, record: bytes, version: bytes) -> None:
        self.fragment.apply(key, record)
        self._heard[key] = version

    def _lock(self, key: bytes, record: bytes, version: bytes) -> None:
        if version > self._locks.get(key, ABSENT):
            self.fragment.apply(key, record)
            self._locks[key] = version

    def _empty(self, key: bytes, record: bytes) -> None:
        """Everything goes but what blocks have brought ahead; waiting changes are all older."""
        fragment = self.fragment
        self._emptied = emptied = version_of(record)
        self._heard = {name: held for name, held in self._heard.items() if held > emptied}
        self._waiting.clear()
        self._waiting_bytes = 0
        ahead = [
            (name, fragment.record_of(name)) for name in self._heard if name in fragment.records
        ]
        fragment.apply(key, record)
        for name, kept in ahead:
            fragment.apply(name, kept)

    def _change(self, key: bytes, record: bytes) -> None:
        if self.fragment.apply(key, record):
            self._heard[key] = version_of(record)
            return
        if self._waiting_bytes + len(record) > WAITING_BYTES_MAX:
            self._forget(key)
        self._waiting.setdefault(key, []).append(record)
        self._waiting_bytes += len(record)

    def _catch_up(self, key: bytes, version: bytes) -> None:
        """Apply what waits for this version, and what follows."""
        changes = [change for change in self._forget(key) if version_of(change) > version]
        for change in changes:
            self._change(key, change)

    def _forget(self, key: bytes) -> list[bytes]:
        changes = self._waiting.pop(key, [])
        self._waiting_bytes -= sum(map(len, changes))
        return changes
