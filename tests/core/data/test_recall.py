"""An owner that comes back without the end of what it wrote asks its backups before it leads.

`design/3` §9: data is settled by epoch and counter. What `everysec` has acknowledged is in the
memory of the synchronous backups; the owner's files may lack it when the power was gone.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.data_messages import SyncAsk, SyncPage, SyncPlan, SyncPull, Way
from holdfast.core.effects import NoticeKind
from holdfast.core.events import Image
from holdfast.core.messages import Heartbeat, MigrationReady
from holdfast.core.migrations import MigrationType, Move
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import NO_INDEX, MemberId, Millis
from tests.core.data.grid import Grid, P, grid, moved, to, ways
from tests.core.disk import Disk
from tests.core.harness import A, B, C, losing, member

ONE = NameSettings(backups=1)
TWO = NameSettings(backups=2)
FORGETFUL = NameSettings(backups=1, journal_entries=2)


class Lost(Disk):
    """A disk that lost what was not synced, and perhaps a record before."""

    damaged = False

    def image(self) -> Image:
        """Nobody can say how much is missing."""
        found = super().image()
        if not self.damaged:
            return replace(found, unsure=True)
        held = tuple(replace(each, clean=False) for each in found.data)
        return replace(found, data=held, damaged=tuple(each for each, _, _ in found.fragments))


def lost(disk: Disk, *, damaged: bool = False) -> Lost:
    """The same content on such a disk."""
    found = Lost(**{name: getattr(disk, name) for name in Disk.__dataclass_fields__})
    found.damaged = damaged
    return found


def written(*replicas: MemberId | None, settings: NameSettings = ONE) -> tuple[Grid, Disk]:
    """A owns the partition and has written; its disk as it was before it wrote last."""
    cluster = grid(*replicas, persistent=True, unnamed=settings, sync_interval_ms=Millis(60_000))
    for key in ("old", "gone"):
        assert cluster.reply(A, f"SET {key} before") == b"+OK\r\n"
    before = cluster.disks[A].copied()
    for number in range(4):
        assert cluster.reply(A, f"SET k{number} acknowledged") == b"+OK\r\n"
    assert cluster.reply(A, "DEL gone") == b":1\r\n"
    assert cluster.reply(A, "SET old after") == b"+OK\r\n"
    return cluster, before


def pulls(cluster: Grid, who: MemberId) -> bool:
    """Whether it is being brought up to date."""
    return bool(cluster.nodes[who].data.pulling.pulls)


def restart(cluster: Grid, *ids: MemberId, incarnation: int = 2) -> None:
    """All of these, at once."""
    for each in ids:
        cluster.start(member(each, incarnation, persistent=True))


def lose_and_restart(cluster: Grid, left: Disk) -> None:
    """The power is gone, and this is left of what A had on its disk; everyone comes back."""
    cluster.crash(A, B, C)
    cluster.disks[A] = left
    restart(cluster, A, B, C)
    cluster.settle()


def assert_whole(cluster: Grid) -> None:
    """Everything that was acknowledged is there, wherever it should be."""
    for number in range(4):
        assert cluster.value(A, f"k{number}") == b"acknowledged"
    assert cluster.value(A, "old") == b"after"
    assert cluster.value(A, "gone") is None
    owner = cluster.holding(A)
    assert owner.reign == cluster.term.table.row(owner.partition).reign
    assert cluster.reply(A, "SET more 1") == b"+OK\r\n"
    cluster.run(500)
    for each in cluster.term.table.row(owner.partition).holders[:2]:
        assert cluster.content(each) == cluster.content(A)


def test_what_a_backup_acknowledged_outlives_the_disk_of_its_owner() -> None:
    """1. A writes, B has it. 2. A loses its last second, with its power, and everyone restarts.
    3. A is the owner as before, and has what B has of it."""
    cluster, before = written(A, B, None)
    lose_and_restart(cluster, lost(before))
    assert_whole(cluster)
    assert not cluster.noticed(NoticeKind.WRITES_LOST)


@pytest.mark.parametrize("settings", [ONE, FORGETFUL])
def test_a_backup_that_lives_gives_what_it_has(settings: NameSettings) -> None:
    """Where nothing is promoted: A comes back as the owner, to a backup with its journal."""
    cluster, before = written(A, B, None, settings=settings)
    cluster.crash(A)
    cluster.disks[A] = lost(before)
    cluster.drops.append(losing(SyncPlan, SyncPage))
    restart(cluster, A)
    cluster.run(4_000)
    cluster.drops.clear()
    cluster.settle()
    cluster.run_until(lambda: A in cluster.term.table.row(cluster.holding(B).partition).replicas)
    cluster.settle()
    for number in range(4):
        assert cluster.value(B, f"k{number}") == b"acknowledged"


def test_what_came_while_a_name_moved_here_is_told_of_by_the_files() -> None:
    """1. C is at index 2, where names with one backup do not go, and is to be at index 1. 2. It has
    what there is, and A writes on. 3. C has the index; nobody writes any more. 4. A loses its last
    second, with its power, and everyone restarts. [Seed 570 of the simulator: by C's files it stood
    where the sync had left it, with all that was written since; so it stood where A did, for good,
    and had something else.]"""
    settings = {"unnamed": ONE, "names": {b"two": TWO}, "sync_interval_ms": Millis(60_000)}
    cluster = grid(A, None, C, persistent=True, **settings)
    assert cluster.reply(A, "SET old before", "SET gone before") == b"+OK\r\n" * 2
    cluster.drops = [losing(MigrationReady)]
    cluster.migrate(Move(MigrationType.SHIFT_UP, None, NO_INDEX, NO_INDEX, C, 2, 1))
    cluster.run_until(lambda: cluster.value(C, "old") == b"before" and not pulls(cluster, C))
    before = cluster.disks[A].copied()
    writes = [f"SET k{number} acknowledged" for number in range(4)]
    cluster.command(A, *writes, "DEL gone", "SET old after")
    cluster.run_until(lambda: cluster.value(C, "old") == b"after")
    cluster.drops = []
    cluster.run_until(lambda: cluster.holding(C).index == 1)
    lose_and_restart(cluster, lost(before))
    assert_whole(cluster)
    assert not cluster.noticed(NoticeKind.WRITES_LOST)


def test_all_lost_their_last_second_and_it_is_said() -> None:
    """The one that got furthest is asked all the same."""
    cluster, before = written(A, B, None)
    cluster.crash(A, B, C)
    cluster.disks[A], cluster.disks[B] = lost(before), lost(cluster.disks[B])
    restart(cluster, A, B, C)
    cluster.settle()
    assert_whole(cluster)
    said = [notice.detail for notice in cluster.noticed(NoticeKind.WRITES_LOST)]
    assert said == [
        "what I wrote last may not be on my disk, and nobody who has all of it was there"
    ]


def test_a_backup_that_is_behind_is_not_taken_for_more() -> None:
    """B lost its end, A did not: A is unsure all the same, asks, and keeps what it has."""
    cluster, before = written(A, B, None)
    behind = cluster.disks[B].copied()
    behind.data, behind.fragments = before.data, before.fragments
    cluster.crash(A, B, C)
    cluster.disks[A], cluster.disks[B] = lost(cluster.disks[A]), lost(behind)
    restart(cluster, A, B, C)
    cluster.settle()
    assert_whole(cluster)


def test_damage_is_healed_before_it_leads() -> None:
    """A's files are damaged, and B's are not: what B has is all that was acknowledged."""
    cluster, before = written(A, B, None)
    lose_and_restart(cluster, lost(before, damaged=True))
    assert_whole(cluster)
    assert not cluster.noticed(NoticeKind.WRITES_LOST)
    assert Way.LEAVES in ways(cluster, A)


def test_what_is_unsettled_stays_so_until_it_leads() -> None:
    """Another process would have to ask again, until the first one leads in a new reign."""
    cluster, before = written(A, B, None)
    cluster.crash(A, B, C)
    cluster.disks[A] = lost(before)
    cluster.drops.append(to(B, SyncAsk))
    restart(cluster, A, B, C)
    cluster.run(6_000)
    holdings = cluster.nodes[A].data.holdings
    assert cluster.holding(A).recalls
    assert holdings.unsettled()
    assert not holdings.resumes()
    cluster.drops.clear()
    cluster.settle()
    assert not holdings.unsettled()
    assert_whole(cluster)


def test_a_question_of_another_reign_has_no_answer() -> None:
    cluster, _ = written(A, B, None)
    cluster.sent.clear()
    row = cluster.term.table.row(P)
    for owner, reign in ((A, row.reign + 1), (C, row.reign)):
        cluster.inject(member(owner), B, SyncAsk(1, P, reign, 0, (), recall=True))
    assert not cluster.messages(SyncPlan)


def test_a_copy_that_lacks_something_itself_is_not_taken_for_more() -> None:
    cluster, _ = written(A, B, None)
    cluster.sent.clear()
    copy = cluster.copy(B)
    copy.worth.touch()
    reign = cluster.term.table.row(P).reign
    cluster.inject(member(A), B, SyncAsk(1, P, reign, 0, (), recall=True))
    (plan,) = cluster.messages(SyncPlan, to=A)
    assert (plan.fragments, plan.sure) == ((), False)


def test_a_backup_whose_permit_is_over_says_so_to_its_owner() -> None:
    cluster, _ = written(A, B, None)
    cluster.sent.clear()
    cluster.inject(member(A), B, SyncPull(7, P, b"default", (), 0))
    cluster.inject(member(C), B, SyncPull(8, P, b"default", (), 0))
    (plan,) = cluster.messages(SyncPlan)
    assert (plan.id, plan.reason) == (7, "the permit is over")


def test_an_owner_of_what_moves_begins_its_reign_when_that_has_ended() -> None:
    """The migration has its next version already. (Seed 1919.)"""
    cluster = grid(B, None, C)
    cluster.drops = [losing(MigrationReady)]
    cluster.migrate(moved(None, 1, A))
    cluster.run(700)
    row = cluster.term.table.row(P)
    told = [each for sender, _, each in cluster.sent if sender == B and isinstance(each, Heartbeat)]
    asked = replace(told[-1], resumes=((P, row.reign),))
    cluster.inject(member(B), A, asked)
    assert cluster.term.table.row(P) == row
    cluster.drops = []
    cluster.run_until(lambda: not cluster.term.leadership.execution.running)
    cluster.inject(member(B), A, asked)
    assert cluster.term.table.row(P).reign > row.reign
