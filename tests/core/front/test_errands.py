"""Errands between members: done once whatever the network does, forgotten if nobody wants them."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from holdfast.core.data.plane import NO_OWNER, NOT_SERVING, slot_of
from holdfast.core.data_messages import Errand, Forward, Forwarded
from holdfast.core.effects import Send
from holdfast.core.events import Received
from holdfast.core.front.errands import LOOK_AFTER_ERRANDS, MESSAGE_BYTES
from holdfast.core.front.guests import LOOK_AFTER_GUESTS
from holdfast.core.messages import NewView
from holdfast.core.stores.replies import error
from holdfast.ids import MemberId
from tests.core.data.grid import Grid, grid
from tests.core.front.clients import Client
from tests.core.front.test_forwarding import keys_at, spread
from tests.core.harness import A, B, C, Cluster, cut, losing

ME: Final = b"C.1/1"


def errand(number: int, *commands: str) -> Errand:
    """Commands of a client of C."""
    return number, ME, 2, tuple([command.encode().split() for command in commands])


def ask(cluster: Cluster, last: int, *errands: Errand, wanted: tuple[int, ...] = ()) -> None:
    """C asks A."""
    origin = cluster.nodes[C].origin
    cluster.step(A, Received(origin, Forward(1, last, wanted, errands)))


def told(cluster: Cluster) -> dict[int, tuple[bytes, ...]]:
    """What A told C, by errand."""
    found: dict[int, tuple[bytes, ...]] = {}
    for message in cluster.messages(Forwarded, to=C):
        found.update(message.outcomes)
    cluster.sent.clear()
    return found


def value(cluster: Grid, key: str) -> bytes | None:
    return cluster.value(A, key)


@pytest.fixture
def one() -> Grid:
    """A owns everything, and C has no part in it."""
    return grid(A, None, None)


# The receiver -------------------------------------------------------------------------------------


def test_errand_is_done_once_and_answered_as_often_as_it_is_asked(one: Grid) -> None:
    ask(one, 1, errand(1, "INCR n", "GET n"))
    one.run(3)
    assert told(one) == {1: (b":1\r\n", b"$1\r\n1\r\n")}
    ask(one, 1, errand(1, "INCR n", "GET n"))
    one.run(3)
    assert told(one) == {1: (b":1\r\n", b"$1\r\n1\r\n")}
    ask(one, 2, errand(2, "GET n"))
    one.run(3)
    assert told(one) == {2: (b"$1\r\n1\r\n",)}
    ask(one, 2, errand(1, "INCR n", "GET n"))
    ask(one, 1, errand(1, "INCR n", "GET n"))
    one.run(3)
    assert (told(one), value(one, "n")) == ({}, b"1"), "what was struck out is never done"


def test_message_that_was_overtaken_is_done_as_long_as_it_is_wanted(one: Grid) -> None:
    ask(one, 3, errand(3, "INCR n"), wanted=(1,))
    ask(one, 1, errand(1, "INCR n"))
    ask(one, 2, errand(2, "INCR n"))
    one.run(3)
    assert set(told(one)) == {1, 3}
    assert value(one, "n") == b"2", "2 was not wanted any more"


def test_what_was_never_here_is_told_to_be_not_here(one: Grid) -> None:
    ask(one, 5, errand(5, "PING"))
    ask(one, 5, wanted=(4, 5))
    one.run(3)
    assert told(one) == {4: (error(NOT_SERVING),), 5: (b"+PONG\r\n",)}


def test_message_for_another_stay_or_of_a_stranger_is_for_nobody(one: Grid) -> None:
    origin = one.nodes[C].origin
    one.step(A, Received(origin, Forward(2, 1, (), (errand(1, "INCR n"),))))
    stranger = type(origin)(origin.id, 7, origin.address)
    one.step(A, Received(stranger, Forward(1, 1, (), (errand(1, "INCR n"),))))
    one.run(3)
    assert (told(one), value(one, "n")) == ({}, None)


def test_errand_without_commands_is_nothing(one: Grid) -> None:
    ask(one, 1, errand(1))
    one.run(3)
    assert told(one) == {}


def test_what_waits_for_a_key_is_taken_back_by_the_next_message(one: Grid) -> None:
    ask(one, 1, errand(1, "BLPOP list 0"))
    one.run(3)
    assert one.messages(Forwarded, to=C)[-1].waiting == (1,)
    ask(one, 1, wanted=(1,))
    assert one.nodes[A].data.plane.waiting
    ask(one, 1)
    assert not one.nodes[A].data.plane.waiting


def test_nobody_takes_an_element_for_a_member_that_is_silent(one: Grid) -> None:
    ask(one, 2, errand(1, "BLPOP list 0"), errand(2, "SET k v", "BLPOP list 0"))
    one.run(6_000)
    assert len(one.nodes[A].data.plane.waiting) == 1, "what is begun is not undone"
    told(one)
    ask(one, 2, wanted=(1, 2))
    one.run(3)
    assert told(one) == {1: (error(NOT_SERVING),)}


def test_member_that_has_gone_is_forgotten(one: Grid) -> None:
    ask(one, 2, errand(1, "BLPOP list 0"), errand(2, "GET k"))
    assert one.nodes[A].front.guests.books
    one.crash(C)
    one.confirm_dead(C)
    one.run(1_000)
    assert not one.nodes[A].front.guests.books
    assert not one.nodes[A].data.plane.waiting


def test_large_replies_come_in_several_messages(one: Grid) -> None:
    large = "x" * (MESSAGE_BYTES // 2)
    Client(one, A, 5).call("SET", "k", large)
    ask(one, 3, *(errand(number, "GET k") for number in (1, 2, 3)))
    one.run(3)
    assert [len(each.outcomes) for each in one.messages(Forwarded, to=C)] == [1, 1, 1]


# The sender ---------------------------------------------------------------------------------------


def test_large_commands_go_in_several_messages_and_in_order() -> None:
    cluster = spread()
    keys = keys_at(cluster, B, 1)
    large = "x" * (MESSAGE_BYTES // 2)
    one, two = (Client(cluster, A, number, plain=True) for number in (1, 2))
    one.send(*[("APPEND", keys[0], large)] * 3)
    assert [len(each.errands[0][3]) for each in cluster.messages(Forward)] == [1]
    cluster.run(100)
    assert one.told.split() == [b":%d" % (number * len(large)) for number in (1, 2, 3)]
    cluster.drops = [losing(Forward)]
    for client in (one, two):
        client.send(("SETRANGE", keys[0], 0, large))
    cluster.sent.clear()
    cluster.run(300)
    assert [len(each.errands) for each in cluster.messages(Forward)] == [1, 1]
    assert [each.wanted for each in cluster.messages(Forward)] != [(), ()]


def test_reply_that_is_not_expected_changes_nothing() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    cluster.drops = [losing(Forward)]
    client.send(f"GET {key}")
    (sent,) = cluster.messages(Forward)
    number = sent.errands[0][0]
    origin = cluster.nodes[B].origin
    for message in (
        Forwarded(2, ((number, (b"+no\r\n",)),), ()),
        Forwarded(1, ((number + 1, (b"+no\r\n",)),), (number + 1,)),
        Forwarded(1, ((number, (b"+no\r\n", b"+no\r\n")),), ()),
    ):
        cluster.step(A, Received(origin, message))
    cluster.step(A, Received(cluster.nodes[C].origin, Forwarded(1, ((number, (b"+no\r\n",)),), ())))
    assert client.told == b""
    cluster.drops = []
    cluster.run(500)
    assert client.told == b"$-1\r\n"


def test_what_is_known_to_wait_is_not_sent_again() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    Client(cluster, A, plain=True).send(f"BLPOP {key} 0")
    cluster.run(20)
    cluster.sent.clear()
    cluster.run(2_000)
    assert cluster.messages(Forward)
    assert not any(message.errands for message in cluster.messages(Forward))


def test_nobody_is_woken_for_what_is_done() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client, waiting = (Client(cluster, A, number, plain=True) for number in (1, 2))
    waiting.send(f"BLPOP {key} 0")
    cluster.run(10)
    assert client.call("RPUSH", key, "v") == b":1\r\n"
    cluster.run(6_000)
    assert waiting.told.endswith(b"$1\r\nv\r\n")
    for member, name in ((A, LOOK_AFTER_ERRANDS), (B, LOOK_AFTER_GUESTS)):
        assert not cluster.nodes[member].context.timers.running(name)


def test_own_new_stay_gives_up_what_the_last_one_sent() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client, waiting = Client(cluster, A, plain=True), Client(cluster, B, 2, plain=True)
    here = keys_at(cluster, A, 1)[0]
    waiting.send(f"BLPOP {here} 0")
    client.send(f"BLPOP {key} 0")
    cluster.run(10)
    cluster.nodes[A].front.reset()
    cluster.run(100)
    assert client.told.startswith(b"-UNKNOWNOUTCOME ")


def test_client_that_goes_takes_everything_back() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    errands = cluster.nodes[A].front.errands
    for _ in range(2):
        client.send(f"SET {key} 1")
        client.close()
        cluster.run(300)
    assert not any(peer.open for peer in errands.peers.values())
    assert all(peer.settled for peer in errands.peers.values())


def test_client_that_goes_while_its_command_waits_to_be_sent_again() -> None:
    one = grid(A, None, None)
    client = Client(one, C, plain=True)
    one.drops = [lambda sender, _, message: sender == A and isinstance(message, NewView)]
    one.place(None, None, None)
    one.drops = []
    client.send("MGET k l", "PING")
    one.run(5)
    client.close()
    one.run(6_000)
    assert client.told == b""


@pytest.mark.parametrize("patience", [5_000, 400])
def test_what_is_refused_waits_for_the_next_owner_as_long_as_it_may(patience: int) -> None:
    one = grid(A, None, None, operation_timeout_ms=patience)
    client = Client(one, C, plain=True)
    one.drops = [losing(Forward)]
    client.send("SET k v", "SET k w", "PING")
    one.decide(None, B, None)
    one.run(50)
    one.drops = []
    one.run(300)
    assert client.told == b""
    one.run(100)
    if patience > 400:
        one.place(B, None, None)
        one.run(200)
        assert (client.told, one.value(B, "k")) == (b"+OK\r\n+OK\r\n+PONG\r\n", b"w")
    else:
        assert client.told == error(NO_OWNER) * 2 + b"+PONG\r\n"


def test_parts_of_a_command_that_are_too_large_together_go_one_by_one() -> None:
    cluster = spread()
    keys = keys_at(cluster, B, 2)
    large = "x" * (MESSAGE_BYTES * 2 // 3)
    client = Client(cluster, A, plain=True)
    client.send(("MSET", keys[0], large, keys[1], large))
    cluster.run(100)
    assert client.told == b"+OK\r\n"


def test_command_over_several_members_follows_what_is_under_way() -> None:
    cluster = spread()
    ((here,), (there,)) = (keys_at(cluster, each, 1) for each in (A, B))
    client = Client(cluster, A, plain=True)
    told = client.ask(f"SET {there} 1", f"MGET {here} {there}", f"SET {there} 2")
    assert told == b"+OK\r\n*2\r\n$-1\r\n$1\r\n1\r\n+OK\r\n"


def test_owner_judges_what_is_wrong_with_a_wait() -> None:
    cluster = spread()
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, A, plain=True)
    assert client.call("BLPOP", key, "soon").startswith(b"-ERR timeout is not a float")
    assert client.call("HOLDFAST.LOCK", key, 100, "WAIT", "x").startswith(b"-ERR ")
    assert client.call("HOLDFAST.LOCK", key, 100, "WAIT", 0) == b":1\r\n"


def test_reply_to_a_guest_that_has_gone_is_for_nobody(one: Grid) -> None:
    one.nodes[A].front.guests.replied(-99, [b"+OK\r\n"])
    one.nodes[A].front.close(99)
    assert told(one) == {}


class Wild(Cluster):
    """A network that loses, doubles and delays what members ask one another."""

    random = Random(0)

    def _send(self, sender: MemberId, effect: Send) -> None:
        if not isinstance(effect.message, Forward | Forwarded):
            super()._send(sender, effect)
            return
        for node in self.nodes.values():
            if node.me.address == effect.to:
                origin = self.nodes[sender].origin
                for _ in range(self.random.choice((0, 1, 1, 1, 2, 3))):
                    after = self.random.choice((1, 1, 2, 5, 30, 300))
                    self._later(after, node.me.id, Received(origin, effect.message))


@pytest.mark.parametrize("seed", range(6))
def test_every_write_is_done_once_on_any_network(seed: int) -> None:
    cluster = Wild(A, B, C, operation_timeout_ms=60_000)
    cluster.random = Random(seed)
    cluster.form()
    clients = [Client(cluster, each, at, plain=True) for at, each in enumerate((A, B, C, A, B), 1)]
    counters = [f"n{number}" for number in range(5)]
    order: dict[int, list[bytes]] = {client.number: [] for client in clients}
    for _ in range(12):
        for client in clients:
            client.send(*(f"INCR {key}" for key in counters), "DBSIZE")
        cluster.run_until(lambda: all(c.told.count(b"\r\n") == 6 for c in clients), 200_000)
        for client in clients:
            order[client.number].append(client.told)
    replies = [told.split(b"\r\n") for each in order.values() for told in each]
    for at in range(len(counters)):
        counted = sorted(int(lines[at][1:]) for lines in replies)
        assert counted == list(range(1, 12 * len(clients) + 1))
    for each in order.values():
        firsts = [int(told.split(b"\r\n")[0][1:]) for told in each]
        assert firsts == sorted(firsts)


@pytest.mark.parametrize("seed", range(4))
def test_elements_are_taken_once_on_any_network(seed: int) -> None:
    cluster = Wild(A, B, C)
    cluster.random = Random(seed)
    cluster.form()
    takers = [Client(cluster, each, at, plain=True) for at, each in enumerate((A, B, C), 1)]
    for client in takers:
        client.send("BLPOP list 0")
    cluster.run(3_000)
    owner = cluster.nodes[A].table.rows[slot_of(b"list") * 6 >> 14].owner
    assert owner is not None
    pusher = Client(cluster, owner, 9)
    for number in range(3):
        pusher.call("RPUSH", "list", number)
    cluster.run_until(lambda: all(client.told for client in takers))
    assert sorted(client.told.split()[-1] for client in takers) == [b"0", b"1", b"2"]


def test_cut_off_member_answers_in_time() -> None:
    cluster = spread(operation_timeout_ms=1_000)
    (key,) = keys_at(cluster, B, 1)
    client = Client(cluster, C, plain=True)
    cluster.drops = [cut([C])]
    client.send(f"SET {key} v", "PING")
    cluster.run(1_100)
    assert client.told.startswith(b"-UNKNOWNOUTCOME ")
    client.send(f"GET {key}", "PING")
    cluster.run(1_100)
    assert client.told.startswith(b"-TRYAGAIN ")
