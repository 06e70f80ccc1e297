"""What follows for the data of a member from what the master publishes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.config import Config
from holdfast.core.context import Context
from holdfast.core.data.copies import stand_of
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.vectors import Vector
from holdfast.core.data_messages import FragmentStand, ReplicaCheck, SyncAsk
from holdfast.core.effects import FragmentRecord, MutationsRecord, Notice, NoticeKind, Persist
from holdfast.core.events import Image, RecoveredFragment
from holdfast.core.messages import Ask, Fragment
from holdfast.core.serving import Serving
from holdfast.core.states import ClusterState
from holdfast.core.stores.record import NEVER, Kind, build, version_at
from holdfast.core.stores.settings import NameSettings
from holdfast.core.stores.space import INTERNAL
from holdfast.core.table import Row
from holdfast.ids import NO_INDEX, MemberId, Millis, PartitionId, Term
from tests.core.data.grid import Grid, P, grid, to
from tests.core.disk import Disk
from tests.core.harness import A, B, C, member, request_of, row

NAME = b"name"
REIGN = 3
ENTRY = (b"k", build((1).to_bytes(10, "big"), Kind.STRING, NEVER, b"v"))
STAND = FragmentStand(NAME, stand_of(Vector(REIGN, 1, [1] * 6)), ((REIGN, 0),))


def holdings(**settings: object) -> Holdings:
    """Of B, which has files."""
    config = Config(partition_count=1, replica_count=3, **settings)  # type: ignore[arg-type]
    return Holdings(Context(config, member(B, persistent=True)))


def publish(held: Holdings, *replicas: MemberId | None, reign: int = REIGN) -> Row:
    """The master has decided."""
    table = held.context.table
    decided = row(0, table.row(P).version + 1, *replicas, reign=reign, epoch=REIGN)
    table.apply((decided,))
    held.published(decided)
    return decided


def said(held: Holdings) -> list[str]:
    """Of writes that may be lost."""
    effects = held.context.outbox.take()
    return [
        effect.detail
        for effect in effects
        if isinstance(effect, Notice) and effect.kind is NoticeKind.WRITES_LOST
    ]


def image(*found: RecoveredFragment) -> Image:
    return Image(1, Term(1), None, (), None, ((P, REIGN, 0),), found)


def found(index: int = 1, *, clean: bool = True) -> RecoveredFragment:
    return RecoveredFragment(P, STAND, index, clean, dict([ENTRY]))


def index_of(held: Holdings) -> int:
    return held.here[P].index


# Settings -----------------------------------------------------------------------------------------


def test_name_has_its_settings_and_the_internal_fragment_goes_wherever_any_name_goes() -> None:
    one, two = NameSettings(backups=2), NameSettings(backups=0, async_backups=3, ttl_ms=7)
    held = holdings(names={b"one": one, b"two": two})
    assert [held.settings_of(name) for name in (b"one", b"two")] == [one, two]
    assert held.settings_of(NAME) == NameSettings()
    internal = held.settings_of(INTERNAL)
    assert (internal.backups, internal.copies, internal.ttl_ms) == (2, 4, 0)


# Rows ---------------------------------------------------------------------------------------------


def test_row_counts_when_it_is_published_and_says_what_each_member_is() -> None:
    held = holdings()
    held.begin(P, REIGN)
    publish(held, A, B, None)
    assert (index_of(held), held.here[P].reign) == (1, 0)
    publish(held, B, A, None, reign=REIGN + 1)
    assert (index_of(held), held.here[P].reign) == (0, REIGN + 1)
    publish(held, A, None, B, reign=REIGN + 2)
    assert (index_of(held), held.here[P].reign) == (2, 0)
    publish(held, A, None, None, reign=REIGN + 2)
    assert index_of(held) == NO_INDEX
    assert P in held.here, "it is fenced until it is dropped"
    held.drop(P)
    held.drop(P)
    assert held.get(P) is None


def test_row_of_what_is_not_here_changes_nothing() -> None:
    held = holdings()
    publish(held, B, None, None)
    assert held.here == {}


def test_name_that_has_no_backup_at_my_new_index_is_dropped_here_and_on_disk() -> None:
    held = holdings()
    held.begin(P, REIGN)
    publish(held, A, B, None)
    held.here[P].copy(NAME)
    publish(held, A, None, B)
    assert NAME not in held.here[P].copies
    records = [each.record for each in held.context.outbox.take() if isinstance(each, Persist)]
    assert [each.name for each in records if isinstance(each, MutationsRecord)] == [NAME]


# Writes that may be lost --------------------------------------------------------------------------


def test_backup_that_is_in_sync_takes_over_without_a_word() -> None:
    held = holdings()
    held.begin(P, REIGN)
    publish(held, A, B, None)
    publish(held, B, None, None, reign=REIGN + 1)
    assert said(held) == []


def test_copy_that_was_not_in_sync_may_lack_what_was_acknowledged() -> None:
    held = holdings()
    held.begin(P, REIGN)
    publish(held, A, B, None)
    held.here[P].doubts += 1
    publish(held, B, None, None, reign=REIGN + 1)
    assert said(held) == ["my copy was not in sync when its owner went"]


@pytest.mark.parametrize(("index", "lost"), [(1, False), (2, True), (NO_INDEX, True)])
def test_heir_that_had_not_every_name_may_lack_some(index: int, lost: bool) -> None:
    held = holdings()
    held.begin(P, REIGN)
    before: dict[int, tuple[MemberId | None, ...]] = {
        1: (A, B, None),
        2: (A, None, B),
        NO_INDEX: (A, None, None),
    }
    publish(held, *before[index])
    publish(held, B, None, None, reign=REIGN + 1)
    assert bool(said(held)) is lost


def test_data_that_begins_with_this_reign_can_not_lack_anything() -> None:
    held = holdings()
    held.begin(P, REIGN)
    publish(held, B, None, None)
    assert said(held) == []


# Files --------------------------------------------------------------------------------------------


def test_what_the_files_have_is_fenced_until_a_row_says_otherwise() -> None:
    held = holdings()
    held.recover(image(found()))
    holding = held.here[P]
    assert (holding.index, holding.reign, holding.unverified) == (NO_INDEX, 0, True)
    assert holding.copies[NAME].fragment.records == {b"k": ENTRY[1]}


def test_owner_that_comes_back_does_not_number_in_the_reign_in_which_it_has_written() -> None:
    """What it wrote last may not have reached its disk, but somebody else."""
    held = holdings()
    held.recover(image(found()))
    publish(held, B, A, None)
    assert (held.here[P].resuming, held.here[P].reign) == (True, 0)
    assert held.resumes() == ((P, REIGN),)
    publish(held, B, A, None, reign=REIGN + 1)
    assert (held.here[P].resuming, held.here[P].reign) == (False, REIGN + 1)
    assert held.resumes() == ()
    assert said(held) == [], "it has everything that it acknowledged"


def test_owner_that_comes_back_numbers_nothing_in_a_reign_of_which_its_files_have_nothing() -> None:
    """Its first writes went to a backup, and the power went before they were on its own disk."""
    held = holdings()
    mine = row(0, 1, B, A, None, reign=REIGN, epoch=REIGN)
    held.recover(replace(image(), rows=(mine,)))
    publish(held, B, A, None)
    assert held.resumes() == ((P, REIGN),)
    assert not held.here[P].reign


def test_owner_that_ended_in_order_goes_on_where_it_was() -> None:
    held = holdings()
    mine = row(0, 1, B, A, None, reign=REIGN, epoch=REIGN)
    held.recover(replace(image(), rows=(mine,), ended=True))
    publish(held, B, A, None)
    assert held.resumes() == ()
    assert held.here[P].reign == REIGN


def test_owner_that_comes_back_asks_for_nothing_when_somebody_else_owns_the_partition_now() -> None:
    held = holdings()
    held.recover(image(found()))
    publish(held, B, A, None)
    publish(held, A, B, None, reign=REIGN + 1)
    assert held.resumes() == ()


def test_backup_that_was_to_resume_and_did_not_is_no_owner_that_comes_back() -> None:
    """It led later, and was taken for one that has all that it ever acknowledged: what only the
    owner in between had was gone, and nobody said so (seed 7543)."""
    held = holdings(unnamed=NameSettings(backups=0), names={NAME: NameSettings(backups=1)})
    held.recover(image(found()))
    publish(held, A, B, None)
    publish(held, B, A, None)
    assert (held.here[P].resuming, held.here[P].index) == (True, 1)
    publish(held, A, B, None, reign=REIGN + 1)
    assert not held.here[P].resuming
    publish(held, B, None, None, reign=REIGN + 2)
    assert len(said(held)) == 1


def test_files_tell_what_was_mine_and_rows_of_others_tell_nothing() -> None:
    for owner, reign in ((B, REIGN), (A, 0)):
        held = holdings()
        theirs = row(0, 1, owner, None, None, reign=REIGN, epoch=REIGN)
        held.recover(replace(image(found()), rows=(theirs,)))
        assert held.here[P].owned == reign


def test_owner_whose_files_were_damaged_says_that_writes_may_be_lost() -> None:
    held = holdings()
    held.recover(replace(image(found(clean=False)), damaged=(P, PartitionId(7))))
    publish(held, B, A, None)
    held.here[P].recalled()
    publish(held, B, A, None, reign=REIGN + 1)
    assert said(held) == ["my files were damaged, and nobody could be asked before I had to lead"]
    assert not held.here[P].damaged


@pytest.mark.parametrize("clean", [True, False])
def test_damage_is_over_when_an_owner_says_that_nothing_is_missing(clean: bool) -> None:
    held = holdings()
    held.recover(replace(image(found(clean=clean)), damaged=(P,)))
    publish(held, A, B, None)
    held.here[P].fall_behind(ReplicaCheck(P, REIGN, (STAND,)))
    assert held.here[P].damaged is not clean


# Migrations ---------------------------------------------------------------------------------------


def test_what_a_migration_brought_that_never_ended_is_not_mixed_with_what_the_next_one_brings() -> (
    None
):
    """A process ended with it in its files, and did not hold it yet; the next one holds what a
    migration of the same history brings [seed 994 of the simulator]."""
    fragment, disk = Fragment(REIGN, 0), Disk()
    gone = (b"gone", build(version_at(REIGN, 1), Kind.STRING, NEVER, b"before"))
    disk.write(MutationsRecord(P, REIGN, b"n", (gone,), STAND, 1, clean=True))
    held = holdings()
    held.expect(P, fragment, 1)
    held.context.hold(P, fragment)
    for effect in held.context.outbox.take():
        if isinstance(effect, Persist):
            disk.write(effect.record)
    image = disk.image()
    assert (image.fragments, image.data) == (((P, REIGN, 0),), ())


def test_destination_that_had_nothing_begins_empty_and_loses_that_when_it_fails() -> None:
    held = holdings()
    held.expect(P, Fragment(REIGN, 0), 1)
    assert held.here[P].target == 1
    held.unexpected(P)
    assert held.here == {}
    records = [each.record for each in held.context.outbox.take() if isinstance(each, Persist)]
    assert records == [FragmentRecord(P, None)] * 2  # also of what may be in the files
    held.unexpected(P)


def test_destination_that_had_something_keeps_it_when_the_migration_fails() -> None:
    held = holdings()
    held.context.hold(P, Fragment(REIGN, 0))
    mine = held.begin(P, REIGN)
    assert held.expect(P, Fragment(REIGN, 0), 1) is mine
    held.unexpected(P)
    assert held.here == {P: mine}


def test_what_was_lost_is_never_mixed_with_what_began_after_it() -> None:
    held = holdings()
    old = held.begin(P, REIGN)
    fresh = held.expect(P, Fragment(REIGN + 5, 0), 1)
    assert fresh is not old
    assert fresh.generation == REIGN + 5


def test_new_stay_has_no_migration_under_way() -> None:
    held = holdings()
    held.expect(P, Fragment(REIGN, 0), 1)
    held.reset()
    assert held.here == {}


# A whole cluster ----------------------------------------------------------------------------------


def restarted() -> Grid:
    """A owned a key and is back from its files."""
    cluster = grid(A, B, None, persistent=True)
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    reign = cluster.holding(A).reign
    cluster.crash(A)
    cluster.start(member(A, 2, persistent=True))
    cluster.run_until(lambda: P in cluster.nodes[A].data.holdings.here and serves(cluster, A))
    assert cluster.holding(A).reign > reign
    return cluster


def serves(cluster: Grid, who: MemberId) -> bool:
    return cluster.nodes[who].serving(P, Millis(cluster.now)) is Serving.ALL


def test_owner_resumes_after_a_restart_in_a_reign_of_its_own_with_what_it_had() -> None:
    cluster = restarted()
    assert cluster.reply(A, "GET k", "SET k w") == b"$1\r\nv\r\n+OK\r\n"
    assert cluster.value(B, "k") == b"w"
    assert cluster.noticed(NoticeKind.WRITES_LOST) == []


def test_data_that_is_given_up_begins_anew_and_empty() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    cluster.decide(C, B, None, anew=True)
    cluster.run(20)
    assert cluster.reply(C, "GET k", "SET l w") == b"$-1\r\n+OK\r\n"
    assert cluster.value(B, "k") is None
    assert cluster.value(B, "l") == b"w"
    assert cluster.nodes[C].table.row(P).epoch == cluster.holding(C).generation


def test_end_of_a_migration_of_which_nothing_is_here_changes_nothing() -> None:
    cluster = grid(A, B, None)
    for member_id in (B, C):
        data = cluster.nodes[member_id].data
        before = [(held.index, held.target) for held in data.holdings.here.values()]
        data.unexpected(P)
        data.arrived(P)
        assert [(held.index, held.target) for held in data.holdings.here.values()] == before


def test_a_backup_that_was_not_listed_says_so_when_it_is_to_lead() -> None:
    """1. B is a backup, in sync. 2. It is left out of the view, and A writes on alone. 3. B is let
    in again and A dies, before A has told it where it stands."""
    held = holdings()
    held.context.hold(P, Fragment(REIGN, 0))
    held.begin(P, REIGN)
    publish(held, A, B, None)
    held.reset()
    assert held.here[P].lacking()
    publish(held, B, None, None, reign=REIGN + 1)
    assert said(held) == ["my copy was not in sync when its owner went"]


def test_an_owner_that_begins_a_stay_anew_is_as_good_as_it_was() -> None:
    held = holdings()
    held.context.hold(P, Fragment(REIGN, 0))
    held.begin(P, REIGN)
    publish(held, B, A, None)
    held.reset()
    assert not held.here[P].lacking()


def test_a_backup_that_had_not_kept_its_row_says_so_when_it_is_to_lead() -> None:
    """1. C is a backup, and loses its power before that is on its disk. 2. B writes on alone. 3. C
    comes back: the row, which the state keeps, is new to it, and it begins with nothing. 4. B dies
    before C has heard where it stands, and C is to lead."""
    cluster = grid(B, C, None, persistent=True)
    change(cluster, ClusterState.FROZEN)
    cluster.crash(C)
    cluster.confirm_dead(C)
    cluster.run(3_000)
    assert cluster.reply(B, "SET k v") == b"+OK\r\n"
    for kept in (cluster.disks[C].rows, cluster.disks[C].fragments, cluster.disks[C].data):
        kept.clear()
    cluster.drops.append(to(B, SyncAsk))
    cluster.start(member(C, 2, persistent=True))
    cluster.run_until(lambda: P in cluster.nodes[C].data.holdings.here)
    assert cluster.holding(C).lacking()
    cluster.crash(B)
    cluster.confirm_dead(B)
    cluster.run(3_000)
    change(cluster, ClusterState.ACTIVE)
    cluster.run_until(lambda: serves(cluster, C))
    assert len(cluster.noticed(NoticeKind.WRITES_LOST)) == 1


def change(cluster: Grid, state: ClusterState) -> None:
    """The cluster has this state."""
    cluster.ask(A, request_of(Ask.STATE, state.name, state=state))
    cluster.run_until(lambda: cluster.term.view.state is state)  # type: ignore[union-attr]
