"""Carrying backups from one depot to another, finding out whether one is whole, removing them.

Rules (`design/5`, "Backup: incremental"; ADR 24)
-------------------------------------------------
* What is carried is complete where it comes from. Each file is compared with the sum that its index
  has, on the way.
* Only files are carried that the newest earlier part of that member lacks at the target, by name,
  size and sum; the index says there where each of the others is. Of a carrying that was cut short,
  what arrived stays.
* To carry once more what is there changes nothing.
* A backup is removed by its entry first, then the indexes of its parts; files go which no index
  that is left speaks of.

What can go wrong
-----------------
*Two carry into one depot at the same time.* They are of different members, or write the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.errors import CorruptFile, IllegalArgument, StorageError
from holdfast.storage import layout
from holdfast.storage.backup import INDEX, Index, Kept, index_of
from holdfast.storage.depot import (
    PARTS,
    Depot,
    Entry,
    EntryPart,
    entries,
    entry_path,
    names_in,
    part_path,
    place_of,
    read_entry,
    read_kept,
    read_part,
)
from holdfast.storage.format import manifest

GONE: Final = "removed"
"""Says of a part that it is none any more; others may refer to files of it."""

OnBytes = Callable[[int], None]
"""Told how many bytes more are done."""
Known = Mapping[tuple[str, int, int], Kept]


def carry(source: Depot, target: Depot, name: str, on_bytes: OnBytes = lambda _: None) -> Entry:
    """Have a backup in another depot as well."""
    if name in names_in(target):
        return read_entry(target, name)
    found = read_entry(source, name)
    earlier = [each for each in entries(target) if each.created_s <= found.created_s]
    parts = tuple(
        _carry_part(source, target, found, each, earlier, on_bytes) for each in found.parts
    )
    made = msgspec.structs.replace(found, parts=parts)
    target.write(entry_path(name), manifest.encode(made))
    return made


def _carry_part(
    source: Depot,
    target: Depot,
    entry: Entry,
    part: EntryPart,
    earlier: Sequence[Entry],
    on_bytes: OnBytes,
) -> EntryPart:
    if _size(target, part_path(part.member, entry.name, GONE)) >= 0:
        raise IllegalArgument(f"{entry.name} was removed there, and later ones refer to its files")
    index = read_part(source, part.member, entry.name)
    before = _newest(target, part.member, earlier)
    known = {} if before is None else _known(target, part.member, *before)
    kept = []
    for each in index.files:
        there = known.get((each.name, each.size, each.crc32c))
        if there is None:
            _carry_file(source, target, part.member, entry.name, each)
        kept.append(there or msgspec.structs.replace(each, directory=""))
        on_bytes(each.size)
    made = msgspec.structs.replace(
        index, files=tuple(kept), previous="" if before is None else before[0]
    )
    target.write(part_path(part.member, entry.name), manifest.encode(made))
    return msgspec.structs.replace(part, bytes=made.total_bytes, own_bytes=made.own_bytes)


def _carry_file(source: Depot, target: Depot, member: str, backup: str, kept: Kept) -> None:
    path = part_path(member, backup, kept.name)
    if _size(target, path) != kept.size:
        target.write(path, read_kept(source, member, backup, kept))


def _newest(target: Depot, member: str, earlier: Sequence[Entry]) -> tuple[str, Index] | None:
    """The newest part of a member that is there, and its backup."""
    for entry in reversed(earlier):
        if any(part.member == member for part in entry.parts):
            return entry.name, read_part(target, member, entry.name)
    return None


def _known(target: Depot, member: str, backup: str, index: Index) -> Known:
    """What that part has, as a later one refers to it; only what is really there."""
    found = {}
    for each in index.files:
        if _size(target, place_of(member, backup, each)) == each.size:
            key = each.name, each.size, each.crc32c
            found[key] = msgspec.structs.replace(each, directory=each.directory or backup)
    return found


def _size(depot: Depot, path: str) -> int:
    try:
        return depot.size(path)
    except FileNotFoundError:
        return -1


def newest(depot: Depot) -> str:
    """Of all backups; refused where there is none."""
    found = entries(depot)
    if not found:
        raise StorageError(depot.where, "there is no whole backup")
    return found[-1].name


def check(depot: Depot, name: str) -> Entry:
    """Whether everything that a backup needs is there; what is in it is looked at when it is
    read."""
    entry = read_entry(depot, name)
    for part in entry.parts:
        index = read_part(depot, part.member, name)
        for each in index.files:
            path = place_of(part.member, name, each)
            if _size(depot, path) != each.size:
                reason = f"the backup {name} needs it with {each.size} bytes"
                raise CorruptFile(f"{depot.where}/{path}", reason)
        if layout.IDENTITY not in {each.name for each in index.files}:
            raise CorruptFile(part_path(part.member, name), "it says not whose files these are")
    return entry


# Removing -----------------------------------------------------------------------------------------


def forget(depot: Depot, names: Iterable[str]) -> list[str]:
    """Remove backups; which of them were there."""
    present = set(names_in(depot))
    gone = [name for name in dict.fromkeys(names) if name in present]
    members = set()
    for name in gone:
        members |= {part.member for part in read_entry(depot, name).parts}
        depot.remove(entry_path(name))
    for member in sorted(members):
        sweep(depot, f"{PARTS}/{member}", gone)
    return gone


def sweep(depot: Depot, folder: str, gone: Iterable[str]) -> None:
    """Remove parts of one member, all in this folder; files that other parts refer to go with the
    last of these. A part that is being made has no index yet, and is left alone."""
    for name in gone:
        depot.write(f"{folder}/{name}/{GONE}", b"")
        depot.remove(f"{folder}/{name}/{INDEX}")
    found = depot.list(folder)
    dead = {path.partition("/")[0] for path in found if path.endswith(f"/{GONE}")}
    indexes = [path for path in found if path.endswith(f"/{INDEX}")]
    needed = {
        f"{kept.directory or path.partition('/')[0]}/{kept.name}"
        for path in indexes
        for kept in index_of(depot.read(f"{folder}/{path}"), f"{folder}/{path}").files
    }
    for name in sorted(dead):
        own = [path for path in found if path.partition("/")[0] == name]
        idle = [path for path in own if path not in needed and not path.endswith(f"/{GONE}")]
        for path in idle:
            depot.remove(f"{folder}/{path}")
        if len(idle) == len(own) - 1:
            depot.remove(f"{folder}/{name}/{GONE}")
