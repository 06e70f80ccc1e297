"""Checkers of what masters decide: each fires where it should, and not next to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.effects import (
    FragmentRecord,
    Notice,
    NoticeKind,
)
from holdfast.core.events import Started
from holdfast.core.messages import (
    StableTable,
)
from holdfast.core.states import ClusterState
from holdfast.core.table import Row
from holdfast.ids import Millis, Term, Version
from holdfast.sim.checkers.changes import Changes, StableTables
from holdfast.sim.checkers.knowledge import Endings, Plans
from holdfast.sim.checkers.losses import Losses
from holdfast.sim.timeline import SECOND
from tests.sim.fakes import fake, install
from tests.sim.scenes import DATA, P0, Scene, ended, fires, migration, on_disk

LOST = Notice(NoticeKind.PARTITION_LOST, "partition 0", "")
PLANNED = Notice(NoticeKind.MIGRATIONS_PLANNED, "", "")
STATE = Notice(NoticeKind.STATE_CHANGED, "c", "FROZEN")
LEFT = Notice(NoticeKind.MEMBER_LEFT, "c", "")


# A change finds everyone settled ------------------------------------------------------------------


def test_a_change_of_a_settled_cluster() -> None:
    scene = Scene(Changes)
    scene.next(scene.a, state=ClusterState.FROZEN)
    scene.out(scene.a, STATE)


def test_a_change_while_a_member_holds_an_older_view() -> None:
    scene = Scene(Changes)
    scene.next(scene.a, scene.b)
    scene.out(scene.a)
    scene.next(scene.a, state=ClusterState.FROZEN)
    with fires("a change finds everyone settled"):
        scene.out(scene.a, STATE)


def test_a_change_in_the_step_in_which_a_member_left() -> None:
    scene = Scene(Changes)
    scene.without(scene.c)
    scene.next(scene.a, state=ClusterState.FROZEN)
    with fires("a change finds everyone settled"):
        scene.out(scene.a, LEFT, STATE)


def test_a_change_behind_which_a_member_left() -> None:
    scene = Scene(Changes)
    scene.without(scene.c)
    scene.next(scene.a, state=ClusterState.FROZEN)
    scene.out(scene.a, STATE, LEFT)


def test_a_change_of_the_level_while_a_table_differs() -> None:
    scene = Scene(Changes)
    scene.row(2, scene.a, at=scene.c)
    scene.next(scene.a, level=4)
    with fires("a change finds everyone settled"):
        scene.out(scene.a)


def test_a_change_behind_which_the_table_changed() -> None:
    scene = Scene(Changes)
    scene.next(scene.a, level=4)
    scene.row(2, scene.a, at=scene.a)
    scene.out(scene.a)


def test_a_change_while_a_migration_is_under_way() -> None:
    scene = Scene(Changes)
    fake(scene.b).active = [migration(scene)]
    scene.next(scene.a, level=4)
    with fires("a change finds everyone settled"):
        scene.out(scene.a)


def test_a_change_is_judged_where_it_is_made() -> None:
    scene = Scene(Changes)
    scene.row(2, scene.a, at=scene.c)
    scene.next(scene.b, level=4)
    scene.out(scene.b)


def test_a_change_is_not_judged_when_its_master_slept_in_its_middle() -> None:
    scene = Scene(Changes)
    scene.next(scene.a, level=4)
    scene.row(2, scene.a, at=scene.c)
    scene.a.stepped_us -= 1
    scene.world.observers[0].stepped(scene.a, Started(None), ())


# One stable table for each change -----------------------------------------------------------------


def stable(version: int) -> StableTable:
    return StableTable(Term(1), Version(1), (Row(P0, Version(version), (None, None)),))


def test_two_stable_tables_of_one_change() -> None:
    scene = Scene(StableTables)
    fake(scene.a).stable = fake(scene.b).stable = stable(1)
    fake(scene.c).stable = stable(2)
    scene.out(scene.a)
    scene.out(scene.b)
    with fires("one stable table for each change"):
        scene.out(scene.c)


def test_a_stable_table_that_is_forgotten() -> None:
    scene = Scene(StableTables)
    fake(scene.a).stable = stable(1)
    scene.out(scene.a)
    fake(scene.a).stable = None
    scene.out(scene.a)
    scene.world.crash(scene.a)


# Plans and ends -----------------------------------------------------------------------------------


def test_a_plan_that_everyone_knows_the_members_of() -> None:
    scene = Scene(Plans)
    scene.out(scene.a, PLANNED)


def test_a_plan_while_a_member_holds_an_older_view() -> None:
    scene = Scene(Plans)
    scene.next(scene.a, scene.b)
    scene.out(scene.a)
    with fires("a plan is made when everyone knows the members"):
        scene.out(scene.a, PLANNED)


@pytest.fixture
def told() -> Scene:
    """A migration has ended with version 2, and the master tells of it."""
    scene = Scene(Endings)
    scene.row(2, scene.c)
    fake(scene.a).ends = ended(scene)
    scene.out(scene.a)
    fake(scene.a).ends = {}
    return scene


def test_an_end_that_everyone_knows_is_forgotten(told: Scene) -> None:
    told.out(told.a)


def test_an_end_that_someone_does_not_know_is_forgotten(told: Scene) -> None:
    told.row(1, told.b, at=told.b)
    with fires("an end is told until everyone knows"):
        told.out(told.a)


def test_an_end_is_forgotten_with_whoever_left(told: Scene) -> None:
    told.row(1, told.b, at=told.b)
    told.without(told.b, told.a)
    told.out(told.a)


def test_an_end_is_forgotten_with_the_mastership(told: Scene) -> None:
    told.row(1, told.b, at=told.b)
    fake(told.a).is_master = False
    told.out(told.a)
    told.world.crash(told.a)


# Lost only when nobody is awaited -----------------------------------------------------------------


class Departure(Scene):
    """The third member held partition 0 alone, and has left with its data."""

    def __init__(self, **changes: object) -> None:
        super().__init__(Losses, persistent=True)
        self.world.config = replace(
            self.world.config, rejoin_grace_ms=Millis(5_000), stable_repair_after_ms=None
        )
        self.next(*self.all, **changes)
        self.row(1, self.c)
        on_disk(self.c, FragmentRecord(P0, DATA))
        fake(self.c).fragments[P0] = DATA
        self.out(self.a)
        self.without(self.c, self.a)
        self.out(self.a)

    def lose(self, after_ms: int) -> None:
        self.world.run_until(self.world.now + after_ms * 1_000)
        self.row(2, self.a)
        self.out(self.a, LOST)

    def goes_down(self) -> None:
        self.world.crash(self.c)


@pytest.mark.parametrize("down", [True, False])
def test_who_may_still_return_is_awaited(*, down: bool) -> None:
    scene = Departure()
    if down:
        scene.goes_down()
    with fires("lost only when nobody is awaited"):
        scene.lose(after_ms=4_900)


def test_who_is_gone_for_long_is_not_awaited() -> None:
    Departure().lose(after_ms=5_000)


@pytest.mark.parametrize("state", [ClusterState.FROZEN, ClusterState.STABLE_CLUSTER])
def test_some_states_wait_for_ever(state: ClusterState) -> None:
    with fires("lost only when nobody is awaited"):
        Departure(state=state).lose(after_ms=100_000)


def test_who_has_no_data_is_not_awaited() -> None:
    scene = Departure()
    scene.goes_down()
    scene.c.site.disk = None
    scene.lose(after_ms=0)


def test_who_is_back_without_its_data_is_not_awaited() -> None:
    scene = Departure()
    fake(scene.c).fragments.clear()
    scene.lose(after_ms=0)


def test_who_is_listed_is_no_departed() -> None:
    scene = Departure()
    scene.next(scene.a, members=(*scene.view.members, scene.c.node.me), departed=())
    scene.out(scene.a)
    scene.lose(after_ms=0)


def test_who_left_counts_from_the_step_of_a_master_that_slept_in_it() -> None:
    """The others saw its view before it was looked at."""
    scene = Departure()
    decided_us = scene.world.now
    scene.next(scene.a, members=(*scene.view.members, scene.c.node.me), departed=())
    scene.out(scene.a)
    scene.world.run_until(decided_us + 3 * SECOND)
    scene.without(scene.c, scene.b)
    scene.out(scene.b)
    install([scene.a], scene.view)
    scene.a.stepped_us = decided_us
    scene.world.observers[0].stepped(scene.a, Started(None), ())
    scene.lose(after_ms=2_000)
