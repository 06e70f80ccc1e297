"""The backups that a member keeps in its own directory: one folder for each, with its name.

Rules (`design/5`, "Backup")
----------------------------
* A backup of a cluster has one name; each member with files keeps its part of it under that name.
  It is whole when the parts of all members are there that it was begun with.
* A member *seals* first: whatever is acknowledged by then is in files that don't change any more,
  so that a part is made of links. Writes go on; what comes meanwhile is in the next one.
* A part builds on the newest part that is finished here: only files that this one lacks are kept.
* To be asked again for a part that is finished gives that part. One that was cut short is begun
  anew.

* What is removed stays as long as later parts refer to files of it (`carrying.sweep`).

What can go wrong
-----------------
*A part that later ones build on is removed by hand.* Those say so when they are restored.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from holdfast.errors import IllegalArgument, StorageError
from holdfast.storage.backup import Index, Part, Rests, back_up, read_index
from holdfast.storage.carrying import GONE, sweep
from holdfast.storage.depot import FolderDepot

FOLDER: Final = "backups"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(name: str) -> None:
    """Refuse what is no name of a backup; it becomes that of a folder."""
    if NAME.fullmatch(name) is None:
        raise IllegalArgument(f"{name!r} is no name of a backup: up to 64 of a-z A-Z 0-9 . _ -")


def kept(directory: Path) -> dict[str, Index]:
    """The parts that are finished here, the oldest first."""
    folder = directory / FOLDER
    found: dict[str, Index] = {}
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            found[each.name] = read_index(each)
        except StorageError:
            continue  # cut short, or none of ours
    return dict(sorted(found.items(), key=lambda item: (item[1].created_s, item[0])))


def keep(directory: Path, part: Part) -> Index:
    """Make this member's part, or find that it is there."""
    check_name(part.backup)
    parts = kept(directory)
    if part.backup in parts:
        return parts[part.backup]
    target = directory / FOLDER / part.backup
    if (target / GONE).exists():
        raise StorageError(str(target), "it was removed, and later backups refer to its files")
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(exist_ok=True)
    newest = next(reversed(parts), None)
    previous = None if newest is None else target.parent / newest
    return back_up(directory, target, previous=previous, part=part, rest=Rests())


def forget(directory: Path, name: str) -> None:
    """Remove this member's part, if there is one."""
    check_name(name)
    if name in kept(directory):
        sweep(FolderDepot(directory), FOLDER, [name])
