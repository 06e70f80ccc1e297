"""Backups of a member's files: while it runs, only what is new, and back again.

Rules (`design/5`, "Backup", "Restore")
---------------------------------------
* A backup is what the manifest names at one moment: all that was written before, nothing of later.
  Files but the last segment don't change any more, so they are linked, or copied to another disk;
  the last one is copied as far as it goes, and so is the one that follows it and is not named yet,
  if there is one (`recovery`). The member writes on meanwhile; a block that is torn by that is cut
  by whoever reads the backup.
* A member that runs shares its processors with it: bytes are moved and summed up in small pieces,
  and after each there is a rest in proportion (`Rests`).
* Files that don't change are linked before anything else is done: then the member may remove them.
  If it removes one that can't be linked, or had no link yet, the backup begins anew, and rests no
  more.
* An incremental backup has only those files that the one before it lacks. It names the directory
  that has each of the others, as a neighbour of its own.
* `backup.json` comes last: a directory without it is no backup.
* A restore checks each file against the sum that the backup has of it, and copies: what runs on
  the copy changes nothing in the backup.

What can go wrong
-----------------
*A backup that a later one refers to is deleted.* The restore says which file is missing from which
directory, before it has written anything.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import google_crc32c
import msgspec

from holdfast.errors import CorruptFile, StorageError
from holdfast.storage import layout, recovery
from holdfast.storage.files import Readable, RealFiles, Stream, sync_directory
from holdfast.storage.format import manifest
from holdfast.storage.format.manifest import Manifest

INDEX: Final = "backup.json"
FORMAT_VERSION: Final = 1
ATTEMPTS: Final = 20
CHUNK_BYTES: Final = 1 << 20
REST_AFTER_S: Final = 0.001
REST_SHARE: Final = 9
"""How much longer a rest is than the work before it."""
REST_MAX_S: Final = 0.1
"""A disk that was slow is no reason for more."""

OnFile = Callable[[str, int], None]
"""Told each file that is done, and its size."""
Rest = Callable[[], None]
"""Called now and then between small pieces of work."""


class Rests:
    """Has a backup work for a tenth of the time: clients of the same machine come first."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._since = clock()

    def __call__(self) -> None:
        """Rest, if there was work since the last time."""
        worked = self._clock() - self._since
        if worked >= REST_AFTER_S:
            self._sleep(min(worked * REST_SHARE, REST_MAX_S))
            self._since = self._clock()


def no_rest() -> None:
    """Where nobody else is to be minded."""


class Kept(msgspec.Struct, frozen=True):
    """One file of a backup."""

    name: str
    size: int
    crc32c: int
    directory: str
    """Which backup has it; empty for this one."""


class Index(msgspec.Struct, frozen=True):
    """What a backup has."""

    member: str
    partition_count: int
    replica_count: int
    created_s: float
    previous: str
    """The backup that it builds on; empty for none."""
    files: tuple[Kept, ...]
    format: int = FORMAT_VERSION
    backup: str = ""
    """Which backup of its cluster this is a part of; empty for one of this member alone."""
    parts: tuple[str, ...] = ()
    """The members whose parts make that backup whole."""
    cluster: str = ""
    """Of which cluster."""

    @property
    def own_bytes(self) -> int:
        """Of the files that are stored here."""
        return sum(each.size for each in self.files if not each.directory)

    @property
    def total_bytes(self) -> int:
        """Of all files."""
        return sum(each.size for each in self.files)


def read_index(directory: Path) -> Index:
    """What a backup has; refused if it is none, or not whole."""
    path = directory / INDEX
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise StorageError(str(path), "it is missing: this is no finished backup") from error
    return index_of(data, str(path))


def index_of(data: bytes, path: str) -> Index:
    """What the index of a backup says."""
    try:
        return msgspec.json.decode(manifest.line_of(data, path), type=Index)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptFile(path, f"malformed: {error}", offset=0) from error


# Making one ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """What a member's backup is a part of."""

    backup: str = ""
    parts: tuple[str, ...] = ()
    cluster: str = ""


ALONE: Final = Part()


def back_up(
    source: Path,
    target: Path,
    *,
    previous: Path | None = None,
    on_file: OnFile | None = None,
    part: Part = ALONE,
    rest: Rest = no_rest,
) -> Index:
    """Back up a member's directory, running or not."""
    if target.exists() and any(target.iterdir()):
        raise StorageError(str(target), "it is not empty: a backup gets a directory of its own")
    if previous is not None and previous.resolve().parent != target.resolve().parent:
        raise StorageError(str(previous), "the backup before stands in the same folder")
    target.mkdir(parents=True, exist_ok=True)  # what fails there is no change of the source
    for _ in range(ATTEMPTS):
        try:
            return Backup(source, target, previous, on_file, part, rest).make()
        except FileNotFoundError:
            shutil.rmtree(target, ignore_errors=True)
            rest = no_rest  # what changes so fast is never caught at leisure
    raise StorageError(str(source), f"its files changed {ATTEMPTS} times while they were copied")


class Backup:
    """One attempt."""

    def __init__(
        self,
        source: Path,
        target: Path,
        previous: Path | None,
        on_file: OnFile | None,
        part: Part,
        rest: Rest,
    ) -> None:
        self.source = source
        self.target = target
        self.previous = previous
        self.on_file = on_file
        self.part = part
        self.rest = rest
        self.written: list[str] = []
        """Files that are not links: they are synced together in the end, for each sync may hold up
        whatever else is written to the disk."""
        self.known: dict[tuple[str, int, int], Kept] = {}
        if previous is not None:
            for each in read_index(previous).files:
                self.known[each.name, each.size, each.crc32c] = each

    def make(self) -> Index:
        """All of it."""
        files = RealFiles(self.source, lock=False)
        identity = recovery.read_identity(files)
        named = None if identity is None else recovery.read_manifest(files, identity)
        if identity is None or named is None:
            raise StorageError(str(self.source), "there are no files of a member to back up")
        following = recovery.following(files, named)  # once it is there, the last is not written to
        for folder in (layout.DATA, layout.CLUSTER):
            (self.target / folder).mkdir(parents=True, exist_ok=True)
        kept = [self._write(layout.MANIFEST, manifest.encode(named))]
        kept.append(self._write(layout.IDENTITY, manifest.encode(identity)))
        kept += self._keep_all(named, following)
        found = Index(
            identity.member,
            identity.partition_count,
            identity.replica_count,
            time.time(),
            "" if self.previous is None else self.previous.name,
            tuple(kept),
            backup=self.part.backup,
            parts=self.part.parts,
            cluster=self.part.cluster,
        )
        for name in self.written:
            sync(self.target / name)
            self.rest()
        for folder in (layout.DATA, layout.CLUSTER):
            sync_directory(self.target / folder)
        write_synced(self.target / INDEX, manifest.encode(found))
        sync_directory(self.target)
        return found

    def _keep_all(self, named: Manifest, following: int | None) -> list[Kept]:
        """Files that don't change get their links first: then the member may remove them."""
        ends = [layout.segment_name(named.segments[-1])]
        if following is not None:
            ends.append(layout.segment_name(following))
        whole = [name for name in layout.files_of(named) if name not in ends]
        linked = [self._link(name) for name in whole]
        kept = []
        for name, has_link in zip((*ends, *whole), (*(False for _ in ends), *linked), strict=True):
            each = self._copy(name) if name in ends else self._keep(name, has_link=has_link)
            kept.append(each)
            self.rest()
            if self.on_file is not None:
                self.on_file(name, each.size)
        return kept

    def _link(self, name: str) -> bool:
        """Have it under a name of this backup; whether that is possible."""
        return is_linked(self.source / name, self.target / name)

    def _keep(self, name: str, *, has_link: bool) -> Kept:
        path = (self.target if has_link else self.source) / name
        known, size, checksum = self._same(path, name), 0, 0
        if known is None:
            size, checksum = measured(path, self.rest)
            known = self.known.get((name, size, checksum))
        if known is not None:
            assert self.previous is not None, "who knows of files has a backup before"
            (self.target / name).unlink(missing_ok=True)
            return Kept(name, known.size, known.crc32c, known.directory or self.previous.name)
        return Kept(name, size, checksum, "") if has_link else self._copy(name)

    def _same(self, path: Path, name: str) -> Kept | None:
        """What the backup before has, if it is this very file under another name: then nobody needs
        to read it."""
        for known in self.known.values():
            if known.name == name and self.previous is not None:
                there = self.previous.parent / (known.directory or self.previous.name) / name
                return known if there.exists() and there.samefile(path) else None
        return None

    def _copy(self, name: str) -> Kept:
        self.written.append(name)
        return Kept(name, *copied(self.source / name, self.target / name, self.rest), "")

    def _write(self, name: str, data: bytes) -> Kept:
        (self.target / name).write_bytes(data)
        self.written.append(name)
        return Kept(name, len(data), google_crc32c.value(data), "")


def measured(path: Path, rest: Rest = no_rest) -> tuple[int, int]:
    """Size and sum of a file."""
    size = checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            checksum = google_crc32c.extend(checksum, chunk)
            rest()
    return size, checksum


def copied(path: Path, target: Path, rest: Rest) -> tuple[int, int]:
    """Size and sum of a copy of a file, of what is in it now: it may grow meanwhile."""
    size = checksum = 0
    with path.open("rb", buffering=0) as source, target.open("wb", buffering=0) as file:
        left = os.fstat(source.fileno()).st_size
        while left and (chunk := source.read(min(left, CHUNK_BYTES))):
            view = memoryview(chunk)
            while view:
                view = view[file.write(view) :]
            left -= len(chunk)
            size += len(chunk)
            checksum = google_crc32c.extend(checksum, chunk)
            rest()
    return size, checksum


def is_linked(path: Path, target: Path) -> bool:
    """Have another name for the same file; whether that is possible."""
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        return False
    return True


def copy_synced(path: Path, target: Path) -> None:
    """A copy on stable storage."""
    shutil.copyfile(path, target)
    sync(target)


def sync(path: Path) -> None:
    """What stands in a file is on stable storage."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def write_synced(path: Path, data: bytes) -> None:
    """A file on stable storage."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


# Bringing one back --------------------------------------------------------------------------------


def restore(directory: Path, target: Path, *, on_file: OnFile | None = None) -> Index:
    """Have the files of a backup in a new directory of a member."""
    if target.exists() and any(target.iterdir()):
        raise StorageError(str(target), "it is not empty: nothing is overwritten by a restore")
    found = read_index(directory)
    places = places_of(directory, found.files)
    for folder in (layout.DATA, layout.CLUSTER):
        (target / folder).mkdir(parents=True, exist_ok=True)
    last = (layout.IDENTITY,)  # without it, a restore that was cut short is nobody's directory
    ordered = sorted(zip(found.files, places, strict=True), key=lambda each: each[0].name in last)
    for kept, path in ordered:
        copy_synced(path, target / kept.name)
        if measured(target / kept.name) != (kept.size, kept.crc32c):
            raise CorruptFile(str(path), "it is not what was backed up: the checksum is wrong")
        if on_file is not None:
            on_file(kept.name, kept.size)
    forget_machine(target)
    for synced in (target / layout.DATA, target / layout.CLUSTER, target):
        sync_directory(synced)
    return found


def forget_machine(target: Path) -> None:
    """Members were copied one after the other: whichever copy of a partition is furthest counts,
    so that whoever starts with these files asks the others first."""
    path = target / layout.IDENTITY
    identity = manifest.decode_identity(path.read_bytes(), layout.IDENTITY)
    restored = msgspec.structs.replace(identity, boot="", ended=False, lazy=True)
    write_synced(path, manifest.encode(restored))


class BackupFiles:
    """The files of a backup, wherever each of them is: to be read as those of a member, and each of
    them only if it is what was backed up. `around` is the folder in which the backup and those that
    it builds on stand side by side."""

    def __init__(self, around: Readable, backup: str) -> None:
        self._around = around
        path = f"{backup}/{INDEX}"
        self._kept = {each.name: each for each in index_of(around.read(path), path).files}
        self._places = {
            name: f"{each.directory or backup}/{name}" for name, each in self._kept.items()
        }
        for path in self._places.values():
            try:
                around.size(path)
            except FileNotFoundError:
                reason = f"the backup {backup} builds on it, and it is missing"
                raise CorruptFile(path, reason) from None

    def read(self, name: str) -> bytes:
        """All of a file."""
        kept, path = self._place(name)
        data = self._around.read(path)
        if (len(data), google_crc32c.value(data)) != (kept.size, kept.crc32c):
            raise CorruptFile(path, "it is not what was backed up: the checksum is wrong")
        return data

    def open(self, name: str) -> Stream:
        """From its beginning, once all of it is what was backed up."""
        return io.BytesIO(self.read(name))

    def size(self, name: str) -> int:
        """Of a file."""
        return self._place(name)[0].size

    def list(self, folder: str) -> list[str]:
        """The files of a folder."""
        start = f"{folder}/"
        return sorted(name[len(start) :] for name in self._places if name.startswith(start))

    def _place(self, name: str) -> tuple[Kept, str]:
        if name not in self._places:
            raise FileNotFoundError(errno.ENOENT, "no such file in the backup", name)
        return self._kept[name], self._places[name]


def readable(around: Readable, name: str, own: Readable) -> Readable:
    """The files of a member's directory, `own`, or, if it is one, of the backup of this name."""
    try:
        own.size(INDEX)
    except FileNotFoundError:
        return own
    return BackupFiles(around, name)


def files_at(directory: Path) -> Readable:
    """The same on this machine."""
    whole = directory.resolve()
    around = RealFiles(whole.parent, lock=False)
    return readable(around, whole.name, RealFiles(whole, lock=False))


def places_of(directory: Path, files: Sequence[Kept]) -> list[Path]:
    """Where each file is; all of them must be there."""
    places = []
    for kept in files:
        holder = directory.resolve().parent / kept.directory if kept.directory else directory
        path = holder / kept.name
        if not path.is_file():
            raise CorruptFile(str(path), f"the backup {directory} builds on it, and it is missing")
        places.append(path)
    return places
