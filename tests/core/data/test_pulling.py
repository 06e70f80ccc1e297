"""A copy that lacks something is brought up to date, whatever it lacks and whatever goes wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.data import giving
from holdfast.core.data.pulling import PULL_AGAIN, Pulling
from holdfast.core.data_messages import (
    BackupFrame,
    SyncAsk,
    SyncEnd,
    SyncPage,
    SyncPlan,
    SyncPull,
    Way,
)
from holdfast.core.events import Gathered, Received
from holdfast.core.messages import FragmentAck, Message, Publication
from holdfast.core.migrations import MigrationType, Move
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import NO_INDEX, Address, MemberId, Millis, Term, Version
from tests.core.data.grid import BOTH, DEFAULT, SMALL, Grid, P, grid, miss, moved, to, ways, write
from tests.core.harness import A, B, C, Cluster, address_of, losing, member, origin_of

NO_JOURNAL = replace(BOTH, journal_entries=0)
ONE = NameSettings(backups=1, journal_entries=0)
SHIFT = Move(MigrationType.SHIFT_UP, None, NO_INDEX, NO_INDEX, C, 2, 1)


def behind(*keys: str, unnamed: NameSettings = BOTH, **settings: object) -> Grid:
    """C has missed writes of these keys, and is about to learn that."""
    cluster = grid(A, B, C, unnamed=unnamed, backup_bytes_max=SMALL, **settings)
    assert cluster.reply(A, "SET common 1") == b"+OK\r\n"
    miss(cluster, C, *keys)
    cluster.sent.clear()
    return cluster


def plans_to_c(_: MemberId, address: Address, message: Message) -> bool:
    """A network that loses plans on their way to C, and no refusals."""
    return address == address_of(C) and isinstance(message, SyncPlan) and not message.reason


def same(cluster: Grid) -> bool:
    """Whether everyone lacks nothing and has the same records."""
    first, *others = (cluster.content(each) for each in (A, B, C))
    return cluster.in_sync(B, C) and all(first == other for other in others)


def test_backup_that_missed_mutations_asks_and_gets_the_records_that_changed() -> None:
    cluster = behind("a", "b")
    write(cluster, "last")
    cluster.run(600)
    (ask,) = cluster.messages(SyncAsk)
    assert (ask.partition, ask.index) == (P, 2)
    assert ways(cluster, C) == [Way.CHANGES]
    assert cluster.messages(SyncPull) == []
    assert same(cluster)


def test_copy_whose_gap_no_journal_covers_gets_what_lies_in_the_leaves_that_differ() -> None:
    cluster = behind("a", "b", unnamed=NO_JOURNAL)
    cluster.command(A, "DEL common", session=9)
    cluster.run(600)
    assert ways(cluster, C) == [Way.LEAVES]
    sent = [key for page in cluster.messages(SyncPage) for key, _ in page.records]
    assert sent
    assert b"common" not in sent
    assert same(cluster)


def test_a_plan_that_is_told_again_ends_no_doubt_that_came_since() -> None:
    """It is of the time before a write of which the backup heard nothing but that frames were
    skipped: the write is acknowledged when the backup has it, and no sooner."""
    cluster = behind("a", names={b"two": BOTH})
    cluster.drops = [plans_to_c]
    write(cluster, "b")
    cluster.run_until(lambda: bool(cluster.messages(SyncPlan)))
    cluster.drops.append(to(C, BackupFrame))
    late = "v" * SMALL
    cluster.command(A, f"SET late {late}", session=9)
    cluster.run(2)
    cluster.drops.pop()
    write(cluster, "two:first")
    assert [frame.skipped for frame in cluster.messages(BackupFrame, to=C)][-1]
    cluster.drops = []
    cluster.run_until(lambda: 9 in cluster.replies)
    assert cluster.replies[9] == b"+OK\r\n"
    assert cluster.value(C, "late") == late.encode()
    cluster.run(600)
    assert same(cluster)


def test_key_that_the_owner_has_not_is_removed() -> None:
    cluster = grid(A, B, C, unnamed=NO_JOURNAL, backup_bytes_max=SMALL)
    assert cluster.reply(A, "SET common 1", "SET gone 1") == b"+OK\r\n" * 2
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(A, "DEL gone", session=9)
    cluster.drops = []
    miss(cluster, C)
    cluster.run(600)
    assert cluster.value(C, "gone") is None
    assert same(cluster)


def test_copy_without_anything_gets_everything_page_by_page() -> None:
    cluster = grid(A, B, None)
    for number in range(8):
        write(cluster, f"key{number}", value="x" * 40_000)
    cluster.run(50)
    cluster.sent.clear()
    cluster.migrate(moved(None, 2, C))
    cluster.run(600)
    assert ways(cluster, C) == [Way.WHOLE]
    assert [pull.position for pull in cluster.messages(SyncPull)] == [0, 2, 4, 6]
    assert same(cluster)


def test_what_is_emptied_while_it_comes_is_so_on_disk_as_well() -> None:
    """1. Pages go to C. 2. Everything is removed, and one key is written. 3. C ends, and finds in
    its files what it had in memory, not what the pages had brought before."""
    cluster = grid(A, B, None, persistent=True)
    for number in range(8):
        write(cluster, f"key{number}", value="x" * 40_000)
    cluster.run(50)
    cluster.migrate(moved(None, 2, C))
    cluster.run_until(lambda: bool(cluster.messages(SyncPage, to=C)))
    write(cluster, "before")
    cluster.command(A, "FLUSHALL", session=99)
    write(cluster, "after")
    cluster.run(600)
    assert same(cluster)
    assert cluster.value(C, "after") == b"v"
    found = cluster.disks[C].data[P][b"default"].fragment
    assert found.records == cluster.copy(C).fragment.records


def test_listing_of_many_keys_comes_page_by_page() -> None:
    cluster = grid(A, B, C, unnamed=NO_JOURNAL, backup_bytes_max=50_000)
    for number in range(5):
        write(cluster, f"common{number}")
    miss(cluster, C, *(f"{number}" * 20_000 for number in range(10, 40)))
    cluster.sent.clear()
    cluster.run(800)
    listings = [page for page in cluster.messages(SyncPage) if page.listed]
    assert len(listings) > 1
    assert listings[0].next == listings[1].position > 0
    assert same(cluster)


def test_lists_and_locks_are_brought_up_to_date_as_well() -> None:
    cluster = behind("a", unnamed=NO_JOURNAL)
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(A, "RPUSH list 1 2 3", "SADD set 1", "HOLDFAST.LOCK common 60000", session=9)
    cluster.drops = []
    miss(cluster, C)
    cluster.run(800)
    assert same(cluster)
    for name in (b"", b"default"):
        assert cluster.copy(C, name).fragment.locks == cluster.copy(A, name).fragment.locks
    assert cluster.copy(A).fragment.locks


def test_mutations_go_on_coming_while_a_fragment_is_brought_up_to_date() -> None:
    """1. C lists what differs.  2. A changes one of these keys, and another.  3. The pages come."""
    cluster = behind(*(f"key{number}" for number in range(20)), unnamed=NO_JOURNAL)
    cluster.drops = [to(A, SyncPull)]
    cluster.run(450)
    assert cluster.messages(SyncPull)
    write(cluster, "key3", "new", "common", value="later")
    cluster.command(A, "DEL key4", session=9)
    cluster.run(10)
    cluster.drops = []
    cluster.run(1_500)
    assert cluster.value(C, "key3") == b"later"
    assert same(cluster)


@pytest.mark.parametrize("lost", [SyncAsk, SyncPlan, SyncPull, SyncPage])
def test_what_is_not_answered_is_asked_again(lost: type) -> None:
    cluster = behind("a", "b", unnamed=NO_JOURNAL)
    cluster.drops = [to(A, lost), to(C, lost)]
    cluster.run(800)
    assert not cluster.in_sync(C)
    cluster.drops = []
    cluster.run(1_200)
    assert same(cluster)


def test_answers_that_come_twice_or_too_late_change_nothing() -> None:
    cluster = behind("a", "b", unnamed=NO_JOURNAL)
    cluster.run(800)
    assert same(cluster)
    plans = cluster.messages(SyncPlan, to=C)
    before = len(cluster.sent)
    late: tuple[Message, ...] = (*plans, *cluster.messages(SyncPage), *cluster.messages(SyncEnd))
    for message in late:
        cluster.inject(member(A), C, message)
        cluster.inject(member(C), A, message)
    assert len(cluster.sent) == before
    assert same(cluster)


def test_answers_to_another_question_are_not_taken() -> None:
    cluster = behind("a", "b", unnamed=NO_JOURNAL)
    cluster.drops = [plans_to_c, to(C, SyncPage)]
    cluster.run(450)
    _, ask = cluster.messages(SyncAsk, to=A)
    _, plan = cluster.messages(SyncPlan, to=C)
    for origin, message in (
        (member(B), plan),
        (member(A), replace(plan, id=ask.id + 1)),
    ):
        cluster.inject(origin, C, message)
    assert cluster.messages(SyncPull) == []
    cluster.inject(member(A), C, plan)
    cluster.inject(member(A), C, plan)
    (pull,) = cluster.messages(SyncPull)
    page = SyncPage(pull.id, P, pull.name, 0, (), (), (), 0)
    for wrong in (
        replace(page, name=b"other"),
        replace(page, position=7),
        replace(page, id=pull.id + 1),
        replace(page, past=True),
    ):
        cluster.inject(member(A), C, wrong)
        assert not cluster.in_sync(C)


def test_an_answer_comes_in_the_turn_in_which_the_partition_goes() -> None:
    """1. C is being brought up to date. 2. In one turn it hears that it is no backup any more, and
    drops what it has, as it has given it up once before, and gets the next page (seed 102 of
    members that come and go)."""
    cluster = behind("a", "b", unnamed=NO_JOURNAL)
    cluster.drops = [to(C, SyncPage)]
    cluster.run(800)
    (pull, *_) = cluster.messages(SyncPull)
    page = SyncPage(pull.id, P, pull.name, 0, (), (), (), 0)
    gone = cluster.nodes[C].table.row(P).changed(Version(99), (A, B, None), Term(1))
    told = Publication(Term(1), 999, (gone,), ())
    node = cluster.nodes[C]
    node.context.config = replace(node.context.config, backup_count=0)  # two copies are enough
    node.participation.given_up[P] = Millis(cluster.now - 2_000)
    found = (Received(origin_of(member(A)), told), Received(origin_of(member(A)), page))
    cluster.step(C, Gathered(found))
    assert node.data.holdings.get(P) is None
    assert not node.data.pulling.pulls


def test_backup_asks_once_an_interval_and_a_destination_as_often_as_it_takes() -> None:
    cluster = behind("a", sync_interval_ms=5_000)
    cluster.run(450)
    assert len(cluster.messages(SyncAsk)) == 1
    assert cluster.in_sync(C)
    miss(cluster, C, "b")
    cluster.run(3_000)
    assert len(cluster.messages(SyncAsk)) == 1
    cluster.run(3_000)
    assert len(cluster.messages(SyncAsk)) == 2
    assert same(cluster)


def test_new_owner_is_asked_when_the_one_before_it_does_not_end_what_it_began() -> None:
    cluster = behind("a", "b", unnamed=NO_JOURNAL, sync_interval_ms=1_000)
    cluster.drops = [to(C, SyncPage)]
    cluster.run(450)
    assert cluster.messages(SyncPull)
    cluster.drops = []
    cluster.place(B, None, C)
    cluster.run(2_000)
    assert cluster.messages(SyncAsk, to=B)
    assert cluster.messages(SyncEnd, to=A)
    assert cluster.in_sync(C)
    assert cluster.value(C, "b") == b"v"


def test_nothing_is_asked_while_nobody_owns_the_partition() -> None:
    cluster = behind("a")
    cluster.drops = [to(A, SyncAsk)]
    write(cluster, "last")
    cluster.run_until(cluster.holding(C).lacking)
    cluster.decide(None, None, C)
    cluster.run(5)
    cluster.sent.clear()
    cluster.run(2_000)
    assert cluster.holding(C).lacking()
    assert cluster.messages(SyncAsk) == []


def test_set_that_changed_twice_after_the_answer_is_asked_for_by_name() -> None:
    """1. The owner answers, and the answer is late.  2. C misses a change of a set.  3. It hears
    the next one, which waits for the first.  4. The answer has the set as it was before both."""
    cluster = grid(A, B, C, backup_bytes_max=SMALL, sync_interval_ms=1_000)
    assert cluster.reply(A, "SADD set 0") == b":1\r\n"
    miss(cluster, C)
    cluster.drops = [to(C, SyncPlan)]
    cluster.run_until(lambda: bool(cluster.nodes[A].data.giving.gifts))
    cluster.drops.append(to(C, BackupFrame))
    cluster.command(A, "SADD set 1", session=9)
    cluster.run(2)
    cluster.drops.pop()
    miss(cluster, C)
    cluster.command(A, "SADD set 2", session=9)
    cluster.run(5)
    cluster.drops = []
    cluster.run(3_000)
    assert ways(cluster, C)[0] is Way.CHANGES
    assert (b"set",) in [pull.keys for pull in cluster.messages(SyncPull)]
    assert same(cluster)


def test_fragment_that_the_owner_has_not_is_dropped() -> None:
    """C took a write of a new name that no other backup got, and is a backup of somebody else."""
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    cluster.drops = [to(B, BackupFrame)]
    cluster.command(A, "SET mine:k v", session=9)
    cluster.run(5)
    assert b"mine" in cluster.holding(C).copies
    cluster.drops = []
    cluster.crash(A)
    cluster.confirm_dead(A)
    cluster.run_until(lambda: cluster.nodes[C].table.row(P).owner == B)
    cluster.run(2_000)
    assert cluster.value(B, "k") == b"v"
    assert cluster.in_sync(C)
    assert cluster.holding(C).space.find(b"mine:k") is None


def test_fragment_that_was_dropped_and_begins_anew_in_the_same_sync_is_another_one() -> None:
    """1. C has a name that its new owner has not.  2. The plan says so, and C drops it.  3. The
    owner writes that name while the sync is under way.  (Seed 1581.)"""
    cluster = grid(A, B, C, unnamed=NO_JOURNAL, backup_bytes_max=SMALL)
    assert cluster.reply(A, "SET k v") == b"+OK\r\n"
    cluster.drops = [to(B, BackupFrame)]
    cluster.command(A, "SET mine:k old", session=9)
    cluster.run(5)
    assert b"mine" in cluster.holding(C).copies
    cluster.drops = [to(C, BackupFrame), to(B, SyncPull)]
    cluster.crash(A)
    cluster.confirm_dead(A)
    cluster.run_until(lambda: cluster.nodes[C].table.row(P).owner == B)
    for number in range(6):
        cluster.command(B, f"SET filler{number} v", session=9)
        cluster.run(2)
    assert any(frame.skipped for frame in cluster.messages(BackupFrame, to=C))
    cluster.drops = [to(B, SyncPull)]
    cluster.run_until(lambda: Way.LEAVES in ways(cluster, C))
    cluster.run(5)
    assert b"mine" not in cluster.holding(C).copies
    cluster.command(B, "SET mine:k new", session=9)
    cluster.run(5)
    cluster.drops = []
    cluster.run(2_000)
    assert cluster.in_sync(C)
    assert cluster.value(C, "mine:k") == b"new"


def test_lock_of_a_fragment_that_begins_in_a_sync_is_newer_than_its_plan() -> None:
    cluster = behind("a", unnamed=NO_JOURNAL)
    cluster.drops = [plans_to_c]
    cluster.run_until(lambda: bool(cluster.messages(SyncPlan)))
    cluster.drops = [plans_to_c, to(C, BackupFrame)]
    cluster.command(A, "SET new:k v", session=9)
    cluster.run_until(lambda: len(cluster.messages(SyncPlan)[-1].fragments) > 1)
    late = cluster.messages(SyncPlan)[-1]
    cluster.drops = [to(C, SyncPlan)]
    cluster.run(400)
    cluster.command(A, "HOLDFAST.LOCK new:k 60000", session=9)
    cluster.run(5)
    assert cluster.copy(C, b"new").fragment.locks
    cluster.inject(member(A), C, late)
    cluster.drops = []
    cluster.run(1_000)
    assert cluster.in_sync(C)
    assert cluster.copy(C, b"new").fragment.locks == cluster.copy(A, b"new").fragment.locks


def test_new_stay_brings_nothing_up_to_date_that_the_last_one_asked_for() -> None:
    cluster = behind("a", "b", unnamed=NO_JOURNAL)
    cluster.drops = [to(C, SyncPage)]
    cluster.run(450)
    pulling = cluster.nodes[C].data.pulling
    assert pulling.pulls
    pulling.reset()
    assert pulling.pulls == {}
    assert all(copy.incoming is None for copy in cluster.holding(C))


def test_questions_of_two_stays_have_different_numbers() -> None:
    """A plan for what C lacked before it was started again may be under way when it asks again."""
    cluster = behind("a")
    cluster.drops = [to(C, SyncPlan)]
    cluster.run(450)
    (ask,) = cluster.messages(SyncAsk)
    node = cluster.nodes[C]
    again = Pulling(node.context, node.data.holdings, node.data.replicas)
    node.context.me = replace(node.context.me, incarnation=2)
    again.want(P, at_once=True)
    again.advance()
    assert again.pulls[P].id != ask.id


def test_so_many_partitions_are_asked_for_at_a_time() -> None:
    cluster = behind("a", unnamed=NO_JOURNAL, syncs_parallel_max=0)
    cluster.run(600)
    assert not cluster.in_sync(C)
    assert cluster.messages(SyncAsk) == []


def test_copy_that_is_in_order_again_is_not_asked_for() -> None:
    cluster = grid(A, B, C)
    pulling = cluster.nodes[C].data.pulling
    pulling.want(P)
    cluster.nodes[A].data.pulling.want(P)
    cluster.run(600)
    assert pulling.wanted == {}
    assert cluster.nodes[A].data.pulling.wanted == {}, "an owner lacks nothing"
    assert cluster.messages(SyncAsk) == []


def test_change_that_waits_for_a_value_that_never_came_breaks_the_copy_for_good() -> None:
    """1. C misses a set.  2. It asks.  3. A change of the set comes before any page.  4. The owner
    changes, so no page comes: what waited is lost, and only a new sync makes it good."""
    cluster = grid(A, B, C, unnamed=NO_JOURNAL, backup_bytes_max=SMALL, sync_interval_ms=1_000)
    assert cluster.reply(A, "SET common 1") == b"+OK\r\n"
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(A, "SADD set 1", session=9)
    cluster.run(2)
    cluster.drops = []
    miss(cluster, C)
    cluster.drops = [to(A, SyncPull)]
    cluster.run(450)
    cluster.command(A, "SADD set 2", session=9)
    cluster.run(5)
    incoming = cluster.copy(C).incoming
    assert incoming is not None
    assert incoming.broken == (b"set",)
    cluster.drops = []
    cluster.place(B, None, C)
    cluster.run(3_000)
    assert cluster.in_sync(C)
    assert cluster.content(C) == cluster.content(B)


def test_destination_gets_what_it_lacks_for_its_new_index_and_keeps_what_it_is_by_the_row() -> None:
    """C is at index 2, where a name with one backup does not go; it is to be at index 1."""
    names = {b"two": BOTH}
    cluster = grid(A, B, C, names=names, unnamed=NameSettings(backups=1))
    assert cluster.reply(A, "SET k v", "SET two:k v") == b"+OK\r\n" * 2
    assert b"default" not in cluster.content(C)
    shift = Move(MigrationType.SHIFT_UP, B, 1, NO_INDEX, C, 2, 1)
    cluster.migrate(shift)
    cluster.run(5)
    write(cluster, "two:l", "l")
    cluster.run(600)
    assert cluster.nodes[A].table.row(P).replicas == (A, C, None)
    assert cluster.in_sync(C)
    assert cluster.content(C) == cluster.content(A)
    assert cluster.value(C, "l") == b"v"


def test_member_that_is_up_to_date_again_is_not_woken_for_it() -> None:
    cluster = behind("a", "b")
    write(cluster, "last")
    cluster.run(600)
    assert same(cluster)
    cluster.run(2_000)
    node = cluster.nodes[C]
    assert not node.context.timers.running(PULL_AGAIN)


def test_a_new_owner_is_asked_at_once_whatever_the_last_one_was_asked() -> None:
    """What it says itself is lost, so that only the row tells C of it."""
    cluster = behind("a", sync_interval_ms=30_000)
    cluster.run(450)
    assert cluster.in_sync(C)
    cluster.place(C, B, A)
    cluster.sent.clear()
    cluster.drops = [to(C, BackupFrame)]
    cluster.place(A, B, C)
    assert len(cluster.messages(SyncAsk, to=A)) == 1


@pytest.mark.parametrize("changed", [False, True])
def test_answers_that_bring_nothing_let_more_be_asked_at_a_time(*, changed: bool) -> None:
    """B comes back from its files, and is a backup of everything; or something was written to each
    partition meanwhile."""
    cluster = Cluster(
        A, B, C, partition_count=12, backup_count=2, unnamed=BOTH, syncs_parallel_max=1
    )
    cluster.form(persistent=True)
    keys = [f"SET {number} v" for number in range(100)]
    for owner in (A, B, C):
        cluster.reply(owner, *keys)
    cluster.settle()
    cluster.crash(B)
    cluster.run_until(lambda: not any(B in row.replicas for row in cluster.nodes[A].table.rows))
    if changed:
        for owner in (A, C):
            cluster.reply(owner, *keys)
    node = cluster.start(member(B, 2, persistent=True))
    most = 0
    for _ in range(4_000):
        cluster.run(1)
        most = max(most, len(node.data.pulling.pulls))
    assert most == 1 if changed else most > 1


@pytest.mark.parametrize(("last", "move"), [(None, moved(None, 1, C)), (C, SHIFT)])
def test_pull_ends_with_its_migration_though_the_next_begins_at_once(
    last: MemberId | None, move: Move
) -> None:
    """1. C gets a name page by page, and has the first page. 2. The migration fails, and the next
    begins, of the same owner for the same index. 3. C hears of both by one message, with which what
    it has goes: it had nothing before, or is at an index to which the name does not go. [Seed 6841
    of the simulator: it took the other pages only, and said that it stood where its owner does.]"""
    cluster = grid(A, None, last, names={b"two": BOTH}, unnamed=ONE, backup_count=0)
    write(cluster, "two:k", *(f"key{number}" for number in range(6)), value="x" * 40_000)
    cluster.run(5_000)
    cluster.sent.clear()
    cluster.migrate(move)
    cluster.run_until(lambda: [pull.position for pull in cluster.messages(SyncPull)] == [0, 2])
    cluster.drops = [to(C, Publication, SyncPage)]
    active = cluster.nodes[C].participation.active
    failed = active[P].migration.id
    cluster.inject(member(C), A, FragmentAck(failed, P, "not now", ()))
    cluster.migrate(move)
    cluster.run_until(lambda: active[P].migration.id != failed)
    assert b"key0" not in cluster.content(C).get(b"default", {})
    cluster.drops = []
    cluster.run_until(lambda: not active)
    cluster.run(600)
    assert cluster.nodes[A].table.row(P).index_of(C) == 1
    assert cluster.in_sync(C)
    assert cluster.content(C) == cluster.content(A)


def test_what_a_page_brought_ahead_of_its_turn_is_not_taken_for_what_everyone_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1. B is brought up to date page by page. 2. A writes; a page has that, the frames with it are
    lost, and A dies. 3. B leads, with a write that it was never told of; C stood where B's plan
    was made, and would think that it has what B has."""
    monkeypatch.setattr(giving, "PAGE_BYTES", 1)
    cluster = grid(A, B, C, unnamed=NO_JOURNAL, backup_bytes_max=SMALL)
    assert cluster.reply(A, "SET common 1") == b"+OK\r\n"
    miss(cluster, B, "a", "b")
    cluster.sent.clear()
    write(cluster, "last")
    cluster.run_until(lambda: bool(cluster.messages(SyncPage, to=B)))
    cluster.drops.append(losing(BackupFrame))
    cluster.command(A, "SET filler1 unheard", "SET a unheard", "SET b unheard")
    cluster.run_until(lambda: not cluster.nodes[B].data.pulling.pulls)
    cluster.crash(A)
    cluster.drops.clear()
    cluster.settle()
    cluster.run_until(lambda: cluster.in_sync(C))
    found = cluster.content(B)
    assert any(b"unheard" in record for record in found[DEFAULT].values())
    assert cluster.content(C) == found
