"""Where helm is; without it the chart's templates can't be rendered, and the tests say so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast-kube"


def find_helm() -> str:
    """On the path, or where `tests/e2e/kube/build` keeps it."""
    found = shutil.which("helm")
    kept = sorted(CACHE.glob("*/helm"))
    return found or (str(kept[-1]) if kept else "")


@pytest.fixture(scope="session")
def helm() -> str:
    """The program."""
    found = find_helm()
    if not found:
        pytest.skip(
            "helm is not installed: the chart is not rendered (tests/e2e/kube/build has it)"
        )
    return found
