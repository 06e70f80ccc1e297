"""What checkers must not take for a violation: what nobody was told, and what came in between."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from holdfast.core.effects import MembershipRecord, Notice, NoticeKind, Persist, RowsRecord
from holdfast.core.messages import Fragment
from holdfast.core.states import ClusterState
from holdfast.ids import MemberId, Term, Version
from tests.sim.fakes import fake, view_of
from tests.sim.test_checkers import DATA, FOREVER, P0, Scene, fires, lead, lost, served


def test_a_term_whose_claim_was_not_persisted_may_be_claimed_again() -> None:
    """1. A leads in term 1, and its claim is not on disk yet. 2. It crashes, and wins it again."""
    scene = Scene(persistent=True)
    fake(scene.a).is_master = True
    scene.step(scene.a)
    scene.world.crash(scene.a)
    again = scene.world.launch(scene.world.sites[0])
    fake(again).view = view_of(scene.all)
    fake(again).is_master = True
    scene.step(again)


def test_a_term_whose_claim_was_persisted_is_taken() -> None:
    scene = Scene(persistent=True)
    fake(scene.a).is_master = True
    scene.step(scene.a)
    scene.out(scene.a, Persist(1, MembershipRecord(1, Term(1), fake(scene.a).view)))
    scene.world.run_until(scene.world.now + 1_000_000)
    scene.world.crash(scene.a)
    again = scene.world.launch(scene.world.sites[0])
    fake(again).view = view_of(scene.all)
    fake(again).is_master = True
    with fires("one master a term"):
        scene.step(again)


@pytest.mark.parametrize("persisted", [False, True])
def test_a_version_of_a_view_that_nobody_ever_saw_may_be_made_again(*, persisted: bool) -> None:
    scene = Scene(persistent=True)
    lost_view = view_of(scene.all, version=2)
    fake(scene.a).view = lost_view
    effects = [Persist(1, MembershipRecord(1, Term(1), lost_view))] if persisted else []
    scene.out(scene.a, *effects)
    scene.world.run_until(scene.world.now + 1_000_000)
    scene.world.crash(scene.a)
    fake(scene.b).view = replace(lost_view, level=2)
    if persisted:
        with fires("one content for each view"):
            scene.step(scene.b)
    else:
        scene.step(scene.b)


def test_a_copy_that_the_plan_had_added_may_be_given_back() -> None:
    """1. A plan begins with one copy. 2. It adds one. 3. It ends with one: never fewer than now."""
    scene = Scene()
    lead(scene)
    scene.row(2, scene.a, at=[scene.a])
    scene.out(scene.a, Notice(NoticeKind.MIGRATIONS_PLANNED, "", ""))
    scene.hold(scene.b)
    scene.step(scene.b)
    scene.row(3, scene.a, scene.b, at=[scene.a])
    scene.step(scene.a)
    scene.row(4, scene.b, at=[scene.a])
    scene.step(scene.a)


def test_what_a_master_changes_is_compared_with_the_newest_row_that_anyone_had() -> None:
    """1. B and C know that A gave its copy to C. 2. A, with an older row, takes C out: a dip."""
    scene = Scene()
    lead(scene)
    scene.out(scene.a, Notice(NoticeKind.MIGRATIONS_PLANNED, "", ""))
    scene.row(2, scene.c, scene.b, at=[scene.b, scene.c])
    scene.hold(scene.b, scene.c)
    scene.step(scene.b, scene.c)
    scene.row(3, scene.b, at=[scene.a])
    with fires("copies never dip"):
        scene.step(scene.a)


def test_who_was_displaced_does_not_hold_what_is_lost() -> None:
    """1. B knows that C has it alone, A does not. 2. C ends. 3. A hears of both, and gives it away
    while A and B have kept for a moment what they need no more."""
    scene = Scene()
    lead(scene)
    scene.row(2, scene.c, at=[scene.b])
    scene.step(scene.b)
    scene.world.crash(scene.c)
    fake(scene.a).put(0, 3, scene.id(scene.c), epoch=2)
    scene.out(scene.a, Notice(NoticeKind.PARTITION_LOST, "partition 0", ""))


@pytest.mark.parametrize("persisted", [False, True])
@pytest.mark.parametrize("heard", [False, True])
def test_a_loss_of_which_the_new_owner_did_not_hear_has_not_been(
    *, persisted: bool, heard: bool
) -> None:
    """1. A gives to C what B held, and crashes. 2. C holds the data as it was."""
    scene = Scene(persistent=True)
    scene.row(1, scene.b)
    served(scene, scene.b)
    scene.step(*scene.all)
    scene.world.crash(scene.b)
    notice = lost(scene)
    begun = fake(scene.a).table.row(P0)
    fake(scene.a).fragments[P0] = Fragment(2, 0)
    scene.out(scene.a, notice, *([Persist(1, RowsRecord((begun,), False))] if persisted else []))
    scene.world.run_until(scene.world.now + 1_000_000)
    if heard:
        fake(scene.c).put(0, 2, scene.id(scene.c), epoch=2)
        scene.step(scene.c)
    scene.world.crash(scene.a)
    fake(scene.c).serves[P0] = FOREVER
    scene.hold(scene.c)
    scene.row(3, scene.c, at=[scene.c])
    if heard and persisted:
        with fires("who serves holds the data"):
            scene.step(scene.c)
    else:
        scene.step(scene.c)


def test_a_stranger_joins_after_the_state_was_changed_in_the_same_step() -> None:
    scene = Scene()
    fake(scene.a).view = replace(scene.view, state=ClusterState.PASSIVE, version=Version(2))
    scene.step(scene.a)
    stranger = replace(scene.view.members[0], id=MemberId("stranger"))
    grown = replace(scene.view, members=(*scene.view.members, stranger), version=Version(4))
    fake(scene.a).view = grown
    scene.step(scene.a)


def test_a_loss_of_what_nobody_ever_held_may_end_with_its_teller() -> None:
    scene = Scene(persistent=True)
    scene.out(scene.a, lost(scene, epoch=DATA.epoch))
    scene.row(3, scene.a, at=[scene.a])
    scene.hold(scene.a)
    fake(scene.a).serves[P0] = FOREVER
    scene.step(scene.a)
    scene.world.crash(scene.a)
    scene.row(4, scene.c, at=[scene.c])
    scene.hold(scene.c, fragment=Fragment(2, 0))
    scene.step(scene.c)


@pytest.mark.parametrize("told", [False, True])
def test_what_a_partition_began_with_before_anybody_was_told(*, told: bool) -> None:
    """1. A gives the partition its first data. 2. It crashes, and has no disk; B may have heard of
    the row. 3. B gives it its first data."""
    scene = Scene()
    fake(scene.a).put(0, 1, scene.id(scene.a), epoch=DATA.epoch)
    served(scene, scene.a)
    if told:
        fake(scene.b).put(0, 1, scene.id(scene.a), epoch=DATA.epoch)
    scene.world.crash(scene.a)
    fake(scene.b).put(0, 2, scene.id(scene.b), epoch=2)
    scene.hold(scene.b, fragment=Fragment(2, 0))
    with fires("no partition begins anew") if told else nullcontext():
        scene.step(scene.b)
