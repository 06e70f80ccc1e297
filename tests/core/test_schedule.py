"""Which steps may start, against an oracle that looks at every partition each time."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.migrations import MigrationType, Move, Step
from holdfast.core.schedule import ADDS_COPIES, Party, Schedule, party_of
from holdfast.ids import NO_INDEX, MemberId, PartitionId
from tests.core.harness import A, B, C, D, partition

MOVE, COPY, SHIFT_UP = MigrationType.MOVE, MigrationType.COPY, MigrationType.SHIFT_UP


def step(kind: MigrationType, destination: MemberId | None) -> Step:
    return (Move(kind, None, NO_INDEX, NO_INDEX, destination, NO_INDEX, 1),)


steps = st.builds(step, st.sampled_from(list(MigrationType)), st.sampled_from([A, B, C, D, None]))
plans = st.lists(st.tuples(st.sampled_from([A, B, C]), st.lists(steps, max_size=3)), max_size=8)


def planned(plan: list[tuple[MemberId, list[Step]]]) -> Schedule:
    schedule = Schedule()
    for number, (sender, some) in enumerate(plan):
        schedule.add(PartitionId(number), some, sender)
    return schedule


def test_sender_and_destinations_are_loaded_once_each() -> None:
    two = (*step(COPY, B), *step(MOVE, A), *step(MOVE, B), *step(MOVE, None))
    assert party_of(A, two) == (A, B)
    assert party_of(None, step(COPY, C)) == (C,)


def test_steps_that_add_copies_come_first_and_equals_keep_the_order_of_the_plan() -> None:
    schedule = planned(
        [(A, [step(MOVE, B)]), (A, [step(COPY, B)]), (A, [step(MOVE, B)]), (A, [step(SHIFT_UP, B)])]
    )
    assert [p for p, _, _ in schedule.start(9)] == [1, 3, 0, 2]


def test_no_member_takes_part_in_more_than_its_bound() -> None:
    schedule = planned([(A, [step(COPY, B)])] * 3 + [(C, [step(COPY, D)])] * 3)
    started = [(p, party) for p, _, party in schedule.start(2)]
    assert [p for p, _ in started] == [0, 3, 1, 4]
    assert schedule.load == {A: 2, B: 2, C: 2, D: 2}
    schedule.release(started[0][1])
    assert [p for p, _, _ in schedule.start(2)] == [2]


def test_owners_take_turns_in_giving_to_one() -> None:
    """Else a member that joins is given everything by the first, then by the next: half of the
    speed, and one owner's clients wait for all of it."""
    schedule = planned([(A, [step(COPY, D)])] * 4 + [(B, [step(COPY, D)])] * 4)
    running = [party for _, _, party in schedule.start(2)]
    for _ in range(4):
        schedule.release(running[-2])
        running += [party for _, _, party in schedule.start(2)]
    assert [party[0] for party in running] == [A, B, A, B, A, B]


def test_steps_of_one_partition_run_one_at_a_time_and_the_next_owner_sends() -> None:
    schedule = planned([(A, [step(COPY, B), step(MOVE, C)])])
    ((number, _, party),) = schedule.start(9)
    assert list(schedule.start(9)) == []
    assert schedule.planned == 1
    schedule.finish(number, party, B)
    assert [after for _, _, after in schedule.start(9)] == [(B, C)]
    schedule.finish(number, (B, C), C)
    assert (schedule.planned, schedule.load) == (0, {})


def test_cancel_forgets_what_has_not_begun_and_keeps_the_load_of_what_runs() -> None:
    schedule = planned([(A, [step(COPY, B), step(MOVE, C)]), (A, [step(COPY, B)])])
    ((number, _, party),) = schedule.start(1)
    assert schedule.cancel() == 2
    assert schedule.planned == 0
    schedule.finish(number, party, A)
    assert schedule.load == {}
    assert list(schedule.start(9)) == []


def test_partition_without_steps_is_not_planned() -> None:
    schedule = Schedule()
    schedule.add(partition(0), [], A)
    assert schedule.planned == 0


@given(plans, st.integers(1, 3), st.integers(0, 2**16))
def test_whatever_could_start_has_started(
    plan: list[tuple[MemberId, list[Step]]], bound: int, seed: int
) -> None:
    rng = random.Random(seed)
    schedule = planned(plan)
    todo = {n: list(some) for n, (_, some) in enumerate(plan) if some}
    senders = {n: sender for n, (sender, _) in enumerate(plan)}
    running: dict[int, Party] = {}
    while todo or running:
        last_rank = 0
        for number, one, party in schedule.start(bound):
            assert number not in running
            assert todo[number].pop(0) == one
            assert party == party_of(senders[number], one)
            rank = 0 if one[0].type in ADDS_COPIES else 1
            assert rank >= last_rank
            last_rank = rank
            running[number] = party
            todo = {n: some for n, some in todo.items() if some}
        load = Counter(member for party in running.values() for member in party)
        assert schedule.load == load
        assert max(load.values(), default=0) <= bound
        for waits, some in todo.items():
            blocked = any(load[m] >= bound for m in party_of(senders[waits], some[0]))
            assert waits in running or blocked
        assert schedule.planned == sum(map(len, todo.values()))
        ended = rng.choice(sorted(running))
        senders[ended] = rng.choice([A, B, C])
        schedule.finish(PartitionId(ended), running.pop(ended), senders[ended])
    assert schedule.load == {}


def test_releasing_what_does_not_run_is_our_bug() -> None:
    with pytest.raises(KeyError):
        Schedule().release((A,))
