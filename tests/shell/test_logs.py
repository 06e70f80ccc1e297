"""Lines of the log: ours, and not those of what we use."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from holdfast.shell import logs
from holdfast.shell.logs import Format, Level


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """The test runner's own logging comes back."""
    root, httpx = logging.getLogger(), logging.getLogger("httpx")
    before = list(root.handlers), root.level, httpx.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    httpx.setLevel(before[2])


@pytest.mark.parametrize(("level", "heard"), [(Level.INFO, False), (Level.DEBUG, True)])
def test_requests_between_members_are_no_news(level: Level, heard: bool) -> None:
    logs.set_up(Format.JSON, level, "m0")
    assert logging.getLogger("httpx").isEnabledFor(logging.INFO) is heard
    assert logging.getLogger("holdfast.member").isEnabledFor(logging.INFO)
