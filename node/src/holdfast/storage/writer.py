"""Writes what was asked for, in order: blocks of the log, bases, seals. One thread runs it.

Rules (`design/5`)
------------------
* `Task`s are done in the order in which they were given. So a base that ends after a body was
  written is named after the log is stable up to that body (`bases`).
* Bodies may be written from another thread than the usual one (`write_now`), one at a time: whoever
  calls has the lock of the engine. It syncs as well where that will be quick (`pace`), and no other
  sync goes on. All else is the usual thread's, which lets the lock go (`aside`) for whatever takes
  long: syncs, names, bases.
* So a body may be written before tasks that were given earlier, but not before a segment is begun
  for a base: that counts since then.
* Whoever is told that a record is persisted is told once for all that were written together.
* When nothing was written for a second, a mark says that everything is stable, so that a torn tail
  can be told from damage (`recovery`).
* While there is less room than the reserve, `full` is told, so that what would write more is
  refused before it is accepted. What is accepted waits until there is room.
* A base for which there is no room is given up; it will be due again.

States
------
    running ── DiskFailed ──► failed (final): the process must end
    running ── closed ──► everything is written and synced
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.errors import DiskFailed
from holdfast.ids import PartitionId
from holdfast.storage import bases, layout, snapshot
from holdfast.storage.commit import SYNC_EVERY_S, Body, GroupCommit
from holdfast.storage.files import File, Files, replace
from holdfast.storage.fold import Control
from holdfast.storage.format import block, entries, manifest
from holdfast.storage.format.block import Codec
from holdfast.storage.format.entries import DROPPED, FileEntry
from holdfast.storage.format.manifest import Base, ControlFiles, Identity
from holdfast.storage.log import Aside, Log, is_full
from holdfast.storage.pace import Pace

SPACE_EVERY_S: Final = 1.0
HEALED: Final = 1.25
"""There is room again when this much more than the reserve is free."""


@dataclass(frozen=True, slots=True)
class BeginBase:
    """Begin a base of these partitions; `control` is the sum of what was given before."""

    partitions: tuple[PartitionId, ...]
    control: Control


@dataclass(frozen=True, slots=True)
class BaseBody:
    """Some of its records."""

    data: bytes
    count: int
    epochs: dict[PartitionId, int]
    """Of the data of partitions that begin here."""


@dataclass(frozen=True, slots=True)
class EndBase:
    """These were all; and with `last`, all of the round."""

    last: bool


@dataclass(frozen=True, slots=True)
class Round:
    """Partitions that are to be written anew, and what each takes at most, about."""

    wanted: tuple[PartitionId, ...]
    sizes: Mapping[PartitionId, int]


@dataclass(frozen=True, slots=True)
class Seal:
    """Begin a new segment, so that all before it can be copied; then say so."""

    done: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing that earlier processes wrote is in doubt any more."""


Task = Body | BeginBase | BaseBody | EndBase | Seal | Settled


@dataclass(frozen=True, slots=True)
class Limits:
    """How storage uses the disk."""

    segment_bytes: int = 64 << 20
    """Length at which a segment is followed by a new one."""
    log_bytes_min: int = bases.LOG_BYTES_MIN
    """Length of the log below which nothing is written anew."""
    base_bytes: int = bases.SET_BYTES
    """What a base has, about."""
    slice_bytes: int = 256 << 10
    """What is written into a base at a time, between other work: a millisecond, about."""
    reserve_bytes: int = 256 << 20
    """Free room below which writes are refused."""
    log_codec: Codec = Codec.NONE
    base_codec: Codec = Codec.NONE


class OpenBase:
    """A base that is being written."""

    def __init__(self, number: int, since: int, partitions: tuple[PartitionId, ...]) -> None:
        self.number = number
        self.since = since
        self.epochs = dict.fromkeys(partitions, DROPPED)
        self.size = 0
        self.sequence = 0
        self.file: File | None = None
        """None once it was given up."""
        self.stable = False
        """Whether there was a stable table."""


class Writer:
    """The files of one member, as one thread sees them."""

    def __init__(self, files: Files, log: Log, identity: Identity, limits: Limits) -> None:
        self.files = files
        self.log = log
        self.identity = identity
        self.limits = limits
        self.commit = GroupCommit()
        self.pace = Pace()
        self.aside: Aside = nullcontext
        """What lets others write for a while."""
        self.full = False
        self.base_bytes = 0
        """Bytes written into bases."""
        self.bases_done = 0
        self.backlog: deque[Task] = deque()
        """What came while the disk was full, or waits behind it."""
        self.round: Round | None = None
        """One that is due, for whoever has the data."""
        self._round_open = False
        self._base: OpenBase | None = None
        self._look_at = 0.0
        self._roll_at = 0.0
        """Not before this: there was no room for a segment, or to name it."""
        self._mark_at: float | None = None

    @property
    def promised(self) -> int:
        """Number of the last record that is persisted."""
        return self.commit.promised

    def work(self, tasks: list[Task], now: float) -> None:
        """Do these, and what is due; `DiskFailed` is final."""
        self.backlog.extend(tasks)
        self.look(now)
        while self._take_bodies(now) and self.backlog:
            task = self.backlog[0]
            if isinstance(task, BeginBase | Seal) and not self._settle(now):
                self.full, self._look_at = True, now + SPACE_EVERY_S
                break
            self.backlog.popleft()
            self._do(task, now)
        if self.commit.must_sync(now):
            self._sync()
        if now >= self._roll_at:
            self._settle(now)
        self._mark(now)
        self._look_for_round()

    def _take_bodies(self, now: float) -> bool:
        """Write what comes before the next task; False when there is no room for that."""
        while self.backlog and isinstance(body := self.backlog[0], Body):
            self.commit.add(body)
            self.backlog.popleft()
        return self._write(now)

    def write_now(self, bodies: Sequence[Body], now: float) -> None:
        """Write bodies at once; a sync may be due then."""
        for body in bodies:
            self.commit.add(body)
        batch = self.commit.next()
        if len(batch) == len(bodies) and self.log.write(batch):
            self.commit.wrote(batch, now)
            self._mark_at = now + SYNC_EVERY_S

    def may_sync_now(self, now: float) -> bool:
        """Whether whoever has written should sync as well: somebody waits for it, it will be quick,
        and the thread is not about it."""
        commit = self.commit
        if not commit.is_urgent or commit.syncing or self.log.rolling:
            return False
        return self.pace.is_near(commit.unsynced_bytes, now)

    def sync_now(self) -> None:
        """Sync what was written, and let nobody write meanwhile."""
        self._sync(nullcontext)

    def overtakes(self, waiting: Sequence[Task]) -> bool:
        """Whether bodies may be written now, once those are that wait here and there."""
        if self.commit.queued_bytes or self.full:
            return False
        return not any(isinstance(each, BeginBase) for each in (*self.backlog, *waiting))

    @property
    def nothing_due(self) -> bool:
        """Whether the thread would sleep until something comes."""
        return self._mark_at is None and self.wake_at() is None

    def wake_at(self) -> float | None:
        """When there will be something to do, if nothing comes."""
        times = [self.commit.wake_at(), self._mark_at]
        if self.log.rolling or self.log.size >= self.limits.segment_bytes:
            times.append(self._roll_at)
        if self.commit.queued_bytes or self.full:
            times.append(self._look_at)
        return min((each for each in times if each is not None), default=None)

    def look(self, now: float) -> None:
        """See how much room there is."""
        if now < self._look_at:
            return
        self._look_at = now + SPACE_EVERY_S
        reserve = self.limits.reserve_bytes
        self.full = self.files.free_bytes() < (reserve * HEALED if self.full else reserve)

    def close(self, now: float) -> None:
        """Write and sync what is left, and say in the files that it is stable."""
        self.work([], now)
        if self.commit.queued_bytes:
            reason = f"{self.commit.queued_bytes} bytes could not be written: the disk is full"
            raise DiskFailed(layout.DATA, reason)
        self._sync()
        self.log.mark()
        self._sync()
        self._settle(now)
        if self._base is not None:
            self._give_up(self._base)
            self._base = None
        self.log.close()
        self._sign(ended=True)

    def _sign(self, **changes: bool) -> None:
        """Say in the identity how far these files can be relied on; until it is there, less far."""
        self.identity = msgspec.structs.replace(self.identity, **changes)
        try:
            replace(self.files, layout.IDENTITY, manifest.encode(self.identity))
        except OSError as error:
            if not is_full(error):
                reason = f"it could not be replaced: {error}"
                raise DiskFailed(layout.IDENTITY, reason) from error

    def doubt(self) -> None:
        """A disk has failed: what was written and not synced may be gone, though the machine stays
        up. If the disk takes it, the next process is told so."""
        with suppress(DiskFailed):
            self._sign(unsure=True)

    # The log --------------------------------------------------------------------------------------

    def _write(self, now: float) -> bool:
        """Everything that is queued; False when there is no room."""
        while True:
            self._roll_if_long(now)
            batch = self.commit.next()
            if not batch:
                return True
            if not self.log.write(batch):
                self.full, self._look_at = True, now + SPACE_EVERY_S
                return False
            self.commit.wrote(batch, now)
            self._mark_at = now + SYNC_EVERY_S

    def _roll_if_long(self, now: float) -> None:
        if self.log.rolling or self.log.size < self.limits.segment_bytes or now < self._roll_at:
            return
        self._roll_at = 0.0 if self.log.roll() else now + SPACE_EVERY_S

    def _settle(self, now: float) -> bool:
        """Have the last segment named; False when there is no room for that."""
        if self.log.rolling:
            self._sync()
            settled = self.log.settle(self.aside)
            self._roll_at = 0.0 if settled else now + SPACE_EVERY_S
        return not self.log.rolling

    def _sync(self, aside: Aside | None = None) -> None:
        self.commit.sync_begins()
        self.log.sync(self.aside if aside is None else aside)
        self.commit.synced()

    def _mark(self, now: float) -> None:
        if self._mark_at is None or now < self._mark_at:
            return
        self._mark_at = None
        if not self.log.idle:
            self._sync()
        if self.log.idle:
            self.log.mark()

    # Bases ----------------------------------------------------------------------------------------

    def _look_for_round(self) -> None:
        log = self.log
        base_bytes = sum(base.size for base in log.manifest.bases)
        if self._round_open or not bases.is_due(
            log.kept_bytes, base_bytes, self.limits.log_bytes_min
        ):
            return
        wanted = bases.round_of(log.manifest, log.touched)
        if wanted:
            self._round_open = True
            self.round = Round(wanted, bases.sizes_of(log.manifest, log.touched))

    def _do(self, task: Task, now: float) -> None:
        match task:
            case BeginBase():
                self._begin(task)
            case BaseBody():
                with self.aside():
                    self._add(task)
            case EndBase(last=last):
                self._end()
                self._round_open = not last
            case Seal(done=done):
                self._seal(done, now)
            case Settled():
                self._sign(unsure=False)
            case _:  # pragma: no cover
                raise AssertionError("bodies go to the log")

    def _seal(self, done: Callable[[], None], now: float) -> None:
        """Where there is no room for a segment, the last one is whole up to here all the same."""
        if self.log.roll():
            self._settle(now)
        done()

    def _begin(self, task: BeginBase) -> None:
        if not self.log.roll():
            self._base = OpenBase(0, 0, ())
            return
        number = self.log.segment
        base = self._base = OpenBase(number, number, task.partitions)
        base.stable = task.control.stable is not None
        with self.aside():
            self._open(base, task)

    def _open(self, base: OpenBase, task: BeginBase) -> None:
        heading = FileEntry(
            "base",
            base.number,
            self.identity.member,
            self.identity.partition_count,
            self.identity.replica_count,
        )
        try:
            for name, data in snapshot.contents(task.control, self.identity, base.number).items():
                self._whole(name, data)
            self.files.sync_folder(layout.CLUSTER)
            base.file = self.files.create(layout.base_name(base.number))
        except OSError as error:
            self._no_room(base, error)
            return
        self._add(BaseBody(entries.encode((heading,)), 1, {}))

    def _whole(self, name: str, data: bytes) -> None:
        file = self.files.create(name)
        try:
            file.write(data)
            file.sync()
        finally:
            file.close()

    def _add(self, task: BaseBody) -> None:
        base = self._base
        if base is None or base.file is None:
            return
        base.sequence += 1
        data = block.encode(
            task.data,
            count=task.count,
            sequence=base.sequence,
            stable=0,
            control=0,
            codec=self.limits.base_codec,
        )
        try:
            base.file.write(data)
        except OSError as error:
            self._no_room(base, error)
            return
        base.size += len(data)
        self.base_bytes += len(data)
        for partition, epoch in task.epochs.items():
            base.epochs[partition] = epoch

    def _end(self) -> None:
        base, self._base = self._base, None
        if base is None or base.file is None:
            return
        self._sync()
        try:
            with self.aside():
                base.file.sync()
                base.file.close()
                self.files.sync_folder(layout.DATA)
            self._name(base)
        except OSError as error:
            self._no_room(base, error)
            return
        self.bases_done += 1
        with self.aside():
            sweep(self.files, self.log)
        self.log.forget()

    def _name(self, base: OpenBase) -> None:
        control = ControlFiles(base.number, base.since, base.stable)
        named = Base(
            base.number, base.since, tuple(base.epochs), tuple(base.epochs.values()), base.size
        )
        log = self.log
        log.name(bases.with_base(log.manifest, named, control, log.touched), self.aside)

    def _no_room(self, base: OpenBase, error: OSError) -> None:
        if not is_full(error):
            name = layout.base_name(base.number)
            raise DiskFailed(name, f"a base could not be written: {error}") from error
        self._give_up(base)

    def _give_up(self, base: OpenBase) -> None:
        if base.file is not None:
            base.file.close()
            base.file = None
        self.files.remove(layout.base_name(base.number))


def sweep(files: Files, log: Log) -> None:
    """Remove what does not count."""
    last = layout.segment_name(log.segment)
    named = frozenset((*layout.files_of(log.manifest), layout.MANIFEST, last))
    for folder in (layout.DATA, layout.CLUSTER):
        for each in files.list(folder):
            if f"{folder}/{each}" not in named:
                files.remove(f"{folder}/{each}")
