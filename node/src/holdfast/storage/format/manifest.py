"""The manifest, which names the files that count; the identity of a member. Both are JSON.

A file is one line of JSON and the CRC-32C of that line in hexadecimal, so that people can read
it and `verify` can check it.

Rules (`design/5`)
------------------
* The manifest is replaced whole: written beside, synced, renamed, its directory synced. What it
  does not name is no part of the data, and is deleted.
* A base counts for its partitions from the beginning of segment `since` on: of what earlier
  segments say of them, nothing counts.
* `control` is what the records other than data summed up to at the beginning of its segment.
"""

from __future__ import annotations

from typing import Final

import google_crc32c
import msgspec

from holdfast.errors import CorruptFile, NewerFormat

FORMAT_VERSION: Final = 1


class Base(msgspec.Struct, frozen=True):
    """A file with everything of some partitions."""

    number: int
    since: int
    """Segment with whose beginning this base begins."""
    partitions: tuple[int, ...]
    epochs: tuple[int, ...]
    """Of the data of each partition, so that damage to the file can't hide that there was some;
    -1 where there is none."""
    size: int


class ControlFiles(msgspec.Struct, frozen=True):
    """Membership, table and stable table as of the beginning of a segment."""

    number: int
    since: int
    stable: bool
    """Whether there was a stable table."""


class Manifest(msgspec.Struct, frozen=True):
    """Which files count."""

    member: str
    partition_count: int
    replica_count: int
    next: int
    """Number of the next file."""
    segments: tuple[int, ...]
    """In the order in which they were written."""
    sealed: tuple[int, ...]
    """Sequence of the last block of each segment but the last one."""
    bases: tuple[Base, ...] = ()
    control: ControlFiles | None = None
    format: int = FORMAT_VERSION


class Identity(msgspec.Struct, frozen=True):
    """Whose directory this is."""

    member: str
    incarnation: int
    """Of the last process that was started here."""
    partition_count: int
    replica_count: int
    format: int = FORMAT_VERSION
    boot: str = ""
    """Under which start of the machine it wrote; empty when that is not known."""
    lazy: bool = True
    """Whether it called anything persisted that was not synced yet."""
    ended: bool = False
    """Whether it ended in order, with everything synced."""
    unsure: bool = False
    """Whether it had found that something may be missing, and nobody had said yet what."""

    def is_sure(self, boot: str) -> bool:
        """Whether everything that was ever called persisted is here: it was synced, or the machine
        that has written it down in its memory is still up."""
        if self.unsure:
            return False
        return self.ended or not self.lazy or (self.boot != "" and self.boot == boot)


class Version(msgspec.Struct):
    """What every file of this kind has, whatever comes later."""

    format: int


def encode(content: msgspec.Struct) -> bytes:
    """The line, and its checksum."""
    line = msgspec.json.encode(content)
    return b"%b\n%08x\n" % (line, google_crc32c.value(line))


def line_of(data: bytes, file: str) -> bytes:
    """The line, once its checksum and its version are known to be right."""
    line, _, rest = data.partition(b"\n")
    if rest != b"%08x\n" % google_crc32c.value(line):
        raise CorruptFile(file, "the checksum is wrong", offset=len(line) + 1)
    try:
        version = msgspec.json.decode(line, type=Version).format
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptFile(file, f"it says no version: {error}", offset=0) from error
    if version > FORMAT_VERSION:
        reason = f"written in version {version}; this is version {FORMAT_VERSION}"
        raise NewerFormat(file, reason, offset=0)
    return line


def decode_manifest(data: bytes, file: str) -> Manifest:
    """The manifest of a file."""
    try:
        manifest = msgspec.json.decode(line_of(data, file), type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptFile(file, f"malformed: {error}", offset=0) from error
    if len(manifest.sealed) != max(len(manifest.segments) - 1, 0):
        raise CorruptFile(file, "each segment but the last one has an end", offset=0)
    return manifest


def decode_identity(data: bytes, file: str) -> Identity:
    """The identity of a file."""
    try:
        return msgspec.json.decode(line_of(data, file), type=Identity)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptFile(file, f"malformed: {error}", offset=0) from error
