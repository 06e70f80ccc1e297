"""The log: segments that blocks are appended to, and the manifest that names them.

Rules (`design/5`)
------------------
* A process never appends to a segment of an earlier one: it cuts a torn tail and begins a new one.
* A new segment counts once the manifest names it. Before that its first block is synced, and so is
  the whole segment before it.
* A sync that fails is final: nothing is written or synced by this process any more.
* What could not be written since the disk is full is cut off again, and tried once more later.

States
------
    open ── a sync or a write fails ──► failed (final)
         ── the disk is full ─────────► open, nothing written

What can go wrong
-----------------
*A crash between two of these steps.* Then a file is there that no manifest names: it is removed at
the next start. *The disk is full when a segment is to begin.* The old one goes on, beyond its size.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.errors import DiskFailed
from holdfast.ids import PartitionId
from holdfast.storage import layout
from holdfast.storage.commit import Body
from holdfast.storage.files import File, Files, commit, stage
from holdfast.storage.format import block, entries, manifest
from holdfast.storage.format.block import Codec
from holdfast.storage.format.entries import FileEntry
from holdfast.storage.format.manifest import Manifest

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
        self._sizes = {number: sum(each.values()) for number, each in self.touched.items()}
        self._file: File | None = None

    @property
    def segment(self) -> int:
        """Number of the open segment."""
        return self.manifest.segments[-1]

    @property
    def idle(self) -> bool:
        """Whether the last block says of all before it that they are stable."""
        return self.stable == self.sequence

    def roll(self) -> bool:
        """Begin a new segment; False when there is no room for one."""
        if self._file is not None:
            self.sync()
        number, old = self.manifest.next, self.manifest
        named = msgspec.structs.replace(
            old,
            next=number + 1,
            segments=(*old.segments, number),
            sealed=(*old.sealed, self.sequence) if old.segments else (),
        )
        heading = self._heading(number)
        name = layout.segment_name(number)
        try:
            file = self.files.create(name)
            file.write(heading)
            file.sync()
            self.files.sync_folder(layout.DATA)
            self.name(named)
        except OSError as error:
            if not is_full(error):
                raise DiskFailed(name, f"a segment could not be begun: {error}") from error
            self.files.remove(name)
            return False
        if self._file is not None:
            self._file.close()
        self._file, self.size = file, len(heading)
        self.sequence += 1
        self.stable = self.sequence
        self.control_count += 1
        self.written_bytes += len(heading)
        self.touched.setdefault(number, {})
        return True

    @property
    def kept_bytes(self) -> int:
        """Of all segments that count, about."""
        return sum(self._sizes.values())

    def forget(self) -> None:
        """Know no more of segments than the manifest does."""
        live = self.manifest.segments
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
            stable=self.sequence,
            control=self.control_count + 1,
        )

    def name(self, named: Manifest) -> None:
        """Have this manifest. Until it is renamed, the old one counts whatever happens."""
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
        try:
            self._file.write(data)
        except OSError as error:
            if not is_full(error):
                name = layout.segment_name(self.segment)
                raise DiskFailed(name, f"a write failed: {error}") from error
            self._file.cut(self.size)
            return False
        self.size += len(data)
        self._sizes[self.segment] = self.size
        self.written_bytes += len(data)
        return True

    def sync(self) -> None:
        """Everything that was written is on stable storage when this returns."""
        assert self._file is not None, "a segment is begun before anything is synced"
        if self.stable == self.sequence:
            return
        try:
            self._file.sync()
        except OSError as error:
            name = layout.segment_name(self.segment)
            raise DiskFailed(name, f"fsync failed: {error}") from error
        self.syncs += 1
        self.stable = self.sequence

    def close(self) -> None:
        """Write no more; what was written is not synced by this."""
        if self._file is not None:
            self._file.close()
            self._file = None
