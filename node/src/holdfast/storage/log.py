"""The log: segments that blocks are appended to, and the manifest that names them.

Rules (`design/5`)
------------------
* A process never appends to a segment of an earlier one: it cuts a torn tail and begins a new one.
* A new segment is written to at once: nobody waits for the sync of the one before it. What was
  promised on it counts, although no manifest names it yet: its number is the manifest's `next`, by
  which a recovery finds it.
* The manifest names it once its first block is synced, and the whole segment before it. Until then
  no other one begins. A sync is of both, the older one first, and of their names.
* What may take long is done `aside`: whoever shares the log may write meanwhile.
* A sync that fails is final: nothing is written or synced by this process any more.
* What could not be written since the disk is full is cut off again, and tried once more later.
* Where each of many short pieces is synced, zeros are written behind them from time to time, and
  the next ones go over these: to sync what makes a file longer, the file system has to sync its own
  journal as well. They are cut off when the segment ends.

States
------
    open ── roll ──► rolling ── settle: synced, and named ──► open
     │ a sync or a write fails            │ no room to name it: still rolling, written to
     └──► failed (final)                  └──► rolling

What can go wrong
-----------------
*A crash while it is rolling.* The end of the log is in two files then, each of which may be torn
(`recovery`). *The disk is full when a segment is to begin.* The old one goes on, beyond its size.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

import msgspec

from holdfast.errors import DiskFailed
from holdfast.ids import PartitionId
from holdfast.storage import layout
from holdfast.storage.commit import Body, Need
from holdfast.storage.files import File, Files, commit, stage
from holdfast.storage.format import block, entries, manifest
from holdfast.storage.format.block import Codec
from holdfast.storage.format.entries import FileEntry
from holdfast.storage.format.manifest import Manifest

Aside = Callable[[], AbstractContextManager[None]]
"""While it is open, others may write; what is shared is not touched."""

ROOM_BYTES: Final = 256 << 10
ROOM_FOR_BYTES: Final = 32 << 10
"""What is longer gains nothing: it would be written twice for a journal that is synced once."""

FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


def is_full(error: OSError) -> bool:
    """Whether this heals when something is deleted."""
    return error.errno in FULL


class Log:
    """The segments of one member, the last of them open."""

    def __init__(
        self,
        files: Files,
        named: Manifest,
        *,
        sequence: int = 0,
        control_count: int = 0,
        touched: dict[int, dict[PartitionId, int]] | None = None,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.files = files
        self.manifest = named
        self.sequence = sequence
        """Of the last block."""
        self.stable = sequence
        """Up to here everything is on stable storage."""
        self.control_count = control_count
        self.codec = codec
        self.size = 0
        """Of the open segment."""
        self.touched = {} if touched is None else touched
        """Bytes of each partition in each segment, about."""
        self.written_bytes = 0
        self.syncs = 0
        self.segment = named.segments[-1] if named.segments else 0
        """Number of the open segment."""
        self.rolling = False
        """Whether it is not named yet."""
        self._ended = sequence
        """Sequence of the last block of the segment before it."""
        self._sizes = {number: sum(each.values()) for number, each in self.touched.items()}
        self._file: File | None = None
        self._room_end = 0
        """Where its zeros end."""
        self._before: File | None = None
        """The segment before it, as long as that is not synced."""

    @property
    def idle(self) -> bool:
        """Whether the last block says of all before it that they are stable."""
        return self.stable == self.sequence

    def roll(self) -> bool:
        """Begin a new segment; False when there is no room for one."""
        assert not self.rolling, "the last one is named before the next one begins"
        number = self.manifest.next
        heading = self._heading(number)
        name = layout.segment_name(number)
        try:
            file = self.files.create(name)
            file.write(heading)
        except OSError as error:
            if not is_full(error):
                raise DiskFailed(name, f"a segment could not be begun: {error}") from error
            self.files.remove(name)
            return False
        self._cut_room()
        self._before, self._file, self.size = self._file, file, len(heading)
        self._ended, self.segment, self.rolling = self.sequence, number, True
        self.sequence += 1
        self.control_count += 1
        self.written_bytes += len(heading)
        self.touched.setdefault(number, {})
        return True

    def settle(self, aside: Aside = nullcontext) -> bool:
        """Have the segment that is rolled to named; False when there is no room for that."""
        assert self.stable > self._ended, "a segment is named once its beginning is stable"
        old = self.manifest
        named = msgspec.structs.replace(
            old,
            next=self.segment + 1,
            segments=(*old.segments, self.segment),
            sealed=(*old.sealed, self._ended) if old.segments else (),
        )
        try:
            self.name(named, aside)
        except OSError as error:
            if not is_full(error):
                reason = f"a segment could not be named: {error}"
                raise DiskFailed(layout.MANIFEST, reason) from error
            return False
        self.rolling = False
        return True

    @property
    def kept_bytes(self) -> int:
        """Of all segments that count, about."""
        return sum(self._sizes.values())

    def forget(self) -> None:
        """Know no more of segments than the manifest does."""
        live = (*self.manifest.segments, self.segment)
        self.touched = {number: self.touched.get(number, {}) for number in live}
        self._sizes = {number: self._sizes.get(number, 0) for number in live}

    def _heading(self, number: int) -> bytes:
        named = self.manifest
        entry = FileEntry(
            "segment", number, named.member, named.partition_count, named.replica_count
        )
        return block.encode(
            entries.encode((entry,)),
            count=1,
            sequence=self.sequence + 1,
            stable=self.stable,
            control=self.control_count + 1,
        )

    def name(self, named: Manifest, aside: Aside = nullcontext) -> None:
        """Have this manifest. Until it is renamed, the old one counts whatever happens."""
        with aside():
            stage(self.files, layout.MANIFEST, manifest.encode(named))
            try:
                commit(self.files, layout.MANIFEST)
            except OSError as error:
                raise DiskFailed(layout.MANIFEST, f"it could not be replaced: {error}") from error
        self.manifest = named

    def write(self, batch: Sequence[Body]) -> bool:
        """Append a block for each body; False when there is no room, and nothing is written."""
        assert self._file is not None, "a segment is begun before anything is written"
        sequence, control = self.sequence, self.control_count
        blocks = []
        for body in batch:
            sequence += 1
            control += body.control
            blocks.append(
                block.encode(
                    body.data,
                    count=body.count,
                    sequence=sequence,
                    stable=self.stable,
                    control=control,
                    codec=self.codec,
                )
            )
        data = b"".join(blocks)
        if not self._append(data):
            return False
        if len(data) <= ROOM_FOR_BYTES and any(body.need is Need.SYNCED for body in batch):
            self._make_room()
        self.sequence, self.control_count = sequence, control
        touched = self.touched[self.segment]
        for body in batch:
            for partition, size in body.touched.items():
                touched[partition] = touched.get(partition, 0) + size
        return True

    def mark(self) -> None:
        """A block that says of all before it that they are stable, and nothing else."""
        data = block.encode(
            entries.encode(()),
            count=0,
            sequence=self.sequence + 1,
            stable=self.stable,
            control=self.control_count,
        )
        if self._append(data):
            self.sequence += 1

    def _append(self, data: bytes) -> bool:
        assert self._file is not None, "a segment is begun before anything is written"
        if not self._has_place(partial(self._file.write, data)):
            return False
        self.size += len(data)
        self._sizes[self.segment] = self.size
        self.written_bytes += len(data)
        return True

    def _make_room(self) -> None:
        """Have zeros behind what is about to be synced, if there are none left."""
        assert self._file is not None, "there is room behind what was written"
        if self.size > self._room_end and self._has_place(
            partial(self._file.make_room, ROOM_BYTES)
        ):
            self._room_end = self.size + ROOM_BYTES
            self.written_bytes += ROOM_BYTES

    def _has_place(self, put: Callable[[], None]) -> bool:
        """Put something behind the last block; if the disk is full, that is cut off again."""
        try:
            put()
        except OSError as error:
            if not is_full(error):
                name = layout.segment_name(self.segment)
                raise DiskFailed(name, f"a write failed: {error}") from error
            self._cut()
            return False
        return True

    def _cut(self) -> None:
        """Take back what is beyond the last block."""
        assert self._file is not None, "a segment is begun before anything is cut off"
        self._file.cut(self.size)
        self._room_end = 0

    def _cut_room(self) -> None:
        """The segment ends."""
        if self._room_end:
            self._cut()

    def sync(self, aside: Aside = nullcontext) -> None:
        """All that was written before this began is on stable storage when this returns."""
        assert self._file is not None, "a segment is begun before anything is synced"
        if self.stable == self.sequence:
            return
        sequence, files = self.sequence, (self._before, self._file)
        with aside():
            try:
                for each in files:
                    if each is not None:
                        each.sync()
                if self.rolling:
                    self.files.sync_folder(layout.DATA)
            except OSError as error:
                name = layout.segment_name(self.segment)
                raise DiskFailed(name, f"fsync failed: {error}") from error
        if self._before is not None:
            self._before.close()
            self._before = None
        self.syncs += 1
        self.stable = sequence

    def close(self) -> None:
        """Write no more; what was written is not synced by this."""
        self._cut_room()
        for file in (self._before, self._file):
            if file is not None:
                file.close()
        self._before = self._file = None
