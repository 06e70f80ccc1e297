"""The mutation journal of a fragment: what changed since a point, and the stream of changes.

Rules (seed 003, "Tracking mutations"; `design/3` §6, §10)
----------------------------------------------------------
* Every mutation is an entry: its number, the epoch of the owner that made it, the key, and a
  payload that is read only when it is forgotten. Numbers are the counter of the fragment's vector,
  so they go up by one; the entries kept are one run of them without a hole.
* "All partition replicas need to track mutations", says the seed, so that whoever is promoted can
  go on: backups append what they apply.
* A ring: when it holds too many entries or bytes the oldest go, an eighth of it at a time, which
  is cheaper than one by one with every write. Bytes are those of keys and payloads.
* A journal that somebody follows moves with its partition, newest part first: what joins the oldest
  entry here is put before it (`giving`, `pulling`).
* Whoever asks names a *point*, (epoch, counter): "I have everything up to here". The answer is what
  comes after it, or a `Gap`. Points mean the same on every member, as epochs tell histories apart
  (`vectors.Lineage`); so a reader goes on elsewhere after a failover with the point it has.

        oldest point                          last
             ├──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┤
    forgotten  ▲           └ epoch 4 begins
               └ a reader at (1, 10) goes on; one at (1, 19) has seen what epoch 4 never had: Gap

States
------
A journal covers the run of mutations from its oldest point to its last one, and knows the history
that it belongs to. `append` goes on; `begin` takes over the history under a new owner; `mark_gap`
begins a new run, empty, after mutations that were missed.

What can go wrong
-----------------
* A backup misses a mutation, and the next one comes: its number says so, and a new run begins with
  it. The missing one comes by a sync, whose records are no entries: `mark_gap`.
* The owner that begins a new epoch lacks mutations that a backup has. Their entries are of another
  history: `begin` drops the run unless it ends exactly where the epoch began.
* The history forgets its oldest epochs: so does the journal, as it can't name their points.
* One entry is bigger than the whole ring: it goes at once, and whoever needs it gets a `Gap`.
* A reader is ahead of the replica that it asks: nothing is there yet, which is no gap. If that
  replica is promoted without having seen as much, the new epoch tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.core.data.removals import TRIMMED_SHARE, Removals
from holdfast.core.data.vectors import Known, Lineage, Point
from holdfast.errors import LocalProtocolError

ENTRIES_MAX_DEFAULT: Final = 10_000
SIZE_MAX_BYTES_DEFAULT: Final = 1 << 20


class Entry(NamedTuple):
    """One mutation, as it is read."""

    epoch: int
    counter: int
    key: bytes
    payload: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """What comes after a point, and the point to ask from the next time."""

    entries: tuple[Entry, ...]
    after: Point


@dataclass(frozen=True, slots=True)
class Gap:
    """What comes after the point that was asked for is not here, or the point is of no history."""

    first_available: Point
    """The oldest point that can be gone on from, once everything up to there is known."""


class Journal:
    """The latest mutations, the very pairs that went to backups and files."""

    __slots__ = (
        "_base",
        "_entries",
        "_entries_max",
        "_lineage",
        "_next",
        "_removals",
        "_size",
        "_size_max",
    )

    def __init__(
        self,
        lineage: Lineage,
        counter: int,
        *,
        entries_max: int = ENTRIES_MAX_DEFAULT,
        size_max_bytes: int = SIZE_MAX_BYTES_DEFAULT,
    ) -> None:
        _check_known(lineage, counter)
        self._lineage = lineage
        self._entries_max = entries_max
        self._size_max = size_max_bytes
        self._entries: list[tuple[bytes, bytes]] = []
        self._size = 0
        self._base = counter
        self._next = counter + 1
        self._removals = Removals(counter)

    @property
    def lineage(self) -> Lineage:
        """The history that the entries belong to."""
        return self._lineage

    @property
    def counter(self) -> int:
        """The number of the last mutation that is known."""
        return self._next - 1

    @property
    def last(self) -> Point:
        """The point up to which mutations are known."""
        return self._point(self._next - 1)

    @property
    def oldest(self) -> Point:
        """The oldest point that can be gone on from."""
        return self._point(self._base)

    @property
    def size_bytes(self) -> int:
        """Keys and payloads together."""
        return self._size

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, counter: int, key: bytes, payload: bytes) -> None:
        """Mutation number `counter` has been applied here. Called with every write."""
        if counter != self._next:
            self._skip_to(counter)
        self._next = counter + 1
        self._entries.append((key, payload))
        self._size = size = self._size + len(key) + len(payload)
        if size > self._size_max or len(self._entries) > self._entries_max:
            self._trim()

    def extend(self, before: int, mutations: Sequence[tuple[bytes, bytes]]) -> int:
        """These mutations, keys and payloads, have been applied after that many; their bytes."""
        if before != self._next - 1:
            self._skip_to(before + 1)
        size = 0
        for key, payload in mutations:
            size += len(key) + len(payload)
        self._entries.extend(mutations)
        self._next += len(mutations)
        self._size = total = self._size + size
        if total > self._size_max or len(self._entries) > self._entries_max:
            self._trim()
        return size

    def begin(self, lineage: Lineage) -> None:
        """The history goes on as this one: a new owner, or more is known of the same.

        Entries stay if they are of it and nothing is missing up to where its newest epoch began.
        """
        began = lineage.segments[-1].counter if lineage.segments else 0
        _check_known(lineage, began)
        last = self.last
        self._lineage = lineage
        if not lineage.reaches(*last) or last.counter < began:
            self._restart(began)
        forgotten = lineage.segments[0].counter - self._base
        if forgotten > 0:
            self._drop(forgotten)

    def mark_gap(self, counter: int) -> None:
        """Mutations up to `counter` were missed, at least one of them: what was kept is no use."""
        self._restart(max(counter, self._next - 1))

    def since(self, known: Known) -> tuple[tuple[bytes, bytes], ...] | Gap:
        """The mutations that a replica which claims this lacks, oldest first."""
        start = known.whole.counter - self._base
        if start < 0 or not self._has(known):
            return Gap(self.oldest)
        return tuple(self._entries[start:])

    def removed_since(self, known: Known) -> tuple[tuple[bytes, bytes], ...] | Gap:
        """Of these mutations at least all that removed something: what a replica that claims this
        lacks beside them shows by its version. It is further behind than entries are kept."""
        removed = self._removals.since(known.whole.counter) if self._has(known) else None
        if removed is None:
            return Gap(self.oldest)
        return (*removed, *self._entries)

    def up_to(self, last: int, size_max_bytes: int) -> tuple[tuple[bytes, bytes], ...]:
        """Mutations that end with that number, as many as fit, and one in any case: a part of the
        journal, as it moves. None, if they are forgotten or still to come."""
        end = min(last, self._next - 1) - self._base
        start, size = end, 0
        while start > 0 and (size < size_max_bytes or start == end):
            start -= 1
            size += sum(map(len, self._entries[start]))
        if last >= self._next or start < 0:
            return ()
        return tuple(self._entries[start:end])

    def put_before(self, last: int, mutations: Sequence[tuple[bytes, bytes]]) -> None:
        """These, which end with that number, were made before what is here: of my history, and
        known to be applied. What does not join it is no use."""
        joining = len(mutations) - (last - self._base)
        forgotten = self._lineage.segments[0].counter
        start = max(0, forgotten - (self._base - joining))
        if last < self._base or start >= joining:
            return
        found = mutations[start:joining]
        self._entries[:0] = found
        self._size += sum(len(key) + len(payload) for key, payload in found)
        self._base -= len(found)
        self._removals.end_at(self._base)
        if self._size > self._size_max or len(self._entries) > self._entries_max:
            self._trim()

    def read(self, after: Point, entries_max: int) -> Page | Gap:
        """The next mutations after a point. An empty page: there are none yet."""
        if not self._covers(after):
            return Gap(self.oldest)
        start = after.counter - self._base
        pairs = self._entries[start : start + entries_max]
        epoch_of = self._lineage.epoch_of
        entries = tuple(
            Entry(epoch_of(counter), counter, key, payload)
            for counter, (key, payload) in enumerate(pairs, after.counter + 1)
        )
        if not entries:
            return Page((), after)
        return Page(entries, Point(entries[-1].epoch, entries[-1].counter))

    def _has(self, known: Known) -> bool:
        """Whether what a replica claims is of my history, and I am no less far."""
        reaches = known.whole.counter < self._next and known.reached.counter < self._next
        return reaches and self._lineage.includes(known)

    def _covers(self, point: Point) -> bool:
        return point.counter >= self._base and self._lineage.reaches(*point)

    def _point(self, counter: int) -> Point:
        """The point after this mutation. Where an epoch begins it is a point of that one too."""
        first = self._lineage.segments[0]
        if counter == first.counter:
            return first
        return Point(self._lineage.epoch_of(counter), counter)

    def _skip_to(self, counter: int) -> None:
        if counter < self._next:
            raise LocalProtocolError(f"mutation {counter} after {self.last}")
        self._restart(counter - 1)

    def _restart(self, counter: int) -> None:
        """An empty run after this mutation."""
        self._entries.clear()
        self._size = 0
        self._base = counter
        self._next = counter + 1
        self._removals.restart(counter)

    def _trim(self) -> None:
        if not self._entries_max:
            self._restart(self._next - 1)
        while self._size > self._size_max or len(self._entries) > self._entries_max:
            self._drop(len(self._entries) // TRIMMED_SHARE or 1)

    def _drop(self, count: int) -> None:
        note, number = self._removals.note, self._base
        for key, payload in self._entries[:count]:
            number += 1
            self._size -= len(key) + len(payload)
            note(number, key, payload)
        del self._entries[:count]
        self._base += count


def _check_known(lineage: Lineage, counter: int) -> None:
    """A journal names points, so it needs a history that they are on."""
    if not lineage.segments or counter < lineage.segments[-1].counter:
        raise LocalProtocolError(f"no mutation {counter} in {lineage}")
