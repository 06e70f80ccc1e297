"""A disk in memory that keeps what was synced, and of the rest whatever it likes.

Contents and names are remembered separately. A crash keeps of each file what was synced and any
part of what was not, torn or overwritten with rubbish; and of each folder the names that were
synced, and of later changes the first few. Operations are counted, so that a test can crash at each
of them; a sync can be made to fail, and room to run out.
"""

from __future__ import annotations

import errno
import io
from random import Random

from holdfast.storage.files import Stream


class Crash(BaseException):
    """The power is gone. No handler of errors may catch it."""


class Content:
    """The bytes of a file, however it is called."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.end = 0
        """Where what was written ends; what is behind it is room."""
        self.synced = 0

    def write(self, data: bytes) -> None:
        """Go on, over the room that there is."""
        self.data[self.end : self.end + len(data)] = data
        self.end += len(data)

    def crashed(self, rng: Random) -> Content:
        """What a later process finds."""
        kept = Content()
        size = rng.choice((self.synced, self.end, rng.randint(self.synced, self.end)))
        kept.data = self.data[:size]
        if rng.random() < 0.5:
            kept.data += bytes(len(self.data) - size)  # of room, as far as it was not written over
        if size > self.synced and rng.random() < 0.3:
            begin = rng.randint(self.synced, size - 1)
            end = min(size, begin + rng.choice((1, 16, 512)))
            kept.data[begin:end] = rng.choice((bytes(end - begin), rng.randbytes(end - begin)))
        kept.synced = kept.end = len(kept.data)
        return kept


class FakeFile:
    """A file that is being written."""

    def __init__(self, disk: FakeFiles, content: Content) -> None:
        self.disk = disk
        self.content = content

    def write(self, data: bytes) -> None:
        """Append, as far as there is room."""
        self.disk.operation()
        room = self.disk.free_bytes() + len(self.content.data) - self.content.end
        self.content.write(data[: max(room, 0)])
        if room < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")

    def cut(self, size: int) -> None:
        """Take back what is beyond."""
        self.disk.operation()
        del self.content.data[size:]
        self.content.end = size
        self.content.synced = min(self.content.synced, size)

    def make_room(self, size: int) -> None:
        """As much as there is place for."""
        self.disk.operation()
        room = self.disk.free_bytes()
        self.content.data += bytes(min(size, max(room, 0)))
        if room < size:
            raise OSError(errno.ENOSPC, "No space left on device")

    def sync(self) -> None:
        """What was written is safe, unless the disk fails."""
        self.disk.operation()
        if self.disk.sync_fails:
            raise OSError(errno.EIO, "Input/output error")
        self.content.synced = self.content.end

    def close(self) -> None:
        """Nothing follows from that."""


class FakeFiles:
    """A directory in memory."""

    def __init__(self) -> None:
        self.names: dict[str, Content] = {}
        self.safe_names: dict[str, Content] = {}
        self.unsafe: list[tuple[str, Content | None]] = []
        """Changes of names since their folder was synced, in order."""
        self.operations = 0
        self.crash_at: int | None = None
        self.sync_fails = False
        self.capacity = 1 << 40
        self.boots = 1

    def operation(self) -> None:
        """One more thing that a crash may prevent."""
        self.operations += 1
        if self.operations == self.crash_at:
            raise Crash

    def read(self, name: str) -> bytes:
        """All of a file."""
        return bytes(self._at(name).data)

    def open(self, name: str) -> Stream:
        """From its beginning."""
        return io.BytesIO(self.read(name))

    def size(self, name: str) -> int:
        """Of a file."""
        return len(self._at(name).data)

    def list(self, folder: str) -> list[str]:
        """The files of a folder."""
        start = f"{folder}/"
        return sorted(name[len(start) :] for name in self.names if name.startswith(start))

    def make_folder(self, folder: str) -> None:
        """They are always there."""

    def create(self, name: str) -> FakeFile:
        """A new, empty file."""
        self.operation()
        content = Content()
        self._rename(name, content)
        return FakeFile(self, content)

    def rename(self, name: str, new: str) -> None:
        """At once."""
        self.operation()
        content = self._at(name)
        self._rename(new, content)
        self._rename(name, None)

    def remove(self, name: str) -> None:
        """Have it no more."""
        self.operation()
        if name in self.names:
            self._rename(name, None)

    def truncate(self, name: str, size: int) -> None:
        """Cut, and sync."""
        self.operation()
        content = self._at(name)
        del content.data[size:]
        content.end = content.synced = len(content.data)

    def sync_folder(self, folder: str) -> None:
        """The names in it are safe."""
        self.operation()
        if self.sync_fails:
            raise OSError(errno.EIO, "Input/output error")
        later = []
        for name, content in self.unsafe:
            if name.rpartition("/")[0] == folder:
                set_name(self.safe_names, name, content)
            else:
                later.append((name, content))
        self.unsafe = later

    def free_bytes(self) -> int:
        """What is left of the capacity."""
        return self.capacity - sum(len(content.data) for content in self.names.values())

    def boot(self) -> str:
        """Of the machine."""
        return f"boot {self.boots}"

    def crashed(self, rng: Random) -> FakeFiles:
        """What a later process finds after the power was gone."""
        found = FakeFiles()
        found.boots = self.boots + 1
        found.capacity = self.capacity
        names = dict(self.safe_names)
        for name, content in self.unsafe[: rng.randint(0, len(self.unsafe))]:
            set_name(names, name, content)
        found.names = {name: content.crashed(rng) for name, content in names.items()}
        found.safe_names = dict(found.names)
        return found

    def killed(self) -> FakeFiles:
        """What a later process finds when only the process ended: everything that was written."""
        self.crash_at = None
        return self

    def _at(self, name: str) -> Content:
        if name not in self.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        return self.names[name]

    def _rename(self, name: str, content: Content | None) -> None:
        set_name(self.names, name, content)
        self.unsafe.append((name, content))


def set_name(names: dict[str, Content], name: str, content: Content | None) -> None:
    """Have this content under this name, or nothing."""
    if content is None:
        names.pop(name, None)
    else:
        names[name] = content
