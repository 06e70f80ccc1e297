"""The disk, as far as storage needs it: the only module of it that touches one.

Names are relative to the member's directory, with `/` between folders. What holds after a crash is
what was synced: the content of a file by `File.sync`, its name by `sync_folder`.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO, Final, Protocol

from holdfast.errors import DirectoryInUse

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class File(Protocol):
    """A file that is being written."""

    def write(self, data: bytes) -> None:
        """Append all of it."""

    def cut(self, size: int) -> None:
        """Take back what is beyond this size; the next write goes there."""

    def make_room(self, size: int) -> None:
        """Have this many zeros behind what was written; the next write goes over them."""

    def sync(self) -> None:
        """What was written is on stable storage when this returns."""

    def close(self) -> None:
        """Write no more."""


class Stream(Protocol):
    """A file that is read from its beginning to its end."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Read on, as much as fits or less; 0 at the end."""

    def close(self) -> None:
        """Read no more."""


class Readable(Protocol):
    """A directory and its folders, of which somebody only reads: it may be on no disk."""

    def read(self, name: str) -> bytes:
        """All of a file; `FileNotFoundError` when it is not there."""

    def open(self, name: str) -> Stream:
        """The same from its beginning, piece by piece; `FileNotFoundError` likewise."""

    def size(self, name: str) -> int:
        """Of a file, in bytes; `FileNotFoundError` likewise."""

    def list(self, folder: str) -> list[str]:
        """The files of a folder, sorted; none when it is not there."""


class Files(Readable, Protocol):
    """A directory and its folders."""

    def make_folder(self, folder: str) -> None:
        """Have this folder."""

    def create(self, name: str) -> File:
        """A new, empty file; what had that name is gone."""

    def rename(self, name: str, new: str) -> None:
        """At once; what had the new name is gone."""

    def remove(self, name: str) -> None:
        """Have this file no more."""

    def truncate(self, name: str, size: int) -> None:
        """Cut a file, and sync it."""

    def sync_folder(self, folder: str) -> None:
        """The names in a folder are on stable storage when this returns."""

    def free_bytes(self) -> int:
        """What can still be written."""

    def boot(self) -> str:
        """Which start of the machine this is: what was written in an earlier one and not synced
        may be lost. Empty when that can't be known."""


class RealFile:
    """A file of the operating system, without a buffer in between."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb", buffering=0)

    def write(self, data: bytes) -> None:
        """Append; the system may take it in pieces."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def cut(self, size: int) -> None:
        """Take back what is beyond."""
        self._file.truncate(size)
        self._file.seek(size)

    def make_room(self, size: int) -> None:
        """As much as there is place for."""
        os.pwrite(self._file.fileno(), bytes(size), self._file.tell())

    def sync(self) -> None:
        """Data, and what is needed to read it again."""
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Write no more."""
        self._file.close()


class RealFiles:
    """A directory of the operating system, held by this process alone."""

    def __init__(self, root: Path, *, lock: bool = True) -> None:
        self.root = root
        self._lock: IO[bytes] | None = None
        if lock:
            root.mkdir(parents=True, exist_ok=True)
            self._lock = hold(root / "LOCK")

    def read(self, name: str) -> bytes:
        """All of a file."""
        return (self.root / name).read_bytes()

    def open(self, name: str) -> Stream:
        """From its beginning; the system begins to read all of it from the disk."""
        file = (self.root / name).open("rb", buffering=0)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
        return file

    def size(self, name: str) -> int:
        """Of a file."""
        return (self.root / name).stat().st_size

    def list(self, folder: str) -> list[str]:
        """The files of a folder."""
        path = self.root / folder
        if not path.is_dir():
            return []
        return sorted(each.name for each in path.iterdir() if each.is_file())

    def make_folder(self, folder: str) -> None:
        """Have this folder."""
        path = self.root / folder
        if not path.is_dir():
            path.mkdir(parents=True)
            sync_directory(path.parent)

    def create(self, name: str) -> File:
        """A new, empty file."""
        return RealFile(self.root / name)

    def rename(self, name: str, new: str) -> None:
        """At once."""
        (self.root / name).replace(self.root / new)

    def remove(self, name: str) -> None:
        """Have it no more."""
        (self.root / name).unlink(missing_ok=True)

    def truncate(self, name: str, size: int) -> None:
        """Cut, and sync."""
        with (self.root / name).open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def sync_folder(self, folder: str) -> None:
        """Sync the names."""
        sync_directory(self.root / folder)

    def free_bytes(self) -> int:
        """What this user may still write."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def boot(self) -> str:
        """The kernel's name for it, the same in all containers."""
        try:
            return BOOT_ID.read_text().strip()
        except OSError:
            return ""

    def refuse_if_held(self) -> None:
        """`DirectoryInUse` when another process has it open; nothing is changed by asking."""
        lock = self.root / "LOCK"
        if lock.exists():
            hold(lock).close()

    def close(self) -> None:
        """Let another process have the directory."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def hold(path: Path) -> IO[bytes]:
    """A lock that ends with this process, however it ends."""
    lock = path.open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise DirectoryInUse(str(path.parent), "another process has it open") from error
    return lock


def sync_directory(path: Path) -> None:
    """The names in a directory are on stable storage."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def stage(files: Files, name: str, data: bytes) -> None:
    """Have this content beside a file, on stable storage."""
    file = files.create(f"{name}.new")
    try:
        file.write(data)
        file.sync()
    finally:
        file.close()


def commit(files: Files, name: str) -> None:
    """What is beside a file takes its place: all of it, or what was there before."""
    files.rename(f"{name}.new", name)
    files.sync_folder(name.rpartition("/")[0])


def replace(files: Files, name: str, data: bytes) -> None:
    """Have this content under this name: all of it, or what was there before."""
    stage(files, name, data)
    commit(files, name)
