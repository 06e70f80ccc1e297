"""What a shell uses of storage: one interface, an engine with files, and one that has none.

Rules (`core.effects`, `design/5`)
----------------------------------
* `recover` first, `start` then, and `write` with the `Persist`s of each step, in their order: those
  of one call are one block.
* The listener is told up to which number everything is persisted: from another thread, or, where
  no sync is needed or it was made at once, from within `write`. Each number is told once, the last
  of what was written together.
* What is not long goes to the file from within `write`, unless the thread has something to do that
  must come before: waking a thread takes longer than such a write. A sync that will be quick is
  made there as well (`pace`); for others the thread is woken. While one of its own goes on, nothing
  but the thread waits for it: whatever takes it long is done without the lock, and what was given
  to it in a moment when it had the lock need not wait for it.
* `serve` is called now and then from the thread that calls `write`, when that has nothing better to
  do: it writes a slice of a base from what is in memory, if one is due.
* After `failed` the process must end: what it was told to keep may be lost.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import Final, Protocol

from holdfast.core.effects import Persist
from holdfast.core.events import Image
from holdfast.errors import DiskFailed, ForeignFiles, StorageError
from holdfast.ids import MemberId
from holdfast.storage import layout, recovery
from holdfast.storage.commit import Body
from holdfast.storage.feed import Feed, Source, user_bytes
from holdfast.storage.files import Files, replace
from holdfast.storage.fold import Fold
from holdfast.storage.format import entries, manifest
from holdfast.storage.format.manifest import Identity, Manifest
from holdfast.storage.log import Log
from holdfast.storage.packing import DurabilityOf, Packer
from holdfast.storage.recovery import OnDamage, Recovered, Watch
from holdfast.storage.writer import (
    BeginBase,
    EndBase,
    Limits,
    Seal,
    Settled,
    Task,
    Writer,
    sweep,
)

PIECE_BYTES: Final = 1 << 20
"""Length of the records that a copy is made by."""
BACKLOG_BYTES_MAX: Final = 8 << 20
"""What may wait for the disk before the next slice of a base."""
AT_ONCE_BYTES_MAX: Final = 1 << 20
"""What is written without waking the thread."""


class Listener(Protocol):
    """Who is told what becomes of records; called from a thread of the engine, or from `write`."""

    def persisted(self, sequence: int) -> None:
        """Everything up to this number is as safe as it was asked to be."""

    def failed(self, error: DiskFailed) -> None:
        """Nothing is written any more."""

    def full(self, full: bool) -> None:
        """Whether there is too little room for more data."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What storage has done since it was started."""

    user_bytes: int = 0
    """Keys and records that were to be written."""
    log_bytes: int = 0
    base_bytes: int = 0
    syncs: int = 0
    bases: int = 0
    full: bool = False

    @property
    def amplification(self) -> float:
        """Bytes written for each byte of a user."""
        return (self.log_bytes + self.base_bytes) / self.user_bytes if self.user_bytes else 0.0


class Engine(Protocol):
    """Keeps records."""

    @property
    def last_incarnation(self) -> int:
        """The last that was used, once it is recovered; 0 for none."""

    def recover(self, watch: Watch | None = None) -> Image | None:
        """What earlier processes wrote."""

    def start(self, incarnation: int, listener: Listener) -> None:
        """A process with this incarnation begins to write."""

    def write(self, persists: Sequence[Persist]) -> None:
        """The records of one step."""

    def serve(self, source: Source) -> bool:
        """Do a slice of what is to be done in the background; whether there is more."""

    def settled(self) -> None:
        """Whatever may have been missing in the files was asked for, and is there."""

    def seal(self) -> None:
        """Wait until all that was written before is in files that don't change any more."""

    def figures(self) -> Figures:
        """What was done so far."""

    def close(self) -> None:
        """Write and sync everything, and end."""


class MemoryEngine:
    """Keeps records as long as it lives: for members without a disk, and for tests."""

    def __init__(self) -> None:
        self.fold = Fold()
        self._listener: Listener | None = None
        self.last_incarnation = 0
        self._user_bytes = 0

    def recover(self, watch: Watch | None = None) -> Image | None:
        """What was written into this object."""
        del watch
        copied = Fold()
        copied.control, copied.written = self.fold.control.copy(), self.fold.written
        for partition in sorted(dict.fromkeys((*self.fold.data.held, *self.fold.data.written))):
            for record in self.fold.data.records(partition, PIECE_BYTES):
                copied.data.apply(entries.entry_of(record))
        copied.control.incarnation = max(copied.control.incarnation, self.last_incarnation)
        return copied.image()

    def start(self, incarnation: int, listener: Listener) -> None:
        """A process begins."""
        self.last_incarnation, self._listener = incarnation, listener

    def write(self, persists: Sequence[Persist]) -> None:
        """They are as safe as they will ever be."""
        assert self._listener is not None, "an engine is started before it is written to"
        for persist in persists:
            entry = entries.entry_of(persist.record)
            self._user_bytes += user_bytes(entry)
            self.fold.apply(entry)
        if persists:
            self._listener.persisted(persists[-1].sequence)

    def serve(self, source: Source) -> bool:
        """There is nothing to do."""
        del source
        return False

    def settled(self) -> None:
        """Nothing was missing."""

    def seal(self) -> None:
        """There are no files."""

    def figures(self) -> Figures:
        """What was done so far."""
        return Figures(self._user_bytes, self._user_bytes)

    def close(self) -> None:
        """End."""
        self._listener = None


class FileEngine:
    """Keeps records in files."""

    def __init__(
        self,
        files: Files,
        identity: Identity,
        *,
        durability_of: DurabilityOf,
        lazy: bool = True,
        limits: Limits | None = None,
        on_damage: OnDamage = OnDamage.REFUSE,
    ) -> None:
        self.files = files
        self.identity = identity
        self.packer = Packer(durability_of)
        self.lazy = lazy
        """Whether any name is called persisted before it is synced."""
        self.unsure = False
        """Whether what was written last may be missing."""
        self.limits = limits or Limits()
        self.on_damage = on_damage
        self.found: Recovered | None = None
        """What was recovered, but for the data; with what was doubted."""
        self.last_incarnation = 0
        """The last that was used here."""
        self._recovered = False
        self._waiting: list[Task] = []
        self._feed: Feed | None = None
        self._lock = threading.Condition()
        self._working = threading.Lock()
        """Held by whoever uses the writer."""
        self._writer: Writer | None = None
        self._listener: Listener | None = None
        self._worker: threading.Thread | None = None
        self._closing = False
        self._failure: DiskFailed | None = None
        self._told = 0
        self._told_full = False

    # Beginning ------------------------------------------------------------------------------------

    def recover(self, watch: Watch | None = None) -> Image | None:
        """What the files say."""
        found = recovery.recover(self.files, on_damage=self.on_damage, watch=watch)
        self._recovered = True
        last = self._check_identity()
        if found is None:
            self.last_incarnation = last
            return None
        self.found = found
        self.packer.control = found.fold.control.copy()
        self.last_incarnation = max(last, self.packer.control.incarnation)
        found.fold.control.incarnation = self.last_incarnation
        self.unsure = not found.identity.is_sure(self.files.boot())
        image = found.image()
        if image is None:
            return None
        return replace_fields(image, unsure=self.unsure, ended=found.identity.ended)

    def _check_identity(self) -> int:
        """The incarnation that was used last; the files must be those of this member."""
        there = recovery.read_identity(self.files)
        if there is None:
            return 0
        mine = self.identity
        if (there.member, there.partition_count, there.replica_count) != (
            mine.member,
            mine.partition_count,
            mine.replica_count,
        ):
            reason = (
                f"these files are of member {there.member}, with {there.partition_count}"
                f" partitions of {there.replica_count} replicas; this is {mine.member}, with"
                f" {mine.partition_count} of {mine.replica_count}"
            )
            raise ForeignFiles(layout.IDENTITY, reason)
        return there.incarnation

    def start(self, incarnation: int, listener: Listener) -> None:
        """Begin to write, in a thread."""
        self.open(incarnation).aside = self._aside
        self._listener = listener
        self._worker = threading.Thread(target=self._run, name="storage", daemon=True)
        self._worker.start()

    def open(self, incarnation: int) -> Writer:
        """Have everything ready to be written to: the tail cut, a new segment begun."""
        assert self._recovered, "files are recovered before they are written to"
        for folder in (layout.CLUSTER, layout.DATA):
            self.files.make_folder(folder)
        member = MemberId(self.identity.member)
        counts = (self.identity.partition_count, self.identity.replica_count)
        self.identity = Identity(
            member,
            incarnation,
            *counts,
            boot=self.files.boot(),
            lazy=self.lazy,
            unsure=self.unsure,
        )
        replace(self.files, layout.IDENTITY, manifest.encode(self.identity))
        found = self.found
        if found is None:
            named = Manifest(member, *counts, 1, (), ())
        else:
            named = found.manifest
            self._cut(found)
        codec = self.limits.log_codec
        if found is None:
            log = Log(self.files, named, codec=codec)
        else:
            log = Log(
                self.files,
                named,
                sequence=found.sequence,
                control_count=found.control_count,
                touched=found.touched,
                codec=codec,
            )
        begun = log.roll()
        if begun:
            log.sync()
        if not (begun and log.settle()):
            raise StorageError(layout.DATA, "the disk is full: a segment can't be begun")
        sweep(self.files, log)
        log.forget()
        self._writer = Writer(self.files, log, self.identity, self.limits)
        return self._writer

    def _cut(self, found: Recovered) -> None:
        """Take back what is torn, and have the rest on stable storage. The last two segments may
        not be synced yet: the last one may even have no name yet in the manifest."""
        *before, last = found.manifest.segments
        self.files.truncate(layout.segment_name(last), found.end)
        for number in before[-1:]:
            name = layout.segment_name(number)
            self.files.truncate(name, self.files.size(name))

    # Writing --------------------------------------------------------------------------------------

    def write(self, persists: Sequence[Persist]) -> None:
        """The records of one step: one block."""
        if not persists:
            return
        bodies = self.packer.bodies_of(persists)
        if not self._write_now(bodies):
            self._give(bodies)

    def _write_now(self, bodies: Sequence[Body]) -> bool:
        """Write from here, if that waits for nothing and overtakes no base's beginning; whether it
        did."""
        if self._worker is None or not self._working.acquire(blocking=False):
            return False
        writer = self._writer
        assert writer is not None, "the thread begins when everything is ready"
        try:
            taken = self._take(writer, bodies)
            if taken is None:
                return False
            idle, now = writer.nothing_due, time.monotonic()
            writer.write_now(taken, now)
            if writer.may_sync_now(now):
                writer.sync_now()
                writer.pace.took(time.monotonic() - now, now)
            due = writer.wake_at()
            self._tell(writer)
        except DiskFailed as error:
            self._failure = error
            writer.doubt()
            raise
        finally:
            self._working.release()
        if idle or (due is not None and due <= now):
            with self._lock:
                self._lock.notify_all()
        return True

    def _take(self, writer: Writer, bodies: Sequence[Body]) -> list[Body] | None:
        """These, after those that the thread was given while it had no time for them."""
        with self._lock:
            waiting = self._waiting
            if self._closing or self._failure is not None or not writer.overtakes(waiting):
                return None
            given = (*writer.backlog, *waiting, *bodies)
            taken = [each for each in given if isinstance(each, Body)]
            if sum(len(body.data) for body in taken) > AT_ONCE_BYTES_MAX:
                return None
            if len(taken) > len(bodies):
                writer.backlog = deque(each for each in writer.backlog if type(each) is not Body)
                self._waiting = [each for each in waiting if type(each) is not Body]
            return taken

    def _give(self, tasks: Sequence[Task]) -> None:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._waiting.extend(tasks)
            self._lock.notify_all()

    # In the background ----------------------------------------------------------------------------

    def serve(self, source: Source) -> bool:
        """A slice of a base, if one is due and the disk keeps up."""
        writer = self._writer
        assert writer is not None, "an engine is started before it serves"
        with self._lock:
            waiting = sum(len(each.data) for each in self._waiting if hasattr(each, "data"))
        if waiting > BACKLOG_BYTES_MAX or writer.full:
            return False
        if self._feed is None:
            due, writer.round = writer.round, None
            if due is None:
                return False
            self._feed = Feed(due, self.limits.slice_bytes)
        return self._slice(self._feed, source)

    def _slice(self, feed: Feed, source: Source) -> bool:
        if feed.current is None:
            chosen = feed.begin(source, self.limits.base_bytes)
            self._give((BeginBase(chosen, self.packer.control.copy()),))
        body = feed.slice()
        if body is not None:
            self._give((body,))
            return True
        last = not feed.wanted
        self._give((EndBase(last),))
        if last:
            self._feed = None
        return not last

    def settled(self) -> None:
        """The files are as good as any from now on."""
        self._give((Settled(),))

    def seal(self) -> None:
        """Have everything in files that don't change any more."""
        sealed = threading.Event()
        self._give((Seal(sealed.set),))
        while not sealed.wait(0.1):
            if self._failure is not None:
                raise self._failure

    # The thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        writer = self._writer
        assert writer is not None, "the thread begins when everything is ready"
        try:
            while True:
                self._wait(writer)
                with self._working:
                    tasks, closing = self._given()
                    writer.work(tasks, time.monotonic())
                    if closing:
                        writer.close(time.monotonic())
                    self._tell(writer)
                if closing:
                    return
        except DiskFailed as error:
            writer.doubt()
            self._fail(error)
        except Exception as error:
            self._fail(DiskFailed(layout.DATA, f"the writer ended: {error!r}"))
            raise

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """While the thread is in it, the loop may write."""
        self._working.release()
        try:
            yield
        finally:
            self._working.acquire()

    def _wait(self, writer: Writer) -> None:
        """Until there is something to do."""
        with self._lock:
            while not self._waiting and not self._closing:
                wake = writer.wake_at()
                now = time.monotonic()
                if wake is not None and wake <= now:
                    break
                self._lock.wait(None if wake is None else wake - now)

    def _given(self) -> tuple[list[Task], bool]:
        """What is to be done, and whether it is time to end."""
        with self._lock:
            tasks, self._waiting = self._waiting, []
            return tasks, self._closing and not tasks

    def _tell(self, writer: Writer) -> None:
        assert self._listener is not None, "the thread begins with a listener"
        if writer.promised > self._told:
            self._told = writer.promised
            self._listener.persisted(self._told)
        if writer.full is not self._told_full:
            self._told_full = writer.full
            self._listener.full(writer.full)

    def _fail(self, error: DiskFailed) -> None:
        with self._lock:
            self._failure = error
        assert self._listener is not None, "the thread begins with a listener"
        self._listener.failed(error)

    # Ending ---------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """What was done so far."""
        writer = self._writer
        if writer is None:
            return Figures()
        log = writer.log
        return Figures(
            self.packer.user_bytes,
            log.written_bytes,
            writer.base_bytes,
            log.syncs,
            writer.bases_done,
            writer.full,
        )

    def close(self) -> None:
        """Write and sync everything, and end."""
        if self._worker is None:
            return
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        self._worker.join()
        self._worker = None
        if self._failure is not None:
            raise self._failure
