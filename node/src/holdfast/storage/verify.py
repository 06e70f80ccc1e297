"""Looks at every byte of a member's files, without a cluster, and says what is broken where.

Unlike a recovery it goes on after what it finds. Whoever has no findings can be recovered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from holdfast.errors import CorruptFile, StorageError
from holdfast.storage import layout, recovery, snapshot
from holdfast.storage.files import Files
from holdfast.storage.format import block, entries, tables
from holdfast.storage.format.block import Damage
from holdfast.storage.format.entries import MutationsEntry
from holdfast.storage.format.manifest import Manifest
from holdfast.storage.recovery import OnDamage, Progress, Watch

NOTHING: Final = "there are no files of a member"


@dataclass(slots=True)
class Findings:
    """What was looked at, and what is wrong."""

    member: str = ""
    files: int = 0
    size: int = 0
    blocks: int = 0
    records: int = 0
    torn_bytes: int = 0
    """At the end of the log: never promised to anyone, and cut at the next start."""
    problems: list[StorageError] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether a member can start with these files."""
        return not self.problems


def verify(files: Files, watch: Watch | None = None) -> Findings:
    """Look at everything."""
    found = Findings()
    try:
        identity = recovery.read_identity(files)
        if identity is None:
            found.problems.append(CorruptFile(layout.IDENTITY, NOTHING))
            return found
        found.member = identity.member
        manifest = recovery.read_manifest(files, identity)
    except StorageError as error:
        found.problems.append(error)
        return found
    if manifest is not None:
        Examiner(files, manifest, found, watch).examine()
    return found


class Examiner:
    """One look at the files of a manifest."""

    def __init__(
        self, files: Files, manifest: Manifest, found: Findings, watch: Watch | None
    ) -> None:
        self.files = files
        self.manifest = manifest
        self.found = found
        self.watch = watch
        following = recovery.following(files, manifest)
        self.following = "" if following is None else layout.segment_name(following)
        self.names = tuple(filter(None, (*layout.files_of(manifest), self.following)))
        self.total = sum(self._size(name) for name in self.names)

    def examine(self) -> None:
        """Each file by itself; then all of them together, if they are sound."""
        for name in self.names:
            self._file(name)
            if self.watch is not None:
                self.watch(Progress(self.found.size, self.total, self.found.records))
        if self.found.problems:
            return
        try:
            recovered = recovery.recover(self.files, on_damage=OnDamage.REFUSE)
        except StorageError as error:
            self.found.problems.append(error)
            return
        if recovered is not None:
            self.found.torn_bytes = recovered.torn_bytes

    def _size(self, name: str) -> int:
        try:
            return self.files.size(name)
        except FileNotFoundError:
            return 0

    def _file(self, name: str) -> None:
        self.found.files += 1
        try:
            data = self.files.read(name)
        except FileNotFoundError:
            reason = "the manifest names it, and it is missing"
            self.found.problems.append(CorruptFile(name, reason))
            return
        self.found.size += len(data)
        try:
            self._look(name)(data, name)
        except StorageError as error:
            self.found.problems.append(error)

    def _look(self, name: str) -> Callable[[bytes, str], object]:
        if name.endswith((".table", ".stable")):
            return tables.decode
        return snapshot.membership_in if name.endswith(".membership") else self._blocks

    def _blocks(self, data: bytes, name: str) -> None:
        last = name == layout.segment_name(self.manifest.segments[-1])
        damages = tuple(self._good(data, name))
        may_be_torn = bool(damages) and damages[-1].end == len(data)
        if may_be_torn and (name == self.following or (last and damages[-1].offset)):
            damages = damages[:-1]  # a torn tail, or damage that the recovery knows to tell from it
        for each in damages:
            self.found.problems.append(CorruptFile(name, each.reason, offset=each.offset))

    def _good(self, data: bytes, name: str) -> Iterator[Damage]:
        """Count what is good, and hand on what is not."""
        for each in block.scan(data, name, synced=name != self.following):
            if isinstance(each, Damage):
                yield each
                continue
            self.found.blocks += 1
            try:
                read = entries.decode(each.body, name, each.offset)
            except CorruptFile as error:
                self.found.problems.append(error)
                continue
            self.found.records += sum(
                len(entry.keys) for entry in read if isinstance(entry, MutationsEntry)
            )
