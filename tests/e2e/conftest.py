"""One Kubernetes with our images and the chart for all end-to-end tests, and a grid they share.

They run when `HOLDFAST_E2E` is set (`make e2e`): they need a cluster, or make one, which takes root
rights and minutes. Otherwise each is skipped, and says so. What the run made goes when it ends,
however it ends, unless `HOLDFAST_E2E_KEEP` is set.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.figures import Figures
from tests.e2e.grid import Grid
from tests.e2e.kubernetes import ROOT, Kubectl
from tests.e2e.watching import Watcher

RUNS: Final = bool(os.environ.get("HOLDFAST_E2E"))
HERE: Final = Path(__file__).parent
KUBE: Final = str(ROOT / "scripts/kube.sh")
FIGURES: Final = Figures()
FAILED: Final = pytest.StashKey[bool]()
SECONDS_OF_A_TEST: Final = 400


def pytest_configure() -> None:
    """Whoever is told to end takes away what was made, as after ctrl-C."""
    if RUNS:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """None of ours hangs."""
    for item in (each for each in items if HERE in each.path.parents):
        item.add_marker(pytest.mark.timeout(SECONDS_OF_A_TEST))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures."""
    if FIGURES.all:
        terminalreporter.section("figures")
        for line in FIGURES.table():
            terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fixtures want to know how their test ended."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


def kube(what: str) -> str:
    """What the script prints. In a group of its own: ctrl-C ends all of `up`, and nothing of
    `down`."""
    command = [KUBE, what]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            told, _ = process.communicate()
        except BaseException:
            if what != "down":
                os.killpg(process.pid, signal.SIGTERM)
            raise
    assert process.returncode == 0, f"{command}: {process.returncode}"
    return told


@pytest.fixture(scope="session")
def kubectl() -> Iterator[Kubectl]:
    """A Kubernetes with the operator."""
    if not RUNS:
        pytest.skip("end-to-end tests run by `make e2e`: they need or make a Kubernetes")
    keep = subprocess.run([KUBE, "is-up"], check=False).returncode == 0
    try:
        yield Kubectl(kube("up").strip().splitlines()[-1])
    finally:
        if not keep and not os.environ.get("HOLDFAST_E2E_KEEP"):
            kube("down")


@pytest.fixture(scope="session")
def watcher(kubectl: Kubectl) -> Iterator[Watcher]:
    """Sees every status that is told."""
    made = Watcher(kubectl)
    yield made
    made.close()


@pytest.fixture(scope="session")
def figures() -> Figures:
    """Of this run."""
    return FIGURES


class Shared:
    """A grid that stories follow one another on; after one that failed there is a new one."""

    def __init__(self, kubectl: Kubectl, watcher: Watcher) -> None:
        self._kubectl, self._watcher = kubectl, watcher
        self._grid: Grid | None = None

    def get(self) -> Grid:
        """At rest, under load."""
        if self._grid is None:
            self._grid = Grid(self._kubectl, self._watcher, "stories")
        self._grid.begin()
        return self._grid

    def drop(self) -> None:
        """It goes."""
        grid, self._grid = self._grid, None
        if grid is not None:
            grid.end()


@pytest.fixture(scope="session")
def shared(kubectl: Kubectl, watcher: Watcher) -> Iterator[Shared]:
    """Between the stories."""
    made = Shared(kubectl, watcher)
    yield made
    made.drop()


@pytest.fixture
def grid(shared: Shared, watcher: Watcher, request: pytest.FixtureRequest) -> Iterator[Grid]:
    """Applications write all the time; afterwards all that was acknowledged is there, and no status
    told what was not so."""
    try:
        made = shared.get()
        yield made
    except BaseException:
        shared.drop()
        raise
    faults, watcher.faults = watcher.faults, []
    node: Any = request.node
    if node.stash.get(FAILED, False):
        print(made.story())  # noqa: T201 - pytest shows it with the failure
        shared.drop()
    else:
        try:
            assert made.load.check()
        except BaseException:
            shared.drop()
            raise
    assert not faults, f"{len(faults)} statuses told what was not so: {faults[:10]}"


@pytest.fixture
def new_grid(kubectl: Kubectl, watcher: Watcher, request: pytest.FixtureRequest) -> Iterator[Grid]:
    """One that nothing has been declared for, for a story that needs its own."""
    title = request.node.name.removeprefix("test_").replace("_", "-").partition("[")[0]
    made = Grid(kubectl, watcher, title)
    yield made
    if request.node.stash.get(FAILED, False):
        print(made.story())  # noqa: T201 - pytest shows it with the failure
    made.end()
    faults, watcher.faults = watcher.faults, []
    assert not faults, f"{len(faults)} statuses told what was not so: {faults[:10]}"
