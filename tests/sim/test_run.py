"""Whole seeds: the same every time, whatever the hashes of strings are; and clean."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from holdfast.sim.options import ASKS, FAULTS, Options, draw_options
from holdfast.sim.run import Run, run_seed

PRINT_DIGEST = """
from holdfast.sim.run import run_seed
for seed in (3, 4):
    verdict = run_seed(seed)
    print(verdict.digest, verdict.steps, verdict.virtual_ms)
"""


def digests(hash_seed: str) -> str:
    """Two seeds in a process whose strings hash in a way of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PRINT_DIGEST]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_seed_is_the_same_history_under_every_hash() -> None:
    first, second = digests("0"), digests("1")
    assert first == second
    assert len(first.splitlines()) == 2


@pytest.mark.parametrize("seed", [11, 12, 14, 19])
def test_seeds_are_clean_where_migrations_block_writes(seed: int) -> None:
    def blocking(options: Options) -> Options:
        return replace(options, config=replace(options.config, migration_blocking=True))

    assert Run(seed, tune=blocking).verdict().violation is None


def test_a_seed_is_the_same_history_twice_in_one_process() -> None:
    first, second = run_seed(5), run_seed(5)
    assert (first.digest, first.steps, first.marks) == (second.digest, second.steps, second.marks)
    assert first.digest != run_seed(6).digest


@pytest.mark.parametrize("seed", range(1, 11))
def test_seeds_are_clean(seed: int) -> None:
    verdict = run_seed(seed)
    assert verdict.violation is None, verdict.violation


def test_each_step_is_told_to_the_listener() -> None:
    lines: list[str] = []
    verdict = run_seed(7, listener=lines.append)
    assert len(lines) >= verdict.steps
    assert verdict.digest == run_seed(7).digest


def drawn(count: int) -> list[Options]:
    return [draw_options(seed, random.Random(seed)) for seed in range(count)]


def test_every_fault_and_every_request_is_on_in_some_seeds_and_off_in_some() -> None:
    options = drawn(200)
    for names, mixes in ((FAULTS, [o.faults for o in options]), (ASKS, [o.asks for o in options])):
        for name in names:
            on = sum(name in dict(mix) for mix in mixes)
            assert 20 < on < 180, name


def test_every_size_is_drawn() -> None:
    options = drawn(1_000)
    assert {len(o.sites) for o in options} == set(range(1, 13))
    assert {o.config.level for o in options} == {1, 2, 3}
    assert {o.shell.arbiter_us is None for o in options} == {True, False}


def test_the_table_of_options_names_everything() -> None:
    table = dict(drawn(1)[0].table())
    assert {"members", "config.partition_count", "network.loss", "faults"} <= set(table)


def test_a_cluster_that_does_not_come_to_rest_is_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.sim.run.unsettled", lambda *_: iter(["restless"]))
    verdict = Run(1).verdict()
    assert verdict.violation is not None
    assert verdict.violation.invariant == "a healed cluster comes to rest"
    assert "restless" in verdict.violation.message
    assert verdict.violation.story
