"""What a supervisor decides, without a process: tables of cases, and a model of all processes."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidTransition
from holdfast.ids import Address, MemberId, Millis
from holdfast.shell.supervisor.happenings import (
    Babbled,
    Begun,
    Confirm,
    Effect,
    Event,
    Exited,
    Finish,
    KillAsked,
    NotSpawned,
    Reported,
    Signal,
    Spawn,
    StopAsked,
    Tell,
    What,
    Woke,
)
from holdfast.shell.supervisor.policy import Policy
from holdfast.shell.supervisor.reports import (
    Acquaintance,
    Introduced,
    Members,
    Ready,
    Report,
    Waiting,
)
from holdfast.shell.supervisor.supervision import RUNNING, State, Supervision

POLICY: Final = Policy(
    restart_base_ms=Millis(100), restart_max_ms=Millis(1_000), stable_after_ms=Millis(10_000)
)


def introduced(child: int, incarnation: int = 1) -> Introduced:
    return Introduced(
        MemberId(f"m{child}"),
        incarnation,
        f"pod-{child}",
        "data",
        "pod",
        Address(f"link{child}"),
        Address(f"plain{child}"),
        Address(f"cluster{child}"),
        Address(f"http{child}"),
    )


class Bench:
    """A supervision and its time."""

    def __init__(self, count: int = 3, policy: Policy = POLICY) -> None:
        self.supervision = Supervision(count, policy)
        self.now = 0

    def step(self, event: Event) -> list[Effect]:
        return self.supervision.step(event, Millis(self.now))

    def report(self, child: int, *reports: Report) -> list[Effect]:
        return [effect for report in reports for effect in self.step(Reported(child, report))]

    def serving(self, count: int) -> Bench:
        self.step(Begun())
        for child in range(count):
            self.report(child, introduced(child), Ready())
        return self

    def states(self) -> list[str]:
        return [child.state.value for child in self.supervision.children]


def without_words(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, Tell)]


def told(effects: list[Effect]) -> list[What]:
    return [effect.what for effect in effects if isinstance(effect, Tell)]


def test_it_begins_with_all_processes() -> None:
    bench = Bench(2)
    assert bench.step(Begun()) == [Spawn(0, may_found=True), Spawn(1, may_found=True)]
    assert bench.states() == ["starting", "starting"]
    assert bench.supervision.wake_at is None


def test_what_a_process_says_is_told_once() -> None:
    bench = Bench(1)
    bench.step(Begun())
    assert told(bench.report(0, introduced(0))) == [What.INTRODUCED]
    assert bench.report(0, Waiting("nobody there")) == [Tell(What.WAITING, 0, "nobody there")]
    assert told(bench.report(0, Ready(), Ready())) == [What.READY]
    assert bench.states() == ["serving"]
    bench.report(0, Waiting("excluded"))
    assert bench.states() == ["joining"]


def test_reports_that_make_no_sense_change_nothing() -> None:
    bench = Bench(1)
    bench.step(Begun())
    assert told(bench.report(0, Ready())) == [What.BABBLED]
    assert told(bench.report(0, introduced(0), introduced(0, 2))) == [
        What.INTRODUCED,
        What.BABBLED,
    ]
    assert bench.step(Babbled(0, "what?")) == [Tell(What.BABBLED, 0, "what?")]
    assert bench.states() == ["joining"]


@pytest.mark.parametrize("status", [1, 3, 5, 255, -9, -11, -1000])
def test_a_process_that_dies_is_started_again_and_the_others_are_told(status: int) -> None:
    bench = Bench(3).serving(3)
    effects = bench.step(Exited(1, status))
    assert without_words(effects) == [
        Confirm(1, MemberId("m1"), 1, Millis(0), (Address("http0"), Address("http2"))),
        Spawn(1, may_found=False),
    ]
    assert told(effects) == [What.DIED, What.RESTARTS]
    assert bench.states() == ["serving", "starting", "serving"]


@pytest.mark.parametrize("status", [2, 3, 4, 78])
def test_settings_that_can_not_work_are_not_tried_again(status: int) -> None:
    bench = Bench(2)
    bench.step(Begun())
    assert told(bench.step(Exited(0, status))) == [What.REFUSED]
    assert bench.states() == ["over", "starting"]
    assert bench.supervision.wake_at is None
    assert bench.step(Exited(1, status))[-1] == Finish(status)


def test_one_that_left_by_itself_stays_away() -> None:
    bench = Bench(2).serving(2)
    effects = bench.step(Exited(0, 0))
    assert told(effects) == [What.LEFT]
    assert not any(isinstance(effect, Spawn) for effect in effects)
    assert bench.step(Exited(1, 0))[-1] == Finish(0)


def test_the_waits_double_up_to_a_limit_and_forget() -> None:
    bench = Bench(1)
    bench.step(Begun())
    waits = []
    for _ in range(7):
        bench.step(Exited(0, 1))
        wake_at = bench.supervision.wake_at
        waits.append(0 if wake_at is None else wake_at - bench.now)
        if wake_at is not None:
            bench.now = wake_at - 1
            assert bench.step(Woke()) == []
            bench.now = wake_at
            assert bench.step(Woke()) == [Spawn(0, may_found=True)]
    assert waits == [0, 100, 200, 400, 800, 1_000, 1_000]
    bench.now += 10_000
    assert without_words(bench.step(Exited(0, 1))) == [Spawn(0, may_found=True)]


def test_a_process_that_could_not_be_started_is_tried_again() -> None:
    bench = Bench(1)
    bench.step(Begun())
    assert without_words(bench.step(NotSpawned(0, "no memory"))) == [Spawn(0, may_found=True)]
    assert Tell(What.DIED, 0, "no memory") in bench.step(NotSpawned(0, "no memory"))
    assert bench.supervision.wake_at == 100


def test_a_death_that_was_asked_for_is_no_failure() -> None:
    bench = Bench(2).serving(2)
    for _ in range(5):
        assert bench.step(KillAsked(0)) == [Tell(What.KILLED, 0), Signal(0, SIGKILL)]
        assert Spawn(0, may_found=False) in bench.step(Exited(0, -9))
        bench.report(0, introduced(0))
    assert bench.supervision.children[0].failures == 0


def test_nothing_is_killed_where_nothing_runs() -> None:
    bench = Bench(1)
    bench.step(Begun())
    bench.step(Exited(0, 1))
    bench.step(Exited(0, 1))
    assert bench.step(KillAsked(0)) == []


def test_nobody_is_told_of_a_process_that_never_said_who_it_was() -> None:
    bench = Bench(2)
    bench.step(Begun())
    bench.report(0, introduced(0))
    assert without_words(bench.step(Exited(1, 1))) == [Spawn(1, may_found=True)]


def test_members_of_other_pods_are_told_too() -> None:
    """Each address once; own ids are told at their living processes only."""
    bench = Bench(2).serving(2)
    far = Acquaintance(MemberId("far"), Address("far:8080"))
    silent = Acquaintance(MemberId("silent"), Address(""))
    own = Acquaintance(MemberId("m1"), Address("http1"))
    bench.report(0, Members((far, own, silent)))
    bench.report(1, Members((far,)))
    first = bench.step(Exited(1, -9))
    assert (
        Confirm(1, MemberId("m1"), 1, Millis(0), (Address("far:8080"), Address("http0"))) in first
    )
    second = bench.step(Exited(0, -9))
    assert Confirm(0, MemberId("m0"), 1, Millis(0), (Address("far:8080"),)) in second


def test_the_last_of_all_has_nobody_to_tell_and_founds_anew() -> None:
    bench = Bench(1).serving(1)
    assert without_words(bench.step(Exited(0, -9))) == [Spawn(0, may_found=True)]


def test_who_founds() -> None:
    """1. A cluster of two. 2. One dies: it may not found. 3. So does the other: nobody is left."""
    bench = Bench(2).serving(2)
    assert Spawn(0, may_found=False) in bench.step(Exited(0, -9))
    assert Spawn(1, may_found=True) in bench.step(Exited(1, -9))


def test_who_knows_of_members_elsewhere_does_not_found() -> None:
    bench = Bench(1).serving(1)
    bench.report(0, Members((Acquaintance(MemberId("far"), Address("far:8080")),)))
    assert Spawn(0, may_found=False) in bench.step(Exited(0, -9))
    bench.report(0, introduced(7), Members(()))
    bench.now += 10_000
    assert Spawn(0, may_found=True) in bench.step(Exited(0, -9))


def test_asked_to_end_it_waits_for_everybody() -> None:
    bench = Bench(3).serving(2)
    bench.step(Exited(2, 1))
    bench.step(Exited(2, 1))
    assert bench.states() == ["serving", "serving", "resting"]
    assert without_words(bench.step(StopAsked())) == [Signal(0, SIGTERM), Signal(1, SIGTERM)]
    assert bench.states() == ["leaving", "leaving", "over"]
    assert bench.supervision.wake_at is None
    bench.report(0, Waiting("leaves"), Ready())
    assert bench.states()[0] == "leaving"
    bench.step(Exited(0, 0))
    assert bench.step(Exited(1, 0))[-1] == Finish(1), "the one that failed is not forgotten"


def test_a_leave_that_fails_is_not_tried_again() -> None:
    bench = Bench(2).serving(2)
    bench.step(StopAsked())
    effects = bench.step(Exited(0, -15))
    assert without_words(effects) == [Confirm(0, MemberId("m0"), 1, Millis(0), (Address("http1"),))]
    assert bench.step(Exited(1, 0))[-1] == Finish(143)


def test_asked_twice_it_kills() -> None:
    bench = Bench(2).serving(2)
    bench.step(StopAsked())
    bench.step(Exited(0, 0))
    assert without_words(bench.step(StopAsked())) == [Signal(1, SIGKILL)]
    assert bench.step(Exited(1, -9))[-1] == Finish(137)


def test_a_leave_has_a_limit_where_one_is_given() -> None:
    bench = Bench(1, Policy(leave_ms=Millis(5_000))).serving(1)
    bench.now = 100
    bench.step(StopAsked())
    assert bench.supervision.wake_at == 5_100
    bench.now = 5_099
    assert bench.step(Woke()) == []
    bench.now = 5_100
    assert bench.step(Woke()) == [Tell(What.KILLED, 0), Signal(0, SIGKILL)]
    assert bench.supervision.wake_at is None


def test_an_end_without_a_process_is_a_fault_of_ours() -> None:
    bench = Bench(1).serving(1)
    bench.step(Exited(0, 0))
    with pytest.raises(InvalidTransition):
        bench.step(Exited(0, 0))


class World:
    """All processes as the effects leave them, and what must hold after each step."""

    def __init__(self, count: int) -> None:
        self.bench = Bench(count)
        self.alive: set[int] = set()
        self.known: set[int] = set()
        self.served = False
        self.asked = 0
        self.finished: list[int] = []

    def step(self, event: Event) -> None:
        dead: int | None = event.child if isinstance(event, Exited | NotSpawned) else None
        was_known = dead in self.known
        if dead is not None:
            self.alive.discard(dead)
            self.known.discard(dead)
        effects = self.bench.step(event)
        confirmed = [effect for effect in effects if isinstance(effect, Confirm)]
        assert bool(confirmed) == bool(was_known and self.known)
        for effect in effects:
            self.carry_out(effect)
        running = {c.index for c in self.bench.supervision.children if c.running}
        assert running == self.alive
        assert bool(self.finished) == all(s == "over" for s in self.bench.states())

    def carry_out(self, effect: Effect) -> None:
        assert not self.finished, "nothing comes after the end"
        match effect:
            case Spawn():
                assert effect.child not in self.alive
                assert not self.asked
                assert effect.may_found == (not self.served or not self.known)
                self.alive.add(effect.child)
            case Signal():
                assert effect.child in self.alive
            case Confirm():
                assert effect.to == tuple(sorted(f"http{child}" for child in self.known))
            case Finish():
                self.finished.append(effect.code)
            case Tell():
                assert effect.child in range(len(self.bench.states()))


@given(st.data(), st.integers(1, 4))
def test_any_history(data: st.DataObject, count: int) -> None:
    """Whatever processes do, the supervision knows which of them run, and comes to an end."""
    world = World(count)
    world.step(Begun())
    for _ in range(data.draw(st.integers(0, 40))):
        if world.finished:
            break
        world.bench.now += data.draw(st.sampled_from([0, 1, 200, 20_000]))
        choices: list[Event] = [Woke()]
        for child in sorted(world.alive):
            status = data.draw(st.sampled_from([0, 1, 2, -9]))
            choices += [Exited(child, status), KillAsked(child)]
            if child in world.known:
                choices += [Reported(child, Ready()), Reported(child, Waiting("so"))]
            else:
                choices += [Reported(child, introduced(child)), NotSpawned(child, "no")]
        if world.asked < 2:
            choices.append(StopAsked())
        event = data.draw(st.sampled_from(choices))
        if isinstance(event, StopAsked):
            world.asked += 1
        world.step(event)
        if isinstance(event, Reported):
            world.known.add(event.child)
            world.served |= isinstance(event.report, Ready)
    while not world.finished and not world.asked:
        world.asked += 1
        world.step(StopAsked())
    for child in sorted(world.alive):
        world.step(Exited(child, 0))
    assert len(world.finished) == 1


def test_every_state_with_a_process_can_end() -> None:
    assert {State.RESTING, State.OVER}.isdisjoint(RUNNING)
