"""Whoever reads the changes of a name goes on at whoever gets the partition (`docs/adr/0028`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from holdfast.core.data import giving
from holdfast.core.data.following import FOLLOWED_MS, NAMES_MAX, Following
from holdfast.core.data.journal import Gap, Page
from holdfast.core.data.vectors import Point
from holdfast.core.data_messages import SyncPage, Way
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import MemberId
from tests.core.data.grid import Grid, grid, moved, ways, write
from tests.core.harness import A, B, C, losing

FOLLOW: Final = "HOLDFAST.BULK TAIL 0 default OLDEST 1"
ALONE: Final = NameSettings(backups=0)
KEYS: Final = ("k1", "k2", "k3", "k4", "k5")

# Who is remembered --------------------------------------------------------------------------------


def test_a_name_is_followed_for_a_while_from_when_it_was_read() -> None:
    following = Following()
    assert not following.has(b"n", 0)
    following.note(b"n", 5)
    assert following.has(b"n", 4 + FOLLOWED_MS)
    assert not following.has(b"n", 5 + FOLLOWED_MS)


def test_of_many_names_the_last_ones_are_remembered() -> None:
    following = Following()
    for number in range(NAMES_MAX):
        following.note(b"%d" % number, number)
    following.note(b"0", NAMES_MAX)
    following.note(b"another", NAMES_MAX)
    assert following.has(b"0", NAMES_MAX)
    assert not following.has(b"1", NAMES_MAX)


# What moves ---------------------------------------------------------------------------------------


def moving(*, followed: bool = True, kept: int = 256) -> Grid:
    """A owns the partition alone; it has some changes that somebody follows, or nobody."""
    unnamed = replace(ALONE, journal_entries=kept)
    cluster = grid(A, unnamed=unnamed, backup_count=0)
    write(cluster, *KEYS)
    if followed:
        cluster.reply(A, FOLLOW)
    return cluster


def move(cluster: Grid, source: MemberId, destination: MemberId) -> None:
    cluster.migrate(moved(source, 0, destination))
    cluster.run(5_000)
    assert cluster.term.table.row(cluster.holding(destination).partition).owner == destination


def read(cluster: Grid, member_id: MemberId, counter: int) -> list[tuple[int, bytes]] | None:
    """What a reader that has seen so many changes is told next; None for a gap."""
    journal = cluster.copy(member_id).journal
    first = journal.lineage.segments[0]
    page: Page | Gap = journal.read(
        first if counter == first.counter else Point(journal.lineage.epoch_of(counter), counter), 99
    )
    return None if isinstance(page, Gap) else [(e.counter, e.key) for e in page.entries]


def test_the_journal_of_what_somebody_follows_moves_along() -> None:
    cluster = moving()
    move(cluster, A, B)
    assert read(cluster, B, 2) == [(3, b"k3"), (4, b"k4"), (5, b"k5")]
    assert read(cluster, B, 0) == [(n, b"k%d" % n) for n in range(1, 6)]


def test_the_journal_of_what_nobody_follows_stays() -> None:
    cluster = moving(followed=False)
    move(cluster, A, B)
    assert read(cluster, B, 2) is None
    assert read(cluster, B, 5) == []
    assert not any(page.past for page in cluster.messages(SyncPage))


def test_it_moves_after_the_records_where_it_does_not_tell_all_of_them() -> None:
    cluster = moving(kept=3)
    move(cluster, A, B)
    assert ways(cluster, B) == [Way.CHANGES]
    assert read(cluster, B, 2) == [(3, b"k3"), (4, b"k4"), (5, b"k5")]
    assert read(cluster, B, 1) is None


def test_it_moves_on_before_any_reader_has_come_by() -> None:
    cluster = moving()
    move(cluster, A, B)
    move(cluster, B, C)
    assert read(cluster, C, 0) == [(n, b"k%d" % n) for n in range(1, 6)]


def test_what_is_written_meanwhile_joins_what_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving, "PAGE_BYTES", 1)
    cluster = moving()
    cluster.migrate(moved(A, 0, B))
    for number in range(6, 10):
        cluster.command(A, f"SET k{number} v", session=99)
        cluster.run(1)
    cluster.run(5_000)
    last = cluster.copy(B).vector.counter
    assert last > len(KEYS)
    assert read(cluster, B, 0) == [(n, b"k%d" % n) for n in range(1, last + 1)]
    assert sum(page.past for page in cluster.messages(SyncPage)) >= len(KEYS)


def test_a_part_that_is_lost_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving, "PAGE_BYTES", 1)
    cluster = moving()
    cluster.migrate(moved(A, 0, B))
    cluster.run(3)
    cluster.drops.append(losing(SyncPage))
    cluster.run(600)
    cluster.drops.clear()
    cluster.run(5_000)
    assert read(cluster, B, 0) == [(n, b"k%d" % n) for n in range(1, 6)]


def test_a_backup_that_had_missed_something_has_the_journal_when_it_leads() -> None:
    cluster = grid(A, B, unnamed=NameSettings(backups=1))
    write(cluster, *KEYS)
    cluster.reply(A, FOLLOW)
    cluster.place(A, C)
    cluster.run(60_000)
    cluster.place(C, None)
    assert read(cluster, C, 1) == [(n, b"k%d" % n) for n in range(2, 6)]
