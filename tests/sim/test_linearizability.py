"""The checker of histories: on stories made by hand, and against trying every order there is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from holdfast.sim.linearizability import (
    UNKNOWN,
    Checker,
    NotLinearizable,
    Operation,
    Undecided,
    by_key,
    check,
)
from holdfast.sim.linearizability.model import State, apply
from tests.sim.histories import (
    CHOICES,
    LINEARIZABLE,
    REPLIES,
    WRONG_TYPE,
    brute_force,
    call,
    lost,
    op,
    run_clients,
)

# Good stories ------------------------------------------------------------------------------------

GOOD: Final[dict[str, list[Operation]]] = {
    "about its end it is seen, then gone": [
        op("SET 1 PX 9 a", "OK", 0, 1),
        op("(END) a", None, 5, 15),
        op("GET", b"1", 12, 13),
        op("GET", None, 13, 14),
    ],
    "a new deadline, and the end of the old one": [
        op("SET 1 PX 9 a", "OK", 0, 1),
        op("PEXPIRE 9 b", 1, 2, 3),
        op("(END) a", None, 5, 15),
        op("PTTL", 4, 16, 17),
        op("(END) b", None, 18, 19),
        op("PTTL", -2, 20, 21),
    ],
    "a lock that was given to nobody knows whom": [
        lost("HOLDFAST.LOCK A a 0", 0),
        op("HOLDFAST.LOCK B b 0", None, 1, 2),
        op("HOLDFAST.LOCKED 3", (7, 3), 3, 4),
        op("(END) a", None, 5, 15),
        op("HOLDFAST.LOCK B b 4", 4, 6, 7),
        op("HOLDFAST.LOCK B c 4", 4, 8, 9),
    ],
    "nothing happened": [],
    "a read of a key that never was": [op("GET", None, 0, 1)],
    "write, then read": [op("SET 1", "OK", 0, 1), op("GET", b"1", 2, 3)],
    "a read under a write sees the old": [op("SET 1", "OK", 0, 9), op("GET", None, 2, 3)],
    "a read under a write sees the new": [op("SET 1", "OK", 0, 9), op("GET", b"1", 2, 3)],
    "the new after the old under one write": [
        op("SET 1", "OK", 0, 9),
        op("GET", None, 1, 2),
        op("GET", b"1", 3, 4),
    ],
    "what touches is concurrent": [op("SET 1", "OK", 0, 5), op("GET", None, 5, 6)],
    "concurrent writes, the first is last": [
        op("SET 1", "OK", 0, 5),
        op("SET 2", "OK", 0, 5),
        op("GET", b"1", 6, 7),
    ],
    "concurrent writes, the second is last": [
        op("SET 1", "OK", 0, 5),
        op("SET 2", "OK", 0, 5),
        op("GET", b"2", 6, 7),
    ],
    "readers of concurrent writes at different times": [
        op("SET 1", "OK", 0, 9),
        op("SET 2", "OK", 0, 9),
        op("GET", b"2", 1, 2),
        op("GET", b"1", 3, 4),
    ],
    "an unknown write is never seen": [lost("SET 1", 0), op("GET", None, 2, 3)],
    "an unknown write is seen later": [
        lost("SET 1", 0),
        op("GET", None, 2, 3),
        op("GET", b"1", 4, 5),
    ],
    "an unknown write comes after a known one": [
        lost("SET 1", 0),
        op("SET 2", "OK", 2, 3),
        op("GET", b"2", 4, 5),
        op("GET", b"1", 6, 7),
    ],
    "one of two unknown equal writes for each time it is seen": [
        lost("SET 1", 0),
        lost("SET 1", 0),
        op("GET", b"1", 2, 3),
        op("DEL", 1, 4, 5),
        op("GET", b"1", 6, 7),
    ],
    "an unknown read says nothing": [lost("GET", 0), op("GET", None, 2, 3)],
    "an unknown increment is in the sum": [
        op("INCR", 1, 0, 1),
        lost("INCR", 2),
        op("INCR", 3, 4, 5),
    ],
    "an unknown increment is not in the sum": [
        op("INCR", 1, 0, 1),
        lost("INCR", 2),
        op("INCR", 2, 4, 5),
    ],
    "an unknown delete explains a second creation": [
        op("SET 1 NX", "OK", 0, 1),
        lost("DEL", 2),
        op("SET 2 NX", "OK", 4, 5),
        op("GET", b"2", 6, 7),
    ],
    "an unknown write explains a known one, which is overwritten": [
        lost("SET 1", 0),
        op("GETSET 2", b"1", 1, 9),
        op("SET 3", "OK", 2, 3),
        op("GET", b"3", 10, 11),
    ],
    "two unknown pushes explain a length": [
        lost("RPUSH a", 0),
        lost("LPUSH b", 0),
        op("LLEN", 2, 2, 3),
        op("LRANGE 0 -1", [b"b", b"a"], 4, 5),
    ],
    "an unknown push and an unknown pop": [
        lost("RPUSH a", 0),
        lost("LPOP", 0),
        op("LLEN", 1, 2, 3),
        op("LLEN", 0, 4, 5),
    ],
    # what follows is for the shortcuts of the search, one story each
    "an unknown push is counted, then overwritten": [
        lost("LPUSH b", 3),
        op("LLEN", 1, 3, 6),
        op("SET 1", "OK", 4, 5),
    ],
    "an unknown write turns a hash into what an unknown GETDEL deletes": [
        op("HSET f 2", 1, 0, 1),
        lost("SET 1", 2),
        lost("GETDEL", 2),
        op("HSET f 1", 1, 3, 4),
    ],
    "an unknown pop makes room for an unknown push of two": [
        lost("RPUSH a b", 0),
        lost("LPOP", 0),
        op("RPUSH a b", 3, 1, 2),
    ],
    "an unknown delete makes room for an unknown creation": [
        op("SET 1", "OK", 0, 1),
        lost("DEL", 2),
        lost("SET 2 NX", 2),
        op("GET", b"2", 3, 4),
    ],
    "an unknown removal makes room for an unknown creation of another type": [
        op("SADD a", 1, 0, 1),
        lost("SREM a", 2),
        lost("SET 1 NX", 2),
        op("SISMEMBER b", WRONG_TYPE, 3, 4),
    ],
    "two unknown increments, one of them after an append": [
        lost("INCR", 0),
        lost("INCR", 0),
        op("APPEND 1", 2, 2, 3),
        op("INCR", 22, 2, 4),
    ],
    "two ways to one state, and the other half of one is needed later": [
        lost("INCR", 0),
        lost("SET 1", 0),
        op("APPEND 1", 2, 2, 3),
        op("GET", b"2", 2, 4),
    ],
    "two ways to one list, which differ in what is left to come": [
        lost("LPUSH a", 0),
        op("RPUSH b", 2, 0, 5),
        lost("RPUSH a", 1),
        op("LRANGE 0 -1", [b"a", b"b", b"a"], 7, 9),
    ],
    "members in any order": [op("SADD a b", 2, 0, 1), op("SMEMBERS", [b"b", b"a"], 2, 3)],
    "fields as a list or as a dict": [
        op("HSET f 1 g 2", 2, 0, 1),
        op("HGETALL", [b"g", b"2", b"f", b"1"], 2, 3),
        op("HGETALL", {b"f": b"1", b"g": b"2"}, 2, 3),
    ],
    "a reply of the wrong type is a reply": [
        op("RPUSH a", 1, 0, 1),
        op("GET", WRONG_TYPE, 2, 3),
    ],
}

# Bad stories: the last operation is the one without an explanation ------------------------------

BAD: Final[dict[str, list[Operation]]] = {
    "seen after its end": [
        op("SET 1 PX 9 a", "OK", 0, 1),
        op("(END) a", None, 5, 15),
        op("GET", b"1", 16, 17),
    ],
    "gone before its end": [
        op("(END) a", None, 5, 15),
        op("SET 1 PX 9 a", "OK", 0, 1),
        op("GET", None, 2, 3),
    ],
    "its end, then seen again": [
        op("SET 1 PX 9 a", "OK", 0, 1),
        op("(END) a", None, 5, 15),
        op("GET", None, 6, 7),
        op("GET", b"1", 8, 9),
    ],
    "ended although its deadline was taken away": [
        op("SET 1 PX 9 a", "OK", 0, 1),
        op("PERSIST", 1, 2, 3),
        op("(END) a", None, 5, 15),
        op("PTTL", -2, 16, 17),
    ],
    "two holders at once": [
        op("HOLDFAST.LOCK A a 1", 1, 0, 1),
        op("HOLDFAST.LOCK B b 2", 2, 2, 3),
    ],
    "a token that is not greater": [
        op("HOLDFAST.LOCK A a 4", 4, 0, 1),
        op("HOLDFAST.UNLOCK 4 1", 1, 2, 3),
        op("HOLDFAST.LOCK B b 4", 4, 4, 5),
    ],
    "still held after its end": [
        op("HOLDFAST.LOCK A a 1", 1, 0, 1),
        op("(END) a", None, 5, 15),
        op("HOLDFAST.LOCKED 1", (3, 1), 16, 17),
    ],
    "stale read": [
        op("SET 1", "OK", 0, 1),
        op("SET 2", "OK", 2, 3),
        op("GET", b"1", 4, 5),
    ],
    "a read of what nobody wrote": [op("SET 1", "OK", 0, 1), op("GET", b"2", 2, 3)],
    "a read from the future": [op("SET 1", "OK", 4, 5), op("GET", b"1", 0, 1)],
    "lost update": [
        op("INCR", 1, 0, 1),
        op("INCR", 2, 2, 3),
        op("GET", b"1", 4, 5),
    ],
    "duplicate increment": [op("INCR", 1, 0, 1), op("GET", b"2", 2, 3)],
    "two increments with one result": [op("INCR", 1, 0, 5), op("INCR", 1, 0, 6)],
    "seen, then not there": [
        op("SET 1", "OK", 0, 9),
        op("GET", b"1", 1, 2),
        op("GET", None, 3, 4),
    ],
    "resurrected after a delete": [
        op("SET 1", "OK", 0, 1),
        op("DEL", 1, 2, 3),
        op("GET", b"1", 4, 5),
    ],
    "deleted twice": [
        op("SET 1", "OK", 0, 1),
        op("GETDEL", b"1", 2, 8),
        op("GETDEL", b"1", 2, 9),
    ],
    "created twice": [op("SET 1 NX", "OK", 0, 8), op("SET 2 NX", "OK", 0, 9)],
    "readers disagree about the order of concurrent writes": [
        op("SET 1", "OK", 0, 3),
        op("SET 2", "OK", 0, 3),
        op("GET", b"1", 4, 5),
        op("GET", b"2", 6, 7),
    ],
    "an unknown write is seen, then unseen": [
        lost("SET 1", 0),
        op("GET", b"1", 2, 3),
        op("GET", None, 4, 5),
    ],
    "an unknown write is seen before it was sent": [
        lost("SET 1", 4),
        op("GET", b"1", 0, 1),
    ],
    "one unknown write takes effect twice": [
        lost("SET 1", 0),
        op("GET", b"1", 2, 3),
        op("SET 2", "OK", 4, 5),
        op("GET", b"1", 6, 7),
    ],
    "one unknown increment counts twice": [
        op("INCR", 1, 0, 1),
        lost("INCR", 2),
        op("INCR", 4, 4, 5),
    ],
    "a push is applied twice": [
        op("RPUSH a", 1, 0, 1),
        op("LRANGE 0 -1", [b"a", b"a"], 2, 3),
    ],
    "an unknown push is applied twice": [
        lost("RPUSH a", 0),
        op("LRANGE 0 -1", [b"a", b"a"], 2, 3),
    ],
    "one element is popped twice": [
        op("RPUSH a b", 2, 0, 1),
        op("LPOP", b"a", 2, 8),
        op("LPOP", b"a", 2, 9),
    ],
    "a member that left is there": [
        op("SADD a", 1, 0, 1),
        op("SREM a", 1, 2, 3),
        op("SISMEMBER a", 1, 4, 5),
    ],
    "a member is there twice": [op("SADD a", 1, 0, 1), op("SMEMBERS", [b"a", b"a"], 2, 3)],
    "a field is half written": [
        op("HSET f 1 g 1", 2, 0, 1),
        op("HSET f 2 g 2", 0, 2, 9),
        op("HGETALL", {b"f": b"2", b"g": b"1"}, 3, 4),
    ],
    "a field without its value": [
        op("HSET f 1", 1, 0, 1),
        op("HGETALL", [b"f", b"1", b"g"], 2, 3),
    ],
    "an append is lost": [
        op("APPEND ab", 2, 0, 1),
        op("APPEND c", 1, 2, 3),
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_good_history(name: str) -> None:
    assert check(GOOD[name]) == LINEARIZABLE
    assert brute_force(GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_bad_history(name: str) -> None:
    verdict = check(BAD[name])
    assert isinstance(verdict, NotLinearizable)
    assert verdict.operation == brute_force(BAD[name])
    assert verdict.operation in BAD[name][-1:] or name == "a read from the future"


def test_story_says_what_the_key_was_and_what_was_under_way() -> None:
    history = [
        op("SET 1", "OK", 0, 1),
        lost("SET 2", 2),
        lost("SET 3", 2),
        op("GET", b"3", 3, 4),
        op("SET 4", "OK", 5, 9),
        op("GET", b"5", 6, 7),
        op("GET", b"6", 12, 13),
    ]
    verdict = check(history)
    assert str(verdict).splitlines() == [
        "no order explains c6: GET k → b'5' [6…7]",
        "returned before it: c0: SET k 1 → 'OK' [0…1]",
        "returned before it: c3: GET k → b'3' [3…4]",
        "the key was then: b'3'",
        "under way: c2: SET k 2 → ? [2…]",
        "under way: c5: SET k 4 → 'OK' [5…9]",
    ]


def test_story_lists_every_state_that_may_be() -> None:
    writes = [op(f"SADD {member}", UNKNOWN, 0) for member in "ab"]
    verdict = check([*writes, op("SCARD", 1, 1, 2), op("SCARD", 3, 3, 4)])
    assert isinstance(verdict, NotLinearizable)
    assert verdict.states == (frozenset([b"a"]), frozenset([b"b"]))


# Histories ---------------------------------------------------------------------------------------


def test_each_key_has_its_own_history() -> None:
    one, two = Operation("a", (b"GET", b"x"), 0, 1, None), op("GET", None, 0, 1)
    assert by_key([one, two, one]) == {b"x": [one, one], b"k": [two]}
    with pytest.raises(ValueError, match="this checker is about b'x'"):
        check([one, two])


@pytest.mark.parametrize(
    ("words", "times"), [((b"GET",), (0, 1)), ((b"GET", b"k"), (1, 0)), ((b"GET", b"k"), (1, None))]
)
def test_impossible_operation_is_refused(
    words: tuple[bytes, ...], times: tuple[int, int | None]
) -> None:
    with pytest.raises(ValueError, match=r"a call has|a reply comes"):
        Operation("c", words, *times, None)


def test_time_of_an_unknown_reply_says_nothing() -> None:
    """The client learnt at 1 that the outcome is unknown; the write may still come."""
    unknown = Operation("c", call("SET 1"), 0, 1, UNKNOWN)
    assert check([unknown, op("GET", None, 2, 3), op("GET", b"1", 4, 5)]) == LINEARIZABLE


# Online ------------------------------------------------------------------------------------------


def test_settled_verdict_comes_before_the_end() -> None:
    checker = Checker()
    checker.add(op("SET 1", "OK", 0, 1))
    checker.add(op("GET", b"2", 2, 5))
    assert checker.settle(5) == LINEARIZABLE
    assert isinstance(checker.settle(6), NotLinearizable)
    checker.add(op("GET", b"1", 7, 8))
    assert isinstance(checker.settle(), NotLinearizable), "what is broken stays broken"


def test_what_is_under_way_holds_back_what_can_be_settled() -> None:
    """A write begins at 2, its effect is read at 4, and it is added last."""
    checker = Checker()
    checker.add(op("GET", b"1", 3, 4))
    assert checker.settle(2) == LINEARIZABLE
    checker.add(op("SET 1", "OK", 2, 9))
    assert checker.settle() == LINEARIZABLE
    with pytest.raises(ValueError, match="began before 9, which is settled"):
        checker.add(op("GET", None, 8, 10))


def test_nothing_may_begin_in_what_is_settled() -> None:
    checker = Checker()
    checker.settle(7)
    checker.add(op("GET", None, 7, 8))
    with pytest.raises(ValueError, match="began before 7"):
        checker.add(op("GET", None, 6, 8))


# How much work it is -----------------------------------------------------------------------------


REGISTER: Final = ("SET #", "GET")
STRING: Final = ("SET #", "SET #", "GET", "GET", "GET", "GETSET #", "DEL", "SET # NX", "GETDEL")
COUNTER: Final = ("INCR", "INCR", "GET")
TEXT: Final = ("APPEND #", "GET")
LIST: Final = ("RPUSH #", "LPUSH #", "LPOP", "RPOP", "LRANGE 0 -1", "LRANGE 0 -1", "LLEN")
MEMBERS: Final = ("SADD a", "SADD b", "SREM a", "SREM b", "SISMEMBER a", "SMEMBERS", "SCARD")
FIELDS: Final = ("HSET f #", "HSET g #", "HDEL f", "HGET g", "HGETALL")


@pytest.mark.parametrize(
    ("calls", "steps"),
    [
        (REGISTER, 200_000),
        (STRING, 150_000),
        (COUNTER, 50_000),
        (TEXT, 50_000),
        (LIST, 50_000),
        (MEMBERS, 50_000),
        (FIELDS, 150_000),
    ],
)
def test_long_history_is_linear_work(calls: Sequence[str], steps: int) -> None:
    """5,000 operations of five clients, most of the time several of them under way."""
    history = run_clients(random.Random(7), 5_000, calls, 0.0)
    assert check(history, budget=steps) == LINEARIZABLE


@pytest.mark.parametrize(
    ("calls", "unknown", "steps"),
    [
        (REGISTER, 0.02, 300_000),
        (STRING, 0.005, 500_000),
        (COUNTER, 0.02, 500_000),
        (TEXT, 0.005, 50_000),
        (LIST, 0.005, 200_000),
        (MEMBERS, 0.02, 600_000),
        (FIELDS, 0.005, 500_000),
    ],
)
def test_unknown_outcomes_do_not_blow_up(calls: Sequence[str], unknown: float, steps: int) -> None:
    history = run_clients(random.Random(7), 2_000, calls, unknown)
    assert sum(not each.is_known for each in history) > 5
    assert check(history, budget=steps) == LINEARIZABLE


def test_fault_late_in_a_long_history_is_found() -> None:
    history = run_clients(random.Random(7), 5_000, REGISTER, 0.01)
    last = max(each.returned or 0 for each in history)
    stale = op("GET", b"0", last + 1, last + 2)
    verdict = check([*history, stale])
    assert isinstance(verdict, NotLinearizable)
    assert verdict.operation is stale


def test_unknown_writes_that_are_never_seen_cost_nothing() -> None:
    """No reply asks for them: they are not even tried."""
    known = [op("SET x", "OK", at, at + 1) for at in range(3_000, 5_000, 4)]
    known += [op("GET", b"x", at + 2, at + 3) for at in range(3_000, 5_000, 4)]
    unknown = [lost(f"SET {number}", number) for number in range(2_000)]
    assert check([*unknown, *known], budget=10_000) == LINEARIZABLE


def test_unknown_write_after_an_unknown_write_is_not_tried() -> None:
    """Each delete may have deleted any of them, but not one that was put over another."""
    known = [op("SET x", "OK", at, at + 1) for at in range(1_000, 1_080, 4)]
    known += [op("DEL", 1, at + 2, at + 3) for at in range(1_000, 1_080, 4)]
    unknown = [lost(f"SET {number}", number) for number in range(200)]
    assert check([*unknown, *known], budget=30_000) == LINEARIZABLE


def test_unknown_pushes_that_no_length_has_room_for_are_not_permuted() -> None:
    known = [op("RPUSH x", at, at + 100, at + 100) for at in range(1, 100)]
    unknown = [lost(f"RPUSH {number}", number) for number in range(12)]
    assert check([*unknown, *known], budget=10_000) == LINEARIZABLE


def test_unknown_members_that_nobody_asks_for_are_not_tried() -> None:
    known = [op(f"SADD x{at}", 1, at + 100, at + 100) for at in range(100)]
    unknown = [lost(f"SADD {number}", number) for number in range(30)]
    assert check([*unknown, *known], budget=10_000) == LINEARIZABLE


def test_unknown_operation_that_surely_took_effect_is_forgotten() -> None:
    checker = Checker()
    for operation in (lost("SET 1", 0), lost("SET 2", 0), op("GET", b"1", 1, 2)):
        checker.add(operation)
    checker.settle()
    assert list(checker._pools) == [call("SET 2")]


def test_budget_ends_in_no_verdict() -> None:
    """Twelve different pushes, of which somebody saw nothing but how many there were."""
    pushes = [lost(f"RPUSH {number}", 0) for number in range(12)]
    verdict = check([*pushes, op("LLEN", 6, 1, 2), op("GET", b"1", 3, 4)], budget=5_000)
    assert verdict == Undecided(op("LLEN", 6, 1, 2), steps=5_001)


# Every order there is ----------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """What happened to a sound key, or a reply of it changed; some outcomes are unknown."""
    texts = draw(st.sampled_from(CHOICES))
    times = st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 4))
    rows = draw(st.lists(st.tuples(times, st.sampled_from(texts)), min_size=1, max_size=6))
    state: State = None
    history = []
    for (invoked, before, after), text in sorted(rows, key=lambda row: row[0][0] + row[0][1]):
        next_state, reply = apply(state, call(text))
        fate = draw(st.sampled_from(("known", "known", "known", "done", "never", "other")))
        if fate == "other":
            reply = draw(st.sampled_from(REPLIES))
        if fate != "never":
            state = next_state
        seen = UNKNOWN if fate in ("done", "never") else reply
        history.append(Operation("c", call(text), invoked, invoked + before + after, seen))
    return draw(st.permutations(history))


@given(histories())
def test_verdict_is_that_of_trying_every_order(history: list[Operation]) -> None:
    expected = brute_force(history)
    verdict = check(history)
    event("linearizable" if expected is None else "not linearizable")
    if expected is None:
        assert verdict == LINEARIZABLE
    else:
        assert isinstance(verdict, NotLinearizable)
        assert verdict.operation.returned == expected.returned


@given(histories())
def test_online_verdict_is_that_of_the_whole(history: list[Operation]) -> None:
    """Each operation is added when it returns, and all is settled that can be settled then."""
    checker = Checker()
    history.sort(key=lambda each: each.returned or 0)
    left = list(history)
    while left:
        checker.add(left.pop(0))
        if left:
            checker.settle(min(each.invoked for each in left))
    assert checker.settle() == check(history)
