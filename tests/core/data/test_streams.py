"""One stream of frames: numbers, needs, doubts, and what is skipped."""

from __future__ import annotations

from holdfast.core.data.streams import Stream
from holdfast.core.data.tickets import Ticket
from holdfast.core.data_messages import BackupAck, BackupFrame
from holdfast.ids import PartitionId
from tests.core.harness import C, partition

P, Q = partition(0), partition(1)


class Desk:
    """Who has been told that a need is met."""

    def __init__(self) -> None:
        self.told: list[Ticket] = []

    def met(self, ticket: Ticket, count: int) -> None:
        self.told += [ticket] * count


def wait(stream: Stream, *places: PartitionId) -> list[Ticket]:
    """A ticket for each of these partitions waits for the open frame."""
    tickets = [Ticket(number, 0) for number, _ in enumerate(places)]
    for place, ticket in zip(places, tickets, strict=True):
        stream.need(ticket, place)
    return tickets


def close(stream: Stream, size: int = 10) -> BackupFrame:
    return stream.close_frame([], [], size)


def ack(stream: Stream, number: int, *doubted: PartitionId) -> list[Ticket]:
    desk = Desk()
    stream.acknowledge(BackupAck(number, 1, doubted), desk.met)
    return desk.told


def test_frames_are_numbered_and_kept_until_they_are_acknowledged() -> None:
    stream = Stream(C, 1)
    assert [close(stream, size).number for size in (1, 20, 300)] == [1, 2, 3]
    assert stream.kept_bytes == 321
    ack(stream, 2)
    assert [flight.frame.number for flight in stream.kept] == [3]
    assert stream.kept_bytes == 300
    ack(stream, 3)
    assert not stream.kept


def test_one_number_acknowledges_everything_up_to_it_and_nothing_after_it() -> None:
    stream = Stream(C, 1)
    tickets = []
    for _ in range(3):
        tickets += wait(stream, P)
        close(stream)
    open_need = wait(stream, P)
    assert ack(stream, 2) == tickets[:2]
    assert ack(stream, 2) == []
    assert ack(stream, 3) == tickets[2:]
    close(stream)
    assert ack(stream, 4) == open_need


def test_doubted_need_is_met_by_the_first_acknowledgement_without_that_doubt() -> None:
    stream = Stream(C, 1)
    doubted, sure = wait(stream, P, Q)
    close(stream)
    assert ack(stream, 1, P) == [sure]
    assert ack(stream, 1, P) == []
    assert ack(stream, 1, Q) == [doubted]
    assert ack(stream, 1) == []


def test_memory_is_bounded_and_the_next_frame_says_that_some_were_skipped() -> None:
    stream = Stream(C, 1)
    (waiting,) = wait(stream, P)
    close(stream)
    stream.skip()
    assert (len(stream.kept), stream.kept_bytes) == (0, 0)
    frame = close(stream)
    assert (frame.number, frame.skipped) == (2, True)
    assert not close(stream).skipped
    assert ack(stream, 3, P) == []
    assert ack(stream, 3) == [waiting]


def test_who_need_not_have_a_partition_any_more_is_waited_for_no_longer() -> None:
    stream = Stream(C, 1)
    early = wait(stream, P, Q)
    close(stream)
    ack(stream, 1, P, Q)
    kept = wait(stream, P, Q)
    close(stream)
    fresh = wait(stream, P, Q)
    assert stream.release(P) == [early[0], kept[0], fresh[0]]
    assert stream.release(P) == []
    close(stream)
    assert ack(stream, 3) == [early[1], kept[1], fresh[1]]


def test_batch_waits_once_for_each_partition_and_the_doubt_of_one_is_not_that_of_another() -> None:
    stream, ticket = Stream(C, 1), Ticket(1, 0)
    for place in (P, Q, P):
        stream.need(ticket, place)
    assert ticket.needs == 2
    close(stream)
    assert stream.waiting() == [ticket, ticket]
    assert ack(stream, 1, Q) == [ticket]
    assert stream.waiting() == [ticket]
    assert ack(stream, 1, P) == [ticket]
    assert stream.waiting() == []


def test_acknowledgement_that_was_overtaken_says_nothing() -> None:
    stream = Stream(C, 1)
    wait(stream, P)
    close(stream)
    close(stream)
    ack(stream, 2, P)
    assert not stream.acknowledge(BackupAck(1, 1, ()), Desk().met)
    assert stream.waiting() != []


def test_acknowledgement_from_before_a_skip_says_nothing_of_what_was_skipped() -> None:
    """It was on its way when the frames after it were given up."""
    stream = Stream(C, 1)
    close(stream)
    lost = wait(stream, P)
    close(stream)
    stream.skip()
    assert ack(stream, 1) == []
    assert stream.waiting() == lost
    close(stream)
    assert ack(stream, 3, P) == []
    assert ack(stream, 3) == lost
