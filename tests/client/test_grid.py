"""The client for data: straight to owners, patient where nothing was done, honest where it may."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.grid import Grid
from holdfast.client.http import HttpClient
from holdfast.errors import CommandError, TryAgain, UnknownOutcome, Unreachable
from tests.client.fakes import FakeMember, fake_member, slots
from tests.shell.http import clusters
from tests.shell.http.clusters import Processes

PATIENCE_SECONDS = 60.0
"""Of a client, on a machine that is busy with other things."""


def addresses(several: Processes) -> list[str]:
    """Where the members answer for their own keys."""
    return [member.ends["cluster"] for member in several.living()]


async def test_values_are_written_and_read_at_their_owners(several: Processes) -> None:
    async with await Grid.connect(addresses(several)[:1]) as grid:
        keys = [b"grid:%d" % number for number in range(300)]
        for key in keys[:20]:
            assert await grid.set(key, b"value of " + key)
        assert await grid.get(keys[0]) == b"value of grid:0"
        written = await grid.pipeline([(b"SET", key, key) for key in keys])
        assert written == ["OK"] * 300 or written == [b"OK"] * 300
        assert await grid.mget([*keys, b"grid:none"]) == [*keys, None]
        assert await grid.delete(*keys, b"grid:none") == 300
        assert await grid.get(keys[0]) is None


async def test_conditions_and_lives_are_kept(several: Processes) -> None:
    async with await Grid.connect(addresses(several)) as grid:
        assert await grid.set(b"grid:c", b"1", only_if_absent=True)
        assert not await grid.set(b"grid:c", b"2", only_if_absent=True)
        assert await grid.set(b"grid:c", b"3", only_if_present=True, ttl_ms=60_000)
        assert 0 < await grid.execute(b"PTTL", b"grid:c") <= 60_000
        with pytest.raises(CommandError, match="WRONGTYPE"):
            await grid.execute(b"LPUSH", b"grid:c", b"x")
        await grid.delete(b"grid:c")


async def test_commands_of_one_key_are_done_in_their_order(several: Processes) -> None:
    async with await Grid.connect(addresses(several)) as grid:
        commands = [(b"RPUSH", b"grid:list", b"%d" % number) for number in range(50)]
        results = await grid.pipeline([*commands, (b"LRANGE", b"grid:list", b"0", b"-1")])
        assert results[:50] == list(range(1, 51))
        assert results[50] == [b"%d" % number for number in range(50)]
        await grid.delete(b"grid:list")


class Written:
    """Numbers under keys: what was acknowledged last, and what may have been done since."""

    def __init__(self, grid: Grid, prefix: bytes, keys: int) -> None:
        self.grid = grid
        self.prefix = prefix
        self.keys = keys
        self.acknowledged: dict[bytes, int] = {}
        self.unknown: dict[bytes, set[int]] = {}

    async def write(self, number: int) -> None:
        """A write says that it was done, or that it may have been; nothing else."""
        key = self.prefix + b"%d" % (number % self.keys)
        try:
            assert await self.grid.set(key, b"%d" % number)
        except UnknownOutcome:
            self.unknown.setdefault(key, set()).add(number)
        else:
            self.acknowledged[key] = number

    async def check(self) -> None:
        """Each key has what was acknowledged last, or what may have come after it."""
        assert len(self.acknowledged) == self.keys
        found = await self.grid.mget(self.acknowledged)
        for (key, last), value in zip(self.acknowledged.items(), found, strict=True):
            assert value is not None, f"{key!r} is lost"
            later = {each for each in self.unknown.get(key, ()) if each > last}
            assert int(value) in {last, *later}, key


async def test_no_acknowledged_write_is_lost_when_partitions_move(several: Processes) -> None:
    """1. Writes go on. 2. A member is promoted and demoted: partitions move. 3. All is there."""
    moving = asyncio.Event()
    async with (
        await Grid.connect(addresses(several), patience_seconds=PATIENCE_SECONDS) as grid,
        HttpClient(several.members[0].url, secret=several.secret.encode()) as admin,
    ):
        written = Written(grid, b"moved:", 500)

        async def write() -> None:
            number = 0
            while not moving.is_set() or number < 1_000:
                await written.write(number)
                number += 1

        writing = asyncio.create_task(write())
        await admin.promote("light")
        await admin.demote("light")
        moving.set()
        await writing
        await written.check()
        await grid.delete(*written.acknowledged)


async def test_no_acknowledged_write_is_lost_when_a_member_dies(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """1. Writes go on. 2. A member is killed: some writes may have been done, or not, and say so.
    3. Writes go on. 4. Whatever was acknowledged last is there, or what may have come after it."""
    for processes in clusters.several(tmp_path_factory.mktemp("dying")):
        ends = addresses(processes)
        async with await Grid.connect(ends, patience_seconds=PATIENCE_SECONDS) as grid:
            written = Written(grid, b"died:", 200)
            victim = next(each for each in processes.others() if each.name != "light")
            for number in range(900):
                if number == 300:
                    victim.kill()
                await written.write(number)
            await written.check()


async def test_who_is_not_the_owner_says_who_is() -> None:
    async with fake_member(lambda _: b"+OK\r\n") as owner:
        moved = f"-MOVED 0 {owner.address}\r\n".encode()
        async with fake_member(lambda _: moved) as former:

            def everything() -> bytes:
                """The table is learned from whoever was asked, and is old at first."""
                known = former.address if not former.count(b"SET") else owner.address
                return slots((0, 16_383, known))

            former.everything = everything  # type: ignore[method-assign]
            async with await Grid.connect([former.address]) as grid:
                assert await grid.set(b"k", b"v")
        assert (former.count(b"SET"), owner.count(b"SET")) == (1, 1)


async def test_what_was_not_done_is_tried_again() -> None:
    replies = [b"-TRYAGAIN moving\r\n", b"-CLUSTERDOWN no owner\r\n", b"+OK\r\n"]
    async with (
        fake_member(lambda _: replies.pop(0)) as member,
        await Grid.connect([member.address]) as grid,
    ):
        assert await grid.set(b"k", b"v")
        assert member.count(b"SET") == 3


async def test_patience_ends() -> None:
    async with (
        fake_member(lambda _: b"-TRYAGAIN moving\r\n") as member,
        await Grid.connect([member.address], patience_seconds=0.2) as grid,
    ):
        with pytest.raises(TryAgain, match="TRYAGAIN moving"):
            await grid.set(b"k", b"v")


async def test_a_write_that_may_have_been_done_is_never_tried_again() -> None:
    async with (
        fake_member(lambda _: b"-UNKNOWNOUTCOME not confirmed\r\n") as member,
        await Grid.connect([member.address]) as grid,
    ):
        with pytest.raises(UnknownOutcome, match="not confirmed"):
            await grid.set(b"k", b"v")
        assert member.count(b"SET") == 1


async def test_a_write_whose_reply_is_lost_may_have_been_done() -> None:
    async with (
        fake_member(lambda _: None) as member,
        await Grid.connect([member.address]) as grid,
    ):
        with pytest.raises(UnknownOutcome, match="read the key to know"):
            await grid.set(b"k", b"v")
        assert member.count(b"SET") == 1


async def test_a_read_whose_reply_is_lost_is_asked_again() -> None:
    replies = [None, b"$1\r\nv\r\n"]
    async with (
        fake_member(lambda _: replies.pop(0)) as member,
        await Grid.connect([member.address]) as grid,
    ):
        assert await grid.get(b"k") == b"v"
        assert member.count(b"GET") == 2


async def test_a_member_that_says_nothing_is_given_up() -> None:
    async with (
        fake_member(lambda _: b"") as member,
        await Grid.connect([member.address], answer_seconds=0.1, patience_seconds=0.3) as grid,
    ):
        with pytest.raises(UnknownOutcome, match="has not answered"):
            await grid.set(b"k", b"v")
        with pytest.raises(TryAgain, match="has not answered"):
            await grid.get(b"k")


async def test_a_member_that_speaks_something_else_is_told() -> None:
    async with (
        fake_member(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n") as member,
        await Grid.connect([member.address], patience_seconds=0.1) as grid,
    ):
        with pytest.raises(TryAgain, match="does not speak Redis' protocol"):
            await grid.get(b"k")


async def test_what_is_not_asked_for_is_no_reply() -> None:
    async with (
        fake_member(lambda _: b"+OK\r\n+MORE\r\n") as member,
        await Grid.connect([member.address], patience_seconds=0.1) as grid,
    ):
        assert await grid.set(b"k", b"v")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((b"NOPE", b"k"), "unknown command"),
        ((b"GET",), "wrong number of arguments"),
        ((b"DBSIZE",), "names no key"),
        ((b"MGET", b"a", b"b"), "CROSSSLOT"),
        ((), "a command has a name"),
    ],
)
async def test_what_has_no_place_is_refused_before_it_is_sent(
    command: tuple[bytes, ...], words: str
) -> None:
    async with (
        fake_member(lambda _: b"+OK\r\n") as member,
        await Grid.connect([member.address]) as grid,
    ):
        with pytest.raises(CommandError, match=words):
            await grid.execute(*command)
        assert len(member.heard) == 1


async def test_where_nobody_is_that_is_told() -> None:
    async with fake_member(lambda _: b"") as member:
        gone = member.address
    with pytest.raises(Unreachable, match="can't be reached"):
        await Grid.connect([gone])
    with pytest.raises(Unreachable, match="can't be reached"):
        await Grid.connect(["nonsense"])
    with pytest.raises(Unreachable, match="no address"):
        await Grid.connect([])


@pytest.mark.parametrize("reply", [b"-ERR no\r\n", b":1\r\n", b"*1\r\n*1\r\n:0\r\n"])
async def test_a_table_that_is_none_is_told(reply: bytes) -> None:
    async with fake_member(lambda _: b"") as member:
        member.everything = lambda: reply  # type: ignore[method-assign]
        with pytest.raises(Unreachable, match="CLUSTER SLOTS"):
            await Grid.connect([member.address])


async def test_slots_that_nobody_owns_are_waited_for() -> None:
    async with fake_member(lambda _: b"$1\r\nv\r\n") as member:
        tables = [b"*0\r\n", b"*0\r\n", member.everything()]
        member.everything = lambda: tables.pop(0)  # type: ignore[method-assign]
        async with await Grid.connect([member.address]) as grid:
            assert await grid.get(b"k") == b"v"


async def test_commands_of_different_keys_go_out_together() -> None:
    """No reply comes before both are there."""
    seen: list[FakeMember] = []

    def answer(_: list[bytes]) -> bytes:
        return b"" if seen[0].count(b"SET") < 2 else b"+OK\r\n+OK\r\n"

    async with (
        fake_member(answer) as member,
        await Grid.connect([member.address]) as grid,
    ):
        seen.append(member)
        both = await grid.pipeline([(b"SET", b"a", b"1"), (b"SET", b"b", b"2")])
        assert len(both) == 2
