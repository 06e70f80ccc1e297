"""Effects come out in order, and nothing leaves before what was persisted ahead of it is safe."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.data_messages import BackupFrame, FragmentStand, Stand
from holdfast.core.effects import (
    Answer,
    Continue,
    Effect,
    MutationsRecord,
    Notice,
    NoticeKind,
    Pending,
    Persist,
    Reply,
    Send,
    StableRecord,
    Stop,
)
from holdfast.core.messages import Redirect
from holdfast.core.outbox import Outbox
from holdfast.ids import PartitionId
from tests.core.harness import A, B, address_of

RECORD = StableRecord(None)
MUTATIONS = MutationsRecord(
    PartitionId(0), 1, b"k", (), FragmentStand(b"k", Stand(1, 0, (0,)), ()), 1, clean=True
)
TO, MESSAGE = address_of(B), Redirect(address_of(A))


def test_without_files_nothing_is_persisted_and_nothing_waits() -> None:
    outbox = Outbox(persistent=False)
    outbox.persist(RECORD)
    outbox.send(TO, MESSAGE)
    assert outbox.take() == [Send(TO, MESSAGE)]
    assert outbox.issued == 0


def test_whatever_others_learn_waits_for_the_disk_and_the_rest_does_not() -> None:
    outbox = Outbox(persistent=True)
    outbox.persist(RECORD)
    outbox.send(TO, MESSAGE)
    outbox.answer("q")
    outbox.pending("q", "busy")
    outbox.stop()
    outbox.notice(NoticeKind.JOINED, "x")
    outbox.continue_soon()
    assert outbox.take() == [Persist(1, RECORD), Notice(NoticeKind.JOINED, "x", ""), Continue()]
    outbox.persisted(1)
    assert outbox.take() == [Send(TO, MESSAGE), Answer("q", "", ""), Pending("q", "busy"), Stop()]
    assert outbox.take() == []


def frame(number: int) -> BackupFrame:
    """Mutations for a backup."""
    return BackupFrame(number, False, (), (), B, 1)


def test_mutations_for_a_backup_do_not_wait_for_their_own_record() -> None:
    outbox = Outbox(persistent=True)
    outbox.persist(MUTATIONS)
    outbox.send_frame(TO, frame(1))
    outbox.reply(7, b"+OK")
    outbox.send(TO, MESSAGE)
    assert outbox.take() == [Persist(1, MUTATIONS), Send(TO, frame(1))]
    outbox.persisted(1)
    assert outbox.take() == [Reply(7, b"+OK"), Send(TO, MESSAGE)]


def test_mutations_for_a_backup_wait_for_what_was_promised_before_them_and_stay_in_order() -> None:
    """1. A row is persisted, then mutations. 2. Frames wait for the row, behind a message that
    waits for more. 3. The row is safe: both frames leave, and the message stays."""
    outbox = Outbox(persistent=True)
    outbox.persist(RECORD)
    outbox.send_frame(TO, frame(1))
    outbox.persist(MUTATIONS)
    outbox.send(TO, MESSAGE)
    outbox.send_frame(TO, frame(2))
    assert outbox.take() == [Persist(1, RECORD), Persist(2, MUTATIONS)]
    outbox.persisted(1)
    assert outbox.take() == [Send(TO, frame(1)), Send(TO, frame(2))]
    outbox.send_frame(TO, frame(3))
    outbox.persisted(2)
    assert outbox.take() == [Send(TO, frame(3)), Send(TO, MESSAGE)]


ACTIONS = st.lists(st.one_of(st.just("persist"), st.just("send"), st.integers(0, 3)), max_size=30)


@given(ACTIONS)
def test_gate_keeps_the_order_and_opens_as_soon_as_it_may(actions: list[str | int]) -> None:
    outbox = Outbox(persistent=True)
    written: list[Effect] = []
    stable = 0
    asked: list[tuple[int, str]] = []
    for number, action in enumerate(actions):
        if action == "persist":
            outbox.persist(RECORD)
        elif action == "send":
            outbox.pending(str(number), "")
            asked.append((outbox.issued, str(number)))
        else:
            stable = max(stable, outbox.issued - int(action))
            outbox.persisted(outbox.issued - int(action))
        written += outbox.take()
        let_out = [effect.request for effect in written if isinstance(effect, Pending)]
        free = [name for needs, name in asked if needs <= stable]
        assert let_out == free
    records = [effect.sequence for effect in written if isinstance(effect, Persist)]
    assert records == list(range(1, outbox.issued + 1))


def test_messages_that_are_held_when_a_stay_ends_never_leave_and_answers_do() -> None:
    outbox = Outbox(persistent=True)
    outbox.persist(RECORD)
    outbox.send(TO, MESSAGE)
    outbox.send_frame(TO, BackupFrame(1, False, (), (), B, 1))
    outbox.reply(7, b"+OK")
    outbox.answer("q")
    outbox.end_stay()
    outbox.send(TO, Redirect(TO))
    outbox.notice(NoticeKind.EXCLUDED, B)
    assert outbox.take() == [Persist(1, RECORD), Notice(NoticeKind.EXCLUDED, B, "")]
    outbox.persisted(1)
    assert outbox.take() == [Reply(7, b"+OK"), Answer("q", "", ""), Send(TO, Redirect(TO))]
