"""The world: order, the wire between processes, crashes, pauses, timers, disks, the arbiter."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.core.effects import (
    Answer,
    Continue,
    Effect,
    MembershipRecord,
    Notice,
    NoticeKind,
    Pending,
    Persist,
    Send,
    Stop,
)
from holdfast.core.events import (
    ConfirmedDead,
    Continued,
    Event,
    Gathered,
    Loaded,
    Persisted,
    Received,
    Started,
    Woke,
)
from holdfast.core.messages import Abort, PublicationAck
from holdfast.core.views import View
from holdfast.errors import InvariantViolated
from holdfast.ids import Address, Millis, Term
from holdfast.sim.network import NetworkOptions
from holdfast.sim.process import Process
from holdfast.sim.received import received_in
from holdfast.sim.story import format_event
from holdfast.sim.surroundings import Shell
from holdfast.sim.triggers import Blow, Moment, Trigger
from holdfast.sim.world import World
from tests.sim.fakes import FakeNode, fake, make_world, start, view_of, wake

SECOND = 1_000_000


def send_to(process: Process, request: str = "r") -> Send:
    return Send(process.site.address, Abort(request, Term(1)))


def record(promised: int, view: View | None = None) -> MembershipRecord:
    return MembershipRecord(1, Term(promised), view)


def seen(process: Process, kind: type[Event]) -> list[Event]:
    return [event for _, event in fake(process).events if isinstance(event, kind)]


def run(world: World, seconds: float = 1.0) -> None:
    world.run_until(world.now + int(seconds * SECOND))


def test_a_process_starts_with_started_and_then_loads() -> None:
    world = make_world(1)
    (a,) = start(world)
    run(world)
    assert [event for _, event in fake(a).events] == [Started(None), Loaded()]


def test_a_message_arrives_by_the_wire_with_its_origin() -> None:
    world = make_world()
    a, b = start(world)
    fake(a).script = [[], [send_to(b)]]
    wake(world, a)
    wake(world, a)
    run(world)
    (event,) = seen(b, Received)
    assert event == Received(a.node.origin, Abort("r", Term(1)))


def test_what_arrives_within_a_turn_is_looked_at_together() -> None:
    world = make_world(shell=Shell(turn_us=5_000))
    a, b = start(world)
    confirmed = [Send(b.site.address, PublicationAck(Term(1), number)) for number in range(2)]
    fake(a).script = [[], [*confirmed, send_to(b), *confirmed[:1]]]
    wake(world, a)
    wake(world, a)
    run(world)
    (together,) = seen(b, Gathered)
    assert received_in(together) == tuple(
        Received(a.node.origin, each.message) for each in confirmed
    )
    assert [each for event in seen(b, Received) for each in received_in(event)] == [
        Received(a.node.origin, message) for message in (Abort("r", Term(1)), confirmed[0].message)
    ]
    assert received_in(Woke()) == ()
    assert "PublicationAck" in format_event(together)


def test_a_message_to_nobody_is_lost() -> None:
    world = make_world(1)
    (a,) = start(world)
    fake(a).script = [[Send(Address("nowhere:1"), Abort("r", Term(1)))], []]
    run(world)
    assert world.steps == 2


def test_a_damaged_frame_is_refused() -> None:
    world = make_world(network=NetworkOptions(damage=1.0))
    a, b = start(world)
    run(world)
    fake(a).script = [[send_to(b)]]
    wake(world, a)
    run(world)
    assert not seen(b, Received)
    assert world.marks["damaged frames refused"] == 1


def test_a_timer_wakes_on_the_own_clock() -> None:
    world = make_world(1, shell=Shell(clock_skew=20_000))
    (a,) = start(world)
    run(world)
    now = a.clock.read(world.now)
    fake(a).wake_at = Millis(now + 500)
    fake(a).script = [[]]
    world.give(a, Continued())
    run(world)
    ((woken, _),) = [entry for entry in fake(a).events if isinstance(entry[1], Woke)]
    assert now + 500 <= woken <= now + 501


def test_a_timer_that_was_moved_does_not_wake_early() -> None:
    world = make_world(1)
    (a,) = start(world)
    run(world)
    now = a.clock.read(world.now)
    fake(a).wake_at = Millis(now + 100)
    world.give(a, Continued())
    fake(a).wake_at = Millis(now + 300)
    world.give(a, Continued())
    run(world)
    ((woken, _),) = [entry for entry in fake(a).events if isinstance(entry[1], Woke)]
    assert woken >= now + 300


def test_continued_comes_after_what_waits() -> None:
    world = make_world(1)
    (a,) = start(world)
    run(world)
    fake(a).script = [[Continue()], []]
    wake(world, a)
    run(world)
    assert len(seen(a, Continued)) == 1


def test_records_are_stable_in_order_and_said_to_be() -> None:
    world = make_world(1, persistent=True, shell=Shell(disk_us=5_000))
    (a,) = start(world)
    run(world)
    fake(a).script = [[Persist(1, record(1)), Persist(2, record(2))], [Persist(3, record(3))]]
    wake(world, a)
    wake(world, a)
    run(world)
    assert seen(a, Persisted) == [Persisted(2), Persisted(3)]
    assert a.site.disk is not None
    assert a.site.disk.promised == 3


def test_a_crash_loses_what_is_not_stable_and_the_restart_finds_the_rest() -> None:
    world = make_world(1, persistent=True, shell=Shell(disk_us=5_000))
    (a,) = start(world)
    run(world)
    fake(a).script = [[Persist(1, record(1))]]
    wake(world, a)
    run(world)
    world.crash(a)
    again = world.launch(a.site)
    run(world)
    (started,) = seen(again, Started)
    assert isinstance(started, Started)
    assert started.image is not None
    assert started.image.promised == 1
    assert again.node.me.id == a.node.me.id
    assert again.node.me.incarnation == 2


def test_without_disk_nobody_returns() -> None:
    world = make_world(1)
    (a,) = start(world)
    world.crash(a)
    again = world.launch(a.site)
    assert again.node.me.id != a.node.me.id
    assert again.node.me.incarnation == 1


def test_with_a_lost_disk_nobody_returns() -> None:
    world = make_world(1, persistent=True)
    (a,) = start(world)
    a.site.disk = None
    world.crash(a)
    assert world.launch(a.site).node.me.id != a.node.me.id


def test_a_dead_process_gets_nothing() -> None:
    world = make_world()
    a, b = start(world)
    run(world)
    fake(a).script = [[send_to(b)]]
    wake(world, a)
    world.crash(b)
    run(world)
    assert not seen(b, Received)


def test_a_paused_process_handles_everything_afterwards() -> None:
    world = make_world()
    a, b = start(world)
    run(world)
    world.pause(b)
    fake(a).script = [[send_to(b, "1"), send_to(b, "2")]]
    wake(world, a)
    run(world)
    assert not seen(b, Received)
    slept = b.clock.read(world.now)
    world.resume(b)
    run(world)
    assert len(seen(b, Received)) == 2
    assert all(now >= slept for now, event in fake(b).events if isinstance(event, Received))


@pytest.mark.parametrize("kept", range(4))
def test_a_crash_between_any_two_effects(kept: int) -> None:
    world = make_world()
    a, b = start(world)
    run(world)
    effects: list[Effect] = [send_to(b, "1"), send_to(b, "2"), send_to(b, "3")]
    fake(a).script = [effects]
    a.trigger = Trigger(Moment.ANYTHING, "", Blow.CRASH, kept / 4)
    wake(world, a)
    run(world)
    assert len(seen(b, Received)) == kept
    assert not a.alive


def test_a_pause_between_two_effects_lets_the_rest_out_later() -> None:
    world = make_world()
    a, b = start(world)
    run(world)
    fake(a).script = [[send_to(b, "1"), send_to(b, "2")]]
    a.trigger = Trigger(Moment.SENDS, "Abort", Blow.PAUSE, 0.5)
    wake(world, a)
    run(world, 0.1)
    assert len(seen(b, Received)) == 1
    run(world, 20)
    assert len(seen(b, Received)) == 2


class Watcher:
    """Remembers what was told of each step."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def stepped(self, process: Process, _: Event, effects: Sequence[Effect]) -> None:
        self.told.append((process.name, len(effects)))

    def ended(self, process: Process) -> None:
        self.told.append((process.name, -1))


@pytest.mark.parametrize("blow", [Blow.CRASH, Blow.PAUSE, None])
def test_a_step_is_told_before_anything_of_it_can_be_seen(blow: Blow | None) -> None:
    """Also a step that is cut off, and one that ends the process."""
    world = make_world()
    a, b = start(world)
    run(world)
    watcher = Watcher()
    world.observers = [watcher]
    fake(a).script = [[send_to(b, "1"), send_to(b, "2") if blow else Stop()]]
    if blow is not None:
        a.trigger = Trigger(Moment.SENDS, "Abort", blow, 0.5)
    wake(world, a)
    run(world, 20)
    assert watcher.told[0] == (a.name, 2)
    assert [told for told in watcher.told if told == (a.name, 2)] == [(a.name, 2)]
    assert ((a.name, -1) in watcher.told) is (blow is not Blow.PAUSE)


class Interrupting(Watcher):
    """Has something for a process as soon as it has made a step, once."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def stepped(self, process: Process, event: Event, effects: Sequence[Effect]) -> None:
        if not self.told:
            super().stepped(process, event, effects)
            self.world.give(process, Woke())


def test_what_comes_of_looking_at_a_step_waits_for_its_effects() -> None:
    """Else its records would be written behind those of the step after it."""
    world = make_world(1, persistent=True, shell=Shell(disk_us=5_000))
    (a,) = start(world)
    run(world)
    world.observers = [Interrupting(world)]
    fake(a).script = [[Persist(1, record(1))], [Persist(2, record(2))]]
    wake(world, a)
    run(world)
    assert seen(a, Persisted) == [Persisted(1), Persisted(2)]
    assert a.site.disk is not None
    assert a.site.disk.promised == 2


def test_who_stops_is_gone_in_good_order() -> None:
    world = make_world(1)
    (a,) = start(world)
    run(world)
    fake(a).script = [[Answer("r", "", ""), Pending("r", ""), Stop(), Continue()]]
    wake(world, a)
    run(world)
    assert not a.alive
    assert a.site.retired


def test_an_arbiter_tells_the_others_and_whoever_starts_later() -> None:
    world = make_world(3, shell=Shell(arbiter_us=1_000))
    a, b, c = start(world)
    run(world)
    world.crash(c)
    run(world)
    fresh = world.launch(c.site)
    run(world)
    for process in (a, b, fresh):
        (event,) = seen(process, ConfirmedDead)
        assert isinstance(event, ConfirmedDead)
        assert (event.id, event.incarnation) == (c.node.me.id, 1)
    (late,) = seen(fresh, ConfirmedDead)
    assert isinstance(late, ConfirmedDead)
    assert 1_000 <= late.ago <= 1_003


def founding(world: World, process: Process) -> None:
    fake(process).script = [[Notice(NoticeKind.FOUNDED, "c", "")]]
    fake(process).view = view_of([process])
    wake(world, process)


def test_who_starts_after_the_founding_may_not_found_and_looks_everywhere() -> None:
    world = make_world(2)
    a = world.launch(world.sites[0])
    assert fake(a).config.may_found
    run(world)
    founding(world, a)
    b = world.launch(world.sites[1])
    assert not fake(b).config.may_found
    assert a.site.address in fake(b).config.initial


def test_a_founding_of_which_nothing_is_left_has_not_been() -> None:
    world = make_world(1, persistent=True)
    (a,) = start(world)
    run(world)
    founding(world, a)
    world.crash(a)
    assert fake(world.launch(a.site)).config.may_found


class Raising(FakeNode):
    """Raises at the second event."""

    def step(self, event: Event, now: Millis) -> list[Effect]:  # noqa: ARG002
        if isinstance(event, Loaded):
            raise ZeroDivisionError("a bug")
        return []


def test_what_a_node_raises_is_a_violation_with_a_story() -> None:
    world = make_world(1, factory=Raising)
    start(world)
    with pytest.raises(InvariantViolated, match="ZeroDivisionError: a bug") as caught:
        run(world)
    assert any("Loaded" in line for line in caught.value.story)


class Restless(FakeNode):
    """Never comes to rest."""

    def step(self, event: Event, now: Millis) -> list[Effect]:  # noqa: ARG002
        return [Continue()]


def test_endless_excitement_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.sim.world.STEPS_MAX", 100)
    world = make_world(1, factory=Restless)
    start(world)
    with pytest.raises(InvariantViolated, match="more than 100 steps"):
        run(world)


def history(seed: int) -> str:
    """The digest of a small life with everything random in it."""
    shell = Shell(disk_us=300, load_us=300, wake_late_us=300, clock_skew=9_000, arbiter_us=300)
    network = NetworkOptions(loss=0.1, tail=0.1, duplication=0.1, damage=0.1, ordered=False)
    world = make_world(3, seed=seed, network=network, shell=shell, persistent=True)
    processes = start(world)
    run(world)
    for number in range(30):
        for process in processes:
            others = [send_to(other, str(number)) for other in processes]
            fake(process).script = [[Persist(number + 1, record(number)), *others]]
            wake(world, process)
        run(world, 0.01)
    world.crash(processes[0])
    run(world)
    return world.digest


def test_the_same_seed_is_the_same_history() -> None:
    assert history(1) == history(1)
    assert history(1) != history(2)
