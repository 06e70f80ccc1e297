"""Whole partitions of a name: read at one moment, or followed, each asked of its owner.

Rules (`design/7`; docs/protocol/bulk.md)
-----------------------------------------
* Who is asked and is not the owner says who is: that is noted, and the partition asked for there.
  Where nobody answers, or nobody may at the moment, the table is learned anew and it is tried
  again, until `patience_seconds` are over. All that is asked here may be asked twice.
* The blocks of a partition are given out when all of them are here, so that a member that dies
  meanwhile costs time and nothing else: the partition is read again, at another moment, from its
  beginning. A partition of more than `hold_bytes` is given out as it comes; if it breaks off then,
  that is `ScanBroken`, since rows of two moments must not be mixed.
* Partitions are read `parallel` at a time; their blocks come in any order, each whole.

What can go wrong
-----------------
*The caller is slow.* At most `parallel` partitions are held. A member that waits for a minute
cuts off: of a partition that is held that can't be the caller's fault.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import httpx

from holdfast.client.exchange import Broken, Exchange, Head
from holdfast.client.http import CONNECT_SECONDS, HttpClient, problem_of
from holdfast.core.data.gates import partitions_of_slots
from holdfast.core.data.plane import slot_of
from holdfast.errors import (
    ClientError,
    FrameError,
    HoldfastError,
    JobRefused,
    JournalGap,
    RemoteProtocolError,
    ScanBroken,
    TryAgain,
    Unreachable,
)
from holdfast.wire.api.bulk import DONE, FIRST, OWNER
from holdfast.wire.rows import Rows, RowStream, decode

PATIENCE_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.05
PAUSE_SECONDS_MAX: Final = 1.0
PARALLEL: Final = 4
HOLD_BYTES: Final = 64 << 20
AGAIN: Final = (423, 502, 503, 504, 507)
"""Locked, no answer, not now, nobody knows, no room: all that passes."""
MISDIRECTED: Final = 421
GONE: Final = 410
GROUP: Final = 32
"""Partitions that are asked for in one request."""
CONFLICT: Final = 409
Request = Callable[[int, int], tuple[str, bytes]]
"""Path and body that ask for some of several things, from the one up to the other."""
OF_JOBS: Final = ("job-over", "not-staged")


class Again(ClientError):
    """Not done this time."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What comes after a point."""

    rows: Rows
    point: str
    """Where to go on from."""


def _expect(rows: Rows, left: deque[int]) -> None:
    """A partition is whole: the next of those that were asked for."""
    if not left or rows.about.partition != left[0]:
        raise FrameError(f"partition {rows.about.partition}, which was not asked for")
    left.popleft()


class Tries:
    """How long something has been tried, and why it was not done."""

    def __init__(self, what: str, seconds: float) -> None:
        self._what = what
        self._seconds = seconds
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._pause = 0.0

    async def wait(self, why: Again) -> None:
        """Before the next one; `TryAgain` when it has been enough."""
        loop = asyncio.get_running_loop()
        if loop.time() + self._pause >= self._deadline:
            raise TryAgain(f"{self._what}: not done in {self._seconds:.0f} s: {why.message}")
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2 or PAUSE_SECONDS, PAUSE_SECONDS_MAX)


def _answer(head: Head, content: bytes, owner: str, path: str) -> httpx.Response:
    request = httpx.Request("GET", f"http://{owner}{path}")
    kept = {name: value for name, value in head.headers.items() if name != "transfer-encoding"}
    return httpx.Response(head.status, headers=kept, content=content, request=request)


class Bulk:
    """A cluster's partitions. Start with `await Bulk.connect(["http://host:8080"])`; who has been
    told the owners by somebody else need not ask for them first."""

    def __init__(
        self,
        urls: Iterable[str],
        *,
        owners: Iterable[str] = (),
        secret: bytes = b"",
        patience_seconds: float = PATIENCE_SECONDS,
        parallel: int = PARALLEL,
        hold_bytes: int = HOLD_BYTES,
    ) -> None:
        self.patience_seconds = patience_seconds
        self.parallel = parallel
        self._urls = tuple(url.rstrip("/") for url in urls)
        self._hold_bytes = hold_bytes
        self._secret = secret
        self._owners = list(owners)
        self._learning: asyncio.Task[None] | None = None
        headers = {"authorization": b"Bearer " + secret} if secret else {}
        self._exchange = Exchange(headers, CONNECT_SECONDS)

    @classmethod
    async def connect(cls, urls: Iterable[str], **settings: object) -> Self:
        """Learn the cluster's table from one of these members."""
        found = cls(urls, **settings)  # type: ignore[arg-type]  # as they are above
        try:
            await found.learn()
        except HoldfastError:
            await found.close()
            raise
        return found

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ask nothing any more."""
        if self._learning is not None:
            self._learning.cancel()
        await self._exchange.close()

    # Who owns what --------------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """Of the cluster."""
        return len(self._owners)

    def partition_of(self, key: bytes) -> int:
        """Where a key lives."""
        return partitions_of_slots(len(self._owners))[slot_of(key)]

    def owner_of(self, partition: int) -> str:
        """Where its owner answers, as far as is known; empty when it is not."""
        return self._owners[partition]

    async def learn(self) -> None:
        """The owners of all partitions, from whoever tells them first; asked once at a time."""
        if self._learning is None:
            self._learning = asyncio.get_running_loop().create_task(self._learn())
            self._learning.add_done_callback(self._learned)
        await asyncio.shield(self._learning)

    def _learned(self, task: asyncio.Task[None]) -> None:
        self._learning = None
        if not task.cancelled():
            task.exception()  # whoever waits for it has it

    async def _learn(self) -> None:
        reasons = []
        known = (f"http://{owner}" for owner in dict.fromkeys(self._owners) if owner)
        for url in dict.fromkeys((*known, *self._urls)):
            try:
                self._owners = await self._told(url)
            except (Unreachable, RemoteProtocolError, ClientError) as error:
                reasons.append(error.message)
            else:
                return
        raise Unreachable("; ".join(reasons) or "no address to ask was given")

    async def _told(self, url: str) -> list[str]:
        async with HttpClient(url, secret=self._secret) as client:
            table = await client.partitions(health=False)
            where = {member.id: member.endpoints.http for member in await client.members()}
        owners = (row.replicas[0].member for row in table.partitions)
        return ["" if owner is None else where.get(owner, "") for owner in owners]

    def groups(self, partitions: Iterable[int]) -> list[list[int]]:
        """What one owner is asked for in one go; each owner in its turn."""
        by_owner: dict[str, list[int]] = {}
        for partition in partitions:
            by_owner.setdefault(self._owners[partition], []).append(partition)
        turns = [
            (start, mine[start : start + GROUP])
            for mine in by_owner.values()
            for start in range(0, len(mine), GROUP)
        ]
        return [group for _, group in sorted(turns, key=itemgetter(0))]

    # Reading --------------------------------------------------------------------------------------

    async def read(
        self, name: str, partitions: Iterable[int] | None = None, *, values: bool = True
    ) -> AsyncIterator[Rows]:
        """The blocks of these partitions, or of all, each partition at one moment."""
        every = range(self.partition_count) if partitions is None else partitions
        wanted = deque(self.groups(every))
        queue: asyncio.Queue[Rows] = asyncio.Queue(self.parallel)

        async def work() -> None:
            while wanted:
                async for rows in self._read_group(name, wanted.popleft(), values=values):
                    await queue.put(rows)

        workers = [asyncio.ensure_future(work()) for _ in range(self.parallel)]
        ended = asyncio.gather(*workers)
        coming = asyncio.ensure_future(queue.get())
        try:
            while True:
                await asyncio.wait((coming, ended), return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    break
                yield coming.result()
                coming = asyncio.ensure_future(queue.get())
                await asyncio.sleep(0)  # what is there already is taken before the end is seen
            await ended  # whatever went wrong, also with the last of them
        finally:
            for task in (coming, *workers):
                task.cancel()
            await asyncio.gather(ended, coming, *workers, return_exceptions=True)

    async def _read_group(
        self, name: str, partitions: list[int], *, values: bool
    ) -> AsyncIterator[Rows]:
        """As many as come in one answer, and the rest one by one."""
        path = f"/v1/bulk/names/{quote(name, safe='')}/partitions"
        path += f"?ids={','.join(map(str, partitions))}&values={str(values).lower()}"
        left = deque(partitions)
        broken = False
        try:
            async for rows in self._stream(left[0], path, left):
                broken = bool(left) and rows.about.partition == left[0]
                yield rows
        except Again as again:
            if broken:
                what = f"partition {left[0]} of {name}: {again.message}"
                raise ScanBroken(what) from again
        for partition in left:
            async for rows in self.read_partition(name, partition, values=values):
                yield rows

    async def read_partition(
        self, name: str, partition: int, *, values: bool = True
    ) -> AsyncIterator[Rows]:
        """The blocks of one partition at one moment; there is at least one, perhaps without rows.
        What it names as its point is where `changes` goes on from."""
        path = f"/v1/bulk/names/{quote(name, safe='')}/partitions/{partition}"
        tries = self._tries(partition)
        given = False
        while True:
            try:
                async for rows in self._stream(partition, f"{path}?values={str(values).lower()}"):
                    given = True
                    yield rows
            except Again as again:
                if given:
                    what = f"partition {partition} of {name}: {again.message}"
                    raise ScanBroken(what) from again
                await tries.wait(again)
                await self._look_anew()
            else:
                return

    async def _stream(
        self, partition: int, path: str, left: deque[int] | None = None
    ) -> AsyncIterator[Rows]:
        """Blocks once all of a partition are here, or there are too many to hold. Of several
        partitions, those that are not whole yet are `left`."""
        reader, held, size = RowStream(), list[Rows](), 0
        left = deque((partition,)) if left is None else left
        owner = self._owner(partition)
        asking = self._exchange.asking("GET", owner, path, seconds=ANSWER_SECONDS)
        try:
            async with asking as (head, parts):
                if not head.is_success:
                    body = b"".join([part async for part in parts])
                    raise self._refused(partition, _answer(head, body, owner, path))
                async for data in parts:
                    for rows in reader.feed(data):
                        held.append(rows)
                        size += len(rows.data)
                        if rows.about.last:
                            _expect(rows, left)
                            size = 0
                        elif size <= self._hold_bytes:
                            continue
                        for each in held:
                            yield each
                        held.clear()
        except (Broken, TimeoutError, RemoteProtocolError) as error:
            if left:  # else everything is here, and what follows is nobody's
                raise Again(f"{owner}{path}: {error} ({type(error).__name__})") from error
        if left and (held or left[0] == partition):
            raise Again(f"{owner}{path}: it broke off")

    async def changes(
        self, name: str, partition: int, after: str = "newest", *, count: int = 4_096
    ) -> Changes:
        """What has changed after a point, at most so much; `oldest` and `newest` are points too.

        A point holds on every member, and over a fail-over. `JournalGap` when what comes next is
        not kept any more: then read the partition, and go on from the point of that.
        """
        path = f"/v1/bulk/names/{quote(name, safe='')}/partitions/{partition}/changes"
        answer = await self.ask("GET", partition, f"{path}?after={quote(after)}&count={count}")
        rows = decode(answer.content)
        return Changes(rows, f"{rows.about.epoch}-{rows.about.counter}")

    # Asking ---------------------------------------------------------------------------------------

    async def ask_each(
        self,
        method: str,
        partitions: Sequence[int],
        request: Request,
        headers: dict[str, str] | None = None,
        *,
        seconds: float = ANSWER_SECONDS,
        passes: Callable[[JobRefused], bool] = lambda _: False,
    ) -> None:
        """Ask the owner of several partitions, in one go if it can be done; the rest is asked one
        by one, and answered there with its reason. `passes` says which refusals are none."""
        count, done = len(partitions), 0
        if count > 1:
            owner, asked = self._owners[partitions[0]], request(0, count)
            done = await self._begin(method, owner, asked, headers, seconds, count)
        for at in range(done, count):
            path, body = request(at, at + 1)
            try:
                await self.ask(method, partitions[at], path, body, headers, seconds=seconds)
            except JobRefused as refused:
                if not passes(refused):
                    raise

    async def _begin(
        self,
        method: str,
        owner: str,
        asked: tuple[str, bytes],
        headers: dict[str, str] | None,
        seconds: float,
        count: int,
    ) -> int:
        """How many of several partitions are done by asking once."""
        try:
            head, _ = await self._exchange.ask(method, owner, *asked, headers, seconds=seconds)
        except (Broken, TimeoutError):
            return 0
        told = head.headers.get(DONE, "")
        known = int(told) if told.isdecimal() else 0
        return count if head.is_success else min(known, count - 1)

    async def ask(
        self,
        method: str,
        partition: int,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        seconds: float = ANSWER_SECONDS,
    ) -> httpx.Response:
        """Ask the owner of a partition for something that may be asked twice, until it is done."""
        tries = self._tries(partition)
        while True:
            try:
                return await self._once(method, partition, path, body, headers, seconds)
            except Again as again:
                await tries.wait(again)
            await self._look_anew()

    async def _once(
        self,
        method: str,
        partition: int,
        path: str,
        body: bytes,
        headers: dict[str, str] | None,
        seconds: float,
    ) -> httpx.Response:
        owner = self._owner(partition)
        try:
            head, content = await self._exchange.ask(
                method, owner, path, body, headers, seconds=seconds
            )
        except (Broken, TimeoutError) as error:
            raise Again(f"{owner}{path}: {error} ({type(error).__name__})") from error
        answer = _answer(head, content, owner, path)
        if not answer.is_success:
            raise self._refused(partition, answer)
        return answer

    def _tries(self, partition: int) -> Tries:
        return Tries(f"partition {partition}", self.patience_seconds)

    def _owner(self, partition: int) -> str:
        owner = self._owners[partition]
        if not owner:
            raise Again("nobody is known to own it")
        return owner

    def _refused(self, partition: int, answer: httpx.Response) -> HoldfastError:
        """What follows from an answer that is no success."""
        problem = problem_of(answer)
        owner = answer.headers.get(OWNER, "")
        if isinstance(problem, RemoteProtocolError):
            return Again(problem.message)
        if answer.status_code == MISDIRECTED:
            self._owners[partition] = owner or self._owners[partition]
            return Again(problem.message)
        if answer.status_code in AGAIN:
            return Again(problem.message)
        if answer.status_code == GONE:
            return JournalGap(problem.message, answer.headers.get(FIRST, ""))
        if answer.status_code == CONFLICT and problem.kind in OF_JOBS:
            return JobRefused(problem.message)
        return problem

    async def _look_anew(self) -> None:
        """Who owns what may have changed; who can't be asked now is asked the next time."""
        try:
            await self.learn()
        except Unreachable:
            return
