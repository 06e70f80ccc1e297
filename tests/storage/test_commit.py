"""Group commit: what may be called persisted, and when a sync is due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.commit import BATCH_BYTES_MAX, SYNC_EVERY_S, Body, GroupCommit, Need


def body(last: int, need: Need, size: int = 10) -> Body:
    return Body(bytes(size), 1, 0, last, need, {})


def written(*needs: Need, now: float = 0.0) -> GroupCommit:
    """All of these are written, none is synced."""
    commit = GroupCommit()
    for number, need in enumerate(needs, 1):
        commit.add(body(number, need))
    commit.wrote(commit.next(), now)
    return commit


def test_nothing_is_promised_before_it_is_written() -> None:
    commit = GroupCommit()
    commit.add(body(1, Need.WRITTEN))
    assert (commit.promised, commit.queued_bytes) == (0, 10)
    assert not commit.must_sync(99.0)


def test_what_needs_no_sync_is_promised_once_it_is_written() -> None:
    commit = written(Need.WRITTEN, Need.WRITTEN)
    assert commit.promised == 2
    assert not commit.must_sync(99.0)
    assert commit.wake_at() is None


def test_what_may_be_synced_later_is_promised_at_once_and_synced_within_a_second() -> None:
    commit = written(Need.WRITTEN_THEN_SYNCED, now=5.0)
    assert commit.promised == 1
    assert commit.wake_at() == 5.0 + SYNC_EVERY_S
    assert not commit.must_sync(5.9)
    assert commit.must_sync(6.0)
    commit.sync_begins()
    commit.synced()
    assert not commit.must_sync(99.0)


def test_urgent_records_hold_back_what_comes_after_them_until_the_sync() -> None:
    commit = written(Need.SYNCED, Need.WRITTEN)
    assert commit.promised == 0
    assert commit.must_sync(0.0)
    commit.sync_begins()
    assert commit.promised == 0
    commit.synced()
    assert commit.promised == 2


def test_what_is_written_during_a_sync_needs_the_next_one() -> None:
    commit = written(Need.SYNCED)
    commit.sync_begins()
    for number, need in ((2, Need.WRITTEN_THEN_SYNCED), (3, Need.SYNCED)):
        commit.add(body(number, need))
        commit.wrote(commit.next(), 5.0)
    assert commit.promised == 0
    commit.synced()
    assert (commit.promised, commit.wake_at()) == (1, 0.0)
    assert commit.must_sync(5.0)


def test_what_needs_no_sync_waits_for_what_is_being_synced_before_it_and_no_longer() -> None:
    commit = written(Need.SYNCED)
    commit.sync_begins()
    commit.add(body(2, Need.WRITTEN))
    commit.wrote(commit.next(), 0.0)
    assert commit.promised == 0
    commit.synced()
    assert commit.promised == 2
    commit.sync_begins()
    commit.add(body(3, Need.WRITTEN))
    commit.wrote(commit.next(), 0.0)
    assert commit.promised == 3


def test_a_sync_that_is_due_is_not_put_off_by_more_writes() -> None:
    commit = written(Need.WRITTEN_THEN_SYNCED, now=0.0)
    commit.add(body(2, Need.WRITTEN_THEN_SYNCED))
    commit.wrote(commit.next(), 0.9)
    assert commit.must_sync(1.0)


def test_what_could_not_be_written_stays_first() -> None:
    commit = GroupCommit()
    commit.add(body(1, Need.WRITTEN))
    assert commit.next() == commit.next()
    commit.add(body(2, Need.WRITTEN))
    assert [each.last for each in commit.next()] == [1, 2]


def test_a_batch_is_bounded_and_never_empty() -> None:
    commit = GroupCommit()
    for number in (1, 2, 3):
        commit.add(body(number, Need.WRITTEN, size=BATCH_BYTES_MAX - 1))
    assert [each.last for each in commit.next()] == [1]


@given(st.lists(st.tuples(st.sampled_from(Need), st.booleans()), max_size=30))
def test_promises_never_run_ahead(steps: list[tuple[Need, bool]]) -> None:
    """By a plain model: everything up to the promise is written, and all of it that is urgent is
    synced. Syncs begin and end in turns."""
    commit, synced, begun = GroupCommit(), 0, 0
    for number, (need, changes) in enumerate(steps, 1):
        commit.add(body(number, need))
        commit.wrote(commit.next(), 0.0)
        if changes and begun:
            commit.synced()
            synced, begun = begun, 0
        elif changes:
            commit.sync_begins()
            begun = number
        urgent = [place for place, (each, _) in enumerate(steps[:number], 1) if each is Need.SYNCED]
        assert commit.promised <= number
        assert all(place <= synced for place in urgent if place <= commit.promised)
        assert commit.promised == number or any(place > synced for place in urgent)
