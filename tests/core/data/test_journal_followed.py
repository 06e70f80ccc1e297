"""A reader of a fragment's changes follows the partition's owner: each change once, or a gap.

`design/3` §10. The owner changes again and again, and frames to the backups are lost meanwhile, so
that whoever leads next may lack some of them. What the reader gets between two gaps has no hole and
no repetition, and is what the owners made, number by number.
"""

from __future__ import annotations

import random

import pytest

from holdfast.core.data.journal import Entry, Gap
from holdfast.core.data.vectors import Point
from holdfast.core.data_messages import BackupFrame
from holdfast.core.stores.record import number_of
from holdfast.core.stores.settings import NameSettings
from tests.core.data.grid import Grid, grid
from tests.core.harness import A, B, C, losing


class Reader:
    """Has everything up to a point, and asks whoever owns the partition for more."""

    def __init__(self) -> None:
        self.after: Point | None = None
        self.seen: list[Entry] = []
        self.gaps = 0

    def read(self, cluster: Grid) -> None:
        """Up to three changes; after a gap from where the journal begins."""
        owner = cluster.term.table.row(cluster.holding(A).partition).owner
        assert owner is not None
        copy = cluster.holding(owner).copies.get(b"default")
        if copy is None:
            return
        page = copy.journal.read(self.after or copy.journal.oldest, 3)
        if isinstance(page, Gap):
            self.gaps += 1
            self.after = page.first_available
            return
        before = self.after or copy.journal.oldest
        counters = [before.counter, *(entry.counter for entry in page.entries)]
        assert counters == list(range(before.counter, before.counter + len(counters)))
        assert all(number_of(entry.payload) == entry.counter for entry in page.entries)
        self.seen += page.entries
        self.after = page.after


@pytest.mark.parametrize("seed", range(6))
def test_each_change_comes_once_or_a_gap_is_told(seed: int) -> None:
    rng = random.Random(seed)
    names = NameSettings(backups=2, journal_entries=rng.choice((8, 1_000)))
    cluster, reader = grid(A, B, C, unnamed=names), Reader()
    made: dict[tuple[int, int], bytes] = {}
    for turn in range(12):
        members = rng.sample((A, B, C), 3)
        cluster.drops.clear()
        cluster.place(*members)
        cluster.run(3_000)
        if turn % 2:
            cluster.drops.append(losing(BackupFrame))
        for number in range(rng.randrange(8)):
            cluster.command(members[0], f"SET k{turn}.{number} v", session=turn)
            cluster.run(20)
            counter = cluster.copy(members[0]).vector
            made[counter.epoch, counter.counter] = f"k{turn}.{number}".encode()
            if rng.random() < 0.6:
                reader.read(cluster)
    cluster.drops.clear()
    cluster.run(3_000)
    for _ in range(80):
        reader.read(cluster)
    places = [(entry.epoch, entry.counter) for entry in reader.seen]
    assert all(made[place] == entry.key for place, entry in zip(places, reader.seen, strict=True))
    assert reader.seen
    assert reader.gaps or places == list(made)  # what is read anew after a gap may be known
