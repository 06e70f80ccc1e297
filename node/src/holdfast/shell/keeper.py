"""Keeps what a member must not forget: its files, opened before it begins, written while it runs.

Rules (`design/5`, `core.effects`)
----------------------------------
* Files are recovered before the member exists: who it is stands in them. Nothing is served, and no
  other member hears of this one, before they are read.
* The records of one turn are one block. What is kept when they are written is told at once, the
  rest as an event of a later turn.
* Bases are written in slices between turns, from what the node has in memory.
* When the disk has failed, the process ends: what it was told to keep may be lost, and nobody was
  told that it is kept.

A member without a directory has no keeper: it promises nothing that outlives it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from holdfast.core.config import Config
from holdfast.core.effects import FragmentRecord, Persist, Record
from holdfast.core.events import Image
from holdfast.core.node import Node
from holdfast.core.stores.settings import Durability
from holdfast.core.stores.space import INTERNAL, STAGING
from holdfast.errors import DiskFailed
from holdfast.ids import MemberId, PartitionId
from holdfast.shell.loading import Loading
from holdfast.storage.engine import Engine, FileEngine
from holdfast.storage.files import RealFiles
from holdfast.storage.format.manifest import Identity
from holdfast.storage.recovery import OnDamage, read_identity
from holdfast.storage.writer import Limits

LOG: Final = logging.getLogger("holdfast.storage")
IDLE_SECONDS: Final = 0.5
BUSY_SECONDS: Final = 0.005
"""Between slices of a base: a fifth of the loop's time at the most."""
STRICTNESS: Final = (Durability.OFF, Durability.EVERYSEC, Durability.ALWAYS)


class Told(Protocol):
    """Whoever gives events to the node."""

    def persisted(self, sequence: int) -> None:
        """Everything up to this number is kept."""

    def disk_failed(self, error: DiskFailed) -> None:
        """Nothing is kept any more."""

    def disk_full(self, full: bool) -> None:
        """Whether there is too little room for more."""


def is_lazy(config: Config) -> bool:
    """Whether anything is called persisted before it is synced."""
    kinds = (config.unnamed, *config.names.values())
    return any(each.durability is not Durability.ALWAYS for each in kinds)


def durability_in(config: Config) -> Callable[[bytes], Durability]:
    """What is configured for a name; what is of no name is as strict as any."""
    kinds = (config.unnamed, *config.names.values())
    strictest = max((each.durability for each in kinds), key=STRICTNESS.index)

    def durability_of(name: bytes) -> Durability:
        if name in (INTERNAL, STAGING):
            return strictest
        return config.names.get(name, config.unnamed).durability

    return durability_of


class Keeper:
    """The files of this member."""

    def __init__(self, engine: Engine, member: MemberId, image: Image | None) -> None:
        self.engine = engine
        self.member = member
        self.image: Image | None = image
        """What was found; the node takes it."""
        self.incarnation = engine.last_incarnation + 1
        self._unsure = image is not None and image.unsure
        """Whether the files may lack something that others have."""
        self.loaded_records = 0
        self.load_seconds = 0.0
        self.held_ns = 0
        """What the loop has given to the files since it began."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: Told | None = None
        self._source: NodeSource | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.get_ident()
        self._writing = False
        self._kept = 0

    def start(self, node: Node, told: Told) -> None:
        """Begin to write."""
        self._loop, self._told = asyncio.get_running_loop(), told
        self._thread = threading.get_ident()
        self._source = NodeSource(node)
        self.engine.start(self.incarnation, self)
        self._timer = self._loop.call_later(IDLE_SECONDS, self._serve)

    def write(self, persists: list[Persist]) -> int:
        """The records of a turn; up to which number they are kept already."""
        began = time.monotonic_ns()
        self._writing, self._kept = True, 0
        try:
            self.engine.write(persists)
        finally:
            self._writing = False
            self.held_ns += time.monotonic_ns() - began
        return self._kept

    async def close(self) -> None:
        """Write what is left, and end."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            await asyncio.to_thread(self.engine.close)
        except DiskFailed as error:
            LOG.critical("the files are not closed in order: %s", error.message)

    def _serve(self) -> None:
        assert self._loop is not None, "it is started before it serves"
        assert self._source is not None, "it is started before it serves"
        began = time.monotonic_ns()
        try:
            self._settle(self._source.node)
            more = self.engine.serve(self._source)
        except DiskFailed:
            return  # whoever is told of it ends the process
        self.held_ns += time.monotonic_ns() - began
        self._timer = self._loop.call_later(BUSY_SECONDS if more else IDLE_SECONDS, self._serve)

    def _settle(self, node: Node) -> None:
        if self._unsure and node.started and not node.data.holdings.unsettled():
            self._unsure = False
            self.engine.settled()

    # What the engine's thread says ----------------------------------------------------------------

    def persisted(self, sequence: int) -> None:
        """To the loop; to whoever writes at this moment, if it is from there."""
        if self._writing and threading.get_ident() == self._thread:
            self._kept = sequence
        else:
            self._call(lambda told: told.persisted(sequence))

    def failed(self, error: DiskFailed) -> None:
        """To the loop."""
        self._call(lambda told: told.disk_failed(error))

    def full(self, full: bool) -> None:
        """To the loop."""
        self._call(lambda told: told.disk_full(full))

    def _call(self, tell: Callable[[Told], None]) -> None:
        loop, told = self._loop, self._told
        assert loop is not None, "the engine runs once it is started"
        assert told is not None, "the engine runs once it is started"
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, told)


class NodeSource:
    """What the node has in memory, as records. It looks, and touches nothing."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def records(self, partition: PartitionId, size: int) -> Iterator[Record]:
        """A partition, in pieces; it may change between two of them (`storage.bases`)."""
        held = self.node.context.fragments.get(partition)
        if held is not None:
            yield FragmentRecord(partition, held)
        holding = self.node.data.holdings.get(partition)
        if holding is None:
            return
        for copy in tuple(holding):
            yield copy.record(partition, ())
            for block in copy.fragment.entries(size):
                yield copy.record(partition, tuple(block))


def open_files(
    directory: Path, config: Config, *, limits: Limits, on_damage: OnDamage, loading: Loading
) -> Keeper:
    """Read the files of a member, or begin new ones; it says how far it is."""
    files = RealFiles(directory)
    known = read_identity(files)
    member = str(uuid.uuid4()) if known is None else known.member
    identity = Identity(member, 0, config.partition_count, config.replica_count)
    engine = FileEngine(
        files,
        identity,
        durability_of=durability_in(config),
        lazy=is_lazy(config),
        limits=limits,
        on_damage=on_damage,
    )
    image = engine.recover(loading.watch)
    found = engine.found
    if found is not None:
        LOG.info(
            "%d records in %.1f s from %s",
            found.records,
            loading.seconds,
            directory,
            extra={"fields": {"records": found.records, "torn_bytes": found.torn_bytes}},
        )
        if found.torn_bytes:
            LOG.warning("%d bytes that were never promised are cut off", found.torn_bytes)
        for damage in found.damages:
            LOG.error("damaged, and compared with the other copies: %s", damage.message)
    keeper = Keeper(engine, MemberId(member), image)
    if found is not None:
        keeper.loaded_records, keeper.load_seconds = found.records, loading.seconds
    return keeper
