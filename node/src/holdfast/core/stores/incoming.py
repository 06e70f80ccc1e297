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
A transfer is under way from its making to `finish`. A key is *heard*, or not yet; a key whose
changes wait is *broken*. Broken keys that no block will heal are asked for one by one: the answer
is a block. With `replaces`, the blocks are all that there is, and `finish` removes what was not
heard of; without, they are what a comparison found (a key that is gone there comes as GONE, with
the source's counter as its version).

What can go wrong
-----------------
*The transfer ends half way.* Then the fragment holds some of this and some of that; its vector must
not claim more than before (`vectors`).
*A mutation is lost.* Of strings, the next one or the vector tells. Of containers, the key is broken
until it comes whole. The wait is bounded (`WAITING_BYTES_MAX`): beyond that only the newest change
of a key is kept, which says what a whole record must contain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.core.stores.fragment import Fragment, Mutation
from holdfast.core.stores.record import (
    ABSENT,
    CHANGE,
    FLAGS_AT,
    NEVER,
    Kind,
    build,
    kind_of,
    version_of,
)
from holdfast.errors import MessageError

WAITING_BYTES_MAX: Final = 16 << 20

_GONE: Final = build(ABSENT, Kind.GONE, NEVER, b"")
_FREE: Final = build(ABSENT, Kind.LOCK, NEVER, bytes(8))


class Incoming:
    """One fragment during a transfer to here."""

    __slots__ = (
        "_emptied",
        "_heard",
        "_locks",
        "_replaces",
        "_waiting",
        "_waiting_bytes",
        "fragment",
    )

    def __init__(self, fragment: Fragment, *, replaces: bool) -> None:
        self.fragment = fragment
        self._replaces = replaces
        self._heard: dict[bytes, bytes] = {}
        """The greatest version of each key that was heard of, also of those that are gone."""
        self._locks: dict[bytes, bytes] = {}
        """The same for locks."""
        self._emptied = ABSENT
        """The version of the last EMPTIED."""
        self._waiting: dict[bytes, list[bytes]] = {}
        self._waiting_bytes = 0

    @property
    def broken(self) -> tuple[bytes, ...]:
        """Keys with changes that do not fit what is here."""
        return tuple(self._waiting)

    def mutation(self, key: bytes, record: bytes) -> None:
        """Take what the source has changed."""
        kind, version = kind_of(record), version_of(record)
        if kind is Kind.EMPTIED:
            self._empty(key, record)
        elif kind is Kind.LOCK:
            self._lock(key, record, version)
        elif version > self._heard.get(key, self._emptied):
            if record[FLAGS_AT] & CHANGE:
                self._change(key, record)
            else:
                self._take(key, record, version)
                self._forget(key)

    def block(self, entries: Iterable[Mutation]) -> None:
        """Take what the source had when it came by."""
        for key, record in entries:
            kind, version = kind_of(record), version_of(record)
            if kind is Kind.EMPTIED or record[FLAGS_AT] & CHANGE:
                raise MessageError(f"a {kind.name} or a change does not belong into a block")
            if kind is Kind.LOCK:
                self._lock(key, record, version)
            elif version > self._heard.get(key, self._emptied):
                self._take(key, record, version)
                self._catch_up(key, version)

    def heard(self, key: bytes) -> bool:
        """Whether a mutation or a block has spoken of this key, or of all keys."""
        return key in self._heard or self._emptied != ABSENT

    def remove(self, keys: Iterable[bytes]) -> None:
        """Keys that the source has not, as a comparison has found."""
        for key in keys:
            self.fragment.apply(key, _GONE)

    def free_others(self, locked: Iterable[bytes]) -> tuple[bytes, ...]:
        """Locks that are here and that the source has not named, nor anything heard of since."""
        known = dict.fromkeys(locked)
        keys = (key for key in self.fragment.locks if key not in known and key not in self._locks)
        others = tuple(keys)
        for key in others:
            self.fragment.apply(key, _FREE)
        return others

    def finish(self) -> None:
        """All blocks are here, and no key is broken."""
        if self._waiting:
            raise MessageError(f"{len(self._waiting)} keys are broken: they must come whole first")
        if not self._replaces:
            return
        fragment = self.fragment
        for key in [key for key in fragment.records if key not in self._heard]:
            fragment.apply(key, _GONE)
        for key in [key for key in fragment.locks if key not in self._locks]:
            fragment.apply(key, _FREE)

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
