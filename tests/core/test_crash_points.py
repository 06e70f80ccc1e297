"""Any one party may die at any word of a migration; afterwards all agree and no copy is empty.

The stories in `scenarios/` tell the interesting ones; this is every one of them, for each shape of
migration, with an arbiter's word and without.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from holdfast.core.messages import Fragment
from holdfast.ids import PartitionId
from tests.core.scenario_runner import Runner
from tests.core.scenario_world import World

DATA: Final = Fragment(epoch=1, counter=777)
P0: Final = PartitionId(0)

WORDS = (
    "MigrationRequest",
    "FragmentPush",
    "FragmentAck",
    "MigrationReady",
    "CommitRequest",
    "CommitAck",
    "Publication",
)
PLANS = ("A,B,C => D,B,C", "A,-,C => D,A,C", "A,B,- => A,B,D")
"""The owner moves; the owner becomes a backup; a backup is added."""


def give_data(world: World) -> None:
    """Holders of the partition have data that can be told from an empty fragment."""
    for node in world.nodes.values():
        if P0 in node.fragments and node.table.row(P0).index_of(node.me.id) >= 0:
            node.context.fragments[P0] = DATA


def check(world: World) -> None:
    """Everyone agrees, the owner serves, every holder is here and has the data."""
    rows = {node.table.row(P0) for node in world.nodes.values()}
    assert len(rows) == 1
    row = rows.pop()
    assert world.servers(P0) == row.owner
    for member in row.holders:
        assert world.nodes[member].fragments[P0] == DATA, member
    for node in world.nodes.values():
        assert not node.active_migrations(), node.me.name


@pytest.mark.parametrize("killed", "MABCD")
@pytest.mark.parametrize("word", WORDS)
def test_a_death_at_any_word_leaves_one_table_and_full_copies(word: str, killed: str) -> None:
    for plan, confirmed in product(PLANS, (False, True)):
        runner = Runner()
        runner.run("cluster names=M,A,B,C,D members=5")
        runner.run(f"given 0: {plan.split()[0]}")
        give_data(runner.world)
        commands = [f"hold type={word}", f"plan 0: {plan}", "advance 10", f"kill {killed}"]
        commands += [f"confirm-dead {killed}"] if confirmed else []
        for command in (*commands, "advance 3", "release", "settle"):
            runner.run(command)
        check(runner.world)
