"""States: declared, applied, put back; while nothing moves and while data moves."""

from __future__ import annotations

import pytest

from tests.e2e.figures import Figures
from tests.e2e.grid import Grid
from tests.shell.waiting import wait_until

OTHERS = ("NO_MIGRATION", "STABLE_CLUSTER", "FROZEN", "PASSIVE")
RECORDS, SIZE = 6_000, 80_000
PROCESSOR = "300m"
"""Of a member; with a whole one data has moved before the operator looks."""
TRIES = 5
"""It may have moved before the state is patched nevertheless."""


def test_each_state_is_applied_when_it_is_said_to_be(grid: Grid, figures: Figures) -> None:
    took = []
    for state in (*OTHERS, "ACTIVE"):
        grid.patch(state=state)
        took.append(grid.until(lambda: grid.holds("StateApplied"), state))
        grid.kubectl_wait("StateApplied")
        assert grid.state() == state == grid.status["state"]
    figures.note("patch of the state to observed", max(took), "s", wanted=2, bound=30)


def test_nobody_writes_in_passive(grid: Grid) -> None:
    grid.patch(state="PASSIVE")
    grid.at_rest()
    wait_until(lambda: grid.load.ask("told")["waiting"] == 4, "all applications wait", 30)
    grid.patch(state="ACTIVE")
    grid.at_rest()
    grid.load.until_writing()


def test_a_state_that_somebody_else_changed_is_put_back(grid: Grid) -> None:
    grid.run("exec", "orders-0", "--", "holdfast", "state", "set", "FROZEN",
             "--secret-file", "/etc/holdfast/secret/secret", "--wait", "10")  # fmt: skip
    grid.until(lambda: "StatePutBack" in grid.events(), "it is noticed")
    grid.until(lambda: grid.state() == "ACTIVE", "it is put back")
    grid.at_rest()


@pytest.fixture
def heavy(new_grid: Grid) -> Grid:
    """Few partitions with much in each, one migration at a time, and little to do it with."""
    new_grid.declare(
        partitions=8, migration={"maxParallel": 1}, resources={"limits": {"cpu": PROCESSOR}}
    )
    new_grid.at_rest()
    new_grid.load.ask(f"fill?count={RECORDS}&size={SIZE}")
    new_grid.load.until_writing()
    new_grid.at_rest()
    return new_grid


def test_a_state_waits_for_migrations_and_is_then_applied(heavy: Grid) -> None:
    """1. a lite member is promoted 2. data moves 3. another state is declared: it is pending, and
    says why 4. it is applied 5. data moves to its end in ACTIVE, and back; for each state"""
    for state in OTHERS:
        assert any(is_seen_to_wait(heavy, state) for _ in range(TRIES)), state
    heavy.load.until_writing()
    assert heavy.load.check() >= RECORDS


def owned(heavy: Grid) -> int:
    """Partitions that the promoted member owns."""
    return int(heavy.member("orders-lite-0")["ownedPartitions"])


def is_seen_to_wait(heavy: Grid, state: str) -> bool:
    """Whether data still moved when the state was declared."""
    heavy.patch(lite={"promote": 1})
    heavy.until(lambda: heavy.status["migrations"].get("remaining") or owned(heavy), "data moves")
    heavy.patch(state=state)
    began = heavy.changed_at
    heavy.until(lambda: heavy.holds("StateApplied"), state)
    assert heavy.state() == state
    told = [raw["status"] for _, raw in heavy.watcher.since(heavy.namespace, began - 1)]
    heavy.patch(state="ACTIVE")
    heavy.at_rest()
    heavy.until(lambda: owned(heavy), "it gets its share")
    heavy.patch(lite={"promote": 0})
    heavy.at_rest()
    waited = [each["pendingState"]["reason"] for each in told if each.get("pendingState")]
    return "MigrationsRunning" in waited
