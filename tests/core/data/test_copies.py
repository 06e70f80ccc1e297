"""One partition's copies: what each is by the row, and beside that by a migration."""

from __future__ import annotations

import pytest

from holdfast.core.data.copies import Copy, Holding, lineage_of, stand_of, vector_of
from holdfast.core.data.vectors import Lineage, Point, Vector
from holdfast.core.data_messages import FragmentPlan, FragmentStand, ReplicaCheck, Way
from holdfast.core.events import RecoveredFragment
from holdfast.core.stores.record import NEVER, Kind, build, kind_of
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import NO_INDEX
from tests.core.harness import partition

P = partition(0)
NAME = b"name"
SETTINGS = {b"two": NameSettings(backups=2), b"none": NameSettings(backups=0)}
GENERATION = 4
REIGN = 7


def settings_of(name: bytes) -> NameSettings:
    return SETTINGS.get(name, NameSettings(backups=1))


def holding() -> Holding:
    return Holding(P, settings_of, GENERATION)


def owning(*names: bytes) -> Holding:
    """The owner's, with a mutation in each of these."""
    held = holding()
    held.lead(REIGN)
    for name in names:
        held.copy(name).vector.advance(2)
    return held


def backing(index: int, *names: bytes) -> Holding:
    """A backup's, with nothing in these."""
    held = holding()
    held.follow(index)
    for name in names:
        held.copy(name)
    return held


def stand(name: bytes, counter: int, epoch: int = REIGN) -> FragmentStand:
    """Where an owner stands that began with nothing."""
    lineage = ((GENERATION, 0), (epoch, 0))
    return FragmentStand(name, stand_of(Vector(epoch, counter, [counter] * 6)), lineage)


def caught_up(held: Holding, name: bytes, counter: int) -> Copy:
    """A backup that has so many mutations of an owner."""
    copy = held.copy(name)
    for number in range(counter):
        first = Vector(REIGN, number + 1, [number + 1] * 6)
        lineage = lineage_of(stand(name, 0).lineage)
        assert copy.worth.receive_run(first, first, lineage).applies
    assert not copy.worth.dirty
    return copy


def test_vectors_and_lineages_travel_unchanged() -> None:
    vector = Vector(3, 9, [9, 8, 7, 0, 0, 0])
    lineage = Lineage((Point(1, 0), Point(3, 4)))
    assert vector_of(stand_of(vector)) == vector
    assert lineage_of(lineage.segments) == lineage


def test_data_begins_empty_at_every_index_in_one_history() -> None:
    """A backup that has nothing goes on with the first mutation, whoever owns it."""
    owner, backup = owning(NAME), backing(1)
    copy = caught_up(backup, NAME, 1)
    held, vector = copy.worth.held, owner.copy(NAME).vector
    assert (held.epoch, held.counter, held.at(1)) == (vector.epoch, vector.counter, vector.at(1))
    assert not backup.lacking()


# Owner and backup ---------------------------------------------------------------------------------


def test_owner_numbers_and_its_successor_goes_on_where_it_stood() -> None:
    held = backing(1)
    caught_up(held, NAME, 5)
    held.lead(REIGN + 1)
    copy = held.copy(NAME)
    assert (copy.backup, copy.vector.epoch, copy.vector.counter) == (None, REIGN + 1, 5)
    assert copy.fragment.counter == 5
    assert copy.lineage.segments[-1] == (REIGN + 1, 5)
    assert (held.reign, held.index) == (REIGN + 1, 0)


def test_owner_whose_reign_is_renewed_goes_on_in_the_new_one() -> None:
    held = owning(NAME)
    held.lead(REIGN)
    assert held.copy(NAME).vector.epoch == REIGN
    held.lead(REIGN + 3)
    copy = held.copy(NAME)
    assert copy.vector == Vector(REIGN + 3, 1, [1] * 6)
    assert copy.lineage.segments[-2:] == (Point(REIGN, 0), Point(REIGN + 3, 1))


def test_owner_that_becomes_a_backup_is_dirty_because_others_may_have_gone_on() -> None:
    held = owning(NAME)
    held.copy(b"other")
    held.follow(2)
    assert held.lacking()
    assert held.copy(NAME).worth.dirty
    assert not held.copy(b"other").worth.dirty, "where it wrote nothing it can lack nothing yet"
    assert (held.reign, held.index, held.copy(NAME).worth.index) == (0, 2, 2)


def test_copy_without_an_index_is_fenced_as_a_backup_of_what_it_was() -> None:
    owner, backup = owning(NAME), backing(2, NAME)
    for held in (owner, backup):
        held.follow(NO_INDEX)
        assert held.index == NO_INDEX
    assert (owner.copy(NAME).worth.index, owner.copy(NAME).worth.dirty) == (1, True)
    assert backup.copy(NAME).worth.index == 2


def test_backup_at_another_index_knows_nothing_of_hotter_entries() -> None:
    held = backing(2)
    caught_up(held, NAME, 3)
    held.follow(1)
    assert held.copy(NAME).worth.index == 1
    assert held.copy(NAME).worth.dirty


def test_owner_of_a_reign_in_which_it_has_written_before_may_not_number_in_it_again() -> None:
    held = backing(1)
    assert held.may_lead(REIGN)
    caught_up(held, NAME, 1)
    assert not held.may_lead(REIGN)
    assert held.may_lead(REIGN + 1)
    held.lead(REIGN + 1)
    assert held.may_lead(REIGN + 1)


# Names and indexes --------------------------------------------------------------------------------


def test_fragment_goes_to_so_many_backups_as_its_settings_say() -> None:
    held = owning(b"two", b"none", NAME)
    goes = {
        name: [held.copy(name).goes_to(index) for index in range(4)]
        for name in (b"two", b"none", NAME)
    }
    assert goes == {
        b"two": [True, True, True, False],
        b"none": [True, False, False, False],
        NAME: [True, True, False, False],
    }


def test_name_without_a_backup_at_my_index_is_superfluous_there() -> None:
    held = backing(2, b"two", NAME)
    assert [copy.name for copy in held.superfluous()] == [NAME]
    held.follow(NO_INDEX)
    assert held.superfluous() == ()
    assert owning(b"none").superfluous() == ()


def test_name_that_is_forgotten_is_emptied_on_disk() -> None:
    """With what it was, an empty copy would look whole after a restart. (Seed 4068.)"""
    held = backing(1, NAME)
    caught_up(held, NAME, 3)
    record = held.forget(NAME)
    ((_, emptied),) = record.mutations
    assert (record.name, kind_of(emptied)) == (NAME, Kind.EMPTIED)
    assert (record.stand.stand.epoch, record.stand.stand.counter) == (held.generation, 0)
    assert NAME not in held.copies
    assert not held.copy(NAME).fragment


def test_name_that_is_forgotten_leaves_no_lock_on_disk() -> None:
    """To empty a name lets go of no lock: after a restart it was held, and nobody else knew of it.
    (Seed 170 of the mix coming_back.)"""
    held = backing(1, NAME)
    held.copy(NAME).fragment.lock(b"key", 1, b"session", 5)
    kept = held.copy(NAME).fragment
    for key, record in held.forget(NAME).mutations:
        kept.apply(key, record)
    assert not kept.locks


def test_what_may_be_missing_is_unsettled_until_it_leads_and_has_said_so() -> None:
    """Who was promoted and crashes before that would find itself the owner, and say nothing.
    (Seed 152.)"""
    held = backing(1, NAME)
    held.unsure = held.resuming = True
    held.recalled()
    assert (held.recalls, held.unvouched, held.unsettled) == (False, True, True)
    held.lead(9)
    assert not held.unsettled


# Migrations ---------------------------------------------------------------------------------------


def test_arrival_is_prepared_beside_what_the_row_says_until_the_commit() -> None:
    held = backing(2)
    copy = caught_up(held, NAME, 3)
    held.expect(1)
    held.compare((stand(NAME, 3),))
    assert held.arriving()
    assert not held.lacking(), "what it is by the row counts as before"
    assert copy.arrival is not None
    copy.arrival.synced(Vector(REIGN, 3, [3] * 6), lineage_of(stand(NAME, 3).lineage))
    assert not held.arriving()
    held.arrived()
    assert (held.index, held.target, copy.worth.index) == (1, NO_INDEX, 1)
    assert not held.arriving()


def test_destination_that_has_all_of_its_new_index_asks_for_nothing() -> None:
    held = backing(1)
    copy = caught_up(held, NAME, 3)
    held.expect(1)
    held.compare((stand(NAME, 3),))
    assert not held.arriving()
    held.compare((stand(NAME, 4),))
    assert held.arriving()
    copy.arrived()
    copy.arrived()
    assert copy.worth.dirty, "a commit makes nothing whole"


def test_arrival_of_a_migration_that_failed_leaves_what_was_here() -> None:
    held = backing(2)
    copy = caught_up(held, NAME, 3)
    held.expect(1)
    held.compare((stand(NAME, 9),))
    held.unexpected()
    assert not held.arriving()
    assert (held.target, copy.arrival, copy.worth.index) == (NO_INDEX, None, 2)
    assert not held.lacking()


def test_name_that_does_not_go_to_my_index_is_worth_what_a_migration_makes_of_it() -> None:
    held, copy, written = told_of_one_for_the_next_index()
    for _ in range(2):
        record = copy.record(P, ())
        assert record.stand.stand == stand_of(written)
        assert (record.index, record.clean) == (1, True)
        held.arrived()
    assert (copy.worth, copy.arrival) == (copy.backup, None)


def test_name_that_does_not_go_to_my_index_is_worth_nothing_when_a_migration_has_failed() -> None:
    held, copy, _ = told_of_one_for_the_next_index()
    held.unexpected()
    assert (copy.worth.index, copy.worth.known) == (2, None)
    assert not copy.record(P, ()).clean


def told_of_one_for_the_next_index() -> tuple[Holding, Copy, Vector]:
    """A sync has come to index 2, where this name does not go, and one mutation for index 1."""
    held = backing(2, NAME)
    held.expect(1)
    copy = held.copy(NAME)
    lineage = lineage_of(stand(NAME, 0).lineage)
    assert copy.arrival is not None
    assert copy.backup is not None
    for each in (copy.backup, copy.arrival):
        each.synced(Vector(REIGN, 0), lineage)
    written = Vector(REIGN, 1, [1, 0, 0, 0, 0, 0])
    assert not copy.backup.receive(written, lineage).applies
    assert copy.arrival.receive(written, lineage).applies
    return held, copy, written


def test_owner_may_be_expected_at_another_index() -> None:
    held = owning(b"two", NAME)
    held.reign = 0
    held.expect(2)
    copy = held.copy(b"two")
    assert copy.arrival is not None
    assert (copy.worth.index, copy.arrival.index) == (2, 2)
    assert held.copy(NAME).arrival is None, "that name has no backup at this index"


def test_data_that_the_owner_does_not_name_is_asked_for_as_well() -> None:
    held = backing(1)
    held.copy(NAME).fragment.apply(b"k", build(bytes(9) + b"\1", Kind.STRING, NEVER, b"v"))
    held.expect(0)
    held.compare(())
    assert held.awaited
    assert held.arriving()
    held.unexpected()
    assert not held.awaited


# What is missing ----------------------------------------------------------------------------------


def test_backup_that_is_told_of_more_than_it_has_lags() -> None:
    held = backing(1)
    caught_up(held, NAME, 2)
    assert not held.fall_behind(ReplicaCheck(P, REIGN, (stand(NAME, 2),)))
    assert held.fall_behind(ReplicaCheck(P, REIGN, (stand(NAME, 3),)))
    assert held.copy(NAME).worth.dirty


def test_backup_from_files_lacks_something_until_the_owner_says_that_it_does_not() -> None:
    held = backing(1)
    caught_up(held, NAME, 2)
    held.unverified = True
    assert held.lacking()
    assert not held.fall_behind(ReplicaCheck(P, REIGN, (stand(NAME, 2),)))


@pytest.mark.parametrize("doubt", ["unverified", "awaited", "resuming"])
def test_doubts_end_when_an_ownership_begins(doubt: str) -> None:
    held = backing(1)
    held.doubts += 1
    setattr(held, doubt, True)
    held.lead(REIGN)
    assert not held.doubtful
    assert not getattr(held, doubt)


def test_what_is_current_as_of_an_earlier_doubt_ends_no_later_one() -> None:
    held = backing(1)
    held.doubts += 2
    held.settle(1)
    assert held.lacking()
    held.settle(2)
    assert not held.lacking()


def test_who_is_to_have_another_index_is_asked_for_doubts_as_well() -> None:
    held = backing(1)
    held.expect(0)
    assert not held.wanting()
    held.doubts += 1
    assert held.wanting()


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_on_disk_says_whether_anything_was_missing(clean: bool) -> None:
    held = backing(1)
    copy = caught_up(held, NAME, 2)
    if not clean:
        copy.worth.lag(Vector(REIGN, 9, [9] * 6))
    entry = (b"k", build((1).to_bytes(10, "big"), Kind.STRING, NEVER, b"v"))
    record = copy.record(P, (entry,))
    assert (record.generation, record.index, record.clean) == (GENERATION, 1, clean)
    back = holding().copy(NAME)
    back.recover(RecoveredFragment(P, record.stand, record.index, record.clean, dict([entry])))
    assert back.worth.held == copy.worth.held
    assert back.worth.lineage == copy.worth.lineage
    assert back.worth.dirty is not clean
    assert back.fragment.record_of(b"k") == entry[1]


def test_what_an_owner_writes_comes_back_as_a_copy_that_could_be_the_owner_s() -> None:
    record = owning(NAME).copy(NAME).record(P, ())
    assert (record.index, record.clean) == (1, True)
    held = holding()
    copy = held.copy(NAME)
    copy.recover(RecoveredFragment(P, record.stand, record.index, record.clean, {}))
    assert not held.may_lead(REIGN)
    held.lead(REIGN + 1)
    assert copy.lineage.segments[-1] == (REIGN + 1, 1)


# The journal --------------------------------------------------------------------------------------


def test_backup_keeps_what_it_applied_for_those_who_ask_it_as_the_next_owner() -> None:
    held = backing(1)
    copy = caught_up(held, NAME, 2)
    entry = (b"k", build((1).to_bytes(10, "big"), Kind.STRING, NEVER, b"v"))
    copy.keep(0, (entry, (b"l", entry[1])))
    copy.keep(1, ((b"again", entry[1]),))
    held.lead(REIGN + 1)
    assert copy.journal.last.counter == 2


def test_what_a_sync_brought_is_not_in_the_journal() -> None:
    copy = caught_up(backing(1), NAME, 2)
    copy.synced()
    assert copy.journal.lineage == copy.worth.lineage
    assert len(copy.journal) == 0
    assert copy.journal.last.counter == 2


def test_what_was_heard_since_a_sync_was_planned_stays_in_the_journal() -> None:
    copy = caught_up(backing(1), NAME, 2)
    copy.synced()
    copy.keep(2, ((b"k", b"3"),))
    copy.worth.held.counter = 3
    copy.synced()
    assert (copy.journal.oldest.counter, copy.journal.last.counter) == (2, 3)


@pytest.mark.parametrize(
    ("past", "planned", "lacked"),
    [
        (None, 2, None),  # nobody follows it
        (0, 2, 2),
        (0, 3, 2),  # what is here is kept, and begins at 2
        (2, 3, None),  # and reaches as far back
        (0, 5, 5),  # it ends before the plan
    ],
)
def test_what_a_journal_lacks_of_the_owner_s(
    past: int | None, planned: int, lacked: int | None
) -> None:
    copy = caught_up(backing(1), NAME, 2)
    copy.synced()
    copy.keep(2, ((b"k", b"3"),))
    owner = stand(NAME, planned)
    assert copy.journal.lineage == lineage_of(owner.lineage)
    assert copy.lacks_past(FragmentPlan(owner, Way.NOTHING, (), (), (), 1, past)) == lacked


def test_a_journal_of_another_history_is_no_use() -> None:
    copy = caught_up(backing(1), NAME, 2)
    owner = stand(NAME, 1, REIGN + 1)
    assert copy.lacks_past(FragmentPlan(owner, Way.WHOLE, (), (), (), 1, 0)) == 1
