"""HOLDFAST.BULK: snapshots, journals and jobs, at the owner of a partition and its backups."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.core.data.tickets import AGAIN, UNKNOWN
from holdfast.core.data_messages import BackupFrame
from holdfast.core.front.reading import SNAPSHOTS_MAX
from holdfast.core.states import ClusterState
from holdfast.core.stores.packing import pack, unpack
from holdfast.core.stores.record import ABSENT, Kind, body_of, build
from holdfast.core.stores.settings import NameSettings
from holdfast.core.stores.snapshot import Snapshot
from holdfast.core.stores.space import NAMES_MAX, STAGING
from holdfast.core.stores.staging import BLOCK_ROWS_MAX, BLOCKS_MAX, State
from tests.core.data.grid import Grid, grid, moved
from tests.core.data.test_plane import handing_over
from tests.core.front.clients import Client, Word, alone
from tests.core.front.test_cluster import asked
from tests.core.harness import A, B, C, losing

OK = b"+OK\r\n"
LIFE = 10_000
ROUND = 200
Row = tuple[str, str | None]


def rows(*pairs: Row, expiry: int = 0) -> bytes:
    """Keys and records of a block; None for keys that go."""
    items: list[bytes] = []
    for key, value in pairs:
        kind = Kind.STRING if value is not None else Kind.GONE
        items += (key.encode(), build(ABSENT, kind, expiry, (value or "").encode()))
    return pack(items)


def winners(*each: tuple[str, str, int]) -> bytes:
    return pack([part for task, attempt, n in each for part in _bytes(task, attempt, n)])


def _bytes(*words: Word) -> list[bytes]:
    return [word if isinstance(word, bytes) else str(word).encode() for word in words]


class Reader:
    """One session that uses bulk commands about partition 0."""

    def __init__(self, cluster: Grid, number: int = 50) -> None:
        self.cluster = cluster
        self.client = Client(cluster, number=number)

    def say(self, word: str, *words: Word) -> bytes:
        return self.client.call("HOLDFAST.BULK", word, 0, *words)

    def stage_named(self, name: str, block: bytes) -> bytes:
        return self.say("STAGE", name, "job", "t", "1", 0, LIFE, block)

    def stage(
        self, block: bytes, job: str = "job", task: str = "t", attempt: str = "1", number: int = 0
    ) -> bytes:
        return self.say("STAGE", "default", job, task, attempt, number, LIFE, block)

    def publish(
        self,
        *counting: tuple[str, str, int],
        job: str = "job",
        mode: str = "append",
        name: str = "default",
    ) -> bytes:
        return self.say("PUBLISH", name, job, mode, LIFE, winners(*counting))

    def opened(self, name: str = "default") -> tuple[str, int]:
        told = asked(self.client, "HOLDFAST.BULK", "OPEN", "0", name)
        assert isinstance(told, list)
        return told[0].decode(), told[1]

    def snapshot(self) -> Snapshot | None:
        return self.cluster.nodes[A].front.snapshot(self.client.number)

    def read(self) -> dict[bytes, bytes]:
        snapshot = self.snapshot()
        assert snapshot is not None
        records, following = snapshot.page(0, 1 << 20, 1_000)
        assert following == 0
        return {key: body_of(record) for key, record in records}

    def tail(self, after: str, name: str = "default", count: int = 100) -> tuple[str, list[bytes]]:
        told = asked(self.client, "HOLDFAST.BULK", "TAIL", "0", name, after, str(count))
        assert isinstance(told, list)
        return told[0].decode(), unpack(told[1])[::2]


def owned(**settings: object) -> tuple[Grid, Reader]:
    """A owns the partition, C has its backup."""
    chosen: dict[str, object] = {"expiry_round_ms": ROUND, **settings}
    cluster = grid(A, None, C, **chosen)
    return cluster, Reader(cluster)


def staged(cluster: Grid) -> int:
    """What A has of unfinished jobs, and of marks."""
    fragment = cluster.holding(A).space.fragments.get(STAGING)
    return 0 if fragment is None else len(fragment)


# Snapshots ----------------------------------------------------------------------------------------


def test_a_snapshot_is_of_its_moment_and_of_one_name() -> None:
    cluster, reader = owned()
    assert cluster.reply(A, "SET a 1", "SET b 2", "SET other:1 x") == OK * 3
    cut, count = reader.opened()
    assert (cut, count) == (f"{cluster.holding(A).reign}-2", 2)
    assert cluster.reply(A, "SET a 9", "DEL b", "SET c 3") == OK + b":1\r\n" + OK
    assert reader.read() == {b"a": b"1", b"b": b"2"}
    reader.opened()
    assert reader.read() == {b"a": b"9", b"c": b"3"}
    assert len(cluster.copy(A).fragment.snapshots) == 1
    assert reader.client.call("HOLDFAST.BULK", "CLOSE") == OK
    assert reader.client.call("HOLDFAST.BULK", "CLOSE") == OK
    assert cluster.copy(A).fragment.snapshots == []
    reader.opened()
    reader.client.close()
    assert cluster.copy(A).fragment.snapshots == []


def test_a_name_that_nobody_wrote_is_empty_and_can_be_followed() -> None:
    cluster, reader = owned()
    cut, count = reader.opened("new")
    assert count == 0
    assert reader.snapshot() is None
    assert reader.tail(cut, "new") == (cut, [])
    assert cluster.reply(A, "SET new:1 x") == OK
    reader.say("TAIL", "new", cut, 10)
    cluster.run(20)
    assert reader.tail(cut, "new")[1] == [b"new:1"]
    assert reader.say("TAIL", "none", "99-7", 10).startswith(b"-GAP the oldest point")


def test_a_cut_is_told_when_everything_in_it_is_safe() -> None:
    cluster, reader = owned(operation_timeout_ms=500)
    cluster.drops = [losing(BackupFrame)]
    writer = Client(cluster, number=7)
    writer.send("SET a 1")
    reader.client.send(("HOLDFAST.BULK", "OPEN", 0, "default"))
    assert reader.client.told == b""
    cluster.run(600)
    assert writer.told == UNKNOWN
    assert reader.client.told == AGAIN


def test_a_snapshot_is_read_to_its_end_after_the_partition_has_moved() -> None:
    cluster, reader = owned()
    assert cluster.reply(A, "SET a 1", "SET b 2") == OK * 2
    cluster.copy(A)
    reader.opened()
    cluster.migrate(moved(A, 0, B))
    cluster.run(200)
    assert cluster.holding(B).reign
    assert cluster.reply(B, "SET a 9") == OK
    assert reader.read() == {b"a": b"1", b"b": b"2"}
    told = reader.say("OPEN", "default")
    assert told.startswith(b"-MOVED 0 ")


def test_a_session_of_the_plain_port_is_told_as_well_who_it_is() -> None:
    cluster, _ = owned()
    client = Client(cluster, B, 70, plain=True)
    assert client.call("HOLDFAST.BULK", "OPEN", 0, "default").startswith(b"-MOVED 0 ")


def test_an_open_waits_while_the_partition_is_handed_over_for_writes_only() -> None:
    cluster = handing_over()
    client = Client(cluster, number=60)
    client.send(("HOLDFAST.BULK", "DISCARD", 0, "job", LIFE))
    assert client.told == b""


def test_too_many_readers_come_again() -> None:
    cluster, reader = owned()
    assert cluster.reply(A, "SET a 1") == OK
    others = [Reader(cluster, 100 + number) for number in range(SNAPSHOTS_MAX)]
    for each in others:
        each.opened()
    assert reader.say("OPEN", "default").startswith(b"-TRYAGAIN 64 readers")
    others[0].opened()
    others[0].client.close()
    reader.opened()


def test_where_names_are_crowded_only_those_of_the_name() -> None:
    cluster, reader = owned()
    fill = [f"SET n{number}:1 x" for number in range(NAMES_MAX + 5)]
    assert cluster.reply(A, *fill, "SET late:1 y", "SET plain z") == OK * (len(fill) + 2)
    assert cluster.holding(A).space.crowded
    reader.opened("late")
    assert reader.read() == {b"late:1": b"y"}
    reader.opened()
    assert reader.read() == {b"plain": b"z"}
    point, _ = reader.tail("OLDEST", "late", 1_000)
    assert cluster.reply(A, "SET late:2 y", "SET plain zz") == OK * 2
    assert reader.tail(point, "late")[1] == [b"late:2"]
    assert reader.stage_named("late", rows(("late:3", "w"))) == OK
    assert reader.publish(("t", "1", 1), mode="replace", name="late") == b"+published\r\n"
    reader.opened("late")
    assert reader.read() == {b"late:3": b"w"}
    assert cluster.value(A, "plain") == b"zz"


# Journals -----------------------------------------------------------------------------------------


def test_changes_are_followed_from_a_cut_and_over_a_fail_over() -> None:
    cluster, reader = owned()
    assert cluster.reply(A, "SET a 1", "SET b 2") == OK * 2
    cut, _ = reader.opened()
    assert cluster.reply(A, "SET a 3", "DEL b", "HOLDFAST.LOCK a 50") == OK + b":1\r\n:5\r\n"
    point, keys = reader.tail(cut)
    assert keys == [b"a", b"b"]
    assert reader.tail(cut, count=1)[1] == [b"a"]
    assert reader.tail("NEWEST") == (point, [])
    assert reader.tail("oldest")[1] == [b"a", b"b", b"a", b"b"]
    cluster.place(C, None, A)
    other = Client(cluster, C, 80)
    assert other.call("SET", "c", "4") == OK
    told = asked(other, "HOLDFAST.BULK", "TAIL", "0", "default", point, "10")
    assert isinstance(told, list)
    assert unpack(told[1])[::2] == [b"c"]


def test_a_gap_is_told() -> None:
    cluster, reader = owned(unnamed=NameSettings(backups=2, journal_entries=2))
    cut, _ = reader.opened()
    assert cluster.reply(A, *(f"SET k{number} v" for number in range(5))) == OK * 5
    assert reader.say("TAIL", "default", cut, 10).startswith(b"-GAP the oldest point")
    assert reader.tail("OLDEST")[1]


# Jobs ---------------------------------------------------------------------------------------------


def test_a_job_is_shown_at_its_end_once_and_on_the_backup_too() -> None:
    cluster, reader = owned()
    assert cluster.reply(A, "SET a old", "SET gone x") == OK * 2
    assert reader.stage(rows(("a", "1"), ("b", "2"))) == OK
    assert reader.stage(rows(("a", "1"), ("b", "2"))) == OK, "the same once more"
    assert reader.stage(rows(("gone", None), ("never", None)), number=1) == OK
    assert reader.stage(rows(("a", "of another attempt")), attempt="2") == OK
    assert cluster.value(A, "a") == b"old"
    assert cluster.reply(A, "DBSIZE") == b":2\r\n", "nobody is shown what is laid aside"
    assert reader.say("CHECK", "job", LIFE, winners(("t", "1", 2))) == OK
    assert reader.publish(("t", "1", 2)) == b"+publishing\r\n"
    assert reader.say("OPEN", "default").startswith(b"-TRYAGAIN a job is being published")
    assert reader.say("CHECK", "job", LIFE, winners(("t", "1", 2))) == OK, "it can't fail any more"
    assert reader.publish(("t", "1", 2)) == b"+published\r\n"
    assert cluster.reply(A, "SET a later") == OK
    assert reader.publish(("t", "1", 2)) == b"+published\r\n", "done once"
    for each in (A, C):
        values = [cluster.value(each, key) for key in ("a", "b", "gone", "never")]
        assert values == [b"later", b"2", None, None]
    assert cluster.content(A) == cluster.content(C)
    assert staged(cluster) == 1, "the mark"
    assert reader.stage(rows(("a", "1"))).startswith(b"-JOBOVER the job is published")
    assert reader.say("DISCARD", "job", LIFE).startswith(b"-JOBOVER the job is published")
    cluster.run(LIFE + 3 * ROUND)
    assert staged(cluster) == 0


def test_a_job_that_is_not_whole_changes_nothing() -> None:
    cluster, reader = owned()
    assert reader.stage(rows(("a", "1"))) == OK
    told = reader.publish(("t", "1", 2))
    assert told.startswith(b"-NOTSTAGED 1 of 2 blocks")
    assert reader.say("CHECK", "job", LIFE, winners(("t", "2", 1))).startswith(b"-NOTSTAGED 1 of 1")
    assert reader.publish(("t", "1", 1), job="unknown").startswith(b"-NOTSTAGED 1 of 1")
    assert cluster.value(A, "a") is None
    assert reader.publish(("t", "1", 1)) == b"+published\r\n"


def test_what_nobody_comes_back_to_is_forgotten() -> None:
    cluster, reader = owned()
    assert reader.stage(rows(("a", "1"))) == OK
    cluster.run(LIFE // 2)
    assert reader.stage(rows(("b", "1")), number=1) == OK, "which renews the job's life"
    cluster.run(LIFE // 2 + 3 * ROUND)
    assert staged(cluster) == 3
    cluster.run(LIFE)
    assert staged(cluster) == 0
    assert cluster.content(A) == cluster.content(C)
    assert reader.publish(("t", "1", 1)).startswith(b"-NOTSTAGED")


def test_a_job_that_is_discarded_leaves_nothing_and_refuses_what_comes_late() -> None:
    cluster, reader = owned()
    assert reader.stage(rows(("a", "1"))) == OK
    assert reader.stage(rows(("b", "1")), job="other") == OK
    assert reader.say("DISCARD", "job", LIFE) == OK
    assert reader.say("DISCARD", "job", LIFE) == OK
    assert staged(cluster) == 3, "a mark, and the other job"
    assert reader.stage(rows(("a", "1"))).startswith(b"-JOBOVER the job is discarded")
    assert reader.publish(("t", "1", 1)).startswith(b"-JOBOVER the job is discarded")
    assert reader.say("DISCARD", "new", LIFE) == OK
    cluster.run(LIFE + 3 * ROUND)
    assert staged(cluster) == 0


def test_replacing_shows_what_the_job_has_and_nothing_else_of_the_name() -> None:
    cluster, reader = owned()
    assert cluster.reply(A, "SET a 1", "RPUSH list x", "SET other:1 x") == OK + b":1\r\n" + OK
    assert reader.stage(rows(("b", "2"))) == OK
    assert reader.publish(("t", "1", 1), mode="replace") == b"+published\r\n"
    assert [cluster.value(A, key) for key in ("a", "b", "other:1")] == [None, b"2", b"x"]
    assert cluster.reply(A, "EXISTS list") == b":0\r\n"
    assert reader.publish(job="empty", mode="replace") == b"+published\r\n"
    assert cluster.value(A, "b") is None
    assert cluster.content(A) == cluster.content(C)


def test_rows_have_their_life_or_that_of_the_name() -> None:
    cluster, reader = owned(unnamed=NameSettings(backups=2, ttl_ms=5_000))
    wall = cluster.nodes[A].data.wall
    assert reader.stage(rows(("a", "1"))) == OK
    assert reader.stage(rows(("b", "1"), expiry=wall + 1_000), number=1) == OK
    assert reader.stage(rows(("c", "1"), expiry=wall + 1), number=2) == OK
    cluster.run(10)
    counting = ("t", "1", 3)
    for _ in range(2):
        assert reader.publish(counting) == b"+publishing\r\n"
    assert reader.publish(counting) == b"+published\r\n"
    assert cluster.value(A, "c") is None
    cluster.run(1_000 + 3 * ROUND)
    assert [cluster.value(A, key) for key in ("a", "b")] == [b"1", None]
    cluster.run(5_000)
    assert cluster.value(A, "a") is None


def test_the_owner_goes_on_if_nobody_asks_it_to_and_so_does_the_next_one() -> None:
    cluster, reader = owned(expiry_round_ms=60_000)
    for number in range(4):
        assert reader.stage(rows((f"k{number}", "v")), number=number) == OK
    assert reader.publish(("t", "1", 4)) == b"+publishing\r\n"
    cluster.place(C, None, A)
    cluster.run(5 * 60_000)
    assert [cluster.value(C, f"k{number}") for number in range(4)] == [b"v"] * 4
    assert cluster.content(A) == cluster.content(C)


def test_a_locked_key_holds_a_block_up_and_not_for_ever() -> None:
    cluster, reader = owned()
    holder = Client(cluster, number=90)
    assert holder.call("HOLDFAST.LOCK", "b", 900) == b":1\r\n"
    assert reader.stage(rows(("a", "1"), ("b", "1"))) == OK
    assert reader.publish(("t", "1", 1)).startswith(b"-LOCKED")
    assert cluster.value(A, "a") is None
    cluster.run(ROUND * 4)
    assert cluster.value(A, "a") is None, "also not by itself"
    cluster.run(1_000)
    assert [cluster.value(A, key) for key in ("a", "b")] == [b"1", b"1"]
    assert reader.publish(("t", "1", 1)) == b"+published\r\n"
    assert holder.call("HOLDFAST.LOCK", "b", 600)
    assert reader.stage(rows(("d", "1")), job="beside") == OK
    assert reader.publish(("t", "1", 1), job="beside") == b"+published\r\n", "of other keys"
    assert reader.stage(rows(("c", "1")), job="next") == OK
    assert reader.publish(("t", "1", 1), job="next", mode="replace").startswith(b"-LOCKED")
    assert cluster.value(A, "a") == b"1"


def test_an_answer_waits_until_what_it_says_is_safe() -> None:
    cluster, reader = owned(operation_timeout_ms=400)
    assert reader.stage(rows(("a", "1"))) == OK
    cluster.drops = [losing(BackupFrame)]
    reader.client.send(
        ("HOLDFAST.BULK", "PUBLISH", 0, "default", "job", "append", LIFE, winners(("t", "1", 1)))
    )
    other = Reader(cluster, 51)
    other.client.send(
        ("HOLDFAST.BULK", "PUBLISH", 0, "default", "job", "append", LIFE, winners(("t", "1", 1)))
    )
    assert reader.client.told == other.client.told == b""
    looker = Client(cluster, number=52)
    looker.send("GET a")
    cluster.run(500)
    assert reader.client.told == UNKNOWN
    assert other.client.told == AGAIN, "it found nothing to do, which is not safe yet either"
    assert looker.told == AGAIN
    cluster.drops = []
    cluster.run(500)
    assert reader.publish(("t", "1", 1)) == b"+published\r\n"


def test_a_state_without_writes_takes_no_job() -> None:
    cluster, reader = owned()
    admin = Client(cluster, number=95)
    admin.send("HOLDFAST.STATE PASSIVE")
    cluster.run(1_000)
    assert all(
        node.view and node.view.state is ClusterState.PASSIVE for node in cluster.nodes.values()
    )
    assert reader.stage(rows(("a", "1"))).startswith(b"-CLUSTERDOWN the cluster's state accepts no")
    assert reader.opened()[1] == 0


def test_there_is_an_end_to_what_is_laid_aside() -> None:
    _, reader = owned()
    cluster = reader.cluster
    fragment = cluster.holding(A).space.named(STAGING)
    for number in range(BLOCKS_MAX):
        fragment.records[pack((b"x", b"%d" % number))] = b""
    assert reader.stage(rows(("a", "1"))).startswith(b"-OOM a partition keeps at most")


def test_a_full_member_takes_no_more_and_shows_what_it_has() -> None:
    cluster, reader = owned(memory_max_bytes=20_000)
    assert reader.stage(rows(("a", "x" * 9_000))) == OK
    assert cluster.reply(A, "SET big " + "x" * 12_000) == OK
    cluster.run(3_000)
    assert reader.stage(rows(("b", "1")), number=1).startswith(b"-OOM")
    assert reader.publish(("t", "1", 1)) == b"+published\r\n"
    assert cluster.value(A, "a") == b"x" * 9_000


ONE = rows(("a", "1"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("OPEN", 99, "default"), "ERR there is no such partition"),
        (("OPEN", "x", "default"), "ERR value is not an integer"),
        (("OPEN", 0, ""), "ERR a name has at least one byte"),
        (("OPEN", 0, "a:b"), "ERR a name has at least one byte"),
        (("OPEN", 0), "ERR wrong number of arguments for 'holdfast.bulk|open' command"),
        (("WHAT",), "ERR unknown subcommand 'WHAT'. Try HOLDFAST.BULK HELP."),
        (("TAIL", 0, "default", "1-0", 0), "ERR syntax error"),
        (("TAIL", 0, "default", "nonsense", 1), "ERR value is not an integer"),
        (("STAGE", 0, "default", "j", "t", "1", -1, LIFE, ONE), "ERR syntax error"),
        (("STAGE", 0, "default", "j", "t", "1", 0, 0, ONE), "ERR a job lives 1 to"),
        (("STAGE", 0, "default", "", "t", "1", 0, LIFE, ONE), "ERR the id of a job or task"),
        (("STAGE", 0, "default", "j", "t" * 200, "1", 0, LIFE, ONE), "ERR the id of a job or task"),
        (("STAGE", 0, "other", "j", "t", "1", 0, LIFE, ONE), "ERR a key of the block is not of"),
        (("STAGE", 0, "default", "j", "t", "1", 0, LIFE, b""), "ERR a block has 1 to"),
        (("STAGE", 0, "default", "j", "t", "1", 0, LIFE, b"xx"), "ERR a block has 1 to"),
        (("STAGE", 0, "default", "j", "t", "1", 0, LIFE, pack([b"a"])), "ERR a block has 1 to"),
        (("STAGE", 0, "default", "j", "t", "1", 0, LIFE, pack([b"a", b"x"])), "ERR a block has"),
        (
            ("STAGE", 0, "default", "j", "t", "1", 0, LIFE, pack([b"a", bytes(10) + b"\x13"])),
            "ERR a block has 1 to",
        ),
        (
            ("STAGE", 0, "default", "j", "t", "1", 0, LIFE, pack([b"a", bytes(10) + b"\x10"])),
            "ERR a block has 1 to",
        ),
        (
            ("STAGE", 0, "default", "j", "t", "1", 0, LIFE, pack([b"a", bytes(10) + b"\x20"])),
            "ERR a block has 1 to",
        ),
        (
            ("STAGE", 0, "default", "j", "t", "1", 0, LIFE, rows(*[("a", "")] * 9_000)),
            f"ERR a block has 1 to {BLOCK_ROWS_MAX} rows",
        ),
        (
            ("STAGE", 0, "default", "j", "t", "1", 0, LIFE, rows(("a" * 70_000, ""))),
            "ERR the key has more than 64 KiB",
        ),
        (("CHECK", 0, "j", LIFE, b"x"), "ERR syntax error"),
        (("CHECK", 0, "j", LIFE, winners(("t", "1", 0))), "ERR syntax error"),
        (("CHECK", 0, "j", LIFE, winners(("t", "1", 99_999))), "ERR syntax error"),
        (("CHECK", 0, "", LIFE, b""), "ERR the id of a job"),
        (("CHECK", 0, "j", 0, b""), "ERR a job lives 1 to"),
        (("PUBLISH", 0, "default", "j", "what", LIFE, b""), "ERR syntax error"),
        (("DISCARD", 0, "j", -1), "ERR a job lives 1 to"),
    ],
)
def test_what_makes_no_sense_is_refused(words: Sequence[Word], told: str) -> None:
    cluster, reader = owned()
    assert reader.client.call("HOLDFAST.BULK", *words).startswith(b"-" + told.encode())
    assert staged(cluster) == 0


def test_a_key_of_another_partition_is_refused() -> None:
    cluster = alone()
    client = Client(cluster)
    told = client.call("HOLDFAST.BULK", "STAGE", 0, "default", "j", "t", "1", 0, LIFE, ONE)
    assert told.startswith(b"-ERR a key of the block is not in this partition")


def test_states_have_words() -> None:
    assert [state.word for state in State] == ["staging", "publishing", "published", "discarded"]
