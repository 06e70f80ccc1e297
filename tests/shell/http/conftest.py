"""Running clusters for the tests of this folder: one for each module, and each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shell.http import clusters
from tests.shell.http.clusters import Processes, Running


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A member alone, without a secret."""
    for processes in clusters.alone(tmp_path_factory.mktemp("alone")):
        yield processes.members[0]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Three data members and a lite one, with a secret."""
    yield from clusters.several(tmp_path_factory.mktemp("several"))
