"""All records of one name in one partition as they are at one moment, read in pieces later.

Rules (`design/7` "each is read at one version cut")
----------------------------------------------------
* The *cut* is a point of the fragment's history. What a snapshot gives is what was there then,
  however long its reader takes, and whatever is written meanwhile or becomes of the partition: it
  is the past, and the past does not move.
* To take one costs two lists of references, whatever the values weigh. A string's record is one
  immutable `bytes`; the snapshot keeps it, whoever writes the key anew.
* A container changes in place. So a fragment tells its snapshots of a container before it changes
  it (`keep`), and each of them that has the container, and not its record yet, makes the record.
* What has expired at the cut is not in it. Looking at a value does not use it.

States
------
    open ──► closed: the fragment tells it nothing any more, and it holds nothing

What can go wrong
-----------------
*Nobody reads on.* Values that were overwritten meanwhile stay in memory; whoever took the snapshot
has to close it (`front.bulk` does so with its session).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.core.stores.containers import Container
from holdfast.core.stores.fragment import Fragment, Mutation, Value
from holdfast.core.stores.record import EXPIRES, FLAGS_AT, expiry_of, version_at

Wanted = Callable[[bytes], bool]


class Page(NamedTuple):
    """Some records, and the place of the next ones; 0 after the last."""

    records: list[Mutation]
    following: int


class Snapshot:
    """One fragment at one moment."""

    def __init__(self, fragment: Fragment, now: int, wanted: Wanted | None = None) -> None:
        """`wanted` are the keys that are asked for; all, if it is not given."""
        self.epoch = fragment.epoch
        self.counter = fragment.counter
        self.now = now
        self._fragment = fragment
        self._keys = list(fragment.records)
        self._values: list[Value] = list(fragment.records.values())
        self._kept: dict[bytes, bytes] = {}
        self._cut = version_at(fragment.epoch, fragment.counter)
        idle = fragment.settings.idle_ms
        if wanted is not None or idle:
            touched = fragment.touched
            pairs = [
                (key, value)
                for key, value in zip(self._keys, self._values, strict=True)
                if (wanted is None or wanted(key))
                and not (idle and touched.get(key, now) + idle <= now)
            ]
            self._keys = [key for key, _ in pairs]
            self._values = [value for _, value in pairs]
        fragment.snapshots.append(self)

    def __len__(self) -> int:
        """How many records there are, with those that had expired."""
        return len(self._keys)

    def keep(self, key: bytes, container: Container) -> None:
        """This container is going to change."""
        if container.version <= self._cut and key not in self._kept:
            self._kept[key] = container.record()

    def page(self, start: int, size: int, count: int) -> Page:
        """Records from a place on, of about so many bytes, and at most so many."""
        records: list[Mutation] = []
        at, end, now = start, min(len(self._keys), start + count), self.now
        while at < end and size > 0:
            key, value = self._keys[at], self._values[at]
            at += 1
            if isinstance(value, bytes):
                record = value
            else:
                kept = self._kept.get(key)
                record = value.record() if kept is None else kept
            if record[FLAGS_AT] & EXPIRES and expiry_of(record) <= now:
                continue
            records.append((key, record))
            size -= len(key) + len(record)
        return Page(records, at if at < len(self._keys) else 0)

    def close(self) -> None:
        """Nobody reads it any more."""
        if self in self._fragment.snapshots:
            self._fragment.snapshots.remove(self)
        self._keys, self._values, self._kept = [], [], {}
