"""A member's part in migrations as the owner, and what data it keeps and drops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.messages import (
    Ask,
    CommitRequest,
    Completed,
    Fragment,
    FragmentAck,
    FragmentPush,
    Grant,
    Migration,
    MigrationId,
    MigrationReady,
    MigrationRequest,
    NewView,
    Outcome,
    Prepare,
    Publication,
)
from holdfast.core.serving import Serving
from holdfast.ids import Millis, Term, Version
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    D,
    address_of,
    follower,
    partition,
    request_of,
    row,
    view_of,
)
from tests.core.migrating import (
    GIVE,
    NEXT_REIGN,
    REIGN,
    TAKE,
    P,
    a,
    b,
    c,
    lacking,
    migration,
    move,
    owning,
    published,
    ready,
)

# The owner ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stale_read_disabled", "handed_over"), [(True, Serving.NONE), (False, Serving.READS)]
)
def test_owner_names_the_data_holds_back_writes_and_says_ready(
    stale_read_disabled: bool, handed_over: Serving
) -> None:
    cluster, node = owning(stale_read_disabled=stale_read_disabled)
    cluster.grant()
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    (push,) = cluster.messages(FragmentPush, to=C)
    assert push == FragmentPush(GIVE, (), Fragment(0, 0))
    assert node.serving(P, Millis(cluster.now)) is Serving.ALL
    assert ready(cluster) is None
    cluster.inject(c, B, FragmentAck(GIVE.id, P, ""))
    assert ready(cluster) == ""
    assert node.serving(P, Millis(cluster.now)) is handed_over


KEPT = 2_000
"""For so long a member has what it gave up."""


def test_owner_that_writes_on_holds_writes_back_only_for_the_last_of_them() -> None:
    """The destination has what there was when it answered, and not what came meanwhile."""
    cluster, node = owning()
    cluster.grant()
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    cluster.command(B, "SET k2 1")  # of partition 0
    now = Millis(cluster.now)
    assert node.serving(P, now) is Serving.ALL
    cluster.inject(c, B, FragmentAck(GIVE.id, P, ""))
    assert node.serving(P, now) is Serving.READS
    assert ready(cluster) is None
    last = cluster.messages(FragmentPush, to=C)[-1]
    assert last.closing
    (stand,) = last.standing
    cluster.inject(c, B, FragmentAck(GIVE.id, P, "", ((stand.name, stand.stand.counter),)))
    assert ready(cluster) == ""
    assert node.serving(P, now) is Serving.NONE


def test_owner_of_a_blocking_migration_holds_writes_back_from_its_beginning() -> None:
    """Seed 000: the partition is migrating from the request on. Nothing comes meanwhile, so the
    first answer of the destination is the last."""
    cluster, node = owning(migration_blocking=True)
    cluster.grant()
    cluster.command(B, "SET k2 1")  # of partition 0
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    (push,) = cluster.messages(FragmentPush, to=C)
    assert push.closing
    assert node.serving(P, Millis(cluster.now)) is Serving.READS
    (stand,) = push.standing
    cluster.inject(c, B, FragmentAck(GIVE.id, P, "", ((stand.name, stand.stand.counter),)))
    assert ready(cluster) == ""
    assert len(cluster.messages(FragmentPush, to=C)) == 1


def test_owner_repeats_data_that_is_not_confirmed_and_its_word_when_asked_again() -> None:
    cluster, _ = owning()
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    assert len(cluster.messages(FragmentPush)) == 1
    cluster.run(600)
    assert len(cluster.messages(FragmentPush)) == 2
    cluster.inject(c, B, FragmentAck(GIVE.id, P, ""))
    cluster.run(600)
    assert len(cluster.messages(FragmentPush)) == 2
    before = len(cluster.messages(MigrationReady))
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    assert len(cluster.messages(MigrationReady)) == before + 1


def test_owner_waits_for_every_destination() -> None:
    cluster, _ = owning()
    two = migration((B, None, None), (C, A, None), move(B, C), move(None, A, 1))
    cluster.inject(a, B, MigrationRequest(two, ()))
    cluster.inject(a, B, FragmentAck(two.id, P, ""))
    assert ready(cluster) is None
    cluster.inject(c, B, FragmentAck(two.id, P, ""))
    assert ready(cluster) == ""


def test_refusal_of_a_destination_reaches_the_master() -> None:
    cluster, _ = owning()
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    cluster.inject(c, B, FragmentAck(GIVE.id, P, "my version is 9"))
    assert ready(cluster) == "C: my version is 9"


@pytest.mark.parametrize(
    "ack",
    [
        FragmentAck(MigrationId(Term(1), 99), P, ""),
        FragmentAck(GIVE.id, partition(1), ""),
    ],
)
def test_confirmation_of_another_migration_counts_for_nothing(ack: FragmentAck) -> None:
    cluster, _ = owning()
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    cluster.inject(c, B, ack)
    assert ready(cluster) is None


def test_owner_that_only_changes_its_own_index_sends_nothing() -> None:
    cluster = follower()
    published(cluster, row(0, 3, B, C, None, reign=REIGN))
    clear = migration((B, C, None), (B, None, None), move(C, None, 1))
    cluster.inject(a, B, MigrationRequest(clear, ()))
    assert cluster.messages(FragmentPush) == []
    assert ready(cluster) == ""


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (replace(GIVE, version_before=Version(2)), "my version is 3, the migration's 2"),
        (replace(GIVE, before=(C, None, None)), "I am not the owner"),
    ],
)
def test_owner_refuses_what_does_not_fit_its_table(request_: Migration, reason: str) -> None:
    cluster, node = owning()
    cluster.inject(a, B, MigrationRequest(request_, ()))
    assert ready(cluster) == reason
    assert node.active_migrations() == ()


def test_owner_without_the_data_refuses() -> None:
    cluster, node = owning()
    node.context.drop(P)
    node.data.drop(P)
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    assert ready(cluster) == "the data is not here, or not mine yet"


def test_participant_with_an_open_migration_refuses_another_of_the_partition() -> None:
    cluster, _ = owning()
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    other = replace(GIVE, id=MigrationId(Term(1), 2))
    cluster.inject(a, B, MigrationRequest(other, ()))
    assert ready(cluster) == "I do not know the end of an earlier migration"


def test_locked_participant_refuses() -> None:
    cluster, node = owning()
    stamp = node.table.stamp
    cluster.inject(a, B, Prepare("q", Term(1), Version(1), stamp, Millis(500)))
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    assert ready(cluster) == "a state change is under way"


def test_member_with_an_open_migration_does_not_lock() -> None:
    cluster, node = owning()
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    stamp = node.table.stamp
    cluster.inject(a, B, Prepare("q", Term(1), Version(1), stamp, Millis(500)))
    assert node.locking.change is None


def test_request_of_a_replaced_master_is_not_served() -> None:
    cluster, node = owning()
    old = replace(GIVE, id=MigrationId(Term(0), 1))
    cluster.inject(a, B, MigrationRequest(old, ()))
    cluster.inject(a, B, CommitRequest(old))
    assert node.active_migrations() == ()
    assert ready(cluster) is None


def test_participant_first_catches_up_with_completed_migrations() -> None:
    cluster, node = lacking()
    first = Completed(TAKE, Outcome.SUCCESS)
    failed = Completed(replace(GIVE, version_before=Version(4)), Outcome.FAILED)
    elsewhere = Completed(replace(GIVE, partition=partition(1)), Outcome.SUCCESS)
    stale = Completed(replace(GIVE, version_before=Version(1)), Outcome.SUCCESS)
    now = replace(GIVE, version_before=Version(6))
    cluster.inject(a, B, MigrationRequest(now, (elsewhere, stale, first, failed)))
    assert node.table.row(P) == row(0, 6, B, None, None, reign=NEXT_REIGN)
    assert node.active_migrations() == (now,)


# What is kept -------------------------------------------------------------------------------------


def test_source_learns_the_end_from_the_publication_and_drops_its_data_then() -> None:
    cluster, node = owning(backup_count=0)
    cluster.inject(a, B, MigrationRequest(GIVE, ()))
    cluster.inject(c, B, FragmentAck(GIVE.id, P, ""))
    assert P in node.fragments
    published(cluster, row(0, 4, C, None, None), Completed(GIVE, Outcome.SUCCESS))
    assert node.active_migrations() == ()
    cluster.run(KEPT - 1)
    assert P in node.fragments
    cluster.run(1)
    assert P not in node.fragments


def test_who_is_given_what_it_gave_up_just_now_has_it_still() -> None:
    """A plan that takes an index from a member, and gives it a hotter one with its next step, as
    seed 002 has it in its last example."""
    cluster, node = owning(backup_count=0)
    held = node.fragments[P]
    published(cluster, row(0, 4, C, None, None))
    cluster.run(KEPT - 1)
    published(cluster, row(0, 5, C, B, None))
    cluster.run(2 * KEPT)
    assert node.fragments[P] == held
    published(cluster, row(0, 6, C, None, None))
    cluster.run(KEPT - 1)
    assert P in node.fragments
    cluster.run(1)
    assert P not in node.fragments


def test_data_is_kept_until_the_row_has_the_copies_that_were_promised() -> None:
    cluster, node = owning(backup_count=1)
    published(cluster, row(0, 4, C, None, None))
    cluster.run(2 * KEPT)
    assert P in node.fragments
    published(cluster, row(0, 5, C, A, None))
    cluster.run(KEPT)
    assert P not in node.fragments


def test_promise_is_what_the_members_can_hold() -> None:
    cluster, node = owning(backup_count=2)
    cluster.inject(a, B, NewView(view_of(a, b, version=2)))
    published(cluster, row(0, 4, A, None, None))
    cluster.run(2 * KEPT)
    assert P in node.fragments
    published(cluster, row(0, 5, A, D, None))
    cluster.run(KEPT)
    assert P not in node.fragments


def test_nothing_is_dropped_for_a_row_that_nobody_holds() -> None:
    cluster, node = owning(backup_count=0)
    published(cluster, row(0, 4, None, None, None))
    assert P in node.fragments


def test_completed_migrations_are_forgotten_when_everyone_knows_and_i_am_served() -> None:
    cluster, node = lacking()
    done = Completed(TAKE, Outcome.FAILED)
    published(cluster, row(0, 5, C, A, None), done)
    assert node.participation.completed == {P: (done,)}
    for quiet, lease in ((True, 0), (False, 1), (True, 1)):
        sent_at = Millis(cluster.now if lease else 0)
        version, now = Version(1), Millis(cluster.now)
        if not lease:
            cluster.run(2_500)
            now = Millis(cluster.now)
        cluster.inject(a, B, Grant(Term(1), version, sent_at, now, serve=True, quiet=quiet))
        assert (node.participation.completed == {}) is (quiet and bool(lease))


def test_row_without_completed_entries_forgets_those_before_it() -> None:
    cluster, node = lacking()
    published(cluster, row(0, 5, C, A, None), Completed(TAKE, Outcome.FAILED))
    published(cluster, row(0, 6, C, None, None))
    assert node.participation.completed == {}


# Whole clusters -----------------------------------------------------------------------------------


def test_after_a_join_everyone_holds_exactly_what_the_table_says() -> None:
    cluster = Cluster(A, B)
    cluster.form()
    cluster.start(c, initial=(address_of(A),))
    master = cluster.settle()
    for node in cluster.nodes.values():
        mine = [r.partition for r in master.table.rows if node.me.id in r.replicas]
        assert sorted(node.fragments) == mine


def test_source_that_does_not_hear_the_end_is_told_again() -> None:
    cluster = Cluster(A, B)
    cluster.form()
    cluster.drops = [lambda _, to, m: to == address_of(B) and isinstance(m, Publication)]
    cluster.start(c, initial=(address_of(A),))
    cluster.run(3_000)
    cluster.drops = []
    cluster.settle()
    cluster.ask(A, request_of(Ask.LEAVE))
    cluster.run_until(lambda: cluster.stops == [A])
