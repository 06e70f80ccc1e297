"""Who has which row: the publisher against members that a test plays."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from holdfast.core.config import Config
from holdfast.core.context import Context
from holdfast.core.data.service import DataService
from holdfast.core.effects import Continue, Persist, RowsRecord, Send
from holdfast.core.membership import Membership
from holdfast.core.messages import (
    Completed,
    Message,
    Migration,
    MigrationId,
    Outcome,
    Publication,
    PublicationAck,
    Versions,
    VersionsRequest,
)
from holdfast.core.participation import Participation
from holdfast.core.publication import ROWS_MAX, Publisher, displaced
from holdfast.core.serving import Serving
from holdfast.core.table import Row
from holdfast.ids import Address, MemberId, Millis, PartitionId, Replicas, Term, Version
from tests.core.harness import A, B, C, D, address_of, member, partition, row, view_of

TERM = Term(1)
PARTITIONS = 4


def publisher_of(partitions: int = PARTITIONS, *, persistent: bool = False) -> Publisher:
    """A is the master; B and C are subscribed and hold what A holds."""
    context = Context(
        Config(partition_count=partitions, replica_count=2), member(A, persistent=persistent)
    )
    context.view = view_of(member(A), member(B), member(C))
    membership = Membership(context)
    participation = Participation(context, membership)
    DataService(
        context, membership, participation, lambda *_: Serving.ALL, lambda: Millis(0), Random(1)
    )
    publisher = Publisher(context, participation)
    for other in (B, C):
        publisher.subscribe(other, context.table.versions)
    return publisher


def sent(publisher: Publisher) -> list[tuple[Address, Message]]:
    """What went out since the last look."""
    effects = publisher.context.outbox.take()
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def publications(publisher: Publisher, to: MemberId) -> list[Publication]:
    publisher.flush(more=False)
    return [
        message
        for address, message in sent(publisher)
        if address == address_of(to) and isinstance(message, Publication)
    ]


def pass_time(publisher: Publisher) -> None:
    context = publisher.context
    context.now = Millis(context.now + context.config.retry_ms)


def ended(number: int, version: int) -> Completed:
    before: Replicas = (A, None)
    migration = Migration(
        MigrationId(TERM, 1), PartitionId(number), Version(version), (), before, (A, B)
    )
    return Completed(migration, Outcome.SUCCESS)


def moved(number: int, *, before: Replicas, after: Replicas) -> Completed:
    """A migration that has succeeded."""
    version = Version(1)
    migration = Migration(MigrationId(TERM, 1), PartitionId(number), version, (), before, after)
    return Completed(migration, Outcome.SUCCESS)


def test_what_changed_goes_to_everyone_once_and_nothing_else_does() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)])
    assert not publisher.is_quiet()
    publisher.flush(more=False)
    out = sent(publisher)
    assert [address for address, _ in out] == [address_of(B), address_of(C)]
    assert all(isinstance(m, Publication) and m.rows == (row(1, 1, A, B),) for _, m in out)
    publisher.flush(more=False)
    assert sent(publisher) == []


def test_rows_of_migrations_that_end_together_go_out_together() -> None:
    """What has come with the first end is taken before anyone is told of it."""
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)])
    publisher.flush(more=True)
    publisher.change([row(2, 1, A, B)])
    publisher.flush(more=True)
    effects = publisher.context.outbox.take()
    assert [type(effect) for effect in effects if not isinstance(effect, Persist)] == [Continue]
    publisher.on_continued()
    publisher.flush(more=True)
    rows = [m.rows for _, m in sent(publisher) if isinstance(m, Publication)]
    assert rows == [(row(1, 1, A, B), row(2, 1, A, B))] * 2
    publisher.flush(more=True)
    publisher.on_continued()
    publisher.flush(more=True)
    assert publisher.context.outbox.take() == []


def test_unconfirmed_rows_are_repeated_until_they_are_confirmed() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B), row(2, 1, B, A)])
    (first,) = publications(publisher, B)
    pass_time(publisher)
    (again,) = publications(publisher, B)
    assert again.rows == first.rows
    assert again.sequence > first.sequence
    publisher.on_ack(B, PublicationAck(TERM, again.sequence))
    pass_time(publisher)
    assert publications(publisher, B) == []
    assert not publisher.is_quiet()


def test_confirmation_of_an_obsolete_sending_confirms_nothing() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)])
    (first,) = publications(publisher, B)
    pass_time(publisher)
    publications(publisher, B)
    publisher.on_ack(B, PublicationAck(TERM, first.sequence))
    publisher.on_ack(B, PublicationAck(TERM, 99))
    pass_time(publisher)
    assert publications(publisher, B) != []


def test_confirmation_of_a_row_that_changed_again_does_not_count() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)])
    (first,) = publications(publisher, B)
    publisher.change([row(1, 2, B, A)])
    publisher.on_ack(B, PublicationAck(TERM, first.sequence))
    (second,) = publications(publisher, B)
    assert second.rows == (row(1, 2, B, A),)
    publisher.on_ack(B, PublicationAck(TERM, second.sequence))
    pass_time(publisher)
    assert publications(publisher, B) == []


def confirm(publisher: Publisher, who: MemberId) -> list[Row]:
    """A member confirms all that it is sent now, or again; what that was."""
    pass_time(publisher)
    told = publications(publisher, who)
    for message in told:
        publisher.on_ack(who, PublicationAck(TERM, message.sequence))
    return [row for message in told for row in message.rows]


def leave(publisher: Publisher, *gone: MemberId, sealed: bool = True) -> None:
    """These members are taken out of the view."""
    view = publisher.context.view
    assert view is not None
    left = tuple(each for each in view.members if each.id not in gone)
    base = () if sealed else view.voters
    publisher.context.view = replace(view, members=left, base=base)
    publisher.forget(gone)
    publisher.wait_no_more()


def test_the_owner_of_what_begins_hears_last() -> None:
    """A cut may leave it and the master alone with what they know. A repeat keeps the order."""
    publisher = publisher_of()
    served_last = {partition(1)}
    publisher.change([row(1, 1, B, C), row(2, 1, B, C)], after_all=served_last)
    publisher.flush(more=False)
    first = {to: m.rows for to, m in sent(publisher) if isinstance(m, Publication)}
    assert first == {
        address_of(B): (row(2, 1, B, C),),
        address_of(C): (row(1, 1, B, C), row(2, 1, B, C)),
    }
    pass_time(publisher)
    (to_c,) = (m for m in publications(publisher, C) if row(1, 1, B, C) in m.rows)
    publisher.on_ack(C, PublicationAck(TERM, to_c.sequence))
    assert publisher.holds_back(partition(1)), "nobody has told B yet"
    assert row(1, 1, B, C) in confirm(publisher, B)
    assert not publisher.holds_back(partition(1))


def test_the_master_holds_back_what_it_gave_itself_until_nobody_lags() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)], after_all={partition(1)})
    confirm(publisher, B)
    assert publisher.participation.unpublished == {partition(1): 1}, "C may be who follows A"
    leave(publisher, C)
    assert publisher.participation.unpublished == {}
    assert not publisher.holds_back(partition(1))


def test_what_the_master_owns_is_in_its_files_when_it_goes_by_it() -> None:
    """It had promoted itself at a cold index, and crashed before others knew. Its files said that
    it was the owner: so it led, and did not say what was missing [seed 319, mix coming_back]."""
    publisher = publisher_of(persistent=True)
    kept: list[Row] = []

    def note() -> None:
        for effect in publisher.context.outbox.take():
            if isinstance(effect, Persist) and isinstance(effect.record, RowsRecord):
                kept.extend(effect.record.rows)

    publisher.change([row(1, 1, A, B), row(2, 1, B, A)], after_all={partition(1)})
    note()
    assert kept == [row(2, 1, B, A)]
    leave(publisher, B, C)
    note()
    assert kept == [row(2, 1, B, A), row(1, 1, A, B)]


def test_an_owner_hears_after_whom_its_row_displaces() -> None:
    """C was the backup. Were B and the master gone, it would lead without a word of what it lacks:
    B would have gone on without it [seed 2031 of the simulator]."""
    publisher = publisher_of()
    publisher.context.table.set(row(1, 1, B, C))
    publisher.change([row(1, 2, B, A)], [moved(1, before=(B, C), after=(B, A))])
    assert confirm(publisher, B) == []
    assert publisher.holds_back(partition(1))
    assert confirm(publisher, C) == [row(1, 2, B, A)]
    assert confirm(publisher, B) == [row(1, 2, B, A)]
    assert not publisher.holds_back(partition(1))


def test_the_master_goes_on_as_an_owner_after_whom_its_row_displaces() -> None:
    """It has taken the row already where it is the migration's destination."""
    publisher = publisher_of()
    publisher.context.table.set(row(1, 2, A, B))
    publisher.change([row(1, 2, A, B)], [moved(1, before=(C, B), after=(A, B))])
    assert partition(1) in publisher.participation.unpublished
    confirm(publisher, B)
    assert partition(1) in publisher.participation.unpublished
    confirm(publisher, C)
    assert partition(1) not in publisher.participation.unpublished
    assert not publisher.holds_back(partition(1))


def test_whom_a_row_displaces_is_waited_for_until_it_has_surely_left() -> None:
    """A view that is not sealed may be lost with the master: C would be listed again."""
    publisher = publisher_of()
    publisher.context.table.set(row(1, 1, A, C))
    publisher.change([row(1, 2, A, B)])
    leave(publisher, C, sealed=False)
    assert partition(1) in publisher.participation.unpublished
    leave(publisher, C)
    assert partition(1) not in publisher.participation.unpublished


@pytest.mark.parametrize(
    ("before", "after", "who"),
    [
        ((A, B, C), (A, B, C), ()),
        ((A, B, None), (A, B, C), ()),
        ((A, B, C), (A, C, None), (B,)),
        ((A, B, C), (B, A, C), (A,)),
        ((A, B, None), (A, C, B), (B,)),
        ((None, B, C), (B, C, None), ()),
    ],
)
def test_who_is_displaced(before: Replicas, after: Replicas, who: tuple[MemberId, ...]) -> None:
    assert displaced(before, after) == who


def test_what_somebody_lacks_when_a_mastership_begins_is_known_to_all_before_its_owner() -> None:
    publisher = publisher_of()
    table = publisher.context.table
    for changed in (row(1, 2, A, B), row(2, 2, B, C)):
        table.set(changed)
    publisher.begin()
    publisher.subscribe(B, [*table.versions[:2], -1, -1])
    publisher.subscribe(C, [-1, -1, -1, -1])
    publisher.hold_what_is_lacking()
    publisher.publish_here(table.rows, ())
    assert publisher.participation.unpublished == {partition(1): 2}
    assert confirm(publisher, B) == []
    assert confirm(publisher, C) == [row(1, 2, A, B), row(2, 2, B, C)]
    assert confirm(publisher, B) == [row(2, 2, B, C)]
    assert publisher.participation.unpublished == {}


def test_an_owner_that_knew_its_row_when_a_mastership_began_is_waited_for_no_longer() -> None:
    """It may ask for another reign, as it came back from its files [seed 8, mix losing_power]."""
    publisher = publisher_of()
    table = publisher.context.table
    table.set(row(1, 2, B, C))
    publisher.begin()
    publisher.subscribe(B, table.versions)
    publisher.subscribe(C, [-1, -1, -1, -1])
    publisher.hold_what_is_lacking()
    assert publisher.holds_back(partition(1))
    confirm(publisher, C)
    assert not publisher.holds_back(partition(1))


def test_a_row_that_changes_again_is_still_to_be_heard_first_by_the_same() -> None:
    publisher = publisher_of()
    publisher.context.table.set(row(1, 1, B, C))
    publisher.change([row(1, 2, B, A)])
    (late,) = publications(publisher, C)
    publisher.change([row(1, 3, B, A)])
    publisher.on_ack(C, PublicationAck(TERM, late.sequence))
    assert confirm(publisher, B) == []
    assert confirm(publisher, C) == [row(1, 3, B, A)]
    assert confirm(publisher, B) == [row(1, 3, B, A)]


def test_a_master_that_is_alone_holds_nothing_back() -> None:
    publisher = publisher_of()
    leave(publisher, B, C)
    publisher.change([row(1, 1, A, None)], after_all={partition(1)})
    assert not publisher.holds_back(partition(1))


def test_completed_migration_travels_with_its_row_and_is_forgotten_when_all_have_it() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)], [ended(1, 0)])
    publisher.flush(more=False)
    out = [message for _, message in sent(publisher) if isinstance(message, Publication)]
    assert [message.completed for message in out] == [(ended(1, 0),)] * 2
    publisher.on_ack(B, PublicationAck(TERM, out[0].sequence))
    assert publisher.completed == {partition(1): (ended(1, 0),)}
    publisher.on_ack(C, PublicationAck(TERM, out[1].sequence))
    assert publisher.completed == {}
    assert publisher.is_quiet()


def test_member_that_left_holds_nothing_up() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)], [ended(1, 0)])
    (to_b,) = publications(publisher, B)
    publisher.on_ack(B, PublicationAck(TERM, to_b.sequence))
    publisher.forget([C, D])
    assert publisher.is_quiet()
    assert publisher.completed == {}
    assert publisher.subscribers == (B,)


def test_stranger_confirms_nothing() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)])
    publisher.on_ack(D, PublicationAck(TERM, 1))
    assert not publisher.is_quiet()


def test_alone_nothing_has_to_be_remembered() -> None:
    publisher = publisher_of()
    publisher.forget([B, C])
    publisher.change([row(1, 1, A, B)], [ended(1, 0)])
    assert publisher.completed == {}
    assert publisher.is_quiet()


def test_member_that_joins_gets_every_row_that_it_lacks() -> None:
    publisher = publisher_of()
    publisher.forget([B, C])
    publisher.change([row(1, 1, A, B), row(2, 5, B, A)])
    publisher.subscribe(B, [-1, 1, 4, -1])
    (message,) = publications(publisher, B)
    assert message.rows == (row(2, 5, B, A),)


def test_row_that_the_master_took_already_is_published_all_the_same() -> None:
    publisher = publisher_of()
    publisher.context.table.set(row(1, 1, A, B))
    publisher.change([row(1, 1, A, B)])
    (message,) = publications(publisher, B)
    assert message.rows == (row(1, 1, A, B),)


def test_end_under_an_earlier_master_is_told_only_while_someone_lacks_the_row() -> None:
    publisher = publisher_of()
    publisher.context.table.set(row(1, 1, A, B))
    publisher.remember(ended(1, 0))
    assert publisher.completed == {}
    publisher.subscribe(B, [-1, -1, -1, -1])
    publisher.remember(ended(1, 0))
    (message,) = publications(publisher, B)
    assert message.completed == (ended(1, 0),)


def test_large_table_goes_in_several_messages() -> None:
    publisher = publisher_of(ROWS_MAX + 1)
    publisher.change([row(n, 1, A, B) for n in range(ROWS_MAX + 1)])
    messages = publications(publisher, B)
    assert [len(message.rows) for message in messages] == [ROWS_MAX, 1]
    for message in messages:
        publisher.on_ack(B, PublicationAck(TERM, message.sequence))
    assert [len(m.rows) for m in publications(publisher, C)] == []


def test_new_mastership_begins_with_nobody() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)], [ended(1, 0)])
    publisher.begin()
    assert publisher.subscribers == ()
    assert publisher.completed == {}
    assert publisher.is_quiet()


# Stamps -------------------------------------------------------------------------------------------


def asked(publisher: Publisher, stamps: dict[MemberId, int]) -> list[Address]:
    publisher.compare_stamps(stamps)
    return [to for to, message in sent(publisher) if isinstance(message, VersionsRequest)]


def test_whoever_differs_although_nothing_is_under_way_is_asked() -> None:
    publisher = publisher_of()
    stamp = publisher.context.table.stamp
    assert asked(publisher, {B: stamp, C: stamp + 1}) == [address_of(C)]
    assert asked(publisher, {B: stamp}) == []


def test_whoever_has_not_confirmed_everything_may_differ() -> None:
    publisher = publisher_of()
    publisher.change([row(1, 1, A, B)])
    assert asked(publisher, {B: 0, C: 0}) == []


@pytest.mark.parametrize("who", [B, D])
def test_member_that_is_ahead_is_told_of(who: MemberId) -> None:
    publisher = publisher_of()
    assert not publisher.on_versions(who, Versions(TERM, (-1, 0, -1, -1)))


def test_member_that_is_behind_gets_what_it_lacks_and_a_stranger_nothing() -> None:
    publisher = publisher_of()
    held: Row = row(1, 1, A, B)
    publisher.context.table.set(held)
    assert publisher.on_versions(D, Versions(TERM, (-1, -1, -1, -1)))
    assert publisher.on_versions(B, Versions(TERM, (-1, -1, -1, -1)))
    publisher.flush(more=False)
    out = [(to, m.rows) for to, m in sent(publisher) if isinstance(m, Publication)]
    assert out == [(address_of(B), (held,))]
