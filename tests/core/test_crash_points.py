"""Any one party may die at any word of a migration; afterwards all agree and every copy is whole.

The stories in `scenarios/` tell the interesting ones; this is every one of them, for each shape of
migration, with an arbiter's word and without.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from holdfast.core.events import Commanded
from holdfast.core.node import Node
from holdfast.core.stores.record import body_of
from holdfast.ids import PartitionId
from tests.core.scenario_runner import Runner
from tests.core.scenario_world import World

KEY: Final = b"key"
VALUE: Final = b"777"
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
    """A client writes; every holder has it when it is answered."""
    owner = world.master().table.row(P0).owner
    assert owner is not None
    world.step(owner, Commanded(((1, [[b"SET", KEY, VALUE]]),)))
    world.advance(world.now + 5)
    check(world)


def value_at(node: Node) -> bytes | None:
    """What a member has of the key, if it is sure that it lacks nothing."""
    holding = node.data.holdings.get(P0)
    found = None if holding is None or holding.lacking() else holding.space.find(KEY)
    return body_of(found[1]) if found is not None and isinstance(found[1], bytes) else None


def check(world: World) -> None:
    """Everyone agrees, the owner serves, every holder is here and has the data."""
    rows = {node.table.row(P0) for node in world.nodes.values()}
    assert len(rows) == 1
    row = rows.pop()
    assert world.servers(P0) == row.owner
    for member in row.holders:
        assert value_at(world.nodes[member]) == VALUE, member
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
