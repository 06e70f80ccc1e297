"""Where backups are kept away from the members: in a folder (a volume), in an object store.

backups/NAME.json                a backup: of which cluster, and which parts make it whole
parts/MEMBER/NAME/backup.json    one member's part (`backup.Index`)
parts/MEMBER/NAME/data/..        its files, as far as no earlier part of that member has them here

Rules (`design/5`, "Backup"; ADR 24)
------------------------------------
* A folder of `parts/MEMBER` is laid out as a member's own `backups`: what can be read there can be
  read here. So `holdfast restore` and `convert` take a folder of parts as it is.
* A file is written whole or not at all. The index of a part comes after its files, the entry of a
  backup after all its parts: what has no entry is no backup, whatever else is there.
* Nothing that an entry speaks of is ever changed; it is only removed, with its entry first.
"""

from __future__ import annotations

import io
import secrets
import shutil
from pathlib import Path
from typing import Final, Protocol

import google_crc32c
import msgspec

from holdfast.errors import CorruptFile, StorageError
from holdfast.storage.backup import INDEX, Index, Kept, index_of, write_synced
from holdfast.storage.files import Stream, sync_directory
from holdfast.storage.format import manifest

BACKUPS: Final = "backups"
PARTS: Final = "parts"
FORMAT_VERSION: Final = 1


class Depot(Protocol):
    """A place for files by their path, with `/` between folders."""

    @property
    def where(self) -> str:
        """For people."""

    def read(self, path: str) -> bytes:
        """All of a file; `FileNotFoundError` when it is not there."""

    def size(self, path: str) -> int:
        """Of a file, in bytes; `FileNotFoundError` when it is not there."""

    def list(self, folder: str) -> list[str]:
        """Paths of all files below a folder, relative to it, sorted."""

    def write(self, path: str, data: bytes) -> None:
        """Have this file: whole, and on stable storage when this returns."""

    def remove(self, path: str) -> None:
        """Have it no more."""


class EntryPart(msgspec.Struct, frozen=True):
    """What a backup has of one member."""

    member: str
    name: str
    files: int
    bytes: int
    own_bytes: int
    """Of the files that no earlier part has."""


class Entry(msgspec.Struct, frozen=True):
    """One backup."""

    name: str
    cluster: str
    grid: str
    """What the cluster was called."""
    level: int
    partition_count: int
    created_s: float
    parts: tuple[EntryPart, ...]
    format: int = FORMAT_VERSION

    @property
    def bytes(self) -> int:
        """Of all files of all parts."""
        return sum(part.bytes for part in self.parts)

    @property
    def own_bytes(self) -> int:
        """Of those that are new in it."""
        return sum(part.own_bytes for part in self.parts)


def entry_path(name: str) -> str:
    """Of a backup's entry."""
    return f"{BACKUPS}/{name}.json"


def part_path(member: str, backup: str, file: str = INDEX) -> str:
    """Of a file of a part."""
    return f"{PARTS}/{member}/{backup}/{file}"


def names_in(depot: Depot) -> list[str]:
    """The backups that are whole."""
    found = depot.list(BACKUPS)
    return [each.removesuffix(".json") for each in found if each.endswith(".json")]


def read_entry(depot: Depot, name: str) -> Entry:
    """A backup; refused if it is none."""
    path = entry_path(name)
    try:
        data = depot.read(path)
    except FileNotFoundError as error:
        raise StorageError(depot.where, f"there is no whole backup {name!r}") from error
    try:
        return msgspec.json.decode(manifest.line_of(data, path), type=Entry)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptFile(path, f"malformed: {error}", offset=0) from error


def entries(depot: Depot) -> list[Entry]:
    """All of them, the oldest first."""
    found = [read_entry(depot, name) for name in names_in(depot)]
    return sorted(found, key=lambda each: (each.created_s, each.name))


def read_part(depot: Depot, member: str, backup: str) -> Index:
    """One member's part."""
    path = part_path(member, backup)
    try:
        data = depot.read(path)
    except FileNotFoundError as error:
        reason = f"the backup {backup} needs this part, and it is missing"
        raise CorruptFile(f"{depot.where}/{path}", reason) from error
    return index_of(data, path)


def place_of(member: str, backup: str, kept: Kept) -> str:
    """Where a file of a part is."""
    return part_path(member, kept.directory or backup, kept.name)


class DepotFiles:
    """The files of a part, to be read as those of a member; each only if it is what was kept."""

    def __init__(self, depot: Depot, member: str, backup: str) -> None:
        self._depot = depot
        self._member = member
        self._backup = backup
        self.index = read_part(depot, member, backup)
        self._kept = {each.name: each for each in self.index.files}

    def __str__(self) -> str:
        return f"{self._depot.where}/{part_path(self._member, self._backup, '')}"

    def read(self, name: str) -> bytes:
        """All of a file."""
        kept = self._kept.get(name)
        if kept is None:
            raise FileNotFoundError(name)
        return read_kept(self._depot, self._member, self._backup, kept)

    def open(self, name: str) -> Stream:
        """From its beginning, once all of it is what was kept."""
        return io.BytesIO(self.read(name))

    def size(self, name: str) -> int:
        """Of a file."""
        if name not in self._kept:
            raise FileNotFoundError(name)
        return self._kept[name].size

    def list(self, folder: str) -> list[str]:
        """The files of a folder."""
        start = f"{folder}/"
        return sorted(name[len(start) :] for name in self._kept if name.startswith(start))


def read_kept(depot: Depot, member: str, backup: str, kept: Kept) -> bytes:
    """A file of a part, if it is what was kept."""
    path = place_of(member, backup, kept)
    try:
        data = depot.read(path)
    except FileNotFoundError as error:
        reason = f"the backup {backup} builds on it, and it is missing"
        raise CorruptFile(f"{depot.where}/{path}", reason) from error
    if (len(data), google_crc32c.value(data)) != (kept.size, kept.crc32c):
        reason = "it is not what was backed up: the checksum is wrong"
        raise CorruptFile(f"{depot.where}/{path}", reason)
    return data


class FolderDepot:
    """A depot on a disk: a volume that is mounted, for instance."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def where(self) -> str:
        """For people."""
        return str(self.root)

    def read(self, path: str) -> bytes:
        """All of a file."""
        return (self.root / path).read_bytes()

    def size(self, path: str) -> int:
        """Of a file."""
        return (self.root / path).stat().st_size

    def list(self, folder: str) -> list[str]:
        """Files below a folder; those that are being written have no name yet."""
        below = self.root / folder
        return sorted(
            str(each.relative_to(below))
            for each in below.rglob("*")
            if each.is_file() and not each.name.startswith(".")
        )

    def write(self, path: str, data: bytes) -> None:
        """Beside it, then in its place."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            write_synced(beside, data)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        for folder in (target.parent, *target.parent.parents):
            sync_directory(folder)
            if folder == self.root:
                break

    def remove(self, path: str) -> None:
        """And folders that have no file then."""
        target = self.root / path
        target.unlink(missing_ok=True)
        for folder in target.parents:
            if folder == self.root or any(not each.is_dir() for each in folder.rglob("*")):
                break
            shutil.rmtree(folder, ignore_errors=True)
