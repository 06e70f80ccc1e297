"""Replies that wait: order, needs, time."""

from __future__ import annotations

from holdfast.core.data.tickets import AGAIN, UNKNOWN, Desk, Ticket

OK = b"+OK\r\n"


def ticket(
    session: int, *replies: bytes, needs: int = 0, keys: tuple[bytes, ...] = (), deadline: int = 100
) -> Ticket:
    """A batch with these replies, the last of which depends on what is waited for."""
    made = Ticket(session, deadline)
    made.replies += replies
    made.needs = needs
    made.keys.update(dict.fromkeys(keys))
    if needs:
        made.unsure.append((len(replies) - 1, UNKNOWN))
    return made


def test_batch_that_waits_for_nothing_is_answered_at_once_and_once() -> None:
    desk = Desk()
    desk.queue(ticket(1, OK, b":1\r\n"))
    assert desk.take() == [(1, OK + b":1\r\n")]
    assert desk.take() == []


def test_batch_waits_for_all_its_needs() -> None:
    desk, write = Desk(), ticket(1, OK, needs=2)
    desk.queue(write)
    desk.met(write)
    assert desk.take() == []
    assert not write.done
    desk.met(write)
    assert desk.take() == [(1, OK)]


def test_replies_of_a_session_come_in_order_and_sessions_do_not_wait_for_one_another() -> None:
    desk, write = Desk(), ticket(1, b"first", needs=1)
    desk.queue(write)
    desk.queue(ticket(1, b"second"))
    desk.queue(ticket(2, b"other"))
    assert desk.take() == [(2, b"other")]
    desk.met(write)
    assert desk.take() == [(1, b"first"), (1, b"second")]


def test_reader_waits_for_the_batch_that_wrote_the_key() -> None:
    desk, write, read = Desk(), ticket(1, OK, needs=1, keys=(b"k",)), ticket(2, b"v")
    desk.queue(write)
    assert desk.writing[b"k"] is write
    for _ in range(2):
        read.await_other(write)
    assert read.needs == 1, "twice the same is one need"
    desk.queue(read)
    desk.met(write)
    assert desk.writing == {}
    assert desk.take() == [(1, OK), (2, b"v")]


def test_batch_does_not_wait_for_itself_or_for_what_is_safe() -> None:
    write, safe = ticket(1, OK, needs=1), ticket(2, OK)
    write.await_other(write)
    write.await_other(safe)
    assert write.needs == 1


def test_key_belongs_to_its_last_writer() -> None:
    desk = Desk()
    first, second = (ticket(session, OK, needs=1, keys=(b"k",)) for session in (1, 2))
    desk.queue(first)
    desk.queue(second)
    desk.met(first)
    assert desk.writing == {b"k": second}


def test_when_time_is_up_what_is_not_safe_is_unknown_and_the_rest_is_as_it_is() -> None:
    desk, write = Desk(), ticket(1, b"read", OK, needs=1)
    desk.queue(write)
    assert desk.next_deadline() == 100
    desk.expire(99)
    assert desk.take() == []
    desk.expire(100)
    assert desk.take() == [(1, b"read" + UNKNOWN)]
    assert desk.next_deadline() is None
    desk.met(write)
    assert desk.take() == [], "nothing is answered twice"


def test_nobody_may_read_what_was_given_up_until_it_is_safe() -> None:
    desk, write = Desk(), ticket(1, OK, needs=1, keys=(b"k",))
    desk.queue(write)
    desk.expire(100)
    assert desk.writing == {b"k": write}
    read = Ticket(2, 200)
    read.replies.append(b"v")
    read.unsure.append((0, AGAIN))
    read.await_other(write)
    desk.queue(read)
    assert desk.take() == [(1, UNKNOWN)]
    desk.met(write)
    assert desk.take() == [(2, b"v")]


def test_reader_of_what_is_never_safe_is_told_to_read_again() -> None:
    desk, write = Desk(), ticket(1, OK, needs=1, keys=(b"k",))
    read = Ticket(2, 200)
    read.replies.append(b"v")
    read.unsure.append((0, AGAIN))
    desk.queue(write)
    read.await_other(write)
    desk.queue(read)
    desk.expire(150)
    assert desk.take() == [(1, UNKNOWN)]
    desk.expire(200)
    assert desk.take() == [(2, AGAIN)]


def test_what_was_answered_in_time_does_not_expire() -> None:
    desk, write = Desk(), ticket(1, OK, needs=1)
    desk.queue(write)
    desk.queue(ticket(2, OK, needs=1, deadline=120))
    desk.met(write)
    desk.expire(50)
    assert desk.next_deadline() == 120
    assert desk.take() == [(1, OK)]


def test_giving_up_twice_answers_once() -> None:
    desk, write = Desk(), ticket(1, OK, needs=1)
    desk.queue(write)
    desk.give_up(write)
    desk.give_up(write)
    assert desk.take() == [(1, UNKNOWN)]


def test_client_that_has_gone_gets_nothing_and_its_batches_go_on() -> None:
    desk = Desk()
    write, late = (ticket(1, OK, needs=1, keys=(key,)) for key in (b"a", b"b"))
    desk.queue(write)
    desk.queue(late)
    desk.close(1)
    desk.close(7)
    assert desk.writing == {b"a": write, b"b": late}
    desk.met(write)
    desk.give_up(late)
    assert desk.writing == {b"b": late}
    assert desk.take() == []


def test_who_has_read_what_nobody_will_ever_know_is_told_so_too() -> None:
    desk, write, read = Desk(), ticket(1, OK, needs=2, keys=(b"k",)), ticket(2, b"v")
    desk.queue(write)
    read.await_other(write)
    read.unsure.append((0, AGAIN))
    desk.queue(read)
    desk.fail(write)
    assert desk.take() == [(1, UNKNOWN), (2, AGAIN)]
    assert (write.needs, read.needs) == (1, 0)
