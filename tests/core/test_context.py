"""What the machines share: timers, the story, the data, sending."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.config import Config
from holdfast.core.context import STORY_MAX, TRY_AGAIN_MS, Context, Timers
from holdfast.core.effects import FragmentRecord, MembershipRecord, NoticeKind, Persist, RowsRecord
from holdfast.core.messages import Fragment, Redirect
from holdfast.ids import Millis
from tests.core.harness import A, B, C, address_of, member, partition, row, view_of

MESSAGE = Redirect(address_of(A))


def context_of(*, persistent: bool = True) -> Context:
    return Context(Config(partition_count=2, replica_count=2), member(A, persistent=persistent))


# Timers -------------------------------------------------------------------------------------------


def test_deadline_is_due_once_when_it_has_passed() -> None:
    timers = Timers()
    timers.set("tea", 10)
    assert not timers.due("tea", Millis(9))
    assert timers.running("tea")
    assert timers.due("tea", Millis(10))
    assert not timers.due("tea", Millis(11))
    assert not timers.running("tea")


def test_deadlines_can_be_moved_and_forgotten() -> None:
    timers = Timers()
    timers.set("tea", 10)
    timers.set("tea", 20)
    assert not timers.due("tea", Millis(15))
    timers.clear("tea")
    timers.clear("tea")
    assert timers.next(Millis(0)) is None


def test_deadlines_of_one_kind_end_together() -> None:
    timers = Timers()
    for name in ("master: a", "master: b", "other"):
        timers.set(name, 5)
    timers.clear_all("master: ")
    assert [timers.running(name) for name in ("master: a", "master: b", "other")] == [
        False,
        False,
        True,
    ]


@given(st.dictionaries(st.text(max_size=2), st.integers(0, 100), max_size=5), st.integers(0, 100))
def test_next_is_the_earliest_and_never_in_the_past(deadlines: dict[str, int], now: int) -> None:
    timers = Timers()
    for name, at in deadlines.items():
        timers.set(name, at)
    expected = [at if at > now else now + TRY_AGAIN_MS for at in deadlines.values()]
    assert timers.next(Millis(now)) == (min(expected) if expected else None)


# Sending ------------------------------------------------------------------------------------------


def test_what_i_send_to_myself_does_not_reach_the_network() -> None:
    context = context_of()
    context.send(address_of(A), MESSAGE)
    assert list(context.loopback) == [MESSAGE]
    assert context.outbox.take() == []


def test_nobody_hears_what_is_sent_to_someone_unlisted() -> None:
    context = context_of(persistent=False)
    context.send_member(B, MESSAGE)
    context.view = view_of(member(A), member(B))
    context.send_member(C, MESSAGE)
    context.send_member(None, MESSAGE)
    assert context.outbox.take() == []
    context.send_member(B, MESSAGE)
    assert len(context.outbox.take()) == 1


def test_others_are_everyone_in_the_view_but_me() -> None:
    context = context_of()
    others, listed = [context.others()], [context.listed]
    for stay in (member(A), member(A, 2)):
        context.view = view_of(stay, member(B))
        others.append(context.others())
        listed.append(context.listed)
    assert others == [(), (member(B),), (member(B),)]
    assert listed == [False, True, False]


def test_death_is_confirmed_for_a_stay_and_those_before_it() -> None:
    context = context_of()
    context.confirmed[B] = 2
    dead = [context.is_dead(member(B, incarnation)) for incarnation in (1, 2, 3)]
    assert dead == [True, True, False]
    assert not context.is_dead(member(C))


# Records ------------------------------------------------------------------------------------------


def test_only_changes_of_data_and_rows_are_persisted() -> None:
    context = context_of()
    context.hold(partition(0), Fragment(1, 2))
    context.hold(partition(0), Fragment(1, 2))
    context.drop(partition(0))
    context.drop(partition(0))
    context.persist_rows(())
    context.persist_rows((row(0, 1, A, B),))
    context.persist_rows((), fresh=True)
    context.persist_membership()
    records = [e.record for e in context.outbox.take() if isinstance(e, Persist)]
    assert records == [
        FragmentRecord(partition(0), Fragment(1, 2)),
        FragmentRecord(partition(0), None),
        RowsRecord((row(0, 1, A, B),), fresh=False),
        RowsRecord((), fresh=True),
        MembershipRecord(1, context.promised, None),
    ]


# The story ----------------------------------------------------------------------------------------


def test_story_is_told_by_subject_oldest_first() -> None:
    context = context_of()
    context.tell("a", "was born")
    context.now = Millis(7)
    context.notice(NoticeKind.JOINED, "b", "late")
    context.notice(NoticeKind.FOUNDED, "a")
    assert context.story("a") == ("0 ms a: was born", "7 ms a: founded")
    assert context.story() == ("0 ms a: was born", "7 ms b: joined: late", "7 ms a: founded")


def test_story_is_bounded() -> None:
    context = context_of()
    for number in range(STORY_MAX + 5):
        context.tell("a", str(number))
    assert len(context.story()) == STORY_MAX
    assert context.story()[0] == "0 ms a: 5"
