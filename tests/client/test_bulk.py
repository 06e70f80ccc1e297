"""The bulk client against real members: reading, following, jobs; and a death in between."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from holdfast.client.bulk import Bulk
from holdfast.client.bulk_jobs import Job, Receipt
from holdfast.errors import (
    ConfigurationError,
    JobRefused,
    JournalGap,
    ProblemReported,
    TryAgain,
    Unreachable,
)
from holdfast.wire.api.bulk import Mode
from holdfast.wire.rows import Row, decode
from tests.shell.http import clusters
from tests.shell.http.clusters import Processes, Running

SECRET = clusters.SECRET.encode()
Content = dict[bytes, bytes]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Processes]:
    """A cluster that a test may break."""
    yield from clusters.several(tmp_path)


def bulk_of(cluster: Processes, **settings: object) -> Bulk:
    return Bulk([member.url for member in cluster.living()], secret=SECRET, **settings)  # type: ignore[arg-type]


def write(member: Running, content: Content, *, more: tuple[str, ...] = ()) -> None:
    """By Redis' protocol."""
    client = redis.Redis(port=member.port("plain"), protocol=2, socket_timeout=20)
    with client.pipeline(transaction=False) as pipeline:
        for key, value in content.items():
            pipeline.set(key, value)
        for command in more:
            pipeline.execute_command(*command.split())  # type: ignore[no-untyped-call]
        pipeline.execute()
    client.close()


def some(name: str, count: int, size: int = 10) -> Content:
    return {b"%b:%d" % (name.encode(), n): (b"%d " % n) * size for n in range(count)}


async def read(bulk: Bulk, name: str, *, values: bool = True) -> list[Row]:
    return [row async for rows in bulk.read(name, values=values) for row in rows]


async def content(bulk: Bulk, name: str) -> Content:
    found = await read(bulk, name)
    assert len({row.key for row in found}) == len(found)
    return {row.key: row.value for row in found}


async def test_all_partitions_are_read_each_at_one_point(several: Processes) -> None:
    expected = some("read", 3_000, 50)
    write(several.members[0], expected, more=("HSET read:hash f v", "SET other:1 x"))
    async with bulk_of(several) as bulk:
        await bulk.learn()
        assert bulk.partition_count == 32
        points: dict[int, set[tuple[int, int]]] = {}
        found: list[Row] = []
        async for rows in bulk.read("read"):
            about = rows.about
            points.setdefault(about.partition, set()).add((about.epoch, about.counter))
            found += rows
        assert sorted(points) == list(range(32))
        assert all(len(each) == 1 for each in points.values())
        strings = {row.key: row.value for row in found if row.kind == 0}
        assert strings == expected
        assert [row.key for row in found if row.kind == 2] == [b"read:hash"]
        keys = await read(bulk, "read", values=False)
        assert sorted(row.key for row in keys) == sorted(row.key for row in found)
        assert not any(row.value for row in keys)
        assert await read(bulk, "nothing") == []
        write(several.members[0], {b"a/b/partitions/\xff:1": b"x"})
        place = bulk.partition_of(b"a/b/partitions/\xff:1")
        path = f"/v1/bulk/names/a%2Fb%2Fpartitions%2F%FF/partitions/{place}"
        odd = decode((await bulk.ask("GET", place, path)).content)
        assert [row.key for row in odd] == [b"a/b/partitions/\xff:1"]
        only = [rows async for rows in bulk.read("read", [5])]
        assert {rows.about.partition for rows in only} == {5}


async def test_a_member_that_does_not_own_it_says_who_does(several: Processes) -> None:
    async with bulk_of(several) as bulk:
        await bulk.learn()
        for partition in range(bulk.partition_count):
            bulk._owners[partition] = bulk.owner_of((partition + 1) % 3)
        write(several.members[0], some("moved", 50))
        assert await content(bulk, "moved") == some("moved", 50)


async def test_changes_are_followed_from_what_was_read(several: Processes) -> None:
    async with bulk_of(several) as bulk:
        await bulk.learn()
        partition = bulk.partition_of(b"tail:1")
        (rows,) = [rows async for rows in bulk.read_partition("tail", partition)]
        point = f"{rows.about.epoch}-{rows.about.counter}"
        write(several.members[0], {b"tail:1": b"a"}, more=("SET tail:1 b PX 60000", "DEL tail:1"))
        changes = await bulk.changes("tail", partition, point)
        assert [(row.key, row.value, row.kind) for row in changes.rows] == [
            (b"tail:1", b"a", 0),
            (b"tail:1", b"b", 0),
            (b"tail:1", b"", 5),
        ]
        assert [bool(row.expiry) for row in changes.rows] == [False, True, False]
        again = await bulk.changes("tail", partition, changes.point)
        assert (len(again.rows), again.point) == (0, changes.point)
        assert (await bulk.changes("tail", partition)).point == changes.point
        assert len((await bulk.changes("tail", partition, "oldest", count=2)).rows) == 2
        with pytest.raises(JournalGap) as gap:
            await bulk.changes("tail", partition, "999-7")
        assert len((await bulk.changes("tail", partition, gap.value.first)).rows) == 3


async def staged(job: Job, task: str, attempt: str, rows: Content, *gone: bytes) -> Receipt:
    writing = job.task(task, attempt)
    for key, value in rows.items():
        await writing.put(key, value)
    for key in gone:
        await writing.delete(key)
    receipt: Receipt = pickle.loads(pickle.dumps(await writing.finish()))  # noqa: S301 - our own
    return receipt


async def test_a_job_is_shown_at_its_end(several: Processes) -> None:
    """1. Two tasks, one of them tried twice. 2. Nobody sees anything. 3. Commit, and again."""
    before = {b"job:gone": b"x", b"job:0": b"old"}
    write(several.members[0], before)
    first, second = some("job", 2_000, 20), some("job", 500, 5)
    async with bulk_of(several) as bulk:
        await bulk.learn()
        job = Job(bulk, "a.b-c_1~", "job")
        receipts = [await staged(job, "0", "0", first, b"job:gone")]
        await staged(job, "1", "0", {b"job:lost": b"x"})
        receipts.append(await staged(job, "1", "1", second))
        assert await content(bulk, "job") == before
        await job.commit(receipts)
        await job.commit(receipts)
        assert await content(bulk, "job") == {**first, **second}
        with pytest.raises(JobRefused, match="the job is published"):
            await staged(job, "2", "0", {b"job:late": b"x"})
        with pytest.raises(JobRefused, match="published"):
            await job.abort()


async def test_a_job_may_replace_the_map_and_expire_its_rows(several: Processes) -> None:
    write(several.members[0], some("whole", 300))
    async with bulk_of(several) as bulk:
        await bulk.learn()
        job = Job(bulk, "replacing", "whole")
        writing = job.task("0", "0")
        await writing.put(b"whole:new", b"1")
        await writing.put(b"whole:past", b"1", expires_at_ms=1)
        await job.commit([await writing.finish()], Mode.REPLACE)
        assert await content(bulk, "whole") == {b"whole:new": b"1"}


async def test_a_job_that_is_taken_back_leaves_nothing(several: Processes) -> None:
    async with bulk_of(several) as bulk:
        await bulk.learn()
        job = Job(bulk, "aborted", "back")
        receipt = await staged(job, "0", "0", some("back", 100))
        await job.abort()
        assert await content(bulk, "back") == {}
        with pytest.raises(JobRefused, match="discarded"):
            await job.commit([receipt])
        with pytest.raises(JobRefused, match="discarded"):
            await staged(job, "0", "1", some("back", 1))


async def test_a_job_that_is_done_again_leaves_alone_what_is_shown(several: Processes) -> None:
    """Its first driver died between two partitions. Owners were told, and not asked for."""
    rows = some("again", 200)
    async with bulk_of(several) as bulk:
        await bulk.learn()
        owners = [bulk.owner_of(each) for each in range(bulk.partition_count)]
        receipt = await staged(Job(bulk, "again", "again"), "0", "0", rows)
        some_of_it = dict(list(receipt.blocks.items())[:3])
        await Job(bulk, "again", "again").commit([Receipt("0", "0", some_of_it)])
        shown = await content(bulk, "again")
        assert 0 < len(shown) < len(rows)
        write(several.members[0], dict.fromkeys(shown, b"newer"))
        with pytest.raises(JobRefused, match="the job is published"):
            await staged(Job(bulk, "again", "again"), "0", "1", rows)
    async with bulk_of(several, owners=owners) as bulk:
        job = Job(bulk, "again", "again", resumes=True)
        await job.commit([await staged(job, "0", "2", rows)])
        assert await content(bulk, "again") == rows | dict.fromkeys(shown, b"newer")


async def test_a_job_of_which_something_is_missing_shows_nothing(several: Processes) -> None:
    async with bulk_of(several) as bulk:
        await bulk.learn()
        job = Job(bulk, "missing", "part")
        receipt = await staged(job, "0", "0", some("part", 500))
        last = max(receipt.blocks)
        more = Receipt("0", "0", {**receipt.blocks, last: receipt.blocks[last] + 1})
        with pytest.raises(JobRefused, match="1 of 2 blocks"):
            await job.commit([more])
        assert await content(bulk, "part") == {}


async def test_what_makes_no_sense_is_refused_here(several: Processes) -> None:
    async with bulk_of(several) as bulk:
        await bulk.learn()
        with pytest.raises(ConfigurationError, match="no name of a map"):
            Job(bulk, "j", "a:b")
        with pytest.raises(ConfigurationError, match="no id of a job or task"):
            Job(bulk, "a/b", "a")
        with pytest.raises(ConfigurationError, match="no key of the map"):
            await Job(bulk, "j", "a").task("0", "0").put(b"b:1", b"")


async def test_strangers_get_nothing(several: Processes) -> None:
    async with Bulk([several.members[0].url]) as bulk:
        await bulk.learn()
        with pytest.raises(ProblemReported) as refused:
            await read(bulk, "read")
        assert refused.value.kind == "not-authorized"
        with pytest.raises(ProblemReported, match="Authorization"):
            await staged(Job(bulk, "j", "a"), "0", "0", some("a", 200))


async def test_nobody_to_ask() -> None:
    with pytest.raises(Unreachable, match="can't be asked"):
        await Bulk.connect(["http://127.0.0.1:1"])
    with pytest.raises(Unreachable, match="no address"):
        await Bulk.connect([])


async def test_a_death_in_the_middle_costs_nothing(own: Processes) -> None:
    """1. A map, and a job that is laid aside. 2. Reading begins; an owner is killed. 3. All of it
    is read, each key once. 4. The job is committed, and is whole. 5. Changes are followed on."""
    before, after = some("live", 2_000, 20), some("live", 3_000, 30)
    write(own.members[0], before)
    async with bulk_of(own, patience_seconds=40, parallel=2) as bulk:
        await bulk.learn()
        job = Job(bulk, "over-a-death", "live")
        receipt = await staged(job, "0", "0", after)
        points = {}
        for partition in range(bulk.partition_count):
            points[partition] = (await bulk.changes("live", partition)).point
        found: list[Row] = []
        victim = next(member for member in own.others() if member.name != "light")
        async for rows in bulk.read("live"):
            if not found:
                victim.kill()
            found += rows
        assert len(found) == len(before)
        assert {row.key: row.value for row in found} == before
        await job.commit([receipt])
        assert await content(bulk, "live") == after
        changed: Content = {}
        for partition, point in points.items():
            changes = await bulk.changes("live", partition, point)
            assert all(row.kind == 0 for row in changes.rows)
            changed |= {row.key: row.value for row in changes.rows}
        assert changed == after


async def test_where_nobody_comes_back_it_says_so(own: Processes) -> None:
    async with bulk_of(own, patience_seconds=1) as bulk:
        await bulk.learn()
        own.end()
        with pytest.raises(TryAgain, match="partition 0: not done in 1 s"):
            await bulk.changes("x", 0)
