"""The story: short, in order, and formatted only when it is read."""

from __future__ import annotations

from holdfast.core.effects import Send
from holdfast.core.events import Received, Woke
from holdfast.core.messages import Migration, MigrationId, MigrationRequest, NewView, Origin
from holdfast.core.states import ClusterState
from holdfast.core.table import Row
from holdfast.core.views import Drain, Kind, Member, View
from holdfast.ids import Address, MemberId, PartitionId, Term, Version
from holdfast.sim.story import ENTRIES_MAX, Story, describe

A, B = MemberId("a"), MemberId("b")
MEMBER = Member(A, 2, "a", Address("a:1"), "g", Kind.DATA, persistent=False, level_max=3)
LEAVING = Member(B, 1, "b", Address("b:1"), "g", Kind.LITE, False, 3, Drain.LEAVING)
VIEW = View(Term(1), Version(2), A, "c", 3, ClusterState.ACTIVE, (MEMBER, LEAVING))
MIGRATION = Migration(MigrationId(Term(1), 9), PartitionId(3), Version(5), (), (A, None), (A, B))


def test_what_travels_is_described_shortly() -> None:
    assert describe(Row(PartitionId(3), Version(5), (A, None))) == "p3v5[a,-]"
    assert describe(MIGRATION) == "migration 1.9 p3v5 [a,-]→[a,b]"
    assert (
        describe(VIEW) == "view 1.2 of c [a/2(data g) b/1(lite g leaving)] master a ACTIVE level 3"
    )
    assert describe(None) == "-"
    assert describe((1, ClusterState.FROZEN)) == "(1, FROZEN)"


def test_a_step_is_told_with_what_came_out() -> None:
    story = Story()
    received = Received(Origin(A, 1, Address("a:1")), NewView(VIEW))
    effect = Send(Address("b:1"), MigrationRequest(MIGRATION, ()))
    story.tell(1_500_000, "m00.1", received, [effect])
    story.tell(1_600_000, "m00.1", Woke())
    story.tell(1_700_000, "world", "heals")
    step, woke, world = story.tail()
    assert step.startswith("  1.500000 m00.1    ← NewView(view=view 1.2")
    assert "→ Send(to=b:1, message=MigrationRequest(migration=migration 1.9" in step
    assert woke.endswith("· Woke()")
    assert world.endswith("world    heals")


def test_only_the_last_entries_are_kept() -> None:
    story = Story()
    for number in range(ENTRIES_MAX + 10):
        story.tell(number, "m", f"{number}")
    assert len(story.tail(ENTRIES_MAX * 2)) == ENTRIES_MAX
    assert story.tail(1)[0].endswith(str(ENTRIES_MAX + 9))


def test_a_listener_hears_everything() -> None:
    heard: list[str] = []
    Story(heard.append).tell(0, "m", "x")
    assert heard == ["  0.000000 m        x"]
