"""Every checker fires on a violation made by hand, and not on its sound neighbour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.core.effects import (
    Answer,
    Effect,
    Notice,
    NoticeKind,
    Send,
)
from holdfast.core.messages import (
    Ask,
    Fragment,
    Migration,
    MigrationId,
    MigrationRequest,
    Request,
)
from holdfast.core.states import ClusterState
from holdfast.core.versioning import light_max
from holdfast.errors import InvariantViolated
from holdfast.ids import MemberId, Millis, PartitionId, Term, Version
from holdfast.sim.checkers.lineage import Lineage
from holdfast.sim.checkers.masters import Masters
from holdfast.sim.checkers.moves import Moves
from holdfast.sim.checkers.ownership import Ownership
from holdfast.sim.checkers.quiet import unsettled
from holdfast.sim.checkers.requests import Requests
from holdfast.sim.checkers.rows import Rows
from holdfast.sim.checkers.views import Views
from holdfast.sim.checkers.watch import Watch
from holdfast.sim.process import Process
from holdfast.sim.world import World
from tests.sim.fakes import PARTITIONS, fake, install, make_world, start, view_of, wake

P0 = PartitionId(0)
FOREVER = (Millis(0), Millis(2**60))
DATA = Fragment(1, 0)


class Scene:
    """Three members of one cluster, and all checkers watching."""

    def __init__(self, *, persistent: bool = False) -> None:
        self.world: World = make_world(3, persistent=persistent)
        self.requests = Requests(self.world)
        ownership = Ownership(self.world)
        checkers = (
            Rows(self.world),
            Views(self.world),
            Masters(self.world),
            ownership,
            Lineage(self.world, ownership),
            Moves(self.world),
            self.requests,
        )
        self.world.observers = [Watch(self.world, checkers)]
        self.a, self.b, self.c = self.all = start(self.world)
        self.world.run_until(1_000_000)
        self.view = install(self.all)
        self.step(*self.all)

    def step(self, *processes: Process) -> None:
        """A step of each, in which nothing comes out."""
        for process in processes:
            wake(self.world, process)

    def out(self, process: Process, *effects: Effect) -> None:
        """A step of one, in which this comes out."""
        fake(process).script = [effects]
        wake(self.world, process)

    def id(self, process: Process) -> MemberId:
        return process.node.me.id

    def row(self, version: int, *holders: Process, at: Sequence[Process] = ()) -> None:
        """A row of partition 0, at some or at all."""
        for process in at or self.all:
            fake(process).put(0, version, *(self.id(holder) for holder in holders))

    def hold(self, *processes: Process, fragment: Fragment = DATA) -> None:
        for process in processes:
            fake(process).fragments[P0] = fragment

    def change(self, *processes: Process, **changes: object) -> None:
        """The next view, at some."""
        version = Version(self.view.version + 1)
        self.view = replace(self.view, version=version, **changes)  # type: ignore[arg-type]
        install(processes, self.view)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def fires(invariant: str) -> pytest.RaisesExc[InvariantViolated]:
    return pytest.raises(InvariantViolated, match=f"^{invariant}")


# Ownership --------------------------------------------------------------------------------------


def serve(scene: Scene, *processes: Process) -> None:
    scene.row(1, scene.a, scene.b)
    scene.hold(scene.a, scene.b)
    for process in processes:
        fake(process).serves[P0] = FOREVER


def test_two_owners_at_an_instant(scene: Scene) -> None:
    serve(scene, scene.a, scene.b)
    scene.row(2, scene.b, scene.a, at=[scene.b])
    scene.step(scene.a)
    with fires("one owner at a time"):
        scene.step(scene.b)


def test_two_owners_one_after_the_other(scene: Scene) -> None:
    serve(scene, scene.a, scene.b)
    scene.row(2, scene.b, scene.a, at=[scene.b])
    lease_ends = scene.a.clock.read(scene.world.now) + 10
    fake(scene.a).serves[P0] = (Millis(0), Millis(lease_ends))
    scene.step(scene.a)
    scene.world.run_until(scene.world.now + 20_000)
    scene.step(scene.b)


def test_a_paused_owner_is_none_until_it_goes_on(scene: Scene) -> None:
    serve(scene, scene.a, scene.b)
    scene.row(2, scene.b, scene.a, at=[scene.b])
    scene.step(scene.a)
    scene.world.pause(scene.a)
    scene.step(scene.b)
    scene.world.resume(scene.a)
    with fires("one owner at a time"):
        scene.step(scene.a)


def test_who_serves_without_being_owner_is_found_in_time(scene: Scene) -> None:
    serve(scene, scene.a, scene.b)
    scene.step(scene.a)
    with fires("one owner at a time"):
        scene.step(*[scene.b] * 20)


def test_a_crashed_owner_is_none(scene: Scene) -> None:
    serve(scene, scene.a, scene.b)
    scene.row(2, scene.b, scene.a, at=[scene.b])
    scene.step(scene.a)
    scene.world.crash(scene.a)
    scene.step(scene.b)


# Rows -------------------------------------------------------------------------------------------


def test_a_member_twice_in_a_row(scene: Scene) -> None:
    scene.row(1, scene.a, scene.a, at=[scene.a])
    with fires("no member twice in a row"):
        scene.step(scene.a)


def test_a_version_that_falls(scene: Scene) -> None:
    scene.row(2, scene.a)
    scene.step(scene.a)
    scene.row(1, scene.a)
    with fires("versions only grow"):
        scene.step(scene.a)


def test_a_version_that_stands_still(scene: Scene) -> None:
    scene.row(2, scene.a)
    scene.step(scene.a)
    scene.row(2, scene.b)
    with fires("versions only grow"):
        scene.step(scene.a)


def test_a_new_stay_may_begin_anew(scene: Scene) -> None:
    scene.row(2, scene.a)
    scene.step(scene.a)
    fake(scene.a).me = replace(fake(scene.a).me, incarnation=2)
    scene.row(1, scene.a)
    scene.step(scene.a)


def test_two_contents_of_one_version(scene: Scene) -> None:
    scene.row(1, scene.a, at=[scene.a])
    scene.row(1, scene.b, at=[scene.b])
    scene.step(scene.a)
    with fires("one content for each version"):
        scene.step(scene.b)


def test_two_contents_where_one_is_of_no_member(scene: Scene) -> None:
    scene.row(1, scene.a, at=[scene.a])
    scene.row(1, scene.b, at=[scene.b])
    scene.change(scene.b, scene.c, members=view_of([scene.b, scene.c]).members)
    scene.step(scene.a, scene.b)


# Views ------------------------------------------------------------------------------------------


def test_a_view_that_is_older(scene: Scene) -> None:
    scene.change(*scene.all)
    scene.step(scene.a)
    fake(scene.a).view = view_of(scene.all)
    with fires("views only grow"):
        scene.step(scene.a)


def test_two_contents_of_one_view(scene: Scene) -> None:
    scene.change(scene.a)
    scene.step(scene.a)
    fake(scene.b).view = replace(scene.view, level=2)
    with fires("one content for each view"):
        scene.step(scene.b)


def newcomer(scene: Scene, state: ClusterState) -> None:
    scene.change(scene.a, state=state)
    scene.step(scene.a)
    stranger = replace(scene.a.node.me, id=MemberId("new"))
    scene.change(scene.a, members=(*scene.view.members, stranger))


@pytest.mark.parametrize(
    "state", [ClusterState.FROZEN, ClusterState.PASSIVE, ClusterState.STABLE_CLUSTER]
)
def test_a_stranger_joins_where_only_some_are_expected(scene: Scene, state: ClusterState) -> None:
    newcomer(scene, state)
    with fires("joins as the state allows"):
        scene.step(scene.a)


def test_a_stranger_joins_where_anyone_may(scene: Scene) -> None:
    newcomer(scene, ClusterState.NO_MIGRATION)
    scene.step(scene.a)


# Masters ----------------------------------------------------------------------------------------


def test_two_masters_of_one_term(scene: Scene) -> None:
    fake(scene.a).is_master = True
    scene.step(scene.a)
    fake(scene.a).is_master = False
    scene.step(scene.a)
    fake(scene.b).is_master = True
    with fires("one master a term"):
        scene.step(scene.b)


def test_two_mandates_at_an_instant(scene: Scene) -> None:
    fake(scene.a).is_master = fake(scene.b).is_master = True
    scene.step(scene.a)
    fake(scene.b).view = view_of(scene.all, term=2)
    with fires("one mandate at an instant"):
        scene.step(scene.b)


def test_a_mandate_that_has_ended_is_none(scene: Scene) -> None:
    fake(scene.a).is_master = fake(scene.b).is_master = True
    scene.step(scene.a)
    fake(scene.a).mandate_until = scene.a.clock.read(scene.world.now)
    fake(scene.b).view = view_of(scene.all, term=2)
    scene.step(scene.b)


# Moves ------------------------------------------------------------------------------------------


def lead(scene: Scene) -> None:
    fake(scene.a).is_master = True
    scene.row(1, scene.a, scene.b)
    scene.hold(scene.a, scene.b)
    scene.step(*scene.all)


def request(scene: Scene) -> Send:
    row = scene.a.node.table.row(P0)
    number = MigrationId(Term(1), 1)
    migration = Migration(number, P0, row.version, (), row.replicas, row.replicas)
    return Send(scene.a.site.address, MigrationRequest(migration, ()))


def test_a_migration_that_the_state_forbids(scene: Scene) -> None:
    lead(scene)
    scene.change(scene.a, state=ClusterState.NO_MIGRATION)
    with fires("nothing moves unasked"):
        scene.out(scene.a, request(scene))


def test_a_plan_that_the_state_forbids(scene: Scene) -> None:
    lead(scene)
    scene.change(scene.a, state=ClusterState.FROZEN)
    with fires("nothing moves unasked"):
        scene.out(scene.a, Notice(NoticeKind.MIGRATIONS_PLANNED, "", ""))


def test_a_repeated_request_of_a_running_migration(scene: Scene) -> None:
    lead(scene)
    scene.out(scene.a, request(scene))
    scene.change(scene.a, state=ClusterState.NO_MIGRATION)
    scene.out(scene.a, request(scene))


def test_too_many_migrations_at_a_member(scene: Scene) -> None:
    lead(scene)
    limit = light_max(scene.world.config.migrations_parallel_max)
    fake(scene.a).load = {scene.id(scene.b): limit}
    scene.step(scene.a)
    fake(scene.a).load = {scene.id(scene.b): limit + 1}
    with fires("bounded migrations"):
        scene.step(scene.a)


def test_a_commit_before_the_data_is_there(scene: Scene) -> None:
    lead(scene)
    scene.out(scene.a, Notice(NoticeKind.MIGRATIONS_PLANNED, "", ""), request(scene))
    scene.row(2, scene.a, scene.c, at=[scene.a])
    with fires("copies never dip"):
        scene.step(scene.a)


def test_a_commit_after_the_data_is_there(scene: Scene) -> None:
    lead(scene)
    scene.out(scene.a, Notice(NoticeKind.MIGRATIONS_PLANNED, "", ""), request(scene))
    scene.hold(scene.c)
    scene.step(scene.c)
    scene.row(2, scene.a, scene.c, at=[scene.a])
    scene.step(scene.a)


def test_a_destination_that_died_after_its_commit(scene: Scene) -> None:
    lead(scene)
    scene.out(scene.a, Notice(NoticeKind.MIGRATIONS_PLANNED, "", ""), request(scene))
    scene.world.crash(scene.c)
    scene.row(2, scene.a, scene.c, at=[scene.a])
    scene.step(scene.a)


# Lineage ----------------------------------------------------------------------------------------


def test_who_serves_without_data(scene: Scene) -> None:
    serve(scene, scene.a)
    fake(scene.a).fragments.clear()
    with fires("who serves holds the data"):
        scene.step(scene.a)


def served(scene: Scene, process: Process) -> None:
    """It holds the data, and has answered with it."""
    scene.hold(process)
    fake(process).serves[P0] = FOREVER
    scene.step(process)


def test_a_partition_that_begins_anew(scene: Scene) -> None:
    scene.row(1, scene.a, at=[scene.a])
    served(scene, scene.a)
    scene.hold(scene.b, fragment=Fragment(2, 0))
    with fires("no partition begins anew"):
        scene.step(scene.b)


def test_what_nobody_served_may_begin_again(scene: Scene) -> None:
    """Its founder ended before anybody heard of the assignment (seed 8992), and may come back with
    it (seed 5597)."""
    scene.hold(scene.a)
    scene.step(scene.a)
    scene.row(1, scene.b, at=[scene.b])
    scene.hold(scene.b, fragment=Fragment(2, 0))
    fake(scene.b).serves[P0] = FOREVER
    scene.step(scene.b)
    scene.hold(scene.c)
    scene.step(scene.c)


def test_what_began_at_one_alone_and_ended_before_it_stood_on_its_disk_never_was() -> None:
    """Nobody else was told, and what it answered was held back: the partition may begin again."""
    scene = Scene(persistent=True)
    fake(scene.a).put(0, 1, scene.id(scene.a), epoch=DATA.epoch)
    scene.hold(scene.a)
    scene.step(scene.a)
    scene.world.crash(scene.a)
    scene.hold(scene.b, fragment=Fragment(2, 0))
    scene.step(scene.b)


def lost(scene: Scene, *, epoch: int = 2) -> Notice:
    """A gives the partition away; its data begins with this epoch."""
    fake(scene.a).put(0, 2, scene.id(scene.c), epoch=epoch)
    return Notice(NoticeKind.PARTITION_LOST, "partition 0", "")


def test_lost_although_a_member_holds_it(scene: Scene) -> None:
    lead(scene)
    with fires("lost only when nobody holds it"):
        scene.out(scene.a, lost(scene))


def ended_and_given_away(scene: Scene) -> None:
    """B, which has the data alone, ends; A gives the partition away."""
    scene.row(1, scene.b)
    served(scene, scene.b)
    scene.step(*scene.all)
    scene.world.crash(scene.b)
    scene.out(scene.a, lost(scene))


def test_a_lost_partition_begins_anew(scene: Scene) -> None:
    ended_and_given_away(scene)
    fake(scene.c).put(0, 2, scene.id(scene.c), epoch=2)
    scene.hold(scene.c, fragment=Fragment(2, 0))
    scene.step(scene.c)
    scene.row(3, scene.a)
    scene.hold(scene.a, fragment=DATA)
    scene.step(scene.a)
    fake(scene.a).serves[P0] = FOREVER
    with fires("who serves holds the data"):
        scene.step(scene.a)


def test_a_loss_of_which_the_new_owner_never_heard_is_none(scene: Scene) -> None:
    """Nothing was written in the new epoch: who comes back with the old one may go on."""
    ended_and_given_away(scene)
    scene.world.crash(scene.a)
    scene.row(3, scene.c, at=[scene.c])
    scene.hold(scene.c, fragment=DATA)
    fake(scene.c).serves[P0] = FOREVER
    scene.step(scene.c)
    scene.hold(scene.c, fragment=Fragment(2, 0))
    with fires("no partition begins anew"):
        scene.step(scene.c)


def test_a_loss_that_was_told_twice_and_heard_by_no_owner_is_none(scene: Scene) -> None:
    """The second master did not know of the first one's word either."""
    ended_and_given_away(scene)
    fake(scene.c).put(0, 3, scene.id(scene.a), epoch=3)
    scene.out(scene.c, Notice(NoticeKind.PARTITION_LOST, "partition 0", ""))
    scene.world.crash(scene.a)
    scene.row(4, scene.c, at=[scene.c])
    scene.hold(scene.c, fragment=DATA)
    fake(scene.c).serves[P0] = FOREVER
    scene.step(scene.c)


# Requests ---------------------------------------------------------------------------------------


def asked(scene: Scene, process: Process) -> None:
    ask = Request("r1", Ask.STATE, ClusterState.ACTIVE, 0, Millis(0), 0)
    scene.requests.asked(process, ask)


def test_one_answer(scene: Scene) -> None:
    asked(scene, scene.a)
    assert scene.requests.is_open("r1")
    assert list(scene.requests.waiting(scene.all))
    scene.out(scene.a, Answer("r1", "", ""))
    assert not list(scene.requests.waiting(scene.all))


def test_two_answers(scene: Scene) -> None:
    asked(scene, scene.a)
    with fires("one answer for each request"):
        scene.out(scene.a, Answer("r1", "", ""), Answer("r1", "", ""))


def test_an_answer_at_the_wrong_member(scene: Scene) -> None:
    asked(scene, scene.a)
    with fires("one answer for each request"):
        scene.out(scene.b, Answer("r1", "", ""))


def test_whoever_asked_a_process_that_died_waits_no_more(scene: Scene) -> None:
    asked(scene, scene.a)
    scene.world.crash(scene.a)
    assert not list(scene.requests.waiting(scene.all))


# Quiet ------------------------------------------------------------------------------------------


@pytest.fixture
def settled(scene: Scene) -> Scene:
    """Everything as it should be at the end."""
    fake(scene.a).is_master = True
    for partition in range(PARTITIONS):
        for process in scene.all:
            fake(process).put(partition, 1, scene.id(scene.a), scene.id(scene.b))
        for process in (scene.a, scene.b):
            fake(process).fragments[PartitionId(partition)] = DATA
        fake(scene.a).serves[PartitionId(partition)] = FOREVER
    return scene


def reasons(scene: Scene) -> str:
    return "; ".join(unsettled(scene.world, scene.requests))


def test_rest(settled: Scene) -> None:
    assert reasons(settled) == ""


def test_no_master(settled: Scene) -> None:
    fake(settled.a).is_master = False
    assert "0 masters" in reasons(settled)


def test_two_masters(settled: Scene) -> None:
    fake(settled.b).is_master = True
    assert "2 masters" in reasons(settled)


def test_another_state(settled: Scene) -> None:
    settled.change(*settled.all, state=ClusterState.FROZEN)
    assert "the state is FROZEN" in reasons(settled)


def test_a_master_that_its_view_does_not_name(settled: Scene) -> None:
    settled.change(*settled.all, master=settled.id(settled.b))
    assert "but its view names" in reasons(settled)


def test_a_member_that_is_listed_and_gone(settled: Scene) -> None:
    settled.world.crash(settled.c)
    assert "is listed and doesn't run" in reasons(settled)


def test_a_member_that_is_not_listed(settled: Scene) -> None:
    settled.change(*settled.all, members=settled.view.members[:2])
    assert "runs and is not listed" in reasons(settled)


def test_who_does_not_speak_the_level_stays_out(settled: Scene) -> None:
    settled.change(*settled.all, members=settled.view.members[:2])
    fake(settled.c).me = replace(fake(settled.c).me, level_max=2)
    assert reasons(settled) == ""


def test_another_view(settled: Scene) -> None:
    settled.change(settled.b)
    assert "holds another view" in reasons(settled)


def test_another_table(settled: Scene) -> None:
    fake(settled.c).put(0, 2, settled.id(settled.a), settled.id(settled.b))
    assert "holds another table" in reasons(settled)


def test_a_migration_left_over(settled: Scene) -> None:
    fake(settled.b).active = [request(settled).message.migration]  # type: ignore[union-attr]
    assert "takes part in migration" in reasons(settled)


def test_data_left_over(settled: Scene) -> None:
    fake(settled.c).fragments[P0] = DATA
    assert "without an index" in reasons(settled)


def test_a_missing_copy(settled: Scene) -> None:
    for process in settled.all:
        fake(process).put(0, 2, settled.id(settled.a))
    assert "has not 2 holders" in reasons(settled)


def test_data_that_differs(settled: Scene) -> None:
    fake(settled.b).fragments[P0] = Fragment(2, 0)
    assert "is held differently" in reasons(settled)


def test_an_owner_that_does_not_serve(settled: Scene) -> None:
    del fake(settled.a).serves[P0]
    assert "m00.1 owns partition 0 and serves NONE of it" in reasons(settled)


def test_a_request_left_over(settled: Scene) -> None:
    asked(settled, settled.b)
    assert "has no answer" in reasons(settled)
