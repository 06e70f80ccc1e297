"""Stories of the seeds, told by real nodes: every file of `scenarios/` is a test.

`pytest tests/core/test_scenarios.py --rewrite` writes the traces anew. Commit a changed trace only
when every line of the difference is understood: it is what the protocol does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.scenario_runner import replay

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_goes_as_it_is_told(path: Path, request: pytest.FixtureRequest) -> None:
    told = path.read_text(encoding="utf-8")
    seen = replay(path)
    if request.config.getoption("--rewrite"):
        path.write_text(seen, encoding="utf-8")
    else:
        assert seen == told


def test_every_scenario_says_what_it_is_about() -> None:
    for path in SCENARIOS:
        assert path.read_text(encoding="utf-8").startswith("# "), path.name
