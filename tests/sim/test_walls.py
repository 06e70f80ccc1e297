"""Wall clocks: wrong, but never by more than the skew; and what follows for the end of a value."""

from __future__ import annotations

import random

from holdfast.sim.timeline import MILLISECOND, SECOND
from holdfast.sim.walls import EPOCH_MS, WallClock, Walls
from tests.sim.fakes import make_world, start


def test_a_clock_is_never_wrong_by_more_than_the_skew() -> None:
    rng = random.Random(1)
    wrong = []
    for _ in range(50):
        clock = WallClock(rng, 20, 0)
        wrong += [
            clock.read(now) - EPOCH_MS - now // MILLISECOND for now in range(0, 60 * SECOND, SECOND)
        ]
    assert min(wrong) in (-21, -20)
    assert max(wrong) == 20


def test_a_clock_that_is_set_goes_back_too() -> None:
    clock = WallClock(random.Random(1), 300, 0)
    steps = set()
    for _ in range(20):
        before = clock.read(SECOND)
        clock.set(SECOND)
        steps.add(clock.read(SECOND) < before)
    assert steps == {True, False}


def test_each_process_has_a_clock_of_its_own_until_it_ends() -> None:
    world = make_world()
    one, other = start(world)
    walls = Walls(1, 300)
    assert walls.clock(one) is walls.clock(one)
    assert walls.clock(one).read(0) != walls.clock(other).read(0)
    before = walls.clock(one)
    walls.forget(one)
    assert walls.clock(one) is not before


def test_a_node_without_data_is_left_alone() -> None:
    world = make_world()
    Walls(1, 300).show(start(world)[0])


def test_a_value_ends_between_two_clocks_that_are_wrong() -> None:
    walls = Walls(1, 20)
    assert walls.window_us(1_000, 5_000, 100) == (59_000, 147_000)
    assert walls.window_us(1_000, 5_000, 10) == (1_000, 57_000)
    assert walls.window_us(1_000, None, 100) == (59_000, None)
