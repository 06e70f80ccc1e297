"""The owner's side: to whom it gives, how much at a time, and when it takes a permit back."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.data.content import digest_of
from holdfast.core.data_messages import (
    BackupFrame,
    Claimed,
    SyncAsk,
    SyncEnd,
    SyncPage,
    SyncPlan,
    SyncPull,
    Way,
)
from holdfast.core.messages import Publication
from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.record import Kind, kind_of
from holdfast.core.stores.settings import NameSettings
from tests.core.data.grid import BOTH, DEFAULT, SMALL, Grid, P, grid, miss, moved, to, ways, write
from tests.core.harness import A, B, C, Cluster, D, member, partition

EMPTY = Claimed(DEFAULT, (0, 0), (0, 0), held=0, digest=b"")
NO_JOURNAL = replace(BOTH, journal_entries=0)
ONE_AT_A_TIME: dict[str, object] = {"syncs_parallel_max": 1, "sync_interval_ms": 1_000}
SOME = replace(EMPTY, held=1, digest=digest_of(Fragment(DEFAULT, BOTH, 0)))
"""A copy that is not sure of itself."""


def owner(**settings: object) -> Grid:
    """A owns the partition, B is its backup, C has nothing."""
    cluster = grid(A, B, None, **settings)
    assert cluster.reply(A, "SET a 1", "SET b 2") == b"+OK\r\n" * 2
    cluster.sent.clear()
    return cluster


def ask(cluster: Grid, *claims: Claimed, number: int = 1, index: int = 1) -> SyncAsk:
    """What a backup asks now."""
    return SyncAsk(number, P, cluster.holding(A).reign, index, claims)


def asked(cluster: Grid, question: SyncAsk) -> list[SyncPlan]:
    """What A answers B."""
    before = len(cluster.messages(SyncPlan))
    cluster.inject(member(B), A, question)
    return cluster.messages(SyncPlan)[before:]


def way(cluster: Grid, claim: Claimed) -> Way:
    (plan,) = asked(cluster, ask(cluster, claim, number=len(cluster.sent) + 1))
    return next(each.way for each in plan.fragments if each.owner.name == DEFAULT)


# Who gets something -------------------------------------------------------------------------------


def test_only_the_owner_gives() -> None:
    cluster = owner()
    cluster.inject(member(A), B, ask(cluster))
    cluster.inject(member(A), C, ask(cluster))
    cluster.inject(member(A), B, replace(ask(cluster), partition=P))
    assert cluster.messages(SyncPlan) == []


def test_only_members_that_the_row_or_a_migration_names_get_anything_at_their_index() -> None:
    cluster = owner()
    assert asked(cluster, ask(cluster, index=2)) == []
    cluster.inject(member(C), A, ask(cluster, index=2))
    cluster.inject(member(D), A, ask(cluster))
    assert cluster.messages(SyncPlan) == []
    assert len(asked(cluster, ask(cluster))) == 1


def test_question_of_another_ownership_is_not_answered() -> None:
    cluster = owner()
    assert asked(cluster, replace(ask(cluster), reign=ask(cluster).reign - 1)) == []


def test_destination_of_a_migration_is_given_everything_before_the_row_names_it() -> None:
    cluster = owner(unnamed=replace(BOTH, journal_entries=0))
    cluster.migrate(moved(None, 2, C))
    cluster.run(50)
    assert ways(cluster, C) == [Way.WHOLE]
    assert cluster.content(C)[DEFAULT] == cluster.content(A)[DEFAULT]


def test_destination_that_has_little_is_sent_everything_as_well() -> None:
    """It had to wait for its turn, and has what was written meanwhile: to compare that with all
    that is here took more than to send it."""
    cluster = owner(unnamed=replace(BOTH, journal_entries=0), syncs_parallel_max=0)
    write(cluster, *(f"key{number}" for number in range(20)))
    cluster.migrate(moved(None, 2, C))
    cluster.run(5)
    write(cluster, "a", "new")
    for node in cluster.nodes.values():
        node.context.config = replace(node.context.config, syncs_parallel_max=1)
    cluster.run(1_000)
    (asked_at,) = (each for each in cluster.messages(SyncAsk) if not each.fragments[0].empty)
    assert asked_at.fragments[0].digest == b""
    assert ways(cluster, C) == [Way.WHOLE]
    assert cluster.content(C)[DEFAULT] == cluster.content(A)[DEFAULT]


def test_destination_that_gave_it_up_just_now_gets_what_changed() -> None:
    cluster = grid(A, B, C)
    write(cluster, *(f"key{number}" for number in range(20)))
    cluster.place(A, B, None)
    cluster.run(50)
    write(cluster, "key3", "new")
    cluster.sent.clear()
    cluster.migrate(moved(None, 2, C))
    cluster.run(50)
    assert ways(cluster, C) == [Way.CHANGES]
    assert cluster.content(C)[DEFAULT] == cluster.content(A)[DEFAULT]


def test_fragment_goes_to_the_indexes_that_its_settings_ask_for() -> None:
    settings = {b"one": NameSettings(backups=1), b"none": NameSettings(backups=0)}
    cluster = grid(A, None, None, names=settings, unnamed=BOTH)
    for key in ("one:k", "none:k", "k"):
        assert cluster.reply(A, f"SET {key} v") == b"+OK\r\n"
    cluster.migrate(moved(None, 1, B))
    cluster.run(50)
    cluster.migrate(moved(None, 2, C))
    cluster.run(50)
    assert b"one" in cluster.content(B)
    assert b"none" not in cluster.content(B)
    assert b"one" not in cluster.content(C)
    assert b"default" in cluster.content(C)


# The cheapest way ---------------------------------------------------------------------------------


def test_copy_that_stands_where_the_owner_stands_needs_nothing() -> None:
    cluster = owner()
    here = cluster.copy(A).vector.point
    claim = replace(EMPTY, whole=here, reached=here, held=1)
    assert way(cluster, claim) is Way.NOTHING


def test_copy_that_the_journal_reaches_gets_what_changed() -> None:
    cluster = owner()
    epoch, counter = cluster.copy(A).vector.point
    before = (epoch, counter - 1)
    (plan,) = asked(cluster, ask(cluster, replace(EMPTY, whole=before, reached=before)))
    (default,) = (each for each in plan.fragments if each.owner.name == DEFAULT)
    assert default.way is Way.CHANGES
    assert {key for key, _ in default.records} == {b"b"}


def test_copy_that_is_not_sure_of_itself_is_compared_and_one_that_is_empty_gets_all() -> None:
    cluster = owner()
    assert way(cluster, SOME) is Way.LEAVES
    assert way(cluster, EMPTY) is Way.WHOLE


def test_copy_on_another_history_is_compared_whatever_it_claims() -> None:
    cluster = owner()
    epoch, counter = cluster.copy(A).vector.point
    elsewhere = (epoch - 1, counter + 5)
    claim = replace(SOME, whole=elsewhere, reached=elsewhere)
    assert elsewhere not in cluster.copy(A).lineage.segments
    assert way(cluster, claim) is Way.LEAVES


def test_changes_that_are_too_many_for_a_plan_come_page_by_page() -> None:
    cluster = grid(A, B, C, backup_bytes_max=SMALL)
    assert cluster.reply(A, "SET k v", "SET kept v") == b"+OK\r\n" * 2
    cluster.drops = [to(C, BackupFrame)]
    for number in range(3):
        cluster.command(A, f"SET big{number} {'x' * 150_000}", session=9)
        cluster.run(3)
    cluster.command(A, "DEL k", session=9)
    cluster.run(3)
    cluster.drops = []
    write(cluster, "last")
    cluster.run(600)
    assert ways(cluster, C) == [Way.MANY]
    assert [pull.position for pull in cluster.messages(SyncPull)] == [0, 1, 2]
    assert cluster.value(C, "k") is None
    assert cluster.content(C) == cluster.content(A)


def test_changes_in_pages_take_a_permit() -> None:
    cluster = owner(backup_bytes_max=SMALL, syncs_parallel_max=0)
    before = cluster.copy(A).standing().stand
    for number in range(3):
        write(cluster, f"big{number}", value="x" * 150_000)
    point = (before.epoch, before.counter)
    sure = Claimed(DEFAULT, point, point, held=1, digest=b"")
    assert [plan.reason for plan in asked(cluster, ask(cluster, sure))] == ["no permit"]


# Permits ------------------------------------------------------------------------------------------


def test_nobody_looks_at_all_that_is_here_for_whom_there_is_no_permit() -> None:
    """With a permit the versions tell what has changed; to find out again and again for those who
    have to wait would cost more than to give it."""
    cluster = grid(A, B, C, unnamed=replace(BOTH, journal_entries=1), **ONE_AT_A_TIME)
    write(cluster, "k")
    before = cluster.copy(A).standing().stand
    write(cluster, "a", "b", "c")
    point = (before.epoch, before.counter)
    sure = Claimed(DEFAULT, point, point, held=1, digest=b"")
    cluster.inject(member(C), A, ask(cluster, SOME, index=2))
    assert [plan.reason for plan in asked(cluster, ask(cluster, sure))] == ["no permit"]
    cluster.inject(member(C), A, SyncEnd(1, P))
    (plan,) = asked(cluster, ask(cluster, sure, number=2))
    (default,) = (each for each in plan.fragments if each.owner.name == DEFAULT)
    assert default.way is Way.CHANGES
    assert {key for key, _ in default.records} == {b"a", b"b", b"c"}


def test_so_many_are_given_to_at_a_time_and_the_others_ask_again() -> None:
    cluster = grid(A, B, C, unnamed=NO_JOURNAL, backup_bytes_max=SMALL, **ONE_AT_A_TIME)
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    giving = cluster.nodes[A].data.giving
    assert asked(cluster, ask(cluster))[0].reason == ""
    miss(cluster, C, "a")
    write(cluster, "b")
    cluster.run(450)
    refusals = [plan.reason for plan in cluster.messages(SyncPlan, to=C)]
    assert refusals == ["no permit"]
    assert not cluster.in_sync(C)
    cluster.inject(member(B), A, SyncEnd(1, P))
    assert giving.gifts == {}
    cluster.run(1_500)
    assert cluster.in_sync(C)


def test_a_migration_that_got_no_permit_asks_again_soon() -> None:
    cluster = grid(A, B, None, unnamed=NO_JOURNAL, **ONE_AT_A_TIME)
    write(cluster, "k")
    asked(cluster, ask(cluster))
    cluster.migrate(moved(None, 2, C))
    cluster.run(220)
    refusals = [plan.reason for plan in cluster.messages(SyncPlan, to=C)]
    assert 3 <= refusals.count("no permit") <= 5
    cluster.inject(member(B), A, SyncEnd(1, P))
    cluster.run(80)
    assert ways(cluster, C) == [Way.WHOLE]


def test_what_fits_into_the_plan_takes_no_permit() -> None:
    """A member that returns to what nobody wrote to asks for hundreds of partitions."""
    cluster = grid(A, B, C, backup_bytes_max=SMALL, **ONE_AT_A_TIME)
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    asked(cluster, ask(cluster))
    miss(cluster, C, "a")
    write(cluster, "b")
    cluster.run(450)
    assert ways(cluster, C) == [Way.CHANGES]
    assert cluster.in_sync(C)


def test_digests_are_asked_for_where_the_point_is_not_enough() -> None:
    cluster = grid(A, B, C, unnamed=NO_JOURNAL, backup_bytes_max=SMALL)
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    miss(cluster, C, "a")
    cluster.sent.clear()
    cluster.run(450)
    first, second = (message.fragments for message in cluster.messages(SyncAsk, to=A))
    assert [claim.digest for claim in first] == [b""]
    assert [len(claim.digest) for claim in second] == [8 * 512]
    refusal, plan = cluster.messages(SyncPlan, to=C)
    assert (refusal.compares, refusal.fragments, bool(refusal.reason)) == (True, (), True)
    assert [each.way for each in plan.fragments] == [Way.LEAVES]
    assert cluster.in_sync(C)


def test_question_that_is_repeated_gets_the_same_plan_and_a_new_one_a_new_plan() -> None:
    cluster = owner()
    (first,) = asked(cluster, ask(cluster, EMPTY))
    write(cluster, "c")
    (again,) = asked(cluster, ask(cluster, EMPTY))
    assert again == first
    (fresh,) = asked(cluster, ask(cluster, EMPTY, number=2))
    assert fresh.fragments != first.fragments
    assert len(cluster.nodes[A].data.giving.gifts) == 1


def test_question_of_a_later_stay_gets_a_new_plan_whatever_its_number() -> None:
    """Who was started again counts its questions anew; the old plan lacks what came since."""
    cluster = owner()
    (first,) = asked(cluster, ask(cluster, EMPTY))
    write(cluster, "c")
    cluster.inject(member(B, 2), A, ask(cluster, EMPTY))
    later = cluster.messages(SyncPlan)[-1]
    assert later.id == first.id
    assert later.fragments != first.fragments


def test_end_of_another_transfer_returns_no_permit() -> None:
    cluster = owner()
    asked(cluster, ask(cluster, EMPTY))
    for end in (SyncEnd(7, P), SyncEnd(1, partition(0))):
        cluster.inject(member(C), A, end)
    cluster.inject(member(B), A, SyncEnd(7, P))
    assert len(cluster.nodes[A].data.giving.gifts) == 1


def test_permit_is_returned_by_silence_but_not_by_one_that_goes_on() -> None:
    cluster = owner(retry_ms=100)
    giving = cluster.nodes[A].data.giving
    asked(cluster, ask(cluster, EMPTY))
    for _ in range(4):
        cluster.run(1_000)
        cluster.inject(member(B), A, SyncPull(1, P, DEFAULT, (), 0))
        assert giving.gifts
    cluster.run(2_500)
    assert giving.gifts == {}


def test_taker_whose_permit_is_over_is_told_and_asks_anew() -> None:
    """Seed 608: C is cut off in the middle of a transfer for longer than the owner waits."""
    cluster = grid(A, B, C, unnamed=replace(BOTH, journal_entries=0), backup_bytes_max=SMALL)
    assert cluster.reply(A, "SET common 1") == b"+OK\r\n"
    miss(cluster, C, "a")
    cluster.drops = [to(A, SyncPull)]
    cluster.run_until(lambda: not cluster.in_sync(C) and bool(cluster.messages(SyncPull)))
    cluster.run_until(lambda: not cluster.nodes[A].data.giving.gifts)
    cluster.drops = []
    cluster.run(2_000)
    assert cluster.in_sync(C)
    assert cluster.content(C) == cluster.content(A)


def test_permit_is_returned_when_the_taker_leaves_and_when_the_partition_is_lost() -> None:
    cluster = owner()
    asked(cluster, ask(cluster, EMPTY))
    cluster.crash(B)
    cluster.confirm_dead(B)
    cluster.run_until(lambda: not cluster.nodes[A].data.giving.gifts)
    other = owner()
    asked(other, ask(other, EMPTY))
    other.place(B, A, None)
    assert other.nodes[A].data.giving.gifts == {}


def test_new_stay_gives_nothing_that_the_last_one_began() -> None:
    cluster = owner()
    asked(cluster, ask(cluster, EMPTY))
    cluster.nodes[A].data.giving.reset()
    cluster.inject(member(B), A, SyncPull(1, P, DEFAULT, (), 0))
    assert cluster.messages(SyncPage) == []


# Pages --------------------------------------------------------------------------------------------


def page(cluster: Cluster, pull: SyncPull) -> SyncPage:
    cluster.inject(member(B), A, pull)
    return cluster.messages(SyncPage)[-1]


def test_page_is_made_of_what_is_there_now() -> None:
    cluster = owner()
    asked(cluster, ask(cluster, EMPTY))
    cluster.command(A, "DEL a", "SET b later", session=9)
    records = dict(page(cluster, SyncPull(1, P, DEFAULT, (), 0)).records)
    assert list(records) == [b"b"]
    assert records[b"b"] == cluster.content(A)[DEFAULT][b"b"]


def test_key_that_has_gone_since_it_was_listed_comes_as_gone() -> None:
    cluster = owner()
    asked(cluster, ask(cluster, SOME))
    listed = page(cluster, SyncPull(1, P, DEFAULT, (), 0))
    assert sorted(key for key, _ in listed.listed) == [b"a", b"b"]
    cluster.command(A, "DEL a", session=9)
    assert [key for key, _ in page(cluster, SyncPull(1, P, DEFAULT, (), 0)).listed] == [b"b"]
    records = page(cluster, SyncPull(1, P, DEFAULT, (b"a",), 0)).records
    assert {key for key, _ in records} == {b"a"}
    assert Kind.GONE in [kind_of(record) for _, record in records]


def test_page_names_every_leaf_that_differs_also_where_the_owner_has_nothing() -> None:
    cluster = owner()
    (plan,) = asked(cluster, ask(cluster, SOME))
    (default,) = (each for each in plan.fragments if each.owner.name == DEFAULT)
    cluster.command(A, "DEL a", "DEL b", session=9)
    listed = page(cluster, SyncPull(1, P, DEFAULT, (), 0))
    assert (listed.listed, listed.leaves, listed.next) == ((), default.leaves, 0)


def test_pull_of_what_is_not_given_is_not_answered() -> None:
    cluster = owner()
    cluster.inject(member(B), A, SyncPull(1, P, DEFAULT, (), 0))
    asked(cluster, ask(cluster, EMPTY))
    cluster.inject(member(B), A, SyncPull(2, P, DEFAULT, (), 0))
    cluster.inject(member(C), A, SyncPull(1, P, DEFAULT, (), 0))
    assert cluster.messages(SyncPage) == []


# Questions that come too early --------------------------------------------------------------------


def test_question_that_overtakes_the_row_is_answered_when_the_row_comes() -> None:
    """1. A gives the partition to B. 2. A asks B what it missed before B has heard of it."""
    cluster = grid(A, B, None)
    write(cluster, "k")
    cluster.drops = [to(B, Publication)]
    cluster.decide(B, A, None)
    cluster.run(20)
    assert cluster.messages(SyncAsk, to=B)
    assert cluster.messages(SyncPlan, to=A) == []
    asked_at = cluster.now
    cluster.drops = []
    cluster.run_until(lambda: bool(cluster.messages(SyncPlan, to=A)))
    assert len(cluster.messages(SyncAsk, to=B)) == 1, f"asked again since {asked_at}"
    cluster.run(1_000)
    assert cluster.in_sync(A)


def test_question_that_came_too_early_is_forgotten_when_it_is_asked_again() -> None:
    cluster = owner()
    giving = cluster.nodes[A].data.giving
    later = replace(ask(cluster, EMPTY), reign=ask(cluster).reign + 1)
    assert asked(cluster, later) == []
    cluster.run(cluster.nodes[A].context.config.retry_ms + 1_000)
    cluster.place(A, B, None)
    assert cluster.messages(SyncPlan) == []
    assert asked(cluster, later) == []
    giving.reset()
    cluster.run(100)
    assert cluster.messages(SyncPlan) == []
