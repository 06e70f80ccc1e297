"""Jobs: what many tasks write to a map, shown at once at the end, whatever is tried twice.

Rules (`design/7` "batch write"; docs/protocol/bulk.md)
-------------------------------------------------------
* Tasks write under (job, task, attempt), anywhere, at any time, in any number of processes. What
  they write is laid aside at the owners of its partitions; nobody sees it.
* An attempt that comes to its end has a `Receipt`, which can be pickled and sent to whoever drives
  the job. The driver picks one receipt for each task and commits. What other attempts have left is
  thrown away.
* Commit first asks every partition whether it has everything; only when all have, the first one
  shows it. Then nothing can go wrong for good: who commits again goes on where it was left.
* Abort takes everything back, as long as nothing is shown. Who does neither is forgotten after
  `life_seconds`.

States
------
    tasks write ──► commit: checked everywhere ──► shown partition by partition ──► done
         └────────► abort

What can go wrong
-----------------
*The driver dies between two partitions.* Committing the same job again, with the same receipts,
before its life is over, makes it whole. *An owner dies.* Its backup has what was laid aside.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import quote

from holdfast.client.bulk import Bulk
from holdfast.core.stores.fragment import Mutation
from holdfast.core.stores.record import ABSENT, Kind, build
from holdfast.core.stores.space import name_of
from holdfast.errors import ConfigurationError, JobRefused
from holdfast.ids import PartitionId
from holdfast.wire.api.bulk import (
    ATTEMPTS_MAX,
    ID_PATTERN,
    LIFE_SECONDS,
    PARTITIONS_MAX,
    ROWS_TYPE,
    AttemptModel,
    JobEnd,
    Mode,
)
from holdfast.wire.rows import About, encode

BLOCK_BYTES: Final = 256 << 10
BLOCK_ROWS: Final = 4_096
BUFFER_BYTES: Final = 32 << 20
PARCEL_BYTES: Final = 1 << 20
SENDS_MAX: Final = 4
PUBLISH_SECONDS: Final = 600.0
SHOWN: Final = re.compile(r"the job is (published|publishing) ")
JSON: Final = {"content-type": "application/json"}
ROWS: Final = {"content-type": ROWS_TYPE}


def _checked(text: str) -> str:
    if not re.fullmatch(ID_PATTERN, text):
        raise ConfigurationError(
            [f"{text!r} is no id of a job or task: 1 to 128 letters, digits, or any of . _ ~ -"]
        )
    return text


@dataclass(frozen=True, slots=True)
class Receipt:
    """An attempt of a task that has come to its end."""

    task: str
    attempt: str
    blocks: dict[int, int]
    """By partition, how many blocks it has there."""


class Block(NamedTuple):
    """What goes to a partition."""

    partition: int
    data: bytes


@dataclass(slots=True)
class Parcel:
    """Blocks that go to one owner in one request."""

    blocks: list[Block] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class Draft:
    """What goes into the next block of a partition."""

    rows: list[Mutation] = field(default_factory=list)
    size: int = 0


class Job:
    """One job that writes to one map."""

    def __init__(
        self,
        bulk: Bulk,
        job: str,
        name: str,
        *,
        life_seconds: float = LIFE_SECONDS,
        resumes: bool = False,
    ) -> None:
        if not name or ":" in name:
            raise ConfigurationError([f"{name!r} is no name of a map: no colon, not empty"])
        self.bulk = bulk
        self.id = _checked(job)
        self.name = name
        self.life_seconds = life_seconds
        self.resumes = resumes
        """Done again from its beginning: where it is shown already, nothing is laid aside."""

    def task(self, task: str, attempt: str) -> Task:
        """An attempt that begins here."""
        return Task(self, task, attempt)

    async def commit(self, receipts: Iterable[Receipt], mode: Mode = Mode.APPEND) -> None:
        """Show what these attempts have written, in the order of the receipts."""
        counting = list(receipts)
        counts = Counter(partition for receipt in counting for partition in receipt.blocks)
        every = range(self.bulk.partition_count) if mode is Mode.REPLACE else sorted(counts)
        groups = [part for each in self.bulk.groups(every) for part in _parts(each, counts)]

        async def say(verb: str, group: list[int]) -> None:
            def request(begin: int, end: int) -> tuple[str, bytes]:
                return f"{self._path}:{verb}", self._end(group[begin:end], counting, mode)

            await self.bulk.ask_each("POST", group, request, JSON, seconds=PUBLISH_SECONDS)

        await self._everywhere(groups, lambda group: say("check", group))
        await self._everywhere(groups, lambda group: say("publish", group))

    def _end(self, partitions: list[int], receipts: Sequence[Receipt], mode: Mode) -> bytes:
        """What counts in these partitions."""
        attempts = [
            AttemptModel(task=each.task, attempt=each.attempt, blocks=blocks)
            for each in receipts
            if (blocks := {one: each.blocks[one] for one in partitions if one in each.blocks})
        ]
        end = JobEnd(
            name=self.name,
            mode=mode,
            life_seconds=self.life_seconds,
            partitions=partitions,
            attempts=attempts,
        )
        return end.model_dump_json().encode()

    async def abort(self) -> None:
        """Have nothing of it any more, and refuse what comes late."""

        async def say(group: list[int]) -> None:
            def request(begin: int, end: int) -> tuple[str, bytes]:
                wanted = ",".join(map(str, group[begin:end]))
                path = f"{self._path}?partitions={wanted}&life_seconds={self.life_seconds}"
                return path, b""

            await self.bulk.ask_each("DELETE", group, request)

        await self._everywhere(self.bulk.groups(range(self.bulk.partition_count)), say)

    async def stage(self, task: str, attempt: str, blocks: Sequence[Block]) -> None:
        """Lay blocks for partitions of one owner aside."""
        names = "/".join(quote(each, safe="") for each in (task, attempt))
        query = f"name={quote(self.name, safe='')}&life_seconds={self.life_seconds}"
        path = f"{self._path}/blocks/{names}?{query}"

        def request(begin: int, end: int) -> tuple[str, bytes]:
            return path, b"".join([block.data for block in blocks[begin:end]])

        partitions = [block.partition for block in blocks]
        await self.bulk.ask_each("PUT", partitions, request, ROWS, passes=self._is_shown)

    def _is_shown(self, refused: JobRefused) -> bool:
        """What is done again finds what it wanted."""
        return self.resumes and SHOWN.search(refused.message) is not None

    @property
    def _path(self) -> str:
        return f"/v1/bulk/jobs/{quote(self.id, safe='')}"

    async def _everywhere(
        self, groups: Iterable[list[int]], say: Callable[[list[int]], Awaitable[None]]
    ) -> None:
        """A few at a time; the first that fails ends it."""
        wanted = iter(groups)

        async def work() -> None:
            for group in wanted:
                await say(group)

        workers = [asyncio.ensure_future(work()) for _ in range(self.bulk.parallel)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


def _parts(group: list[int], counts: Counter[int]) -> Iterator[list[int]]:
    """Of a group, as much as one request may say about attempts."""
    some, size = list[int](), 0
    for partition in group:
        size += counts[partition]
        if some and size > ATTEMPTS_MAX:
            yield some
            some, size = [], counts[partition]
        some.append(partition)
    yield some


class Task:
    """One attempt of a task. It is over with `finish`, or by being forgotten."""

    def __init__(self, job: Job, task: str, attempt: str) -> None:
        self.job = job
        self.id = _checked(task)
        self.attempt = _checked(attempt)
        self._drafts: dict[int, Draft] = {}
        self._size = 0
        self._blocks: dict[int, int] = {}
        self._parcels: dict[str, Parcel] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def put(self, key: bytes, value: bytes, *, expires_at_ms: int = 0) -> None:
        """Write a string; it lives until a moment of the wall clock, or as long as the map says."""
        await self._add(key, build(ABSENT, Kind.STRING, expires_at_ms, value))

    async def delete(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        await self._add(key, build(ABSENT, Kind.GONE, 0, b""))

    async def finish(self) -> Receipt:
        """Wait until everything is laid aside, on the backups too."""
        for partition in tuple(self._drafts):
            await self._send(partition)
        for owner in tuple(self._parcels):
            await self._ship(owner)
        while self._sending:
            await self._wait(asyncio.ALL_COMPLETED)
        return Receipt(self.id, self.attempt, dict(self._blocks))

    async def _add(self, key: bytes, record: bytes) -> None:
        if name_of(key) != self.job.name.encode():
            raise ConfigurationError([f"{key!r} is no key of the map {self.job.name!r}"])
        partition = self.job.bulk.partition_of(key)
        draft = self._drafts.get(partition)
        if draft is None:
            draft = self._drafts[partition] = Draft()
        draft.rows.append((key, record))
        size = len(key) + len(record)
        draft.size += size
        self._size += size
        if draft.size >= BLOCK_BYTES or len(draft.rows) >= BLOCK_ROWS:
            await self._send(partition)
        elif self._size >= BUFFER_BYTES:
            await self._send(max(self._drafts, key=lambda each: self._drafts[each].size))

    async def _send(self, partition: int) -> None:
        """A block is made of what there is of a partition."""
        draft = self._drafts.pop(partition)
        self._size -= draft.size
        await self.lay_aside(partition, lambda about: encode(about, draft.rows))

    async def lay_aside(self, partition: int, make: Callable[[About], bytes]) -> None:
        """The next block of a partition, for who makes blocks: of strings and of keys that go, of
        this map and partition."""
        number = self._blocks.get(partition, 0)
        self._blocks[partition] = number + 1
        block = Block(partition, make(About(PartitionId(partition), 0, 0, number)))
        owner = self.job.bulk.owner_of(partition)
        parcel = self._parcels.get(owner)
        if parcel is not None and parcel.size + len(block.data) > PARCEL_BYTES:
            await self._ship(owner)
        parcel = self._parcels.setdefault(owner, Parcel())
        parcel.blocks.append(block)
        parcel.size += len(block.data)
        if parcel.size >= PARCEL_BYTES or len(parcel.blocks) == PARTITIONS_MAX:
            await self._ship(owner)

    async def _ship(self, owner: str) -> None:
        """A request goes out; it waits only where too many are under way."""
        parcel = self._parcels.pop(owner)
        while len(self._sending) >= SENDS_MAX:
            await self._wait(asyncio.FIRST_COMPLETED)
        stage = self.job.stage(self.id, self.attempt, parcel.blocks)
        self._sending.add(asyncio.ensure_future(stage))

    async def _wait(self, until: str) -> None:
        done, self._sending = await asyncio.wait(self._sending, return_when=until)
        errors = [error for task in done if (error := task.exception()) is not None]
        if errors:
            self.close()
            raise errors[0]

    def close(self) -> None:
        """Send nothing more: the attempt has failed."""
        self._drafts.clear()
        self._parcels.clear()
        for task in self._sending:
            task.cancel()
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        self._sending = set()
