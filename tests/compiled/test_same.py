"""What is compiled does what the same sources do, step by step (docs/adr/0034).

Run on the compiled package (`make test` does); elsewhere it is skipped, and says so.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEEDS = 24
RUN = f"""
from holdfast.sim.run import run_seed
for seed in range(1, {SEEDS} + 1):
    verdict = run_seed(seed)
    print(seed, verdict.digest, verdict.steps, verdict.virtual_ms)
"""

spec = importlib.util.find_spec("holdfast.core.data.plane")
assert spec is not None
assert spec.origin is not None
COMPILED = Path(spec.origin).suffix == ".so"
pytestmark = pytest.mark.skipif(not COMPILED, reason="this is not the compiled package")


def told(package: Path) -> list[str]:
    """What runs of the simulator come to, by the package at this place."""
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env={**os.environ, "PYTHONPATH": f"{package}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_same_seeds_come_to_the_same_digests() -> None:
    assert spec is not None
    assert spec.origin is not None
    compiled = Path(spec.origin).parents[3]
    found = told(compiled)
    assert len(found) == SEEDS
    assert found == told(ROOT / "node" / "src")
