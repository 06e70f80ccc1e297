"""How long keys of a dead member can't be written: by the times of the settings, and no longer.

Virtual time: what is asserted is what members wait for, not how fast a machine is.
"""

from __future__ import annotations

import pytest

from holdfast.core.config import Config, Quorum
from holdfast.core.events import ConfirmedDead
from holdfast.core.serving import Serving
from holdfast.ids import MemberId, Millis
from tests.core.harness import A, B, C, Cluster, D, cut

CONFIG = Config()
JOURNEYS = 20
"""Milliseconds for some messages to and fro."""
HEARTBEATS = range(0, CONFIG.heartbeat_ms, 125)
"""Moments between two heartbeats, at which somebody dies."""
ASKED_AGAIN = CONFIG.claim_step_ms // 3


def formed(after: int, **settings: object) -> Cluster:
    """Four members at some moment after a heartbeat; A, the oldest, is master."""
    cluster = Cluster(A, B, C, D, **settings)
    cluster.form()
    cluster.run(5_000 - cluster.now % 500 + after)
    assert cluster.master is cluster.nodes[A]
    return cluster


def is_whole(cluster: Cluster) -> bool:
    """Whether every partition may be written to."""
    now = Millis(cluster.now)
    return all(
        any(node.serving(row.partition, now) is Serving.ALL for node in cluster.nodes.values())
        for row in next(iter(cluster.nodes.values())).table.rows
    )


def time_without(cluster: Cluster, dead: MemberId, *, told_apart: int | None = None) -> int:
    """How long it takes when nobody tells of the death, or the others are told one by one."""
    died_at = cluster.now
    cluster.crash(dead)
    if told_apart is not None:
        for member_id in tuple(cluster.nodes):
            cluster.step(member_id, ConfirmedDead(dead, 1, Millis(cluster.now - died_at)))
            cluster.run(told_apart)
    cluster.run_until(lambda: is_whole(cluster))
    return cluster.now - died_at


@pytest.mark.parametrize("after", HEARTBEATS)
def test_silent_member_is_replaced_when_its_lease_is_over(after: int) -> None:
    bound = CONFIG.lease_ms + CONFIG.lease_margin_ms + CONFIG.heartbeat_ms
    assert time_without(formed(after), D) <= bound + JOURNEYS


@pytest.mark.parametrize("after", HEARTBEATS)
def test_silent_master_is_replaced_without_another_lease(after: int) -> None:
    """1. Nobody has a lease from it any more, the last one a heartbeat after the first. 2. The new
    master leaves it the rest of its silence."""
    until_free = CONFIG.lease_ms + CONFIG.heartbeat_ms + ASKED_AGAIN
    rest = CONFIG.lease_margin_ms + CONFIG.heartbeat_ms
    assert time_without(formed(after), A) <= until_free + rest + JOURNEYS


@pytest.mark.parametrize("dead", [A, D])
@pytest.mark.parametrize("told_apart", [0, 30])
def test_member_that_is_known_to_be_dead_is_replaced_at_once(
    dead: MemberId, told_apart: int
) -> None:
    """Whoever is told first stands, and asks again those who did not know it yet."""
    took = time_without(formed(100), dead, told_apart=told_apart)
    assert took <= 3 * told_apart + ASKED_AGAIN + JOURNEYS


def test_old_master_serves_no_more_when_the_new_one_gives_its_partitions_away() -> None:
    """It is cut off, and lives. At no moment does anybody else serve what it serves."""
    cluster = formed(0)
    cluster.drops = [cut([A])]

    def served_by(node_ids: list[MemberId]) -> set[int]:
        now = Millis(cluster.now)
        nodes = [cluster.nodes[member_id] for member_id in node_ids]
        return {
            row.partition
            for node in nodes
            for row in node.table.rows
            if node.serving(row.partition, now) is not Serving.NONE
        }

    assert served_by([A])
    while len(served_by([B, C, D])) < 6:
        cluster.run(10)
        assert not served_by([A]) & served_by([B, C, D])
    assert not served_by([A])


def test_where_any_may_lead_the_old_master_may_go_on_and_has_its_lease() -> None:
    cluster = formed(0, quorum=Quorum.ANY)
    cluster.drops = [cut([A])]
    cluster.run_until(lambda: cluster.nodes[B].is_master)
    mastership = cluster.nodes[B].leadership.mastership
    assert mastership.leased_until[A] - mastership.elected_at >= CONFIG.lease_ms
