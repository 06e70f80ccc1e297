"""HOLDFAST.BULK COPIES and COPY: what each holder has, whoever owns it."""

from __future__ import annotations

from holdfast.core.data.likeness import Likeness, weigh
from holdfast.core.front.reading import SNAPSHOTS_MAX
from holdfast.ids import MemberId
from tests.core.data.grid import Grid, grid
from tests.core.front.clients import Client
from tests.core.front.test_cluster import asked
from tests.core.harness import A, B, C


class Auditor:
    """One session at a member."""

    def __init__(self, cluster: Grid, at: MemberId, number: int = 60) -> None:
        self.cluster = cluster
        self.at = at
        self.client = Client(cluster, at, number)

    def copies(self) -> tuple[int, list[bytes]]:
        told = asked(self.client, "HOLDFAST.BULK", "COPIES", "0")
        assert isinstance(told, list)
        return told[0], told[1]

    def copy(self, name: str, moment: int = 0) -> tuple[bytes, int, int, int]:
        told = asked(self.client, "HOLDFAST.BULK", "COPY", "0", name, str(moment))
        assert isinstance(told, list)
        return told[0], told[1], told[2], told[3]

    def weight(self, likeness: Likeness = Likeness.VERSIONS) -> int:
        snapshot = self.cluster.nodes[self.at].front.snapshot(self.client.number)
        assert snapshot is not None
        return weigh(snapshot.page(0, 1 << 20, 1_000).records, likeness)


def test_owner_and_backup_have_the_same_at_the_same_point() -> None:
    cluster = grid(A, None, C)
    cluster.reply(A, "SET a 1", "SET b 2", "SADD s x y", "RPUSH l 1", "SET other:1 x")
    cluster.run(20)
    owner, backup = Auditor(cluster, A), Auditor(cluster, C)
    assert owner.copies() == (0, [b"", b"default", b"other"])
    assert backup.copies() == (2, [b"", b"default", b"other"])
    point = f"{cluster.holding(A).reign}-3".encode()
    assert owner.copy("default") == backup.copy("default") == (point, 1, 3, 3)
    assert owner.weight() == backup.weight() != 0
    cluster.reply(A, "SET a 9")
    assert owner.copy("default") != (point, 1, 3, 3)
    before, moved = backup.weight(), owner.weight()
    assert before != moved
    cluster.run(20)
    assert owner.copy("default") == backup.copy("default")
    assert owner.weight() == backup.weight() == moved


def test_who_has_nothing_says_so() -> None:
    cluster = grid(A, None, C)
    cluster.reply(A, "SET a 1")
    stranger, owner = Auditor(cluster, B), Auditor(cluster, A)
    assert stranger.copies() == (-1, [])
    assert stranger.copy("default") == (b"0-0", 0, 0, 0)
    assert owner.copy("nothing") == (b"0-0", 0, 0, 0)
    assert cluster.nodes[A].front.snapshot(owner.client.number) is None


def test_what_has_expired_by_a_moment_is_left_out() -> None:
    cluster = grid(A, None, C)
    owner = Auditor(cluster, A)
    cluster.reply(A, "SET a 1 PX 500", "SET b 2")
    every = owner.copy("default")[3]
    all_of_it = owner.weight()
    owner.copy("default", 1 << 60)
    assert (every, all_of_it != owner.weight()) == (2, True)


def test_what_a_backup_lacks_is_not_clean() -> None:
    cluster = grid(A, None, C)
    cluster.reply(A, "SET a 1")
    cluster.run(20)
    backup = Auditor(cluster, C)
    assert backup.copy("default")[1] == 1
    cluster.copy(C).worth.dirty = True
    assert backup.copy("default")[1] == 0


def test_readers_are_counted_and_partitions_checked() -> None:
    cluster = grid(A, None, C)
    cluster.reply(A, "SET a 1")
    for number in range(SNAPSHOTS_MAX):
        Auditor(cluster, A, 100 + number).copy("default")
    late = Auditor(cluster, A)
    refused = late.client.call("HOLDFAST.BULK", "COPY", 0, "default", 0)
    assert refused.startswith(b"-TRYAGAIN 64 readers")
    assert late.client.call("HOLDFAST.BULK", "COPIES", 9).startswith(b"-ERR there is no such part")
