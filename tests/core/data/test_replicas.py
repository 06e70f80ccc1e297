"""The receiver's side: frames in order, doubts, and what is not taken."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.data.replicas import WAITING_MAX
from holdfast.core.data_messages import BackupAck, BackupFrame, ReplicaCheck
from holdfast.core.effects import MutationsRecord, Persist, Send
from holdfast.core.messages import NotListed, Publication
from holdfast.ids import Address, MemberId, Millis, Version
from tests.core.data.grid import DEFAULT, SMALL, Grid, P, frames, grid, miss, to, write
from tests.core.harness import A, B, C, Cluster, address_of, follower, member, row, view_of
from tests.core.migrating import published

OK = b"+OK\r\n"


def acks(cluster: Cluster) -> list[tuple[int, tuple[int, ...]]]:
    """What C has told A, in order."""
    return [(ack.number, ack.doubted) for ack in cluster.messages(BackupAck, to=A)]


def lone(*keys: str) -> tuple[Grid, list[BackupFrame]]:
    """A has written these keys, one frame each, and C has got none of the frames."""
    cluster = grid(A, None, C)
    assert cluster.reply(A, "SET first v") == OK
    cluster.drops = [to(C, BackupFrame)]
    write(cluster, *keys)
    taken = frames(cluster, C)[-len(keys) :]
    cluster.sent.clear()
    return cluster, taken


def give(cluster: Cluster, frame: BackupFrame) -> list[tuple[int, tuple[int, ...]]]:
    """What C says to this frame."""
    before = len(acks(cluster))
    cluster.inject(member(A), C, frame)
    return acks(cluster)[before:]


def test_frames_are_taken_in_the_order_of_their_numbers() -> None:
    cluster, (one, two) = lone("a", "b")
    assert give(cluster, two) == [(one.number - 1, ())]
    assert cluster.value(C, "b") is None
    assert give(cluster, one) == [(one.number, ())]
    assert give(cluster, two) == [(two.number, ())]
    assert cluster.value(C, "b") == b"v"


def test_frame_that_came_before_is_acknowledged_again_and_changes_nothing() -> None:
    cluster, (one, two) = lone("a", "a")
    give(cluster, one)
    give(cluster, two)
    content = cluster.content(C)
    assert give(cluster, one) == [(two.number, ())]
    assert cluster.content(C) == content
    assert cluster.in_sync(C)


def test_frame_of_a_stay_that_is_not_listed_is_not_answered() -> None:
    cluster, (one,) = lone("a")
    assert cluster.inject(member(A, 2), C, one) == []
    alone = Cluster(C, may_found=False)
    alone.start(member(C))
    assert not any(isinstance(e, Send) for e in alone.inject(member(A), C, one))


def test_frame_of_an_ownership_that_i_do_not_know_yet_waits_for_its_publication() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [to(C, Publication)]
    cluster.sent.clear()
    cluster.place(B, None, C)
    cluster.command(B, "SET k w")
    cluster.run(10)
    first, *_ = cluster.messages(BackupFrame, to=C)
    assert all(ack.number < first.number for ack in cluster.messages(BackupAck, to=B))
    assert cluster.value(C, "k") == b"v"
    cluster.drops = []
    cluster.run(1_000)
    assert cluster.value(C, "k") == b"w"
    assert cluster.replies == {1: OK}


def overtaking(count: int) -> tuple[Grid, int]:
    """B owns what A did, and sends so many frames to C, to which the master's word has not come
    yet; and the number of the first."""
    cluster = grid(A, B, C, resend_ms=60_000)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [to(C, Publication)]
    cluster.sent.clear()
    cluster.place(B, None, C)
    for number in range(count):
        cluster.command(B, f"SET k{number} w", session=number + 2)
        cluster.run(1)
    first, *_ = cluster.messages(BackupFrame, to=C)
    return cluster, first.number


def test_frames_behind_one_that_waits_need_not_be_sent_again() -> None:
    cluster, first = overtaking(3)
    assert [ack.number for ack in cluster.messages(BackupAck, to=B)] == []
    cluster.drops = []
    cluster.run(1_000)
    assert cluster.value(C, "k2") == b"w"
    told = [ack.number for ack in cluster.messages(BackupAck, to=B)]
    assert told == [first + 3]
    assert len(cluster.messages(BackupFrame, to=C)) == 4


def test_so_many_frames_wait_and_the_rest_is_sent_again() -> None:
    cluster, first = overtaking(WAITING_MAX + 1)
    cluster.drops = []
    cluster.run(1_000)
    assert cluster.messages(BackupAck, to=B)[-1].number == first + WAITING_MAX - 1
    cluster.run(120_000)
    assert cluster.messages(BackupAck, to=B)[-1].number == first + WAITING_MAX + 1
    assert cluster.value(C, f"k{WAITING_MAX}") == b"w"


def test_frames_that_wait_are_forgotten_when_the_sender_has_skipped_some() -> None:
    cluster, first = overtaking(2)
    waiting = cluster.nodes[C].data.replicas.senders[B, 1].waiting
    assert [frame.number for frame in waiting] == [first, first + 1, first + 2]
    skipping = replace(waiting[-1], number=first + 9, skipped=True)
    cluster.inject(member(B), C, skipping)
    assert list(waiting) == [skipping]


def test_frames_wait_no_longer_for_a_row_that_leaves_nothing_here() -> None:
    """The row came that they had waited for, with nothing in it for this member: so it looked at
    nothing, and every frame of that owner waited behind them for ever (seed 5324)."""
    cluster = grid(A, B, None)
    cluster.run(2_000)  # C keeps nothing from before
    cluster.drops = [to(C, Publication)]
    cluster.place(B, None, C)
    cluster.run(1)
    (first,) = cluster.messages(BackupFrame, to=C)
    sender = cluster.nodes[C].data.replicas.senders[B, 1]
    assert list(sender.waiting) == [first]
    assert cluster.nodes[C].data.holdings.get(P) is None
    cluster.drops = []
    cluster.place(B, A, None)
    cluster.run(1)
    assert not sender.waiting
    assert cluster.messages(BackupAck, to=B)[-1].number == first.number


def test_frame_of_an_ownership_that_was_replaced_is_not_applied_and_doubted() -> None:
    cluster, (one,) = lone("a")
    cluster.place(B, None, C)
    assert give(cluster, one) == [(one.number, (P,))]
    assert cluster.value(C, "a") is None


def test_member_without_an_index_applies_nothing_and_doubts() -> None:
    cluster, (one,) = lone("a")
    cluster.place(A, B, None)
    assert give(cluster, one) == [(one.number, (P,))]


def test_fenced_copy_of_the_present_ownership_applies_nothing() -> None:
    cluster, (one,) = lone("a")
    held = cluster.holding(C)
    held.follow(-1)
    assert give(cluster, one) == [(one.number, (P,))]
    assert cluster.value(C, "a") is None


def test_copy_that_misses_a_mutation_is_doubted_until_it_is_in_sync_again() -> None:
    """1. C applies (a) of two.  2. It gets the third as if the second had been skipped."""
    cluster, (one, two, three) = lone("a", "b", "c")
    give(cluster, one)
    skipping = replace(three, number=two.number)
    assert give(cluster, skipping) == [(two.number, (P,))]
    assert not cluster.in_sync(C)
    assert cluster.value(C, "c") == b"v", "what can be applied is applied"
    cluster.run(20)
    assert cluster.in_sync(C)
    assert cluster.value(C, "b") == b"v"
    assert acks(cluster)[-1] == (two.number, ())


def test_sender_that_skipped_frames_makes_everything_that_it_owns_doubtful() -> None:
    cluster = grid(A, None, C, backup_bytes_max=SMALL)
    assert cluster.reply(A, "SET k v") == OK
    cluster.drops = [to(A, BackupAck)]
    miss(cluster, C, "lost")
    cluster.run(450)
    assert any(doubted for _, doubted in acks(cluster))
    cluster.drops = []
    cluster.run(1_000)
    assert acks(cluster)[-1][1] == ()
    assert cluster.value(C, "lost") == b"v"


def test_skipped_frames_of_one_sender_say_nothing_of_what_others_own() -> None:
    cluster = grid(A, None, C)
    assert cluster.reply(A, "SET k v") == OK
    cluster.inject(
        member(B), C, BackupFrame(5, skipped=True, runs=(), checks=(), receiver=C, stay=1)
    )
    assert cluster.in_sync(C)


def test_change_that_does_not_fit_makes_the_copy_doubted_and_is_repaired() -> None:
    cluster = grid(A, None, C)
    assert cluster.reply(A, "SADD set 1") == b":1\r\n"
    cluster.copy(C).fragment.remove(b"set")
    cluster.copy(C).fragment.pending.clear()
    assert cluster.reply(A, "SADD set 2") != b"" or not cluster.in_sync(C)
    cluster.run(600)
    assert cluster.in_sync(C)
    assert cluster.content(C) == cluster.content(A)


def test_backup_writes_what_it_applies_before_it_acknowledges() -> None:
    cluster = grid(A, None, C, persistent=True)
    cluster.slow_disk = True
    effects: list[object] = []
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(A, "SET k v")
    for frame in cluster.messages(BackupFrame, to=C):
        effects += cluster.inject(member(A), C, frame)
    kinds = [each.record for each in effects if isinstance(each, Persist)]
    assert [kind.name for kind in kinds if isinstance(kind, MutationsRecord)] in ([DEFAULT], [])
    assert acks(cluster) == []


# What a new owner says of where it stands ---------------------------------------------------------


def standing(cluster: Grid, reign_more: int = 0) -> ReplicaCheck:
    check = cluster.holding(A).check_for(2)
    return replace(check, reign=check.reign + reign_more)


def test_word_of_an_ownership_counts_while_it_is_the_present_one() -> None:
    cluster, (one,) = lone("a")
    give(cluster, one)
    number = one.number + 1
    over = BackupFrame(
        number, skipped=False, runs=(), checks=(standing(cluster, -1),), receiver=C, stay=1
    )
    assert give(cluster, over) == [(number, (P,))]
    assert cluster.in_sync(C), "what an ownership that is over has is no measure"
    present = replace(over, number=number + 1, checks=(standing(cluster),))
    assert give(cluster, present) == [(number + 1, ())]


def test_write_of_an_ownership_that_is_over_is_doubted_though_its_owner_is_the_same() -> None:
    """It was not applied: who owns the partition again must not take it for a copy."""
    cluster, (one,) = lone("a")
    (run,) = one.runs
    stale = replace(run, before=replace(run.before, epoch=run.before.epoch - 1))
    assert give(cluster, replace(one, runs=(stale,))) == [(one.number, (P,))]
    assert give(cluster, one) == [(one.number, (P,))], "it is not forgotten with the next word"
    assert cluster.value(C, "a") is None


def test_word_of_an_ownership_that_is_to_come_waits() -> None:
    cluster, (one,) = lone("a")
    assert give(cluster, replace(one, checks=(standing(cluster, 1),))) == []


def test_copy_that_is_behind_the_new_owner_asks_and_is_doubted() -> None:
    cluster, (one, two) = lone("a", "b")
    check = BackupFrame(
        one.number, skipped=False, runs=(), checks=(standing(cluster),), receiver=C, stay=1
    )
    assert give(cluster, check) == [(one.number, (P,))]
    cluster.run(20)
    assert cluster.value(C, "b") == b"v"
    assert acks(cluster)[-1] == (one.number, ())
    assert two.number > one.number


def test_word_about_a_partition_in_which_i_have_no_index_is_doubted() -> None:
    cluster, (one,) = lone("a")
    cluster.place(A, B, None)
    check = BackupFrame(
        one.number, skipped=False, runs=(), checks=(standing(cluster),), receiver=C, stay=1
    )
    assert give(cluster, check) == [(one.number, (P,))]


def test_rows_that_are_published_to_a_stranger_wake_nothing() -> None:
    cluster = follower(partition_count=1)
    published(cluster, row(0, 3, A, B, None, reign=1))
    frame = BackupFrame(
        1, skipped=False, runs=(), checks=(ReplicaCheck(P, 2, ()),), receiver=B, stay=1
    )
    cluster.inject(member(A), B, frame)
    assert cluster.messages(BackupAck) == []
    published(cluster, row(0, 4, A, B, None, reign=2))
    assert [to_ for _, to_, m in cluster.sent if isinstance(m, BackupAck)] == [address_of(A)]


def test_sender_that_is_not_listed_any_more_is_not_looked_at_again() -> None:
    cluster = grid(A, B, C)
    assert cluster.reply(B, "GET k") != b""
    cluster.inject(
        member(B), C, BackupFrame(1, skipped=False, runs=(), checks=(), receiver=C, stay=1)
    )
    cluster.crash(B)
    cluster.confirm_dead(B)
    cluster.run_until(lambda: cluster.nodes[C].table.row(P).replicas[1] is None)
    cluster.sent.clear()
    cluster.place(A, None, C)
    assert cluster.messages(BackupAck, to=B) == []


def test_who_is_not_listed_any_more_acknowledges_nothing() -> None:
    """Its stay is over, and with it what it said of its copies; rows that come wake no word."""
    cluster, (one,) = lone("a")
    give(cluster, one)
    cluster.crash(A)
    node = cluster.nodes[C]
    node.data.replicas.tell_room()
    assert {type(effect) for effect in node.context.outbox.take()} == {Send}
    node.context.view = view_of(member(A), member(B), version=9)
    node.data.replicas.tell_room()
    node.data.replicas.look_again()
    assert node.context.outbox.take() == []


def test_copy_that_is_fenced_applies_nothing_and_doubts() -> None:
    """Too few hold the partition, so C keeps what it has without an index."""
    cluster, (one, two) = lone("a", "b")
    reign = cluster.holding(A).reign
    cluster.place(A, None, None)
    assert (cluster.holding(C).index, cluster.holding(A).reign) == (-1, reign)
    assert give(cluster, one) == [(one.number, (P,))]
    assert cluster.value(C, "a") is None
    check = BackupFrame(
        two.number, skipped=False, runs=(), checks=(standing(cluster),), receiver=C, stay=1
    )
    assert give(cluster, check) == [(two.number, (P,))]


def test_mutation_that_came_before_is_not_applied_again() -> None:
    cluster, (one, two) = lone("a", "a")
    give(cluster, one)
    give(cluster, two)
    content = cluster.content(C)
    assert give(cluster, replace(one, number=two.number + 1)) == [(two.number + 1, ())]
    assert cluster.content(C) == content


def test_frame_with_a_mutation_of_an_ownership_to_come_is_not_acknowledged() -> None:
    cluster, (one,) = lone("a")
    (run,) = one.runs
    before = replace(run.before, epoch=run.before.epoch + 1)
    assert give(cluster, replace(one, runs=(replace(run, before=before),))) == []
    assert cluster.value(C, "a") is None


def test_member_of_no_cluster_looks_at_nothing() -> None:
    alone = Cluster(C, may_found=False)
    node = alone.start(member(C))
    node.data.replicas.look_again()
    assert node.data.replicas.senders == {}


def test_run_that_was_for_an_index_that_never_came_is_passed_over() -> None:
    """C was to be at an index that this name goes to, and stays at one that it does not go to."""
    cluster, (one,) = lone("a")
    (run,) = one.runs
    assert cluster.holding(C).index > 1
    assert give(cluster, replace(one, runs=(replace(run, backups=1),))) == [(one.number, ())]
    assert cluster.value(C, "a") is None
    assert cluster.in_sync(C)


def test_frame_for_who_had_my_address_before_is_not_taken_and_not_acknowledged() -> None:
    """Its numbers are of another stream: whoever took them would call new frames known. (Seed
    1079.)"""
    cluster, (one,) = lone("a")
    assert give(cluster, replace(one, stay=0)) == []
    assert give(cluster, replace(one, receiver=B)) == []
    assert cluster.value(C, "a") is None
    assert give(cluster, one) == [(one.number, ())]


def taken_out() -> tuple[Grid, list[tuple[int, BackupAck]]]:
    """C has taken writes of A that its disk has not, and hears that it was taken out. And what it
    says of them in which stay; that stays on its way."""
    cluster = grid(A, None, C, persistent=True)
    late: list[tuple[int, BackupAck]] = []

    def stays_away(sender: MemberId, where: Address, message: object) -> bool:
        if sender != C or where != address_of(A) or not isinstance(message, BackupAck):
            return False
        late.append((cluster.nodes[C].me.incarnation, message))
        return True

    cluster.slow_disk = True
    write(cluster, *(f"old{number}" for number in range(20)))
    assert cluster.value(C, "old19") == b"v"
    cluster.drops = [stays_away]
    view = cluster.term.view
    assert view is not None
    rest = tuple(each for each in view.members if each.id != C)
    out = replace(view, version=Version(view.version + 1), members=rest)
    cluster.inject(member(A), C, NotListed(out, Millis(0)))
    assert cluster.nodes[C].me.incarnation == 2
    assert late == []
    cluster.slow_disk = False
    for each in (A, B, C):
        cluster.write(each)
    return cluster, late


def test_backup_that_was_taken_out_says_nothing_any_more_of_what_it_took() -> None:
    """[Seed 376 of the mix `written_to`.]"""
    cluster, late = taken_out()
    cluster.run(5)
    assert late == []


def test_what_a_stay_has_acknowledged_makes_no_write_safe_at_the_next_one() -> None:
    """What C said of its last stay reaches A when C is a backup again, which takes nothing."""
    cluster, late = taken_out()
    cluster.run(5)
    said = list(late)
    cluster.drops = []
    cluster.settle()
    assert cluster.term.view is not None
    assert cluster.term.view.has(C, 2)
    cluster.place(A, None, C)
    cluster.drops = [to(C, BackupFrame)]
    cluster.command(A, "SET new v", session=7)
    cluster.run(5)
    assert frames(cluster, C)[-1].stay == 2
    for stay, ack in said:
        cluster.inject(member(C, stay), A, ack)
    cluster.run(5)
    assert cluster.value(C, "new") is None
    assert 7 not in cluster.replies
    cluster.drops = []
    cluster.run(1_000)
    assert (cluster.value(C, "new"), cluster.replies[7]) == (b"v", OK)
