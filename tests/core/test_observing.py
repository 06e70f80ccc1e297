"""What members say of themselves, and that nothing unsafe is ever called safe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.config import Config
from holdfast.core.data_messages import BackupAck, BackupFrame, ReplicaCheck
from holdfast.core.events import Asked, Room
from holdfast.core.messages import Ask, MigrationReady, Prepare, PublicationAck
from holdfast.core.node import Node
from holdfast.core.observing import (
    NameSize,
    Report,
    Safety,
    backups_promised,
    held_by,
    judge,
    lags,
    migrations,
    name_sizes,
    pending_change,
    report,
    unready,
    warnings,
)
from holdfast.core.states import ClusterState
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import MemberId, Millis
from tests.core.data.grid import BOTH, P, grid, moved
from tests.core.harness import (
    A,
    B,
    C,
    Cluster,
    cut,
    losing,
    member,
    request_of,
    row,
    view_of,
)


def reports(cluster: Cluster) -> dict[MemberId, Report]:
    """What everyone says now."""
    now = Millis(cluster.now)
    return {member_id: report(node, now) for member_id, node in cluster.nodes.items()}


def verdict(cluster: Cluster, asked: Node | None = None) -> Safety:
    """What the master, or another member, makes of what everyone says now."""
    node = asked or cluster.master
    assert node is not None
    assert node.view is not None
    return judge(node.context.config, node.view, node.table.rows, reports(cluster))


def node_of(cluster: Cluster) -> Node:
    """The master's."""
    assert cluster.master is not None
    return cluster.master


def test_a_cluster_at_rest_is_safe_and_every_member_says_so() -> None:
    cluster = grid(A, B, C)
    cluster.reply(A, "SET k v", "RPUSH list x")
    for node in cluster.nodes.values():
        assert verdict(cluster, node) == Safety(True, (), 0, 0)


def test_one_member_without_the_backup_that_was_promised_is_not_safe() -> None:
    cluster = Cluster(A)
    cluster.form()
    assert verdict(cluster) == Safety(
        False, ("6 promised copies are held by nobody",), missing_copies=6, unsynced_copies=0
    )
    alone = Cluster(A, unnamed=NameSettings(backups=0))
    alone.form()
    assert verdict(alone).safe


def test_a_member_that_does_not_answer_makes_it_unsafe() -> None:
    cluster = grid(A, B, C)
    cluster.reply(A, "SET k v")
    heard = reports(cluster)
    del heard[B]
    node = node_of(cluster)
    assert node.view is not None
    told = judge(node.context.config, node.view, node.table.rows, heard)
    assert told.reasons == ("name-B does not answer", "1 copies are not in sync with their owners")
    del heard[A]
    told = judge(node.context.config, node.view, node.table.rows, heard)
    assert told.unsynced_copies == 3, "of no copy is known what its owner has"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"incarnation": 7}, "name-B knows other members"),
        ({"version": 99}, "name-B knows other members"),
        ({"stamp": 1}, "name-B has another partition table"),
        ({"unready": "loading its data"}, "name-B: loading its data"),
        ({"troubles": ("a stone",)}, "name-B: a stone"),
    ],
)
def test_members_that_do_not_agree_make_it_unsafe(change: dict[str, object], reason: str) -> None:
    cluster = grid(A, B, C)
    heard = reports(cluster)
    heard[B] = replace(heard[B], **change)  # type: ignore[arg-type]
    node = node_of(cluster)
    assert node.view is not None
    assert judge(node.context.config, node.view, node.table.rows, heard).reasons == (reason,)


def test_no_table_is_not_safe() -> None:
    view = view_of(member(A))
    told = Report(A, 1, view.term, view.version, 0, "", (), (), None)
    config = Config(unnamed=NameSettings(backups=0), replica_count=2)
    assert judge(config, view, (), {A: told}).reasons == ("no partition is assigned yet",)
    vacant = judge(config, view, (row(0, -1, None, None),), {A: told})
    assert vacant.reasons[0] == "no partition is assigned yet"
    assert vacant.missing_copies == 1


def test_a_backup_that_misses_the_last_write_is_not_in_sync_though_it_does_not_know() -> None:
    cluster = grid(A, B, C)
    cluster.reply(A, "SET k v")
    cluster.drops.append(losing(BackupFrame))
    cluster.command(A, "SET k w")
    cluster.run(4)
    assert not any(place.lacking for told in reports(cluster).values() for place in told.places)
    assert verdict(cluster).unsynced_copies == 2
    cluster.run(996)
    for _ in range(10):  # sending again is no sign of life
        cluster.run(50)
        assert any("has acknowledged no writes" in reason for reason in verdict(cluster).reasons)
    cluster.drops.clear()
    cluster.run(1_000)
    assert verdict(cluster).safe


def test_writes_on_their_way_do_not_make_it_unsafe_when_backups_are_asked_again() -> None:
    cluster = grid(A, B, C)
    cluster.command(A, "SET k v")
    node = node_of(cluster)
    assert node.view is not None
    first = reports(cluster)
    assert not judge(node.context.config, node.view, node.table.rows, first).safe
    cluster.run(4)
    cluster.command(A, "SET k w")
    later = reports(cluster)
    assert judge(node.context.config, node.view, node.table.rows, first, later).safe


def test_whoever_knows_that_it_lacks_something_makes_it_unsafe() -> None:
    cluster = grid(A, B, C)
    cluster.reply(A, "SET k v")
    cluster.holding(B).doubts += 1
    assert verdict(cluster).reasons == ("1 copies are not in sync with their owners",)


def test_an_owner_that_does_not_lead_makes_it_unsafe() -> None:
    cluster = grid(A, B, C)
    cluster.holding(A).reign = 0
    told = verdict(cluster)
    assert told.unsynced_copies == 1
    assert not told.safe


def test_indexes_that_no_name_uses_are_not_promised() -> None:
    cluster = grid(A, B, C, unnamed=NameSettings(backups=1))
    cluster.reply(A, "SET k v")
    cluster.holding(C).doubts += 1
    assert verdict(cluster).safe
    assert backups_promised(cluster.nodes[A].context.config) == 1
    assert backups_promised(Config(replica_count=2, unnamed=BOTH)) == 1


def test_a_new_owner_waits_for_its_backups_before_it_is_safe() -> None:
    cluster = grid(A, B, C)
    cluster.reply(A, "SET k v")
    cluster.drops.append(losing(BackupFrame, ReplicaCheck, BackupAck))
    cluster.place(B, A, C)
    assert any("1 new owners wait for their backups" in each for each in verdict(cluster).reasons)
    cluster.drops.clear()
    cluster.run(2_000)
    assert verdict(cluster).safe


def test_a_migration_under_way_is_not_safe_and_is_shown() -> None:
    cluster = grid(B, A, None)
    cluster.drops.append(losing(MigrationReady, PublicationAck))
    cluster.migrate(moved(None, 2, C))
    cluster.run(30)
    seen = migrations(node_of(cluster))
    assert [(each.partition, course) for each, course, _ in seen.running] == [(P, "copying")]
    assert (seen.activity, seen.waiting) == ("moving", 0)
    reasons = verdict(cluster).reasons
    assert "name-A: the master is moving partitions: 0 migrations wait" in reasons
    assert "name-B: 1 migrations are running" in reasons


def test_what_came_over_is_counted_once() -> None:
    cluster = grid(B, A, None)
    cluster.reply(B, "SET k v")
    cluster.migrate(moved(None, 2, C))
    cluster.run(2_000)
    seen = migrations(node_of(cluster))
    assert (seen.completed, seen.failed) == (1, 0)
    assert seen.moved == cluster.nodes[C].data.pulling.bytes > len("kv")


def test_a_table_that_not_everyone_has_confirmed_is_not_safe() -> None:
    cluster = grid(A, B, C)
    cluster.drops.append(losing(PublicationAck))
    cluster.place(A, C, B)
    assert "name-A: the partition table is not known to everyone yet" in verdict(cluster).reasons


def test_a_member_says_why_it_can_not_serve() -> None:
    cluster = Cluster(A, B, C)
    node = cluster.start(member(A), loaded=False)
    assert unready(node, Millis(cluster.now)) == "in no cluster yet"
    cluster.start(member(B))
    cluster.start(member(C))
    cluster.run_until(lambda: cluster.master is not None and cluster.master.view is not None)
    cluster.run(1_000)
    assert unready(node, Millis(cluster.now)) == "loading its data"
    node.membership.loaded = True
    cluster.settle()
    for each in cluster.nodes.values():
        assert unready(each, Millis(cluster.now)) == ""
    assert node.view is not None
    node.context.view = replace(node.view, recovering=True)
    assert unready(node, Millis(cluster.now)) == "the cluster is still starting"
    node.context.view = replace(node.view, recovering=False, founding=2)
    assert unready(node, Millis(cluster.now)) == "the cluster is being founded"


def test_a_member_that_is_cut_off_is_not_ready_once_its_lease_is_over() -> None:
    cluster = grid(A, B, C)
    cluster.drops.append(cut([A]))
    cluster.run(3_000)
    told = unready(cluster.nodes[A], Millis(cluster.now))
    assert told == "no lease from a master that holds a majority"


def test_a_member_that_has_left_says_so() -> None:
    cluster = Cluster(A)
    cluster.form()
    cluster.ask(A, request_of(Ask.LEAVE))
    cluster.run_until(lambda: bool(cluster.stops))
    assert unready(cluster.nodes[A], Millis(cluster.now)) == "stopped"


def test_a_process_that_knows_no_cluster_reports_that() -> None:
    cluster = Cluster(A, B, C)
    node = cluster.start(member(A))
    told = report(node, Millis(cluster.now))
    assert (told.term, told.version, told.places) == (0, 0, ())
    assert told.unready


def test_the_master_tells_of_a_change_that_waits() -> None:
    cluster = grid(A, B, C)
    assert pending_change(node_of(cluster)) is None
    cluster.drops.append(losing(Prepare))
    cluster.step(A, Asked(request_of(Ask.STATE, state=ClusterState.FROZEN, wait_ms=5_000)))
    cluster.run(5)
    pending = pending_change(node_of(cluster))
    assert pending is not None
    assert (pending.target, pending.reason) == ("FROZEN", "every member is being locked")


def test_a_change_of_the_level_is_named() -> None:
    cluster = Cluster(A, B, C, level=2)
    cluster.form()
    node = node_of(cluster)
    cluster.drops.append(losing(Prepare))
    cluster.step(node.me.id, Asked(request_of(Ask.LEVEL, level=3, wait_ms=5_000)))
    cluster.run(5)
    pending = pending_change(node)
    assert pending is not None
    assert pending.target == "level 3"


def test_names_are_counted_at_owners_and_backups() -> None:
    cluster = grid(A, B, C)
    cluster.reply(A, "SET users:1 v", "SET users:2 v", "RPUSH list x")
    cluster.run(50)
    owner = {size.name: size for size in name_sizes(cluster.nodes[A])}
    backup = {size.name: size for size in name_sizes(cluster.nodes[B])}
    assert (owner[b"users"].owned_entries, owner[b"users"].backup_entries) == (2, 0)
    assert (backup[b"users"].owned_entries, backup[b"users"].backup_entries) == (0, 2)
    assert owner[b"users"].owned_bytes == backup[b"users"].backup_bytes > 0
    assert isinstance(owner[b""], NameSize)
    assert owner[b""].owned_entries == 1


def test_what_a_member_can_not_do_although_it_serves_is_a_warning() -> None:
    cluster = grid(A, B, C)
    node = cluster.nodes[A]
    assert warnings(node) == ()
    cluster.step(A, Room(full=True))
    node.context.memory_full = True
    disk, memory = warnings(node)
    assert "disk is nearly full" in disk
    assert "commands that need more memory are refused" in memory
    assert verdict(cluster).safe


def test_what_is_on_its_way_to_a_member_is_told() -> None:
    cluster = grid(A, B, C)
    cluster.drops.append(losing(BackupAck))
    cluster.command(A, "SET k v")
    cluster.run(10)
    there = {lag.member: lag for lag in lags(cluster.nodes[A], Millis(cluster.now))}
    assert there[B].frames == 1
    assert there[B].bytes > 0
    assert there[B].silent_ms == 10
    cluster.drops.clear()
    cluster.run(1_000)
    assert all(lag.silent_ms == 0 for lag in lags(cluster.nodes[A], Millis(cluster.now)))


def test_partitions_are_counted_by_the_table() -> None:
    rows = (row(0, 1, A, B), row(1, 1, B, A), row(2, 1, A, None))
    assert held_by(rows, A) == (2, 1)
    assert held_by(rows, C) == (0, 0)
