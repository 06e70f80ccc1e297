"""The attributes of the cluster states, as the designs write them down."""

from __future__ import annotations

import pytest

from holdfast.core.states import (
    ASKABLE,
    ATTRIBUTES,
    ClusterState,
    Joins,
    Rebalance,
    attributes_of,
)


@pytest.mark.parametrize(
    ("state", "join_allowed", "migration_allowed"),
    [
        (ClusterState.ACTIVE, True, True),
        (ClusterState.NO_MIGRATION, True, False),
        (ClusterState.FROZEN, False, False),
        (ClusterState.PASSIVE, False, False),
    ],
)
def test_join_and_migration_are_allowed_as_since_3_9(
    state: ClusterState, *, join_allowed: bool, migration_allowed: bool
) -> None:
    attributes = attributes_of(state)
    assert attributes.join_allowed is join_allowed
    assert attributes.migration_allowed is migration_allowed


@pytest.mark.parametrize(
    ("name", "joins", "rebalance", "repairs", "promotes", "writes", "stable"),
    [
        ("ACTIVE", "anyone", "yes", True, True, True, False),
        ("NO_MIGRATION", "anyone", "no", False, True, True, False),
        ("STABLE_CLUSTER", "expected", "reclaim", False, True, True, True),
        ("FROZEN", "expected", "no", False, False, True, False),
        ("PASSIVE", "expected", "no", False, False, False, False),
        ("IN_TRANSITION", "nobody", "no", False, False, True, False),
    ],
)
def test_each_state_has_its_row(
    name: str,
    joins: str,
    rebalance: str,
    *,
    repairs: bool,
    promotes: bool,
    writes: bool,
    stable: bool,
) -> None:
    attributes = attributes_of(ClusterState(name))
    assert attributes.joins is Joins(joins)
    assert attributes.rebalance is Rebalance(rebalance)
    assert attributes.repairs_backups is repairs
    assert attributes.promotes_on_loss is promotes
    assert attributes.accepts_writes is writes
    assert attributes.keeps_stable_table is stable


def test_every_state_has_attributes_and_only_the_internal_one_can_not_be_asked_for() -> None:
    assert tuple(ATTRIBUTES) == tuple(ClusterState)
    assert [state for state in ClusterState if state not in ASKABLE] == [ClusterState.IN_TRANSITION]
