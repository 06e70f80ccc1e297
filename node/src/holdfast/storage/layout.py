"""Where each file of a member's directory is.

identity.json               whose directory this is, and how often it was started
LOCK                        held by the process that has it open
cluster/N.membership        promises and the view, as of the beginning of a segment
cluster/N.table             the partition table, likewise; N.stable: the stable table
data/MANIFEST               which of all these files count
data/N.log                  a segment of the log
data/N.base                 everything of some partitions
backups/                    whatever an operator puts there
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.storage.format.manifest import Manifest

IDENTITY: Final = "identity.json"
CLUSTER: Final = "cluster"
DATA: Final = "data"
MANIFEST: Final = "data/MANIFEST"


def segment_name(number: int) -> str:
    """A segment of the log."""
    return f"{DATA}/{number:012}.log"


def base_name(number: int) -> str:
    """A base."""
    return f"{DATA}/{number:012}.base"


def membership_name(number: int) -> str:
    """Promises and the view."""
    return f"{CLUSTER}/{number:012}.membership"


def table_name(number: int) -> str:
    """The partition table."""
    return f"{CLUSTER}/{number:012}.table"


def stable_name(number: int) -> str:
    """The stable table."""
    return f"{CLUSTER}/{number:012}.stable"


def files_of(manifest: Manifest) -> Iterator[str]:
    """Every file that counts, but for the manifest and the identity."""
    if manifest.control is not None:
        yield membership_name(manifest.control.number)
        yield table_name(manifest.control.number)
        if manifest.control.stable:
            yield stable_name(manifest.control.number)
    for base in manifest.bases:
        yield base_name(base.number)
    for number in manifest.segments:
        yield segment_name(number)
