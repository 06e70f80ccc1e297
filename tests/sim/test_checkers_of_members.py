"""Checkers of what members say and hold: each fires where it should, and not next to it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Final

import pytest

from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    Persist,
    RowsRecord,
)
from holdfast.core.events import Image, Started
from holdfast.core.messages import (
    Claim,
    CommitAck,
    CommitRequest,
    Fragment,
    Grant,
    Heartbeat,
    Message,
    MigrationId,
    MigrationRequest,
    NewView,
    NotListed,
    Promise,
    Publication,
    PublicationAck,
)
from holdfast.core.table import Row
from holdfast.ids import Millis, Term, Version
from holdfast.sim.checkers.copies import Copies
from holdfast.sim.checkers.memory import Memory
from holdfast.sim.checkers.ownership import Ownership
from holdfast.sim.checkers.published import Published
from holdfast.sim.checkers.vows import ECHOES_MAX, Vows
from holdfast.sim.checkers.watch import Checker
from holdfast.sim.world import World
from tests.sim.fakes import fake, install
from tests.sim.scenes import DATA, FOREVER, P0, Scene, ended, fires, migration, on_disk, sent

# Served by a row that was published ---------------------------------------------------------------


class Serving(Scene):
    """The third member is about to serve by version 2."""

    def __init__(self) -> None:
        self.ownership: Ownership | None = None
        super().__init__(self._own, self._publish)
        self.row(1, self.b)
        self.out(self.a)
        self.row(2, self.c, at=self.c)
        fake(self.c).serves[P0] = FOREVER

    def _own(self, world: World) -> Checker:
        self.ownership = Ownership(world)
        return self.ownership

    def _publish(self, world: World) -> Checker:
        assert self.ownership is not None
        return Published(world, self.ownership)


def test_who_serves_before_the_publication() -> None:
    scene = Serving()
    with fires("who serves was published"):
        scene.out(scene.c)


def test_who_serves_and_takes_another_row() -> None:
    scene = Serving()
    scene.row(2, scene.c, at=scene.a)
    scene.out(scene.a)
    scene.out(scene.c)
    scene.row(3, scene.c, at=scene.c)
    with fires("who serves was published"):
        scene.out(scene.c)


def test_who_serves_by_a_row_that_a_publication_brought() -> None:
    scene = Serving()
    row = scene.c.node.table.row(P0)
    scene.get(scene.c, scene.a, Publication(Term(1), 1, (row,), ()))


def test_who_serves_by_a_row_that_a_completed_migration_brought() -> None:
    scene = Serving()
    scene.get(scene.c, scene.a, MigrationRequest(migration(scene), ended(scene)[P0]))


def test_who_serves_under_a_new_master_that_settled_the_row() -> None:
    scene = Serving()
    fake(scene.a).is_master = False
    scene.out(scene.a)
    scene.row(2, scene.c, at=scene.b)
    scene.out(scene.b)
    fake(scene.b).is_master = True
    scene.out(scene.b)
    scene.out(scene.c)
    scene.world.crash(scene.b)


# What was sent survives a restart -----------------------------------------------------------------


def says(scene: Scene) -> dict[str, Message]:
    me, zero, one = scene.b.node.me, Millis(0), Version(1)
    row = Row(P0, one, (me.id, None))
    return {
        "promise": Promise(Term(1), True, False, zero, Term(1), None, me, False),
        "claim": Claim(Term(1), Term(1), one, founding=False, probe=False, sent_at=zero),
        "heartbeat": Heartbeat(Term(1), one, zero, zero, 0, True, Term(0), Version(0), ()),
        "view": NewView(replace(scene.view, master=me.id)),
        "grant": Grant(Term(1), one, zero, zero, serve=True, quiet=True),
        "rows": Publication(Term(1), 1, (row,), ()),
    }


KINDS = ("promise", "claim", "heartbeat", "view", "grant", "rows")


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_a_restart_forgets(kind: str) -> None:
    scene = Scene(Memory, persistent=True)
    with fires("what was sent survives a restart"):
        scene.out(scene.b, sent(scene.a, says(scene)[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_a_restart_remembers(kind: str) -> None:
    scene = Scene(Memory, persistent=True)
    row = Row(P0, Version(1), (scene.b.node.me.id, None))
    on_disk(scene.b, MembershipRecord(1, Term(1), scene.view), RowsRecord((row,), fresh=False))
    scene.out(scene.b, sent(scene.a, says(scene)[kind]))


@pytest.mark.parametrize("owned", [True, False])
def test_a_row_that_its_owner_does_not_go_by_yet(*, owned: bool) -> None:
    """The others are told first, and the files of who sends it must not say that it led."""
    scene = Scene(Memory, persistent=True)
    fake(scene.b).keeps_back = [P0]
    row = Row(P0, Version(1), ((scene.b if owned else scene.c).node.me.id, None))
    message = sent(scene.a, Publication(Term(1), 1, (row,), ()))
    with nullcontext() if owned else fires("what was sent survives a restart"):
        scene.out(scene.b, message)


def test_a_message_that_binds_nobody() -> None:
    scene = Scene(Memory, persistent=True)
    probe = Claim(Term(1), Term(1), Version(1), founding=False, probe=True, sent_at=Millis(0))
    would = Promise(Term(1), True, True, Millis(0), Term(1), None, scene.b.node.me, False)
    other = NewView(scene.view)
    scene.out(scene.b, *(sent(scene.a, message) for message in (probe, would, other)))


def test_whoever_has_no_files_remembers_nothing() -> None:
    scene = Scene(Memory)
    scene.out(scene.b, sent(scene.a, says(scene)["promise"]))


def test_rows_that_are_confirmed_before_they_are_on_disk() -> None:
    scene = Scene(Memory, persistent=True)
    row = Row(P0, Version(1), (None, None))
    ack = sent(scene.a, PublicationAck(Term(1), 1))
    scene.out(scene.b, ack)
    with fires("what was sent survives a restart"):
        scene.get(scene.b, scene.a, Publication(Term(1), 1, (row,), ()), ack)


def test_what_a_former_stay_did_not_confirm_is_waited_for_by_nobody() -> None:
    scene = Scene(Memory, persistent=True)
    row = Row(P0, Version(1), (None, None))
    scene.get(scene.b, scene.a, Publication(Term(1), 1, (row,), ()))
    fake(scene.b).me = replace(fake(scene.b).me, incarnation=2)
    scene.out(scene.b, sent(scene.a, PublicationAck(Term(1), 1)))


@pytest.mark.parametrize("kept", ["row and data", "row", "nothing"])
def test_a_commit_that_is_confirmed(kept: str) -> None:
    scene = Scene(Memory, persistent=True)
    moved = migration(scene)
    if kept != "nothing":
        row = Row(P0, moved.version_committed, moved.after)
        on_disk(scene.c, RowsRecord((row,), fresh=False))
    if kept == "row and data":
        on_disk(scene.c, FragmentRecord(P0, DATA))
    ack = sent(scene.a, CommitAck(moved.id, P0))
    if kept == "row and data":
        scene.get(scene.c, scene.a, CommitRequest(moved), ack)
    else:
        with fires("what was sent survives a restart"):
            scene.get(scene.c, scene.a, CommitRequest(moved), ack)


def test_a_commit_that_nobody_asked_for_says_nothing() -> None:
    scene = Scene(Memory, persistent=True)
    scene.out(scene.c, sent(scene.a, CommitAck(MigrationId(Term(1), 1), P0)))


# A vow is kept ------------------------------------------------------------------------------------


def granted(at: int = 7) -> Grant:
    return Grant(Term(1), Version(1), Millis(0), Millis(at), serve=True, quiet=True)


def echo(at: int = 7) -> Heartbeat:
    return Heartbeat(Term(1), Version(1), Millis(0), Millis(at), 0, True, Term(0), Version(0), ())


def promise(scene: Scene, term: int = 2) -> Promise:
    return Promise(Term(term), True, False, Millis(3), Term(term), None, scene.b.node.me, False)


@pytest.fixture
def vowed() -> Scene:
    """The second member has told the first that it has its grant."""
    scene = Scene(Vows)
    scene.get(scene.b, scene.a, granted(), sent(scene.a, echo()))
    return scene


def test_a_promise_to_another_while_the_vow_runs(vowed: Scene) -> None:
    with fires("a vow is kept"):
        vowed.out(vowed.b, sent(vowed.c, promise(vowed)))


def test_a_promise_after_an_answer_that_carries_no_time() -> None:
    """It was no vow: whoever said that it is not listed was no master (seed 5961)."""
    scene, never = Scene(Vows), Millis(-1)
    word = NotListed(scene.view, never)
    scene.get(scene.b, scene.a, word, sent(scene.a, echo(never)))
    scene.out(scene.b, sent(scene.c, promise(scene)))


def test_a_claim_of_its_own_while_the_vow_runs(vowed: Scene) -> None:
    claim = Claim(Term(2), Term(1), Version(1), founding=False, probe=False, sent_at=Millis(0))
    with fires("a vow is kept"):
        vowed.out(vowed.b, sent(vowed.c, claim))


def test_a_promise_to_the_master_itself(vowed: Scene) -> None:
    vowed.out(vowed.b, sent(vowed.a, promise(vowed)))


def test_a_promise_after_a_lease(vowed: Scene) -> None:
    lease_us = vowed.world.config.lease_ms * 1_000
    vowed.world.run_until(vowed.world.now + lease_us + 1_000)
    vowed.out(vowed.b, sent(vowed.c, promise(vowed)))


def test_a_promise_after_the_end_of_the_master(vowed: Scene) -> None:
    vowed.world.crash(vowed.a)
    vowed.out(vowed.b, sent(vowed.c, promise(vowed)))


def test_a_promise_under_a_newer_master(vowed: Scene) -> None:
    vowed.view = replace(vowed.view, term=Term(2))
    vowed.next(vowed.b)
    vowed.out(vowed.b)
    vowed.out(vowed.b, sent(vowed.c, promise(vowed, 3)))


def test_a_grant_that_was_not_echoed_binds_nobody() -> None:
    scene = Scene(Vows)
    scene.get(scene.b, scene.a, granted(), sent(scene.a, echo(6)))
    scene.out(scene.b, sent(scene.c, promise(scene)))


def test_a_promise_counts_once_its_candidate_is_master() -> None:
    scene = Scene(Vows)
    claim = Claim(Term(2), Term(1), Version(1), founding=False, probe=False, sent_at=Millis(3))
    scene.get(scene.b, scene.c, claim, sent(scene.c, promise(scene)))
    scene.out(scene.b, sent(scene.a, promise(scene, 3)))
    scene.get(scene.b, scene.c, claim, sent(scene.c, promise(scene)))
    scene.view = replace(scene.view, term=Term(2), master=scene.c.node.me.id)
    install([scene.c], scene.view)
    with fires("a vow is kept"):
        scene.out(scene.b, sent(scene.a, promise(scene, 3)))


def test_who_comes_back_from_files_vows_to_the_master_that_it_finds_there() -> None:
    scene = Scene(Vows)
    image = Image(1, Term(1), scene.view, (), None, ())
    scene.world.give(scene.b, Started(image))
    with fires("a vow is kept"):
        scene.out(scene.b, sent(scene.c, promise(scene)))


def test_who_finds_a_master_that_left_vows_nothing() -> None:
    scene = Scene(Vows)
    scene.without(scene.a)
    scene.world.give(scene.b, Started(Image(1, Term(1), scene.view, (), None, ())))
    scene.out(scene.b, sent(scene.c, promise(scene)))
    scene.world.crash(scene.b)


def test_what_arrived_long_ago_is_forgotten() -> None:
    scene = Scene(Vows)
    for at in range(ECHOES_MAX + 1):
        scene.get(scene.b, scene.a, granted(at))
    scene.out(scene.b, sent(scene.a, echo(0)), sent(scene.c, promise(scene)))


# Whoever is named has the data --------------------------------------------------------------------


def test_a_source_that_drops_its_data() -> None:
    scene = Scene(Copies)
    scene.row(1, scene.b)
    fake(scene.b).fragments[P0] = DATA
    scene.out(scene.b)
    fake(scene.b).fragments.clear()
    with fires("whoever is named has the data"):
        scene.out(scene.b)


def test_a_source_that_is_named_no_more() -> None:
    scene = Scene(Copies)
    scene.row(1, scene.b)
    fake(scene.b).fragments[P0] = DATA
    scene.out(scene.b)
    fake(scene.b).fragments.clear()
    scene.row(2, scene.c, at=scene.b)
    scene.out(scene.b)


def test_a_row_without_data() -> None:
    scene = Scene(Copies)
    scene.row(1, scene.b)
    fake(scene.b).fragments[P0] = Fragment(1, 0)
    with fires("whoever is named has the data"):
        scene.out(scene.b)


def test_a_stay_that_begins_with_rows_and_without_data() -> None:
    scene = Scene(Copies)
    scene.without(scene.b, scene.b)
    scene.row(1, scene.b)
    scene.out(scene.b)
    members = (*scene.view.members, scene.b.node.me)
    scene.next(scene.b, members=members)
    with fires("whoever is named has the data"):
        scene.out(scene.b)


LATE: Final = {
    "what it did not go by": (1, True),
    "what it did not go by, and is not written": (1, False),
    "what it went by at once": (2, True),
}


@pytest.mark.parametrize("what", LATE)
def test_a_row_that_its_owner_goes_by_before_what_it_said_of_it_leaves(what: str) -> None:
    """1. B keeps a row of its own back, and what it says of that waits for its disk. 2. B goes by a
    row, and begins to write it. 3. What it said leaves before that is stable."""
    scene = Scene(Memory, persistent=True)
    version, written = LATE[what]
    row = Row(P0, Version(version), (scene.b.node.me.id, None))
    fake(scene.b).keeps_back = [P0]
    scene.row(1, scene.b, at=scene.b)
    scene.out(scene.b)
    fake(scene.b).keeps_back = []
    scene.out(scene.b, *([Persist(1, RowsRecord((row,), fresh=False))] if written else []))
    late = sent(scene.a, Publication(Term(1), 1, (row,), ()))
    allowed = what == "what it did not go by"
    with nullcontext() if allowed else fires("what was sent survives a restart"):
        scene.out(scene.b, late)
