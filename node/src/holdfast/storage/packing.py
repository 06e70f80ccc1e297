"""From the records of a turn to the bodies of blocks, in the thread that serves clients.

There is a record for each fragment that a turn has changed, so it counts how long this takes: it is
compiled with the path of a command (ADR 34).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.core.effects import FragmentRecord, MutationsRecord, Persist
from holdfast.core.stores.settings import Durability
from holdfast.ids import PartitionId
from holdfast.storage.commit import Body, Need
from holdfast.storage.feed import ENTRY_BYTES
from holdfast.storage.fold import Control
from holdfast.storage.format import entries
from holdfast.storage.format.entries import Entry
from holdfast.storage.format.flat import Flat, flattened

BODY_BYTES: Final = 16 << 20
"""Length of a block after which the next one begins."""
NAMES_MAX: Final = 4096
"""So many names' needs are remembered."""

NEEDS: Final = {
    Durability.ALWAYS: Need.SYNCED,
    Durability.EVERYSEC: Need.WRITTEN_THEN_SYNCED,
    Durability.OFF: Need.WRITTEN,
}

DurabilityOf = Callable[[bytes], Durability]


class Packer:
    """What goes to the log, and the sum of what is not data."""

    def __init__(self, durability_of: DurabilityOf) -> None:
        self.durability_of = durability_of
        self.control = Control()
        self.user_bytes = 0
        """Keys and records that were to be written."""
        self._needs: dict[bytes, Need] = {}

    def bodies_of(self, persists: Sequence[Persist]) -> list[Body]:
        """The records of one turn as they will stand in a block, or in some if it is very long."""
        bodies: list[Body] = []
        read: list[Entry | Flat] = []
        touched: dict[PartitionId, int] = {}
        need, control, size = Need.WRITTEN, 0, 0
        name: bytes | None = None
        for persist in persists:
            record = persist.record
            if type(record) is MutationsRecord:
                flat, used = flattened(record)
                read.append(flat)
                if record.name != name:
                    name = record.name
                    need = max(need, self._need_of(name))
                size += used
                partition = record.partition
                touched[partition] = touched.get(partition, ENTRY_BYTES) + used
            else:
                need = Need.SYNCED
                control += 1
                entry = entries.entry_of(record)
                self.control.apply(entry)
                if isinstance(record, FragmentRecord):
                    touched.setdefault(record.partition, ENTRY_BYTES)
                read.append(entry)
            if size > BODY_BYTES:
                self.user_bytes += size
                last = persist.sequence
                bodies.append(Body(entries.encode(read), len(read), control, last, need, touched))
                read, touched, need, control, size, name = [], {}, Need.WRITTEN, 0, 0, None
        self.user_bytes += size
        if read:
            last = persists[-1].sequence
            bodies.append(Body(entries.encode(read), len(read), control, last, need, touched))
        return bodies

    def _need_of(self, name: bytes) -> Need:
        need = self._needs.get(name)
        if need is None:
            if len(self._needs) > NAMES_MAX:
                self._needs.clear()
            need = self._needs[name] = NEEDS[self.durability_of(name)]
        return need
