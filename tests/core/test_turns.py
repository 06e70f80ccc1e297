"""Messages of one turn: which are looked at together, and that it comes to the same."""

from __future__ import annotations

from holdfast.core.data_messages import BackupAck, SyncEnd
from holdfast.core.events import Event, Gathered, Received, Woke
from holdfast.core.messages import (
    Message,
    NewView,
    Publication,
    PublicationAck,
)
from holdfast.core.turns import in_turns
from holdfast.ids import Millis, Term
from tests.core.harness import A, B, C, Cluster, member, origin_of, partition, row, view_of

QUIET = BackupAck(1, 1, ())
END = SyncEnd(1, partition(0))
CONFIRMED = PublicationAck(Term(1), 1)
VIEW = NewView(view_of(member(A), member(B)))


def received(*messages: Message) -> list[Event]:
    """From B."""
    return [Received(origin_of(member(B)), message) for message in messages]


def test_neighbours_about_single_partitions_are_looked_at_together() -> None:
    end, ack, quiet = received(END, CONFIRMED, QUIET)
    (found,) = in_turns([end, quiet, ack])
    assert found == Gathered((end, quiet, ack))  # type: ignore[arg-type]


def test_whatever_is_not_about_single_partitions_has_a_step_of_its_own_in_its_place() -> None:
    end, view, ack = received(END, VIEW, CONFIRMED)
    woke = Woke()
    assert in_turns([end, view, ack, woke, end, ack]) == [
        end,
        view,
        ack,
        woke,
        Gathered((end, ack)),  # type: ignore[arg-type]
    ]


def test_messages_of_the_data_plane_alone_stay_alone() -> None:
    """Their steps are quicker than one look of all machines."""
    quiet = received(QUIET, QUIET)
    assert in_turns(quiet) == quiet
    assert in_turns([]) == []


def test_a_turn_comes_to_what_its_messages_come_to_alone() -> None:
    tables = []
    for together in (False, True):
        cluster = Cluster(A, B, C)
        cluster.form()
        node, view = cluster.nodes[B], cluster.nodes[B].view
        assert view is not None
        rows = [row(number, 9, B, C, None, reign=7) for number in range(2)]
        events = [
            Received(origin_of(member(A)), Publication(view.term, 70 + number, (each,), ()))
            for number, each in enumerate(rows)
        ]
        effects = []
        for event in in_turns(events) if together else events:
            effects += node.step(event, Millis(cluster.now))
        acks = [each for each in effects if "PublicationAck" in repr(each)]
        tables.append((node.table.rows, len(acks)))
    assert tables[0] == tables[1]
    assert tables[0][1] == 2


def test_a_message_of_a_turn_that_fits_nothing_is_left_out_and_told() -> None:
    cluster = Cluster(A, B, C)
    cluster.form()
    node, view = cluster.nodes[B], cluster.nodes[B].view
    assert view is not None
    good = Publication(view.term, 70, (row(0, 9, B, C, None, reign=7),), ())
    bad = Publication(view.term, 71, (row(10_000, 9, B, C, None, reign=7),), ())
    some = tuple(Received(origin_of(member(A)), each) for each in (bad, good))
    node.step(Gathered(some), Millis(cluster.now))
    assert [str(each)[:19] for each in node.refused] == ["Publication from A:"]
    assert node.table.row(partition(0)).version == 9
    node.step(Gathered(some[1:]), Millis(cluster.now))
    assert node.refused == []
