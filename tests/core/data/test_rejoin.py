"""What comes over the network when a member is back: what was changed meanwhile, and nothing else.

Seed 003 "Differential migration data synchronization"; `design/3` §6. Counted are the keys whose
records are in plans, pages and frames that go to it.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import pytest

from holdfast.core.data_messages import BackupFrame, SyncPage, SyncPlan, Way
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import Millis
from tests.core.data.grid import Grid, grid, to, ways
from tests.core.harness import A, B, cut

KEYS: Final = tuple(f"k{number}" for number in range(200))
LARGE: Final = 10_000
SMALL: Final = 4
"""A journal of so few entries has forgotten what was missed, but for what was removed."""
NONE: Final = 0


def filled(journal: int) -> Grid:
    """A owns 200 keys and B has them; then B is cut off until it is out, and keeps its data."""
    cluster = grid(
        A, B, unnamed=NameSettings(backups=1, journal_entries=journal), sync_interval_ms=Millis(500)
    )
    for key in KEYS:
        cluster.command(A, f"SET {key} old")
    cluster.run(3_000)
    cluster.drops.append(cut([B]))
    cluster.run_until(lambda: B not in {m.id for m in cluster.term.view.members})  # type: ignore[union-attr]
    return cluster


def mutate(cluster: Grid) -> set[bytes]:
    """A tenth of the keys is changed, removed, or made anew."""
    chosen = random.Random(1).sample(KEYS, 20)
    new = ["n1", "n2"]
    for number, key in enumerate(chosen):
        cluster.command(A, f"DEL {key}" if number % 4 == 0 else f"SET {key} new")
    for key in new:
        cluster.command(A, f"SET {key} new")
    cluster.run(100)
    return {key.encode() for key in (*chosen, *new)}


def returned(cluster: Grid) -> Counter[bytes]:
    """B comes back; how often each key's record went to it, until both are equal."""
    cluster.sent.clear()
    cluster.drops.clear()
    cluster.run_until(lambda: B in cluster.term.table.row(cluster.holding(A).partition).replicas)
    cluster.run_until(lambda: cluster.in_sync(B) and not cluster.nodes[B].data.pulling.pulls)
    cluster.run(2_000)
    assert cluster.content(B) == cluster.content(A)
    runs = [run for frame in cluster.messages(BackupFrame, to=B) for run in frame.runs]
    plans = [plan for each in cluster.messages(SyncPlan, to=B) for plan in each.fragments]
    mutations = [
        *(pair for run in runs for pair in run.mutations),
        *(pair for plan in plans for pair in plan.records),
        *(pair for page in cluster.messages(SyncPage, to=B) for pair in page.records),
    ]
    found = Counter(key for key, _ in mutations)
    assert cluster.nodes[B].data.pulling.records == len(found)
    assert (cluster.nodes[B].data.pulling.bytes > 0) is bool(found)
    return found


@pytest.mark.parametrize("journal", [LARGE, SMALL, NONE])
def test_nothing_was_changed_and_nothing_comes(journal: int) -> None:
    assert not returned(filled(journal))


@pytest.mark.parametrize("journal", [LARGE, SMALL, NONE])
def test_exactly_what_was_changed_comes(journal: int) -> None:
    cluster = filled(journal)
    changed = mutate(cluster)
    came = returned(cluster)
    used = {way for way in ways(cluster, B) if way is not Way.NOTHING}
    if journal:
        assert used == {Way.CHANGES}
        assert set(came) == changed
    else:
        assert used == {Way.LEAVES}
        # what is not there any more is told by the list of its leaf, and costs no record
        gone = {key for key in changed if key not in cluster.copy(A).fragment.records}
        assert len(gone) == 5
        assert set(came) == changed - gone


def test_everything_converges_soon_after_two_thirds_of_the_frames_were_lost() -> None:
    """For a while B gets every third frame. One interval after that it has everything, and no
    permit is out."""
    interval = 1_000
    cluster = grid(A, B, sync_interval_ms=Millis(interval), backup_bytes_max=2_000)
    chance = random.Random(4)
    lost = to(B, BackupFrame)
    cluster.drops.append(lambda *sent: lost(*sent) and chance.random() < 0.65)
    for number in range(300):
        cluster.command(A, f"SET {KEYS[number % 50]} v{number}", session=number)
        cluster.run(10)
    assert not cluster.in_sync(B) or cluster.content(B) != cluster.content(A)
    cluster.drops.clear()
    cluster.run(interval)
    assert cluster.content(B) == cluster.content(A)
    assert cluster.in_sync(B)
    for node in cluster.nodes.values():
        assert not node.data.giving.gifts
        assert not node.data.pulling.pulls
