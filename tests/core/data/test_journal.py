"""A journal says exactly what came after a point, or that it can't."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.core.data.journal import Entry, Gap, Journal, Page
from holdfast.core.data.removals import KEPT_BYTES_MAX, TRIMMED_SHARE, Removals
from holdfast.core.data.vectors import LENGTH_MAX, UNKNOWN_LINEAGE, Known, Lineage, Point
from holdfast.core.stores.record import FREE, NEVER, WENT, Kind, build, kind_of, version_at
from holdfast.errors import LocalProtocolError

START: Final = Lineage.starting(1, 0)


def filled(count: int, *, entries_max: int = 100, size_max_bytes: int = 10_000) -> Journal:
    journal = Journal(START, 0, entries_max=entries_max, size_max_bytes=size_max_bytes)
    for counter in range(1, count + 1):
        journal.append(counter, b"k%d" % (counter % 4), b"v%d" % counter)
    return journal


def at(epoch: int, counter: int) -> Known:
    """The claim of a replica that is exactly there."""
    return Known(Point(epoch, counter), Point(epoch, counter))


def keys_since(journal: Journal, known: Known) -> list[bytes]:
    """Of the mutations that somebody lacks, the keys."""
    missed = journal.since(known)
    assert not isinstance(missed, Gap)
    return [key for key, _ in missed]


# --- reading -------------------------------------------------------------------------------------


def test_a_reader_goes_on_where_the_last_page_ended() -> None:
    journal = filled(5)
    page = journal.read(Point(1, 0), 2)
    assert page == Page((Entry(1, 1, b"k1", b"v1"), Entry(1, 2, b"k2", b"v2")), Point(1, 2))
    page = journal.read(Point(1, 2), 99)
    assert isinstance(page, Page)
    assert [entry.counter for entry in page.entries] == [3, 4, 5]
    assert journal.read(page.after, 99) == Page((), Point(1, 5))


def test_whoever_lacks_something_lacks_all_that_came_since() -> None:
    assert keys_since(filled(6), at(1, 1)) == [b"k2", b"k3", b"k0", b"k1", b"k2"]
    assert filled(6).since(at(1, 6)) == ()


def test_a_reader_ahead_of_a_replica_waits_but_a_sync_does_not() -> None:
    journal = filled(3)
    assert journal.read(Point(1, 9), 5) == Page((), Point(1, 9))
    assert journal.since(at(1, 4)) == Gap(Point(1, 0))
    assert journal.since(Known(Point(1, 2), Point(1, 4))) == Gap(Point(1, 0))


def test_a_reader_resumes_on_the_next_owner() -> None:
    """The new owner began at 3: who has seen 3 goes on, who has seen 4 has seen too much."""
    journal = filled(3)
    journal.begin(START.extended(4, 3))
    journal.append(4, b"x", b"new")
    assert journal.read(Point(1, 2), 9) == Page(
        (Entry(1, 3, b"k3", b"v3"), Entry(4, 4, b"x", b"new")), Point(4, 4)
    )
    assert journal.read(Point(1, 3), 9) == Page((Entry(4, 4, b"x", b"new"),), Point(4, 4))
    assert journal.read(Point(4, 3), 9) == Page((Entry(4, 4, b"x", b"new"),), Point(4, 4))
    assert journal.read(Point(1, 4), 9) == Gap(Point(1, 0))
    assert journal.since(at(1, 4)) == Gap(Point(1, 0))
    assert journal.since(Known(Point(1, 2), Point(1, 4))) == Gap(Point(1, 0))
    assert keys_since(journal, at(1, 2)) == [b"k3", b"x"]


# --- gaps ----------------------------------------------------------------------------------------


def test_a_missed_mutation_begins_a_new_run() -> None:
    journal = filled(3)
    journal.append(5, b"x", b"")
    assert journal.read(Point(1, 3), 9) == Gap(Point(1, 4))
    assert journal.read(Point(1, 4), 9) == Page((Entry(1, 5, b"x", b""),), Point(1, 5))


def test_a_marked_gap_is_seen_at_once() -> None:
    journal = filled(3)
    journal.mark_gap(7)
    assert journal.read(Point(1, 3), 9) == Gap(Point(1, 7))
    assert (journal.oldest, journal.last, len(journal)) == (Point(1, 7), Point(1, 7), 0)
    assert journal.since(at(1, 7)) == ()
    journal.append(8, b"x", b"")
    assert keys_since(journal, at(1, 7)) == [b"x"]


def test_a_gap_before_what_has_been_applied_since_drops_that_too() -> None:
    journal = filled(5)
    journal.mark_gap(3)
    assert journal.oldest == journal.last == Point(1, 5)


def test_a_mutation_is_not_appended_twice() -> None:
    journal = filled(3)
    with pytest.raises(LocalProtocolError, match="mutation 3"):
        journal.append(3, b"x", b"")
    assert len(journal) == 3


@pytest.mark.parametrize(
    ("lineage", "oldest", "last"),
    [
        (START.extended(4, 3), Point(1, 0), Point(1, 3)),
        (START.extended(4, 2), Point(1, 2), Point(1, 2)),
        (START.extended(4, 5), Point(1, 5), Point(1, 5)),
        (Lineage.starting(2, 0).extended(4, 3), Point(2, 3), Point(2, 3)),
        (Lineage.starting(4, 3), Point(4, 3), Point(4, 3)),
        (Lineage.starting(1, 2), Point(1, 2), Point(1, 3)),
        (Lineage.starting(1, 4), Point(1, 4), Point(1, 4)),
        (START, Point(1, 0), Point(1, 3)),
    ],
    ids=[
        "goes on",
        "the owner had less",
        "the owner had more",
        "another history",
        "nothing known of before",
        "the same, less known",
        "the same, known from later on",
        "the same",
    ],
)
def test_a_new_owner_keeps_only_its_own_history(
    lineage: Lineage, oldest: Point, last: Point
) -> None:
    journal = filled(3)
    journal.begin(lineage)
    assert (journal.oldest, journal.last, journal.lineage) == (oldest, last, lineage)
    assert len(journal) == last.counter - oldest.counter


def test_what_the_history_forgets_is_forgotten() -> None:
    journal, lineage = filled(2), START
    for epoch in range(2, LENGTH_MAX + 3):
        lineage = lineage.extended(epoch, epoch)
        journal.begin(lineage)
        journal.append(epoch + 1, b"k", b"v")
    assert journal.oldest == Point(3, 3)
    assert len(journal) == LENGTH_MAX
    assert journal.size_bytes == LENGTH_MAX * 2


@pytest.mark.parametrize(("lineage", "counter"), [(UNKNOWN_LINEAGE, 0), (START.extended(2, 5), 4)])
def test_a_journal_needs_a_history(lineage: Lineage, counter: int) -> None:
    with pytest.raises(LocalProtocolError, match="no mutation"):
        Journal(lineage, counter)


def test_a_journal_can_not_go_on_as_an_unknown_history() -> None:
    journal = filled(3)
    with pytest.raises(LocalProtocolError, match="no mutation"):
        journal.begin(UNKNOWN_LINEAGE)
    assert journal.last == Point(1, 3)


# --- moving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size_max", [1, 8, 1_000])
def test_a_journal_moves_part_by_part_the_newest_first(size_max: int) -> None:
    source, target = filled(9), Journal(START, 9)
    target.append(10, b"k2", b"v10")
    while mutations := source.up_to(target.oldest.counter, size_max):
        target.put_before(target.oldest.counter, mutations)
    source.append(10, b"k2", b"v10")
    assert target.read(Point(1, 0), 99) == source.read(Point(1, 0), 99)
    assert target.size_bytes == source.size_bytes


def test_what_is_forgotten_or_still_to_come_does_not_move() -> None:
    journal = filled(9, entries_max=4)
    assert journal.up_to(journal.oldest.counter, 99) == ()
    assert journal.up_to(2, 99) == ()
    assert journal.up_to(10, 99) == ()


def test_what_does_not_join_is_no_use_and_what_is_here_is_not_put_twice() -> None:
    journal = Journal(START, 6)
    journal.append(7, b"k3", b"v7")
    journal.put_before(5, filled(5).up_to(5, 99))
    assert journal.oldest == Point(1, 6)
    journal.put_before(7, filled(7).up_to(7, 99))
    assert journal.read(Point(1, 0), 99) == filled(7).read(Point(1, 0), 99)


def test_what_the_history_has_forgotten_is_not_put_before() -> None:
    journal = Journal(Lineage.starting(3, 4), 6)
    journal.put_before(6, filled(6).up_to(6, 99))
    assert journal.oldest == Point(3, 4)
    journal.put_before(4, filled(4).up_to(4, 99))
    assert journal.oldest == Point(3, 4)


def test_a_smaller_ring_keeps_the_newest_of_what_moves() -> None:
    journal = Journal(START, 9, entries_max=3)
    journal.put_before(9, filled(9).up_to(9, 999))
    assert (len(journal), journal.last.counter) == (3, 9)


# --- what was removed ----------------------------------------------------------------------------


def test_what_was_removed_is_remembered_when_its_entry_is_not() -> None:
    journal = Journal(START, 0, entries_max=1)
    gone, put = (build(version_at(1, 2), kind, NEVER, b"") for kind in (Kind.GONE, Kind.STRING))
    for counter, record in enumerate((put, gone, put, FREE, put, put), 1):
        journal.append(counter, b"k%d" % counter, record)
    assert isinstance(journal.since(at(1, 1)), Gap)
    for counter, told in ((0, {b"k2", b"k4"}), (1, {b"k2", b"k4"}), (2, {b"k4"}), (4, set())):
        removed = journal.removed_since(at(1, counter))
        assert not isinstance(removed, Gap)
        assert {key for key, record in removed if kind_of(record) is not Kind.STRING} == told


def test_before_all_keys_went_or_something_was_missed_nobody_knows_what_did() -> None:
    journal = Journal(START, 0, entries_max=1)
    for counter in range(1, 4):
        journal.append(counter, b"", build(version_at(1, counter), Kind.EMPTIED, NEVER, b""))
    assert isinstance(journal.removed_since(at(1, 1)), Gap)
    assert not isinstance(journal.removed_since(at(1, 2)), Gap)
    journal.mark_gap(7)
    assert isinstance(journal.removed_since(at(1, 6)), Gap)


@pytest.mark.parametrize(("length", "kept_max"), [(2, 16), (KEPT_BYTES_MAX // 16, 99)])
def test_so_many_removals_are_remembered_and_the_newest(length: int, kept_max: int) -> None:
    removals = Removals(0, kept_max)
    gone = build(version_at(1, 1), Kind.GONE, NEVER, b"")
    for number in range(1, 41):
        removals.note(number, b"%d" % (number % 10) * length, gone)
        assert len(removals) <= 16
        told = removals.since(removals.base)
        assert told is not None
        assert len(told) == len(removals) == number - removals.base
        assert removals.base == 0 or removals.since(removals.base - 1) is None
    assert len(removals) > 12
    assert removals.since(39) == [(b"0" * length, WENT)]


# --- limits --------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 40), max_size=60),
    st.integers(1, 20),
    st.integers(1, 120),
)
def test_a_ring_keeps_its_limits_and_most_of_what_fits(
    sizes: list[int], entries_max: int, size_max: int
) -> None:
    journal = Journal(START, 0, entries_max=entries_max, size_max_bytes=size_max)
    for counter, size in enumerate(sizes, 1):
        before = len(journal) + 1
        overflows = before > entries_max or journal.size_bytes + 1 + size > size_max
        journal.append(counter, b"k", bytes(size))
        assert len(journal) <= entries_max
        assert journal.size_bytes <= size_max
        kept = sizes[counter - len(journal) : counter]
        assert journal.size_bytes == sum(kept) + len(kept)
        assert journal.last.counter == counter
        assert journal.oldest.counter == counter - len(journal)
        if not overflows:
            assert len(journal) == before
    if all(size == 0 for size in sizes) and size_max >= entries_max + 1:
        floor = entries_max + 1 - max(1, (entries_max + 1) // TRIMMED_SHARE)
        assert len(journal) >= min(len(sizes), floor)


def test_an_entry_larger_than_the_ring_is_a_gap() -> None:
    journal = filled(3, size_max_bytes=20)
    journal.append(4, b"big", bytes(21))
    assert len(journal) == journal.size_bytes == 0
    assert journal.read(Point(1, 3), 9) == Gap(Point(1, 4))


# --- against the whole history -------------------------------------------------------------------


KINDS: Final = (*(Kind.STRING, Kind.GONE, Kind.LOCK) * 4, Kind.EMPTIED)


class Streaming(RuleBasedStateMachine):
    """One member's journal through gaps, promotions and forks, and readers at any point.

    The oracle keeps every entry that was ever made, of each history. A reader is given what it
    asked for exactly, or a gap; it is never given less in silence.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lineage = START
        self.history: list[Entry] = []  # of the present line, from number 1 on
        self.here = 0  # up to where this member has been told
        self.journal = Journal(START, 0, entries_max=8, size_max_bytes=100)
        self.made = 0

    def make(self, kind: Kind = Kind.STRING) -> None:
        self.made += 1
        epoch = self.lineage.segments[-1].epoch
        key, version = b"k%d" % (self.made % 3), version_at(epoch, len(self.history) + 1)
        payload = build(version, kind, NEVER, bytes(8) if kind is Kind.LOCK else b"")
        self.history.append(Entry(epoch, len(self.history) + 1, key, payload))

    def append(self) -> None:
        entry = self.history[-1]
        self.journal.append(entry.counter, entry.key, entry.payload)
        self.here = entry.counter

    @rule(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    def written(self, kinds: list[Kind]) -> None:
        for kind in kinds:
            self.make(kind)
            self.append()

    @rule(append=st.booleans())
    def missed(self, append: bool) -> None:
        self.make()
        if append:
            self.make()
            self.append()

    @rule()
    def synced(self) -> None:
        self.journal.mark_gap(len(self.history))
        self.here = len(self.history)

    @rule(back=st.integers(0, 9), beyond=st.integers(0, 3))
    def past_comes(self, back: int, beyond: int) -> None:
        """A part of the owner's journal, which ends where this one begins, or further on."""
        last = min(self.journal.oldest.counter + beyond, len(self.history))
        part = self.history[max(0, last - back) : last]
        self.journal.put_before(last, [(entry.key, entry.payload) for entry in part])

    @rule(lost=st.sampled_from([0, 0, 1, 3]), forgets=st.sampled_from([False, False, True]))
    def promoted(self, lost: int, forgets: bool) -> None:
        """Another owner, which may lack the last mutations, or know nothing of its past."""
        newest = self.lineage.segments[-1]
        began = max(newest.counter, len(self.history) - lost)
        del self.history[began:]
        past = UNKNOWN_LINEAGE if forgets else self.lineage
        self.lineage = past.extended(newest.epoch + 1, began)
        self.journal.begin(self.lineage)
        self.here = began
        assert self.journal.last.counter == began

    @invariant()
    def answers_are_exact_or_gaps(self) -> None:
        oldest = self.journal.oldest
        epochs = range(self.lineage.segments[-1].epoch + 2)
        for point in [Point(e, c) for e in epochs for c in range(len(self.history) + 2)]:
            page = self.journal.read(point, 3)
            right = tuple(self.history[point.counter : self.here][:3])
            if isinstance(page, Page):
                assert self.lineage.reaches(*point)
                assert page.entries == right
                assert page.after == ((right[-1].epoch, right[-1].counter) if right else point)
            else:
                assert page == Gap(oldest)
                assert not self.lineage.reaches(*point) or point.counter < oldest.counter
            missed = self.journal.since(Known(point, point))
            if isinstance(missed, Gap):
                assert isinstance(page, Gap) or point.counter > self.here
            else:
                changed = self.history[point.counter : self.here]
                assert list(missed) == [(entry.key, entry.payload) for entry in changed]

    @invariant()
    def what_was_removed_is_told_or_a_gap(self) -> None:
        for segment in self.lineage.segments:
            for counter in range(segment.counter, self.journal.oldest.counter):
                known = at(segment.epoch, counter)
                removed = self.journal.removed_since(known)
                if isinstance(removed, Gap):
                    continue
                assert self.lineage.includes(known)
                missed = self.history[counter : self.here]
                kinds = {(entry.key, kind_of(entry.payload)) for entry in missed}
                told = {(key, kind_of(record)) for key, record in removed}
                forgotten = self.history[counter : self.journal.oldest.counter]
                assert all(kind_of(entry.payload) is not Kind.EMPTIED for entry in forgotten)
                assert {pair for pair in kinds if pair[1] is not Kind.STRING} <= told <= kinds

    @invariant()
    def gap_says_where_to_go_on(self) -> None:
        assert isinstance(self.journal.read(self.journal.oldest, 1), Page)
        assert self.journal.since(Known(self.journal.last, self.journal.last)) == ()


TestStreaming = Streaming.TestCase
