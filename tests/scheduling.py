"""Which worker gets which tests, when several run side by side.

Tests of one file share members, a JVM or an operator that their fixtures start: they stay together,
or each worker would start all of that. Some files share more than that, and stay together too. What
needs no process is dealt out one by one, at the end, so that no worker waits for the other.

(xdist's own groups are of no use: with this pytest its marks go unseen, without a word.)
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from xdist.scheduler import LoadScopeScheduling

ALONE: Final = ("tests/core", "tests/sim", "tests/wire", "tests/arch")
"""Rings without processes."""
TOGETHER: Final = {
    "tests/pipeline": "one JVM",
    "tests/cli/test_dev_cluster.py": "the default ports",
    "tests/cli/test_dev_persisting.py": "the default ports",
}


class ByPlace(LoadScopeScheduling):  # type: ignore[misc]
    """By file, by what files share, or one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """What stays in one worker with this test."""
    file = nodeid.partition("::")[0]
    places = (file, *(str(parent) for parent in PurePosixPath(file).parents))
    shared = next((TOGETHER[place] for place in places if place in TOGETHER), None)
    if shared is not None:
        return shared
    return nodeid if any(place in ALONE for place in places) else file
