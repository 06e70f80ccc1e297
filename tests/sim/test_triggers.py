"""Triggers strike at every place of a step, once, and only where they are allowed to."""

from __future__ import annotations

from holdfast.core.effects import Effect, MembershipRecord, Notice, NoticeKind, Persist, Send
from holdfast.core.events import Received, Woke
from holdfast.core.messages import Abort, Origin, Redirect
from holdfast.ids import Address, MemberId, Term
from holdfast.sim.triggers import Blow, Moment, Trigger

SEND = Send(Address("b:1"), Abort("r", Term(1)))
OTHER = Send(Address("b:1"), Redirect(Address("c:1")))
PERSIST = Persist(1, MembershipRecord(1, Term(1), None))
NOTICE = Notice(NoticeKind.JOINED, "", "")
EFFECTS: list[Effect] = [NOTICE, SEND, PERSIST, OTHER, SEND]
RECEIVED = Received(Origin(MemberId("a"), 1, Address("a:1")), Abort("r", Term(1)))


def trigger(moment: Moment, place: float, skip: int = 0) -> Trigger:
    return Trigger(moment, "Abort", Blow.CRASH, place, skip)


def places(moment: Moment) -> set[int | None]:
    return {trigger(moment, number / 100).strikes(RECEIVED, EFFECTS) for number in range(100)}


def test_every_place_around_the_effects_that_match() -> None:
    assert places(Moment.SENDS) == {1, 2, 4, 5}
    assert places(Moment.PERSISTS) == {2, 3}
    assert places(Moment.RECEIVES) == {0, 1, 2, 3, 4, 5}
    assert places(Moment.ANYTHING) == {0, 1, 2, 3, 4, 5}


def test_nothing_matches() -> None:
    assert trigger(Moment.SENDS, 0.5).strikes(Woke(), [OTHER]) is None
    assert trigger(Moment.RECEIVES, 0.5).strikes(Woke(), EFFECTS) is None
    assert trigger(Moment.PERSISTS, 0.5).strikes(Woke(), [OTHER]) is None


def test_the_first_matches_are_let_pass() -> None:
    late = trigger(Moment.SENDS, 0.0, skip=2)
    assert [late.strikes(Woke(), [SEND]) for _ in range(3)] == [None, None, 0]


def test_a_blow_that_is_not_allowed_waits() -> None:
    allowed = [False, True]
    guarded = trigger(Moment.SENDS, 0.0)
    guarded.allowed = lambda: allowed.pop(0)
    assert guarded.strikes(Woke(), [SEND]) is None
    assert guarded.strikes(Woke(), [SEND]) == 0
