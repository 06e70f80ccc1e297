"""What the files of a member say: from the manifest to an `Image`.

Rules (`design/5`, `design/3` §9)
---------------------------------
* Base files first, then all segments in order. Of a partition, a segment counts if its base begins
  with that segment or before; of everything else, if the control files do.
* The last segment that the manifest names may be followed by one that it does not name yet: that
  of the manifest's `next` number (`log`). Together they are the *end* of the log.
* A torn tail is cut at the end of the log, and nowhere else. It is torn if no later block says that
  it was stable (`format.block`): nobody was told of it then. What was written into the following
  segment is cut with it, if it is torn in the one before.
* Anything else that is not as it was written is *damage*. The policy says what becomes of it:

    REFUSE   the member does not start; file and offset are in the error
    DOUBT    what is there is kept, what may lack something is not clean: a sync compares it with
             the other copies and fetches what is missing, no more

  Whatever was promised to others is never doubted: a damaged manifest, identity or table, or a gap
  in the log with anything but mutations in it (`control` of the blocks around it) is refused.

What can go wrong
-----------------
*The last block that was stable rots.* After it no block says so, if the member has not written for
a second since; it looks like a torn tail. The log writes a mark when it is idle (`writer`), so the
window is that second.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple, Self

import msgspec

from holdfast.core.events import Image
from holdfast.core.messages import Fragment
from holdfast.errors import CorruptFile, ForeignFiles, MessageError
from holdfast.ids import PartitionId
from holdfast.storage import layout, snapshot
from holdfast.storage.files import Readable, Stream
from holdfast.storage.fold import Control, Fold
from holdfast.storage.format import block, entries
from holdfast.storage.format.block import Block, Damage
from holdfast.storage.format.entries import (
    DROPPED,
    Entry,
    FileEntry,
    FragmentEntry,
    MutationsEntry,
)
from holdfast.storage.format.manifest import (
    Base,
    Identity,
    Manifest,
    decode_identity,
    decode_manifest,
)

SEGMENT: Final = "segment"
BASE: Final = "base"
WATCH_BYTES: Final = 8 << 20


class OnDamage(StrEnum):
    """What becomes of files that are not as they were written."""

    REFUSE = "refuse"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a recovery is."""

    done_bytes: int
    total_bytes: int
    records: int


Watch = Callable[[Progress], None]


@dataclass(slots=True)
class Recovered:
    """Everything that the files say, and what is needed to go on writing."""

    identity: Identity
    manifest: Manifest
    """With the segment that follows, if anything counts that stands in it."""
    fold: Fold
    sequence: int = 0
    """Of the last block of the log."""
    control_count: int = 0
    """What it counted."""
    end: int = 0
    """Where the last segment is to be cut."""
    torn_bytes: int = 0
    touched: dict[int, dict[PartitionId, int]] = field(default_factory=dict)
    """Bytes of each partition in each segment, about."""
    damages: list[CorruptFile] = field(default_factory=list)
    """What was found and doubted."""
    damaged: tuple[PartitionId, ...] = ()
    """Partitions of which something may be missing."""
    records: int = 0

    def image(self) -> Image | None:
        """What the core is told; the data is moved into it."""
        image = self.fold.image()
        return None if image is None else replace(image, damaged=self.damaged)


class Piece(NamedTuple):
    """A block at the end of the log, or what is none."""

    number: int
    """Of its segment."""
    each: Block | Damage


# What is read whole -------------------------------------------------------------------------------


def read_identity(files: Readable) -> Identity | None:
    """Whose directory this is; None when nobody's."""
    try:
        data = files.read(layout.IDENTITY)
    except FileNotFoundError:
        return None
    return decode_identity(data, layout.IDENTITY)


def read_manifest(files: Readable, identity: Identity) -> Manifest | None:
    """Which files count; None when nothing was ever written."""
    try:
        data = files.read(layout.MANIFEST)
    except FileNotFoundError:
        return None
    manifest = decode_manifest(data, layout.MANIFEST)
    mine = (identity.member, identity.partition_count, identity.replica_count)
    if (manifest.member, manifest.partition_count, manifest.replica_count) != mine:
        reason = (
            f"it is of member {manifest.member} with {manifest.partition_count} partitions of"
            f" {manifest.replica_count}, the identity of {identity.member} with"
            f" {identity.partition_count} of {identity.replica_count}"
        )
        raise ForeignFiles(layout.MANIFEST, reason)
    return manifest


def following(files: Readable, named: Manifest) -> int | None:
    """The segment that is written to and not named yet; None when there is none."""
    try:
        files.size(layout.segment_name(named.next))
    except FileNotFoundError:
        return None
    return named.next


def recover(
    files: Readable,
    *,
    on_damage: OnDamage = OnDamage.REFUSE,
    watch: Watch | None = None,
    fold: Fold | None = None,
) -> Recovered | None:
    """Everything, summed up in `fold`; None when nothing was ever written."""
    identity = read_identity(files)
    if identity is None:
        if files.list(layout.DATA):
            raise ForeignFiles(layout.IDENTITY, "it is missing, although there is data")
        return None
    manifest = read_manifest(files, identity)
    if manifest is None:
        return None
    with no_collections():
        return Loader(files, identity, manifest, on_damage, watch, fold or Fold()).load()


@contextmanager
def no_collections() -> Iterator[None]:
    """Millions of objects come to stay: looking for garbage among them takes most of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Ahead:
    """Opens the next file while what is in the present one is taken in: by then its bytes are here,
    or on their way from the disk."""

    def __init__(self, files: Readable, names: Sequence[str]) -> None:
        self._files = files
        self._names = deque(names)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="reads")
        self._coming: deque[Future[Stream]] = deque()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        for coming in self._coming:
            if coming.exception() is None:
                coming.result().close()

    def _begin(self) -> None:
        if self._names:
            self._coming.append(self._pool.submit(self._files.open, self._names.popleft()))

    def next(self) -> Stream:
        """The next file, which is the caller's; `FileNotFoundError` when it is not there."""
        coming = self._coming.popleft()
        try:
            return coming.result()
        finally:
            self._begin()


# Everything ---------------------------------------------------------------------------------------


class Loader:
    """One recovery."""

    def __init__(
        self,
        files: Readable,
        identity: Identity,
        manifest: Manifest,
        on_damage: OnDamage,
        watch: Watch | None,
        fold: Fold,
    ) -> None:
        self.files = files
        self.on_damage = on_damage
        self.watch = watch
        self.found = Recovered(identity, manifest, fold)
        self.since: dict[PartitionId, int] = {}
        """From which segment on the log counts."""
        for base in manifest.bases:
            for partition in base.partitions:
                self.since[PartitionId(partition)] = base.since
        self.control_since = 0 if manifest.control is None else manifest.control.since
        names = tuple(layout.files_of(manifest))
        self.following = following(files, manifest)
        if self.following is not None:
            names += (layout.segment_name(self.following),)
        self.total = sum(self._size(name) for name in names)
        self.done = self.shown = 0
        self.doubted: dict[PartitionId, None] = {}
        self.doubted_segment = -1
        """The last one in which anything is missing."""
        self.gap: CorruptFile | None = None
        """Damage of which nobody knows yet what it has cost."""

    def load(self) -> Recovered:
        """Everything."""
        found = self.found
        control = found.manifest.control
        if control is not None:
            found.fold.control = self._control()
            found.fold.written = True
        bases = [layout.base_name(base.number) for base in found.manifest.bases]
        *sealed, last = found.manifest.segments
        end = (last,) if self.following is None else (last, self.following)
        segments = [layout.segment_name(number) for number in (*sealed, *end)]
        with Ahead(self.files, (*bases, *segments)) as ahead:
            for base in found.manifest.bases:
                self._load_base(base, ahead)
            for number, sequence in zip(sealed, found.manifest.sealed, strict=True):
                self._load_segment(number, sequence, ahead)
            self._load_end(end, ahead)
        if self.gap is not None:
            raise self.gap
        self._doubt()
        return found

    def _control(self) -> Control:
        control = self.found.manifest.control
        assert control is not None
        try:
            return snapshot.read(self.files, control, self.found.identity)
        except FileNotFoundError as error:
            raise CorruptFile(str(error.filename), "the manifest names it: missing") from error

    def _size(self, name: str) -> int:
        try:
            return self.files.size(name)
        except FileNotFoundError:
            return 0

    def _read(self, name: str, ahead: Ahead, *, synced: bool = True) -> Iterator[Block | Damage]:
        """What is in the next file."""
        try:
            stream = ahead.next()
        except FileNotFoundError as error:
            raise CorruptFile(name, "the manifest names it, and it is missing") from error
        with closing(stream):
            yield from block.read(stream, name, synced=synced)

    def _advance(self, size: int) -> None:
        self.done += size
        if self.watch is not None and self.done - self.shown >= WATCH_BYTES:
            self.shown = self.done
            self.watch(Progress(self.done, self.total, self.found.records))

    # Bases ----------------------------------------------------------------------------------------

    def _load_base(self, base: Base, ahead: Ahead) -> None:
        name = layout.base_name(base.number)
        try:
            self._load_base_file(base, name, ahead)
        except CorruptFile as error:
            self._damaged_base(base, error)
        held = self.found.fold.data.held
        for number, epoch in zip(base.partitions, base.epochs, strict=True):
            partition = PartitionId(number)
            if epoch != DROPPED and partition not in held:
                held[partition] = Fragment(epoch, 0)

    def _load_base_file(self, base: Base, name: str, ahead: Ahead) -> None:
        wanted = frozenset(base.partitions)
        sequence = size = 0
        for each in self._read(name, ahead):
            size = each.end
            if isinstance(each, Damage):
                self._damaged_base(base, CorruptFile(name, each.reason, offset=each.offset))
                continue
            sequence += 1
            if each.sequence != sequence:
                reason = f"block {each.sequence} stands where {sequence} should"
                self._damaged_base(base, CorruptFile(name, reason, offset=each.offset))
                sequence = each.sequence
            for entry in self._entries(each, name, BASE, base.number):
                if isinstance(entry, MutationsEntry | FragmentEntry) and entry.partition in wanted:
                    self._apply(entry, name, each.offset)
            self._advance(each.end - each.offset)
        if size != base.size:
            reason = f"{size} bytes of {base.size} are there"
            self._damaged_base(base, CorruptFile(name, reason, offset=size))

    def _damaged_base(self, base: Base, error: CorruptFile) -> None:
        if self.on_damage is OnDamage.REFUSE:
            raise error
        self.found.damages.append(error)
        self.doubted.update((PartitionId(each), None) for each in base.partitions)

    # Segments -------------------------------------------------------------------------------------

    def _load_segment(self, number: int, sequence: int, ahead: Ahead) -> None:
        """One that was synced, and has ended with this block."""
        name = layout.segment_name(number)
        size = 0
        for each in self._read(name, ahead):
            size = each.end
            if isinstance(each, Block):
                self._load_block(each, name, number)
            else:
                self._damaged_log(number, CorruptFile(name, each.reason, offset=each.offset))
        if self.found.sequence != sequence:
            reason = f"it ends with block {self.found.sequence}, which is not the last one"
            self._damaged_log(number, CorruptFile(name, reason, offset=size))

    def _load_end(self, numbers: Sequence[int], ahead: Ahead) -> None:
        """The end of the log; it may be torn anywhere but in the heading of its first segment."""
        pieces: Iterator[Piece] = chain.from_iterable(self._pieces(each, ahead) for each in numbers)
        while (piece := next(pieces, None)) is not None:
            number, each = piece
            if self._may_be_torn(number, each):
                later = tuple(pieces)
                rest = (each, *(piece.each for piece in later))
                if is_torn(rest, self.found.sequence):
                    self.found.torn_bytes = sum(each.end - each.offset for each in rest)
                    return
                pieces = iter(later)
            self._go_on(number)
            name = layout.segment_name(number)
            if isinstance(each, Block):
                self._load_block(each, name, number)
            else:
                self._damaged_log(number, CorruptFile(name, each.reason, offset=each.offset))
            self.found.end = each.end

    def _pieces(self, number: int, ahead: Ahead) -> Iterator[Piece]:
        name, synced = layout.segment_name(number), number != self.following
        return (Piece(number, each) for each in self._read(name, ahead, synced=synced))

    def _may_be_torn(self, number: int, each: Block | Damage) -> bool:
        """Whether this is not what should follow, at a place where that may be."""
        begins = number != self.found.manifest.segments[-1]
        if isinstance(each, Block):
            return begins and each.sequence != self.found.sequence + 1
        return begins or each.offset > 0

    def _go_on(self, number: int) -> None:
        """What stands in the following segment counts: so does that."""
        named = self.found.manifest
        if number != named.segments[-1]:
            self.found.manifest = msgspec.structs.replace(
                named,
                next=number + 1,
                segments=(*named.segments, number),
                sealed=(*named.sealed, self.found.sequence),
            )

    def _load_block(self, each: Block, name: str, number: int) -> None:
        found = self.found
        if found.sequence and each.sequence != found.sequence + 1 and self.gap is None:
            reason = f"block {each.sequence} follows block {found.sequence}"
            self._damaged_log(number, CorruptFile(name, reason, offset=each.offset))
        read = self._entries(each, name, SEGMENT, number)
        self._close_gap(each, read)
        found.sequence, found.control_count = each.sequence, each.control
        touched = found.touched.setdefault(number, {})
        share = len(each.body) // max(len(read), 1)
        for entry in read:
            kind = type(entry)
            if kind is MutationsEntry or kind is FragmentEntry:
                partition = entry.partition  # type: ignore[union-attr]
                touched[partition] = touched.get(partition, 0) + share
                if self.since.get(partition, 0) <= number:
                    self._apply(entry, name, each.offset)
            elif number >= self.control_since and kind is not FileEntry:
                self._apply(entry, name, each.offset)
        self._advance(each.end - each.offset)

    def _damaged_log(self, number: int, error: CorruptFile) -> None:
        if self.on_damage is OnDamage.REFUSE:
            raise error
        self.found.damages.append(error)
        self.gap = self.gap or error
        self.doubted_segment = number

    def _close_gap(self, each: Block, read: Sequence[Entry]) -> None:
        """Damage that has cost what was promised to others is refused, whatever the policy."""
        if self.gap is None:
            return
        before = each.control - sum(map(entries.is_control, read))
        if before != self.found.control_count:
            raise self.gap
        self.gap = None

    # Entries --------------------------------------------------------------------------------------

    def _entries(self, each: Block, name: str, kind: str, number: int) -> Sequence[Entry]:
        """Of a block; the first one of a file says which file it is."""
        read = entries.decode(each.body, name, each.offset)
        if each.offset == 0:
            identity = self.found.identity
            wanted = FileEntry(
                kind, number, identity.member, identity.partition_count, identity.replica_count
            )
            if read[:1] != [wanted]:
                raise ForeignFiles(name, f"it begins as {read[:1]}, not as {wanted}", offset=0)
        return read

    def _apply(self, entry: Entry, name: str, offset: int) -> None:
        try:
            self.found.fold.apply(entry)
        except (MessageError, IndexError) as error:
            raise CorruptFile(name, f"a record that can't be: {error}", offset=offset) from error
        if type(entry) is MutationsEntry:
            self.found.records += len(entry.keys)

    def _doubt(self) -> None:
        data = self.found.fold.data
        for partition in sorted(dict.fromkeys((*data.held, *data.written))):
            if self.since.get(partition, 0) <= self.doubted_segment:
                self.doubted[partition] = None
        data.doubt(self.doubted)
        self.found.damaged = tuple(sorted(self.doubted))


def is_torn(rest: Iterable[Block | Damage], sequence: int) -> bool:
    """Whether what follows the block of this number was never stable."""
    return all(isinstance(each, Damage) or each.stable <= sequence for each in rest)
