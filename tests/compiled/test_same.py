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

ALL_OF_IT = """
import importlib, pkgutil
import holdfast
for found in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
    if not found.name.endswith("__main__"):
        module = importlib.import_module(found.name)
        for each in vars(module).values():
            if isinstance(each, type) and each.__module__ == found.name:
                try:
                    each.__new__(each)
                except TypeError as error:
                    if "interpreted classes cannot inherit" in str(error):
                        raise TypeError(each) from error
                except Exception:
                    pass
        print(found.name)
"""
MODULES_MIN = 200

spec = importlib.util.find_spec("holdfast.core.data.plane")
assert spec is not None
assert spec.origin is not None
COMPILED = Path(spec.origin).suffix == ".so"
pytestmark = pytest.mark.skipif(not COMPILED, reason="this is not the compiled package")


def told(package: Path, program: str = RUN) -> list[str]:
    """What runs of the simulator come to, or another program, by the package at this place."""
    done = subprocess.run(
        [sys.executable, "-c", program],
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


def test_whatever_is_not_compiled_goes_with_what_is() -> None:
    """No class of it inherits from a compiled one, of which nothing could be made then."""
    assert spec is not None
    assert spec.origin is not None
    assert len(told(Path(spec.origin).parents[3], ALL_OF_IT)) > MODULES_MIN
