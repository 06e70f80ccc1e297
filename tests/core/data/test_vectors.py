"""A clean backup has what it was promised, and nobody claims more than it has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.core.data.vectors import (
    ENTRY_COUNT,
    LENGTH_MAX,
    UNKNOWN_LINEAGE,
    Backup,
    Known,
    Lineage,
    Point,
    Vector,
    Verdict,
    judge,
)
from holdfast.errors import LocalProtocolError

HISTORY = Lineage((Point(1, 0), Point(4, 7), Point(9, 12)))


START = Lineage.starting(1, 0)


def vector(epoch: int, counter: int, *entries: int) -> Vector:
    return Vector(epoch, counter, [*entries, *[0] * (ENTRY_COUNT - len(entries))])


# --- the owner's side ----------------------------------------------------------------------------


def test_a_write_raises_the_first_entries() -> None:
    """The document's example: 3 backups make `[A+1, B+1, C+1, D, E, F]`."""
    owner = vector(1, 9, 9, 8, 7, 6, 5, 4)
    owner.advance(3)
    assert owner == vector(1, 10, 10, 9, 8, 6, 5, 4)


@given(st.lists(st.integers(0, ENTRY_COUNT)))
def test_entries_count_the_writes_that_a_replica_gets(writes: list[int]) -> None:
    owner = Vector(1)
    for backups in writes:
        owner.advance(backups)
    assert owner.counter == len(writes)
    assert owner.point == Point(1, len(writes))
    for index in range(1, ENTRY_COUNT + 1):
        assert owner.entries[index - 1] == sum(backups >= index for backups in writes)


@pytest.mark.parametrize("index", range(7))
def test_a_replica_keeps_the_entries_from_its_own_index_on(index: int) -> None:
    owner = vector(2, 9, 6, 5, 4, 3, 2, 1)
    kept = owner.trimmed(index)
    assert kept.point == owner.point
    for entry, (mine, its) in enumerate(zip(owner.entries, kept.entries, strict=True), 1):
        assert its == (mine if entry >= index else 0)
    kept.advance(6)
    assert owner == vector(2, 9, 6, 5, 4, 3, 2, 1), "a copy"


@given(st.integers(0, ENTRY_COUNT), st.integers(1, 9))
def test_a_run_counts_like_its_writes_one_by_one(backups: int, count: int) -> None:
    one, run = Vector(1), Vector(1)
    for _ in range(count):
        one.advance(backups)
    run.advance_run(backups, count)
    assert one == run


def test_the_next_owner_compares_the_counter() -> None:
    assert [vector(1, 9, 8, 7).at(index) for index in (0, 1, 2, 3)] == [9, 8, 7, 0]


# --- lineage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "counter", "reached"),
    [
        (1, 0, True),
        (1, 7, True),
        (1, 8, False),  # written by the owner of epoch 1, unknown to the one of 4
        (4, 6, False),
        (4, 7, True),
        (4, 12, True),
        (4, 13, False),
        (9, 11, False),
        (9, 12, True),
        (9, 99, True),
        (3, 5, False),
        (10, 12, False),
    ],
)
def test_a_point_is_on_the_history_or_not(epoch: int, counter: int, reached: bool) -> None:
    assert HISTORY.reaches(epoch, counter) is reached


@pytest.mark.parametrize(("counter", "epoch"), [(1, 1), (7, 1), (8, 4), (12, 4), (13, 9)])
def test_a_mutation_belongs_to_the_epoch_that_wrote_it(counter: int, epoch: int) -> None:
    assert HISTORY.epoch_of(counter) == epoch


def test_a_mutation_before_the_past_has_no_epoch() -> None:
    with pytest.raises(LocalProtocolError, match="older"):
        HISTORY.epoch_of(0)


def test_the_past_is_forgotten_oldest_first() -> None:
    lineage = Lineage.starting(0, 0)
    for epoch in range(1, LENGTH_MAX + 1):
        lineage = lineage.extended(epoch, epoch * 2)
    assert len(lineage.segments) == LENGTH_MAX
    assert not lineage.reaches(0, 0)
    assert lineage.reaches(1, 2)


@pytest.mark.parametrize(("epoch", "counter"), [(9, 12), (8, 13), (10, 11)])
def test_a_history_only_grows(epoch: int, counter: int) -> None:
    with pytest.raises(LocalProtocolError, match="follow"):
        HISTORY.extended(epoch, counter)


def test_unknown_history_reaches_nothing() -> None:
    assert not UNKNOWN_LINEAGE.reaches(0, 0)
    assert UNKNOWN_LINEAGE.extended(3, 5) == Lineage.starting(3, 5)


def test_a_claim_must_be_on_the_history_with_both_ends() -> None:
    assert HISTORY.includes(Known(Point(4, 9), Point(4, 12)))
    assert not HISTORY.includes(Known(Point(4, 9), Point(4, 13)))
    assert not HISTORY.includes(Known(Point(1, 8), Point(4, 9)))


# --- the four rules ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("incoming", "clean", "dirty"),
    [
        (6, Verdict.NEXT, Verdict.NEXT_WHILE_DIRTY),
        (5, Verdict.STALE, Verdict.STALE_WHILE_DIRTY),
        (3, Verdict.STALE, Verdict.STALE_WHILE_DIRTY),
        (7, Verdict.GAP, Verdict.GAP),
        (9, Verdict.GAP, Verdict.GAP),
    ],
)
def test_rules_of_the_document(incoming: int, clean: Verdict, dirty: Verdict) -> None:
    held, operation = vector(1, 8, 0, 5), vector(1, 99, 99, incoming)
    assert judge(held, operation, 2) is clean
    assert judge(held, operation, 2, dirty=True) is dirty


@pytest.mark.parametrize(
    ("verdict", "applies", "dirties", "asks"),
    [
        (Verdict.NEXT, True, False, False),
        (Verdict.STALE, False, False, False),
        (Verdict.GAP, True, True, True),
        (Verdict.NEXT_WHILE_DIRTY, True, False, True),
        (Verdict.STALE_WHILE_DIRTY, False, False, True),
    ],
)
def test_what_a_verdict_says(verdict: Verdict, applies: bool, dirties: bool, asks: bool) -> None:
    assert (verdict.applies, verdict.dirties, verdict.asks) == (applies, dirties, asks)


def test_an_older_epoch_is_stale_whatever_its_counter() -> None:
    held = vector(4, 8, 8)
    assert judge(held, vector(1, 9, 9), 1) is Verdict.STALE
    assert judge(held, vector(1, 9, 9), 1, dirty=True) is Verdict.STALE_WHILE_DIRTY


@pytest.mark.parametrize(
    ("held", "incoming", "lineage", "dirty", "verdict"),
    [
        (vector(4, 12, 12), vector(9, 13, 13), HISTORY, False, Verdict.NEXT),
        (vector(4, 12, 12), vector(9, 14, 14), HISTORY, False, Verdict.GAP),
        (vector(4, 12, 12), vector(9, 12, 12), HISTORY, False, Verdict.STALE),
        (vector(4, 12, 12), vector(9, 13, 13), UNKNOWN_LINEAGE, False, Verdict.GAP),
        (vector(4, 12, 12), vector(9, 13, 13), HISTORY, True, Verdict.GAP),
        (vector(4, 11, 11), vector(9, 13, 13), HISTORY, False, Verdict.GAP),
        (vector(3, 12, 12), vector(9, 13, 13), HISTORY, False, Verdict.GAP),
        (vector(4, 12, 10), vector(9, 13, 13), HISTORY, False, Verdict.GAP),
        (vector(4, 12, 12), vector(10, 13, 13), HISTORY, False, Verdict.GAP),
    ],
    ids=[
        "exactly what the new owner began with",
        "one missed since",
        "an operation that can't be",
        "nothing known",
        "dirty",
        "behind",
        "another history that counted as far",
        "not whole: mutations that asked for fewer backups",
        "the lineage of an owner before that one",
    ],
)
def test_a_newer_epoch_goes_on_only_from_what_it_began_with(
    held: Vector, incoming: Vector, lineage: Lineage, dirty: bool, verdict: Verdict
) -> None:
    assert judge(held, incoming, 1, dirty=dirty, lineage=lineage) is verdict


# --- a backup's states ---------------------------------------------------------------------------


def test_a_sync_that_is_older_than_the_gap_does_not_clean() -> None:
    """1. The backup has 3 and asks. 2. The owner, at 5, sends. 3. 7 comes, 6 is lost. 4. The sync
    arrives: 6 is still missing. 5. The next one, at 7, cleans."""
    backup = Backup(1, vector(1, 3, 3), Lineage.starting(1, 0))
    assert backup.receive(vector(1, 5, 5)) is Verdict.GAP
    assert backup.known == Known(Point(1, 3), Point(1, 5))
    assert backup.receive(vector(1, 7, 7)) is Verdict.GAP
    backup.synced(vector(1, 5, 5), backup.lineage)
    assert backup.held.counter == 7
    assert backup.known == Known(Point(1, 5), Point(1, 7))
    assert backup.receive(vector(1, 8, 8)) is Verdict.NEXT_WHILE_DIRTY
    backup.synced(vector(1, 7, 7), backup.lineage)
    assert backup.known == Known(Point(1, 8), Point(1, 8))


def test_a_dirty_backup_that_is_promoted_has_no_past() -> None:
    backup = Backup(1, vector(1, 3, 3), Lineage.starting(1, 0))
    backup.receive(vector(1, 5, 5))
    owner, lineage = backup.promoted(2)
    assert owner == Vector(2, 5, [5] * ENTRY_COUNT)
    assert lineage == Lineage.starting(2, 5)


def test_a_whole_backup_that_is_promoted_keeps_its_past() -> None:
    """Index 1 goes on without a sync; index 2, which lacks a mutation for one backup, does not."""
    owner, past = Vector(1), Lineage.starting(1, 0)
    first, second = (Backup(index, Vector(1), past) for index in (1, 2))
    for backups in (2, 1, 2):
        owner.advance(backups)
        assert first.receive(owner) is Verdict.NEXT
        if backups == 2:
            assert second.receive(owner) is Verdict.NEXT
    assert second.known is None, "not dirty, but no prefix either"
    third = replace(first, held=owner.trimmed(1))
    promoted, lineage = first.promoted(4)
    assert lineage == Lineage((Point(1, 0), Point(4, 3)))
    promoted.advance(2)
    assert third.receive(promoted, lineage) is Verdict.NEXT
    assert third.lineage == lineage
    assert second.receive(promoted, lineage) is Verdict.GAP


@pytest.mark.parametrize(
    ("first", "last", "verdict", "counter"),
    [(4, 6, Verdict.NEXT, 6), (5, 6, Verdict.GAP, 6), (3, 6, Verdict.STALE, 3)],
)
def test_a_run_is_judged_by_its_first_operation(
    first: int, last: int, verdict: Verdict, counter: int
) -> None:
    backup = Backup(1, vector(1, 3, 3), Lineage.starting(1, 0))
    assert backup.receive_run(vector(1, first, first), vector(1, last, last), START) is verdict
    assert backup.held.counter == counter


def test_a_replica_that_moves_to_a_hotter_index_needs_a_sync() -> None:
    """It keeps its claim if it had every mutation; the entry of its new index is unknown."""
    whole = Backup(2, vector(1, 5, 0, 5), START).moved(1)
    assert (whole.dirty, whole.known) == (True, Known(Point(1, 5), Point(1, 5)))
    partial = Backup(2, vector(1, 5, 0, 4), START).moved(1)
    assert (partial.dirty, partial.known) == (True, None)
    next_owner = Backup(1, vector(1, 5, 5), START).moved(0)
    assert next_owner.dirty
    assert next_owner.receive(vector(1, 6, 6)) is Verdict.NEXT_WHILE_DIRTY


def test_a_replica_that_moves_to_a_colder_index_is_what_it_was() -> None:
    clean = Backup(1, vector(1, 5, 5, 4), START).moved(2)
    assert (clean.dirty, clean.held) == (False, vector(1, 5, 0, 4))
    dirty = Backup(1, vector(1, 5, 5, 5), START, dirty=True, whole=Point(1, 3)).moved(2)
    assert dirty.known == Known(Point(1, 3), Point(1, 5))
    dirty.synced(vector(1, 4, 4, 4), START)
    assert dirty.dirty, "a sync that was under way may be too old"


@pytest.mark.parametrize("epoch", [3, 4])
def test_a_promotion_needs_a_greater_epoch(epoch: int) -> None:
    with pytest.raises(LocalProtocolError, match="epoch"):
        Backup(1, vector(4, 3), Lineage.starting(4, 0)).promoted(epoch)


@pytest.mark.parametrize(
    ("owner", "dirty", "asks", "held"),
    [
        (vector(4, 12, 12), False, False, Point(4, 12)),
        (vector(4, 13, 12), False, False, Point(4, 12)),
        (vector(4, 13, 13), False, True, Point(4, 12)),
        (vector(4, 12, 12), True, True, Point(4, 12)),
        (vector(1, 90, 90), False, False, Point(4, 12)),
        (vector(1, 90, 90), True, True, Point(4, 12)),
        (vector(9, 12, 12), False, False, Point(9, 12)),
        (vector(9, 13, 12), False, False, Point(9, 13)),
        (vector(9, 13, 13), False, True, Point(4, 12)),
        (vector(9, 12, 12), True, True, Point(4, 12)),
        (vector(8, 12, 12), False, True, Point(4, 12)),
    ],
)
def test_the_periodic_message_finds_what_is_missing(
    owner: Vector, dirty: bool, asks: bool, held: Point
) -> None:
    backup = Backup(1, vector(4, 12, 12), Lineage(HISTORY.segments[:2]), dirty=dirty)
    assert backup.behind(owner, HISTORY) is asks
    assert backup.held.point == held


# --- three replicas, whose data is a set of mutations --------------------------------------------


@dataclass
class Replica:
    backup: Backup
    data: set[int]


@dataclass
class Sync:
    vector: Vector
    lineage: Lineage
    data: set[int]


@dataclass
class Operation:
    to: int
    vector: Vector
    lineage: Lineage
    mutation: int


@dataclass
class Mutation:
    epoch: int
    counter: int
    backups: int


@dataclass
class Owner:
    vector: Vector
    lineage: Lineage
    data: set[int]
    began: set[int] = field(default_factory=set)


class Cluster(RuleBasedStateMachine):
    """An owner and three backups; messages are lost, repeated and reordered, and anyone may become
    the owner. The oracle is what each has really been given."""

    def __init__(self) -> None:
        super().__init__()
        lineage = Lineage.starting(1, 0)
        self.owner = Owner(Vector(1), lineage, set())
        self.replicas = {
            index: Replica(Backup(index, Vector(1), lineage), set()) for index in (1, 2, 3)
        }
        self.mutations: list[Mutation] = []
        self.contents: dict[Point, set[int]] = {Point(1, 0): set()}
        self.operations: list[Operation] = []
        self.syncs: list[tuple[int, Sync]] = []

    @rule(backups=st.sampled_from([0, 1, 2, 3, 3, 3, 3]), tells=st.booleans())
    def write(self, backups: int, tells: bool) -> None:
        owner = self.owner
        owner.vector.advance(backups)
        mutation = len(self.mutations)
        self.mutations.append(Mutation(owner.vector.epoch, owner.vector.counter, backups))
        owner.data.add(mutation)
        self.contents[owner.vector.point] = set(owner.data)
        lineage = owner.lineage if tells else UNKNOWN_LINEAGE
        for index in range(1, backups + 1):
            carried = owner.vector.trimmed(index)
            self.operations.append(Operation(index, carried, lineage, mutation))

    @precondition(lambda self: self.operations)
    @rule(data=st.data(), again=st.sampled_from([False, False, False, True]))
    def deliver(self, data: st.DataObject, again: bool) -> None:
        place = data.draw(st.integers(0, min(3, len(self.operations) - 1)))
        operation = self.operations[place]
        if not again:
            del self.operations[place]
        self.apply(operation)

    @rule()
    def deliver_all(self) -> None:
        for operation in self.operations:
            self.apply(operation)
        self.operations.clear()

    def apply(self, operation: Operation) -> None:
        replica = self.replicas[operation.to]
        verdict = replica.backup.receive(operation.vector, operation.lineage)
        assert verdict.asks or not replica.backup.dirty
        if verdict.applies:
            replica.data.add(operation.mutation)

    @precondition(lambda self: self.operations)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.operations.pop(data.draw(st.integers(0, len(self.operations) - 1)))

    @rule(index=st.integers(1, 3))
    def send_sync(self, index: int) -> None:
        owner = self.owner
        sync = Sync(owner.vector.trimmed(0), owner.lineage, set(owner.data))
        self.syncs.append((index, sync))

    @precondition(lambda self: self.syncs)
    @rule(data=st.data())
    def finish_sync(self, data: st.DataObject) -> None:
        index, sync = self.syncs.pop(data.draw(st.integers(0, len(self.syncs) - 1)))
        replica = self.replicas[index]
        if replica.backup.accepts(sync.vector):
            replica.data = sync.data | self.later(replica, sync)
            replica.backup.synced(sync.vector, sync.lineage)

    @precondition(lambda self: self.syncs)
    @rule(data=st.data())
    def half_a_sync(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.syncs) - 1))
        index, sync = self.syncs[place]
        replica = self.replicas[index]
        # whoever has begun with an answer takes none to an earlier question any more (`pulling`)
        self.syncs = [each for at, each in enumerate(self.syncs) if at >= place or each[0] != index]
        if replica.backup.accepts(sync.vector):
            replica.backup.touch()
            right = sync.data | self.later(replica, sync)
            replica.data = {
                mutation
                for mutation in replica.data | right
                if mutation in (right if mutation % 2 else replica.data)
            }

    def later(self, replica: Replica, sync: Sync) -> set[int]:
        """What a sync leaves alone: newer than its vector, of the same owner."""
        return {
            number
            for number in replica.data
            if self.mutations[number].epoch == sync.vector.epoch
            and self.mutations[number].counter > sync.vector.counter
        }

    @rule(index=st.integers(1, 3))
    def check(self, index: int) -> None:
        replica = self.replicas[index]
        if not replica.backup.behind(self.owner.vector, self.owner.lineage):
            assert replica.backup.held.epoch == self.owner.vector.epoch
            assert self.promised(replica) <= replica.data

    @rule(index=st.integers(1, 3))
    def promote(self, index: int) -> None:
        """The owner that it replaces comes back in its place, with all that it had."""
        replica, old = self.replicas[index], self.owner
        owner, lineage = replica.backup.promoted(old.vector.epoch + 1)
        self.owner = Owner(owner, lineage, set(replica.data), set(replica.data))
        self.contents[owner.point] = set(replica.data)
        self.replicas[index] = Replica(Backup.returned(index, old.vector, old.lineage), old.data)

    @rule(a=st.integers(1, 3), b=st.integers(1, 3))
    def swap(self, a: int, b: int) -> None:
        """Two replicas change places."""
        one, two = self.replicas[a], self.replicas[b]
        if a != b:
            one.backup, two.backup = one.backup.moved(b), two.backup.moved(a)
            self.replicas[b], self.replicas[a] = one, two

    def promised(self, replica: Replica) -> set[int]:
        """What the owner began with, and all that it sent to this index up to the vector."""
        held = replica.backup.held
        return self.owner.began | {
            number
            for number, mutation in enumerate(self.mutations)
            if mutation.epoch == held.epoch
            and mutation.counter <= held.counter
            and mutation.backups >= replica.backup.index
        }

    @invariant()
    def a_clean_replica_has_what_it_was_promised(self) -> None:
        for replica in self.replicas.values():
            backup = replica.backup
            if backup.held.epoch == self.owner.vector.epoch and not backup.dirty:
                assert self.promised(replica) <= replica.data <= self.owner.data

    @invariant()
    def a_claim_is_true(self) -> None:
        """Sending what came after `whole` makes the replica equal, without a look at its data."""
        for replica in self.replicas.values():
            known = replica.backup.known
            if known is not None and self.owner.lineage.includes(known):
                sent = self.owner.data - self.contents[known.whole]
                assert replica.data | sent == self.owner.data

    @invariant()
    def points_of_the_past_are_part_of_the_present(self) -> None:
        for point, content in self.contents.items():
            if self.owner.lineage.reaches(*point):
                assert content <= self.owner.data
                after = self.owner.data - content
                assert all(self.mutations[number].counter > point.counter for number in after)

    def teardown(self) -> None:
        """One sync each, and all is well."""
        owner = self.owner
        for replica in self.replicas.values():
            assert replica.backup.accepts(owner.vector)
            replica.backup.synced(owner.vector.trimmed(0), owner.lineage)
            assert not replica.backup.dirty
            assert not replica.backup.behind(owner.vector, owner.lineage)
            assert replica.backup.held == owner.vector.trimmed(replica.backup.index)


TestCluster = Cluster.TestCase


def test_copy_that_may_hold_more_than_it_says_claims_nothing_and_misses_what_a_new_owner_does() -> (
    None
):
    held = Vector(1, 5, [5] * 6)
    backup = Backup(1, held, START)
    backup.loosen()
    assert backup.known is None
    verdict = backup.receive(Vector(2, 6, [6] * 6), START.extended(2, 5))
    assert (verdict, backup.dirty, backup.whole) == (Verdict.GAP, True, None)
