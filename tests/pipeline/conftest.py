"""One Spark session and one cluster of real processes for all tests of the connector.

All of them run in one worker of xdist (`tests.scheduling`): a JVM is dear, and there is one session
in a process anyway. Without Java they are skipped, and say so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.sessions import begin
from tests.shell.http import clusters
from tests.shell.http.clusters import Processes

NO_JAVA = "no java on the path: make peers gets it (apt install openjdk-17-jre-headless)"


def has_java() -> bool:
    """Whether Spark can be started."""
    home = os.environ.get("JAVA_HOME")
    return bool(home and Path(home, "bin", "java").exists()) or shutil.which("java") is not None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark in this process's JVM: two threads, three tries of a task, loopback alone."""
    if not has_java():
        pytest.skip(NO_JAVA)
    session = begin(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Three data members and a lite one, with a secret. Nobody breaks it."""
    yield from clusters.several(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Processes]:
    """A cluster that a test may break."""
    yield from clusters.several(tmp_path)
